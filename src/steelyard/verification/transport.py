"""How a verifier and its items get to a worker: the verifier by the names under which its parts can be imported, or,
said aloud, by value; items without what only the learner reads.

What is defined in a module travels as ``module`` and name, and the worker imports it. A lambda, a closure and anything
defined in a notebook or in the script that was started have no such name: their code is sent (cloudpickle).
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

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from steelyard.errors import VerifierError
from steelyard.types import NO_DECISIONS, Sample
from steelyard.verification.base import Item, Mode, Outcome, Verifier
from steelyard.verification.calling import UserFunction, name_of

log = logging.getLogger("steelyard.verification")


def pack(verifier: Verifier) -> bytes:
    """The verifier as bytes for :func:`unpack`; says aloud what is sent by value."""
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    try:
        pickler.dump(verifier)
    except Exception as error:
        raise VerifierError(
            f"verifier {verifier.name} cannot be sent to another process ({type(error).__name__}: {error}). Define it "
            "in a module of its own, build what it needs inside it, or run it in this process with "
            'verify.pool = "inline".'
        ) from error
    if pickler.by_value:
        log.warning(
            "%s: not importable by name (defined in a notebook, script or function), so a copy of its code is sent to "
            "the worker processes; global variables that it changes there do not change here. Define it in a module to "
            "have it imported instead.",
            ", ".join(sorted(pickler.by_value)),
        )
    return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class PackedVerifier:
    """What a pool needs of a verifier that only its workers load."""

    payload: bytes
    name: str
    mode: Mode
    floor: float | None
    blame: Mapping[str, Outcome]

    @staticmethod
    def of(verifier: Verifier) -> PackedVerifier:
        return PackedVerifier(pack(verifier), verifier.name, verifier.mode, verifier.floor, dict(verifier.blame))


def unpack(payload: bytes) -> Verifier:
    return pickle.loads(payload)  # noqa: S301 - from the run that started this worker


def light(item: Item) -> Item:
    """The item without what only the learner reads."""
    of = item.sample
    sample = Sample(
        of.key, of.token_ids, of.prompt_length, of.text, of.finish, NO_DECISIONS, policy_version=of.policy_version
    )
    return Item(item.task, sample, item.group_size)


class _Pickler(pickle.Pickler):
    """Functions by import path where they have one; ``by_value`` names the others."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer, protocol=5)
        self.by_value: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType):
            found = _named(obj)
            if found is obj:
                return NotImplemented
            if _decorates(found, obj):  # decorated with @verifier: the name is the verifier's
                return _function_of, (obj.__module__, obj.__qualname__)
            self.by_value.add(name_of(obj))
        elif not isinstance(obj, type) or _named(obj) is obj:
            return NotImplemented
        else:
            self.by_value.add(obj.__name__)
        return cloudpickle.loads, (cloudpickle.dumps(obj),)  # pyright: ignore[reportUnknownMemberType]


def _named(obj: Any) -> Any:
    """What can be imported under the object's own name; the started script itself cannot."""
    if obj.__module__ in (None, "__main__") or "<" in obj.__qualname__:
        return None
    try:
        return operator.attrgetter(obj.__qualname__)(importlib.import_module(obj.__module__))
    except (ImportError, AttributeError):
        return None


def importable(obj: Any) -> bool:
    """Whether the function or class can be imported under its own name, or is what ``@verifier`` decorated there."""
    found = _named(obj)
    return found is obj or _decorates(found, obj)


def _decorates(found: Any, function: Any) -> bool:
    return isinstance(found, UserFunction) and found.function is function


def _function_of(module: str, name: str) -> FunctionType:
    return operator.attrgetter(name)(importlib.import_module(module)).function
