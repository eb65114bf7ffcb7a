"""Send verifiers and items to workers.

Functions and classes defined in a module are sent by name, and the worker imports them. Lambdas, closures and
definitions from a notebook or the main script have no importable name, so their code is sent with cloudpickle, and a
warning says so. Items are sent without the data that only the learner needs.
"""

from __future__ import annotations

import importlib
import io
import logging
import operator
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any
from weakref import WeakSet

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from steelyard.errors import VerifierError
from steelyard.types import NO_DECISIONS, Sample
from steelyard.verification.base import Item, Mode, Outcome, Verifier
from steelyard.verification.calling import UserFunction

log = logging.getLogger("steelyard.verification")

_REPORTED: WeakSet[FunctionType | type] = WeakSet()
"""Functions and classes already reported as sent by value; a run opens several pools."""


def pack(verifier: Verifier) -> bytes:
    """Serialise a verifier for :func:`unpack`. Logs a warning if code is sent by value."""
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    try:
        pickler.dump(verifier)
    except Exception as error:
        raise VerifierError(
            f"verifier {verifier.name} cannot be sent to another process ({type(error).__name__}: {error}). Define it "
            "in a module, create the objects it needs inside it, or run it in this process with "
            'verify.pool = "inline".'
        ) from error
    if unreported := pickler.by_value.difference(_REPORTED):
        _REPORTED.update(unreported)
        log.warning(
            "%s is not importable by name (defined in a notebook, script or function): workers get a copy, and changes "
            "to its global variables stay in the worker",
            ", ".join(sorted({one.__name__ for one in unreported})),
        )
    return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class PackedVerifier:
    """A serialised verifier, which only the workers load, with the attributes that the pool needs."""

    payload: bytes
    name: str
    mode: Mode
    floor: float | None
    blame: Mapping[str, Outcome]
    sessions: bool = False

    @staticmethod
    def of(verifier: Verifier) -> PackedVerifier:
        return PackedVerifier(
            pack(verifier), verifier.name, verifier.mode, verifier.floor, dict(verifier.blame), verifier.sessions
        )


def unpack(payload: bytes) -> Verifier:
    """Load a verifier serialised by :func:`pack`."""
    return pickle.loads(payload)  # noqa: S301 - from the run that started this worker


def without_decisions(item: Item) -> Item:
    """Return the item without the decisions, which only the learner needs."""
    full = item.sample
    sample = Sample(
        full.key,
        full.token_ids,
        full.prompt_length,
        full.text,
        full.finish,
        NO_DECISIONS,
        policy_version=full.policy_version,
        turns=full.turns,
    )
    return Item(item.task, sample, item.group_size)


class _Pickler(pickle.Pickler):
    """Pickles functions and classes by name if possible; ``by_value`` holds all others."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer, protocol=5)
        self.by_value: set[FunctionType | type] = set()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType):
            found = _named(obj)
            if found is obj:
                return NotImplemented
            if _decorates(found, obj):  # decorated with @verifier, so the name refers to the verifier
                return _function_of, (obj.__module__, obj.__qualname__)
            self.by_value.add(obj)
        elif not isinstance(obj, type) or _named(obj) is obj:
            return NotImplemented
        else:
            self.by_value.add(obj)
        return cloudpickle.loads, (cloudpickle.dumps(obj),)  # pyright: ignore[reportUnknownMemberType]


def _named(obj: Any) -> Any:
    """Return the object that can be imported under this object's name, or None; the main script cannot be imported."""
    if obj.__module__ in (None, "__main__") or "<" in obj.__qualname__:
        return None
    try:
        return operator.attrgetter(obj.__qualname__)(importlib.import_module(obj.__module__))
    except (ImportError, AttributeError):
        return None


def importable(obj: Any) -> bool:
    """Return whether a function or class can be imported by name, directly or as decorated by ``@verifier``."""
    found = _named(obj)
    return found is obj or _decorates(found, obj)


def _decorates(found: Any, function: Any) -> bool:
    return isinstance(found, UserFunction) and found.function is function


def _function_of(module: str, name: str) -> FunctionType:
    return operator.attrgetter(name)(importlib.import_module(module)).function
