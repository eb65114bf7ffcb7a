"""What a brief is: a purpose with parameters, which a program can check."""

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
BESIDE_FORM = ("load", "free")
"""Parameters that do not change the form that is asked for."""


@dataclass(frozen=True)
class Brief(ABC):
    """A structure may stand anywhere in the world: only its form counts, and what it carries."""

    kind: ClassVar[str]
    enough: ClassVar[float] = 1.0
    """The fulfilment from which on a brief is fulfilled."""

    def __post_init__(self) -> None:
        for field in fields(self):
            require_whole(self.kind, field.name, getattr(self, field.name), least=0 if field.name == "load" else 1)

    @property
    def values(self) -> tuple[int, ...]:
        """All parameters as numbers, in order."""
        return tuple(getattr(self, field.name) for field in fields(self))

    @property
    def spec(self) -> dict[str, Any]:
        """Kind and parameters as plain data; :func:`brief_of` reads it back."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        listed = {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}
        return {"kind": self.kind, **listed}

    @property
    def id(self) -> str:
        return "-".join([self.kind, *map(str, self.values)])

    @property
    def split_key(self) -> str:
        """What decides in which split the brief is: the parameters of its form and nothing else. Those that only
        differ in what they carry or leave free are in one split, since the same structures serve them.
        """
        form = {name: value for name, value in self.spec.items() if name not in BESIDE_FORM}
        return json.dumps(form, sort_keys=True)

    def words(self) -> tuple[str, ...]:
        """The kind and every parameter with its name, for policies with a closed vocabulary. ``height=3`` is one word,
        the same for all kinds, so what is learnt of it from one of them helps with the others.
        """
        return (self.kind, *(f"{field.name}={getattr(self, field.name)}" for field in fields(self)))

    @abstractmethod
    def sentence(self) -> str:
        """The same for language models: a noun phrase."""

    @abstractmethod
    def title(self) -> str:
        """The same in a few words, to stand above or below a picture."""

    @property
    @abstractmethod
    def difficulty(self) -> float:
        """About how many bricks it takes."""

    @property
    @abstractmethod
    def extent(self) -> tuple[int, int, int]:
        """How many cells a plain answer takes along x, y and z."""

    @classmethod
    @abstractmethod
    def grid(cls) -> Iterator[Self]:
        """All parameters that are asked for."""

    def loads(self, structure: Structure) -> tuple[Load, ...]:
        """What the structure has to carry, on the cells where it has to carry it."""
        return self._loads(solid(structure)) if structure.bricks else ()

    def fulfilment(self, structure: Structure) -> float:
        """How far the form is right, from 0 to 1; whether it stands under its loads is another question."""
        return self._measure(structure, solid(structure)) if structure.bricks else 0.0

    def fulfilled(self, structure: Structure) -> bool:
        return self.suffices(self.fulfilment(structure))

    def suffices(self, fulfilment: float) -> bool:
        return fulfilment >= self.enough - EXACT

    @abstractmethod
    def _measure(self, structure: Structure, form: Solid) -> float: ...

    def _loads(self, form: Solid) -> tuple[Load, ...]:
        return ()


def require_whole(kind: str, name: str, value: object, *, least: int = 1) -> None:
    """Refuse a parameter that is no whole number, or too small."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"brief {kind}: {name} = {value!r}; it must be a whole number from {least} up")


def counted(number: int, noun: str) -> str:
    """``1 stud``, ``2 studs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def carrying(load: int) -> str:
    """What follows in a title of a brief with a load."""
    return f", carrying {load} g" if load else ""


def grams(load: int) -> float:
    """A load in kilograms."""
    return load / 1000
