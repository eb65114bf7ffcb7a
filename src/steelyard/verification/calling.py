"""Helpers for calling user functions: declarations, names, signatures and coroutines."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, cast

from steelyard.defaults import SUCCESS_AT
from steelyard.errors import VerifierError
from steelyard.verification.base import Mode, Outcome, SingleMode, Verifier
from steelyard.verification.blame import require_causes

AnyFunction = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class UserFunction(Verifier):
    """A verifier that wraps a user function. The verifier can still be called like the function."""

    function: AnyFunction
    name: str = ""
    mode: Mode = field(default_factory=SingleMode)
    floor: float | None = None
    """Reward of a sample for which the function raises ``Invalid``; ``None`` for 0, or the lowest scored reward of its
    group if that is lower."""
    success_at: float | None = SUCCESS_AT
    """A reward of at least this value is a success; with ``None``, a number is never a success."""
    version: str | None = None
    deterministic: bool = False
    isolate: bool = True
    blame: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome])

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or name_of(self.function))
        require_causes(self.name, self.blame)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def name_of(function: AnyFunction) -> str:
    """Return the name of a function, partial or callable object."""
    if isinstance(function, partial):
        return name_of(cast("partial[Any]", function).func)
    return getattr(function, "__name__", None) or type(function).__name__


def parameters_of(function: AnyFunction) -> dict[str, inspect.Parameter] | None:
    """Return the parameters, or ``None`` for callables without a signature (some built-ins)."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def require_two_arguments(function: AnyFunction, form: str) -> None:
    """Raise an error if the function cannot be called with two arguments, as ``form`` shows."""
    if parameters_of(function) is None:
        return
    signature = inspect.signature(function)
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise VerifierError(
            f"verifier {name_of(function)}{signature} cannot be called as {form}: {error}. Give it two parameters, or "
            "name one of them `completions` to have it called like a TRL reward function"
        ) from None


def call(function: AnyFunction, *args: object, **kwargs: object) -> object:
    """Call the function and wait for the result if it is awaitable."""
    result = function(*args, **kwargs)
    return _awaited(cast("Awaitable[object]", result)) if inspect.isawaitable(result) else result


async def _wait(result: Awaitable[object]) -> object:
    return await result


def _awaited(result: Awaitable[object]) -> object:
    """Wait for the result on an event loop in another thread, which also works inside a notebook's running loop."""
    future = asyncio.run_coroutine_threadsafe(_wait(result), _event_loop())
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="verifier coroutines", daemon=True).start()
    return loop
