"""The base class of briefs: a parameterised purpose that a program can check."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from steelyard.domains.bricks.briefs.solid import Solid, solid
from steelyard.domains.bricks.stability.physics import Load
from steelyard.domains.bricks.structure import Structure

EXACT = 1e-9
NOT_FORM = ("load", "free")
"""Parameters that do not affect the requested form."""


@dataclass(frozen=True)
class Brief(ABC):
    """A requested structure. Only the form and the loads matter, not the position in the world."""

    kind: ClassVar[str]
    enough: ClassVar[float] = 1.0
    """Minimum fulfilment for the brief to count as fulfilled."""

    def __post_init__(self) -> None:
        for field in fields(self):
            require_integer(self.kind, field.name, getattr(self, field.name), minimum=0 if field.name == "load" else 1)

    @property
    def values(self) -> tuple[int, ...]:
        """Return all parameters as numbers, in order."""
        return tuple(getattr(self, field.name) for field in fields(self))

    @property
    def spec(self) -> dict[str, Any]:
        """Return the kind and parameters as plain data; :func:`brief_of` is the inverse."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        listed = {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}
        return {"kind": self.kind, **listed}

    @property
    def id(self) -> str:
        return "-".join([self.kind, *map(str, self.values)])

    @property
    def split_key(self) -> str:
        """Return the key that determines the split: the parameters of the form only. Briefs that differ only in load or
        free space share a split, because the same structures fulfil them.
        """
        form = {name: value for name, value in self.spec.items() if name not in NOT_FORM}
        return json.dumps(form, sort_keys=True)

    def words(self) -> tuple[str, ...]:
        """Return the kind and named parameters as words of a closed vocabulary. ``height=3`` is a single word shared by
        all kinds, so learning transfers between kinds.
        """
        return (self.kind, *(f"{field.name}={getattr(self, field.name)}" for field in fields(self)))

    @abstractmethod
    def sentence(self) -> str:
        """Describe the brief to a language model as a noun phrase."""

    @abstractmethod
    def title(self) -> str:
        """Describe the brief in a few words for the title of a picture."""

    @property
    @abstractmethod
    def difficulty(self) -> float:
        """Approximate number of bricks needed."""

    @property
    @abstractmethod
    def extent(self) -> tuple[int, int, int]:
        """Size of a simple solution along x, y and z, in cells."""

    @classmethod
    @abstractmethod
    def grid(cls) -> Iterator[Self]:
        """Yield a brief for every supported combination of parameters."""

    def loads(self, structure: Structure) -> tuple[Load, ...]:
        """Return the loads on the structure, at the cells where they act."""
        return self._loads(solid(structure)) if structure.bricks else ()

    def fulfilment(self, structure: Structure) -> float:
        """Measure how well the form matches the brief, from 0 to 1, regardless of stability."""
        return self._measure(structure, solid(structure)) if structure.bricks else 0.0

    def fulfilled(self, structure: Structure) -> bool:
        return self.suffices(self.fulfilment(structure))

    def suffices(self, fulfilment: float) -> bool:
        return fulfilment >= self.enough - EXACT

    @abstractmethod
    def _measure(self, structure: Structure, form: Solid) -> float: ...

    def _loads(self, form: Solid) -> tuple[Load, ...]:
        return ()


def require_integer(kind: str, name: str, value: object, *, minimum: int = 1) -> None:
    """Raise ``ValueError`` unless the parameter is an integer of at least ``minimum``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"brief {kind}: {name} = {value!r} must be an integer of at least {minimum}")


def carrying(load: int) -> str:
    """Return the part of a title that states the load."""
    return f", carrying {load} g" if load else ""


def kilograms(load: int) -> float:
    """Convert a load in grams to kilograms."""
    return load / 1000
