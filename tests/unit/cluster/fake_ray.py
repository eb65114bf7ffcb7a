"""A fake Ray in one process, with the calls that samplers, learner groups and verifier pools use.

Tests can limit the room for actors, and waiting forever raises an assertion error. tests/faults uses the real Ray.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Queue
from types import SimpleNamespace
from typing import Any


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        super().__init__(f"ray::task()\n{cause!r}")
        self.cause = cause


class ActorDiedError(RayError):
    pass


@dataclass(eq=False)
class Reference:
    value: Any = None
    error: Exception | None = None
    done: bool = True


@dataclass(eq=False)
class Stream:
    """The results of a streaming call."""

    answers: Iterator[Reference]
    done: bool = True

    def __next__(self) -> Reference:
        return next(self.answers)


class ThreadedStream:
    """The results of a streaming call that runs in a thread of its own, as in an actor's process."""

    def __init__(self, handle: Handle, values: Iterator[Any]) -> None:
        self.handle = handle
        self.answers: Queue[Reference | None] = Queue()
        threading.Thread(target=self._run, args=(values,), daemon=True).start()

    def _run(self, values: Iterator[Any]) -> None:
        try:
            for value in values:
                self.answers.put(Reference(value))
        except Exception as error:  # noqa: BLE001 - as a task's error
            self.answers.put(Reference(error=RayTaskError(error)))
        self.answers.put(None)

    @property
    def done(self) -> bool:
        return self.handle.lost or not self.answers.empty()

    def __next__(self) -> Reference:
        if self.handle.lost:
            return Reference(error=ActorDiedError("the actor died"))
        answer = self.answers.get()
        if answer is None:
            raise StopIteration
        return answer


@dataclass(eq=False)
class Handle:
    ray: FakeRay
    actor: Any = None
    """The actor, or None if the cluster has no room for it."""
    lost: bool = False

    def __getattr__(self, name: str) -> Any:
        return Method(self, name)

    def call(self, name: str, arguments: Sequence[Any], named: dict[str, Any]) -> Reference:
        if self.lost:
            return Reference(error=ActorDiedError("the actor died"))
        if self.actor is None:
            return Reference(done=False)
        plain = [one.value if isinstance(one, Reference) else one for one in arguments]
        try:
            if name == "__ray_call__":
                return Reference(plain[0](self.actor))
            return Reference(getattr(self.actor, name)(*plain, **named))
        except Exception as error:  # noqa: BLE001 - as a task's error
            return Reference(error=RayTaskError(error))


@dataclass
class Method:
    handle: Handle
    name: str
    streaming: bool = False

    def options(self, num_returns: str = "1", concurrency_group: str = "") -> Method:
        return Method(self.handle, self.name, num_returns == "streaming")

    def remote(self, *arguments: Any, **named: Any) -> Any:
        result = self.handle.call(self.name, arguments, named)
        if self.streaming and self.handle.ray.threads and result.error is None:
            return ThreadedStream(self.handle, result.value)
        return Stream(self._answers(result), result.done) if self.streaming else result

    def _answers(self, result: Reference) -> Iterator[Reference]:
        if result.error is not None:
            yield result
            return
        try:
            for value in result.value:
                yield Reference(value) if not self.handle.lost else Reference(error=ActorDiedError("the actor died"))
        except Exception as error:  # noqa: BLE001 - as a task's error
            yield Reference(error=RayTaskError(error))


@dataclass
class FakeRay:
    """A stand-in for the ``ray`` module, with room for ``room`` actors."""

    room: int = 99
    nodes_of: tuple[float, ...] = (8.0,)
    node_address: str = "10.0.0.7"
    threads: bool = False
    """Whether streaming calls run in threads, so that other methods can be called meanwhile."""
    handles: list[Handle] = field(default_factory=list[Handle])
    open: bool = True
    ObjectRef = Reference
    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __post_init__(self) -> None:
        self.util = SimpleNamespace(get_node_ip_address=lambda: self.node_address)

    def connection(self, _address: str = "local") -> Any:
        """Replaces ``Connection``."""
        return SimpleNamespace(ray=self, open=True, request=lambda _cores: None, close=self._close)

    def _close(self) -> None:
        self.open = False

    def remote(self, kind: Callable[..., Any] | None = None, **_options: Any) -> Any:
        if kind is None:
            return self.remote

        def start(*arguments: Any) -> Handle:
            alive = sum(handle.actor is not None and not handle.lost for handle in self.handles)
            handle = Handle(self, kind(*arguments) if alive < self.room else None)
            self.handles.append(handle)
            return handle

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=start))

    def put(self, value: Any) -> Reference:
        return Reference(value)

    def get(self, what: Any, timeout: float | None = None) -> Any:
        if isinstance(what, list):
            return [self.get(one) for one in what]
        assert what.done, "this would wait forever"
        if what.error is not None:
            raise what.error
        return what.value

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": cores}} for cores in self.nodes_of]

    def wait(
        self, what: list[Any], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
    ) -> tuple[list[Any], Any]:
        done = [one for one in what if one.done][:num_returns]
        assert done or timeout is not None, "this would wait forever"
        if not done and self.threads:
            time.sleep(0.001)
        return done, [one for one in what if one not in done]

    def kill(self, handle: Handle) -> None:
        handle.lost = True
