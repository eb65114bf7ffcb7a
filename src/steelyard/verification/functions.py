"""Build verifiers from functions, batch and group functions, TRL-style functions, import paths and weighted lists.

::

    def score(task, text):
        return text.strip() == task.spec["answer"]

    @steelyard.verifier(mode="batch", size=32, version="1", deterministic=True)
    def score_many(tasks, texts):
        return [len(text) / 100 for text in texts]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack, cast, overload

from steelyard.errors import VerifierError
from steelyard.types import Verdict
from steelyard.verification.base import BatchMode, GroupMode, Item, Mode, Outcome, SingleMode, Verifier
from steelyard.verification.calling import AnyFunction, UserFunction, call, require_two_arguments
from steelyard.verification.loading import load_function
from steelyard.verification.returns import as_scores, verdict_of
from steelyard.verification.trl import TRLVerifier, is_trl_style
from steelyard.verification.weighted import AnyVerifier, WeightedPart, WeightedVerifier

ModeName = Literal["one", "batch", "group"]


class Settings(TypedDict, total=False):
    """Settings of a verifier function; see :class:`UserFunction`."""

    name: str
    mode: ModeName
    size: int
    floor: float | None
    success_at: float | None
    version: str | None
    deterministic: bool
    isolate: bool
    blame: Mapping[str, Outcome]


@dataclass(frozen=True, eq=False)
class FunctionVerifier(UserFunction):
    """A verifier that calls a function.

    The call is ``f(task, text)`` for one item, ``f(tasks, texts)`` for a batch and ``f(task, texts)`` for a group. For
    batches and groups the function returns a list.
    """

    def __post_init__(self) -> None:
        form = {SingleMode: "f(task, text)", BatchMode: "f(tasks, texts)", GroupMode: "f(task, texts)"}[type(self.mode)]
        require_two_arguments(self.function, form)
        super().__post_init__()

    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        return [
            verdict_of(score, item.sample.text, floor=self.floor, success_at=self.success_at)
            for score, item in zip(self._scores(items), items, strict=True)
        ]

    def _scores(self, items: Sequence[Item]) -> list[object]:
        texts = [item.sample.text for item in items]
        if isinstance(self.mode, SingleMode):
            return [call(self.function, item.task, text) for item, text in zip(items, texts, strict=True)]
        if isinstance(self.mode, BatchMode):
            return as_scores(call(self.function, [item.task for item in items], texts), len(items))
        return as_scores(call(self.function, items[0].task, texts), len(items))


@overload
def verifier(function: AnyFunction, /) -> FunctionVerifier | TRLVerifier: ...
@overload
def verifier(**settings: Unpack[Settings]) -> Callable[[AnyFunction], FunctionVerifier | TRLVerifier]: ...
def verifier(function: AnyFunction | None = None, /, **settings: Unpack[Settings]) -> Any:
    """Turn a function into a verifier: ``@verifier`` or ``@verifier(mode="batch", size=32, floor=-1.0)``."""
    if function is not None:
        return from_function(function)

    def decorate(decorated: AnyFunction) -> FunctionVerifier | TRLVerifier:
        return from_function(decorated, **settings)

    return decorate


def from_function(function: AnyFunction, **settings: Unpack[Settings]) -> FunctionVerifier | TRLVerifier:
    """Build a verifier from a function. A parameter named ``completions`` marks a TRL-style reward function."""
    kind = TRLVerifier if is_trl_style(function) else FunctionVerifier
    return kind(function, **_constructor_arguments(settings))


@overload
def as_verifier(candidate: AnyFunction, **settings: Unpack[Settings]) -> Verifier: ...
@overload
def as_verifier(candidate: list[Any] | Mapping[str, Any], **settings: Unpack[Settings]) -> WeightedVerifier: ...
@overload
def as_verifier(candidate: object, **settings: Unpack[Settings]) -> AnyVerifier: ...
def as_verifier(candidate: object, **settings: Unpack[Settings]) -> AnyVerifier:
    """Build a verifier from a function, a verifier, an import path, or several of these.

    Pass several verifiers as a list, or as a mapping from names to verifiers; each entry may be ``(verifier, weight)``.
    The settings override those of the function.
    """
    if isinstance(candidate, str):
        return load_verifier(candidate, **settings)
    if isinstance(candidate, Mapping):
        named = cast("Mapping[str, object]", candidate)
        return _weighted([_part(part, name) for name, part in named.items()], settings)
    if isinstance(candidate, list | tuple):
        return _weighted([_part(part, None) for part in cast("Sequence[object]", candidate)], settings)
    if isinstance(candidate, UserFunction):
        return replace(candidate, **_constructor_arguments(settings)) if settings else candidate
    if isinstance(candidate, AnyVerifier):
        if settings:
            raise VerifierError(
                f"{candidate.name}: cannot override {', '.join(settings)}; set the attribute in the verifier's class"
            )
        return candidate
    if "verify" in _own_names(type(candidate)):
        raise VerifierError(
            f"{type(candidate).__name__} has verify(items) but is not a Verifier: derive the class from "
            "steelyard.verification.Verifier, which has defaults for everything except name and verify"
        )
    if callable(candidate):
        return from_function(candidate, **settings)
    raise VerifierError(
        f"{candidate!r} is not a verifier: pass a function f(task, text), or its import path 'module:f'"
    )


def load_verifier(path: str, arguments: Mapping[str, Any] | None = None, **settings: Unpack[Settings]) -> AnyVerifier:
    """Load the verifier ``"module:name"``. A class is instantiated with ``arguments``."""
    found = load_function(path)
    if isinstance(found, type):
        kind = cast("type[Any]", found)
        if not _own_names(kind) & {"verify", "__call__"}:
            raise VerifierError(
                f"{path!r} is a class without verify(items) or __call__(task, text), so its instances are not "
                "verifiers: use a function f(task, text)"
            )
        built: object = kind(**(arguments or {}))
        return as_verifier(built, **settings)
    if arguments:
        raise VerifierError(f"{path!r} is not a class and takes no arguments: remove {', '.join(arguments)}")
    return as_verifier(found, **settings)


def _own_names(kind: type[Any]) -> set[str]:
    """Return the names that a class and its bases define. ``hasattr`` would find ``__call__`` on every class."""
    return {name for owner in kind.__mro__ for name in vars(owner)}


def for_run(verifier: AnyVerifier, steps: int) -> AnyVerifier:
    """Set the number of training steps, which TRL-style functions read as ``trainer_state.max_steps``."""
    if isinstance(verifier, TRLVerifier):
        return replace(verifier, max_steps=steps)
    if isinstance(verifier, WeightedVerifier):
        parts = tuple(replace(part, verifier=for_run(part.verifier, steps)) for part in verifier.parts)
        return replace(verifier, parts=parts)
    return verifier


def _part(candidate: object, name: str | None) -> WeightedPart:
    pair = cast("tuple[object, ...]", candidate) if isinstance(candidate, tuple) else (candidate, 1.0)
    if len(pair) != 2 or not isinstance(pair[1], int | float):
        raise VerifierError(f"a part must be a verifier or (verifier, weight), not {candidate!r}")
    return WeightedPart(as_verifier(pair[0]), float(pair[1]), name=name or "")


def _weighted(parts: list[WeightedPart], settings: Settings) -> WeightedVerifier:
    unknown = set(settings) - {"name", "floor", "success_at"}
    if unknown:
        raise VerifierError(
            f"{', '.join(sorted(unknown))} cannot be set on a weighted verifier; set it on its component verifiers"
        )
    return WeightedVerifier(tuple(parts), **cast("dict[str, Any]", settings))


def _constructor_arguments(settings: Settings) -> dict[str, Any]:
    arguments = cast("dict[str, Any]", dict(settings))
    if "mode" in settings or "size" in settings:
        arguments["mode"] = mode_of(arguments.pop("mode", "batch"), arguments.pop("size", None))
    return arguments


def mode_of(name: str, size: int | None = None) -> Mode:
    """Return the mode named "one", "batch" (with its size) or "group"."""
    if name == "batch":
        if size is None:
            raise VerifierError('mode="batch" needs a size: the number of items per call, for example size=32')
        return BatchMode(size)
    if size is not None:
        raise VerifierError(f'size={size} is valid only with mode="batch", not with mode="{name}"; remove size')
    if name == "one":
        return SingleMode()
    if name == "group":
        return GroupMode()
    raise VerifierError(f'mode="{name}" is unknown: choose "one", "batch" or "group"')
