"""The interface between the training loop and samplers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, runtime_checkable

from steelyard import defaults
from steelyard.types import CutRule, IntArray, Sample, SampleKey, Task

_Waiting = TypeVar("_Waiting")


@dataclass(frozen=True, slots=True, eq=False)
class NextTurn:
    """The start of a later turn of an episode."""

    sample: int
    """Index of the sample in its group."""
    token_ids: IntArray
    """All tokens before the turn: prompt, earlier turns and replies."""
    drawn: int
    """Number of tokens that the policy wrote in earlier turns; the turn's random numbers continue from there."""
    max_new_tokens: int


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request for ``count`` samples for a task; step, slot and attempt are part of the random key."""

    task: Task
    step: int
    slot: int
    count: int
    attempt: int = 0
    next_turn: NextTurn | None = None
    """If set, the request continues one sample with another turn instead of starting ``count`` samples."""
    only: tuple[int, ...] = ()
    """Indices of the samples to draw; empty: all ``count`` samples."""

    @property
    def keys(self) -> list[SampleKey]:
        """Keys of the requested samples."""
        samples = (self.only or range(self.count)) if self.next_turn is None else (self.next_turn.sample,)
        return [SampleKey(self.step, self.slot, self.attempt, sample) for sample in samples]


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to sample: the cut rule, the length limit, and whether supports are stored or recomputed later."""

    rule: CutRule = CutRule()
    max_new_tokens: int = defaults.MAX_NEW_TOKENS
    supports: Literal["stored", "recomputed"] = defaults.SUPPORTS


class TurnQueue:
    """Queue of later turns that arrive while a sampler runs; an episode stays open until ``end`` is called for it.

    Another thread may add requests. A request for an episode that is not open starts it.
    """

    def __init__(self) -> None:
        self._requests: deque[SampleRequest] = deque()
        self._ended: set[SampleKey] = set()
        self._newly_ended: deque[SampleKey] = deque()

    def add(self, request: SampleRequest) -> None:
        """Queue the next turn of an episode; its previous turn must have been yielded."""
        self._requests.append(request)

    def end(self, key: SampleKey) -> None:
        """Mark an episode as ended, so that the sampler may drop its cache."""
        self._ended.add(key)
        self._newly_ended.append(key)

    def take(self) -> list[SampleRequest]:
        """Return the turns that arrived since the last call."""
        return _emptied(self._requests)

    def take_ended(self) -> list[SampleKey]:
        """Return the episodes that ended since the last call."""
        return _emptied(self._newly_ended)

    def is_over(self, key: SampleKey) -> bool:
        return key in self._ended


def _emptied(waiting: deque[_Waiting]) -> list[_Waiting]:
    """Remove and return all entries; another thread may add to the queue at the same time."""
    return [waiting.popleft() for _ in range(len(waiting))]


class Sampler(Protocol):
    """Turns tasks into a stream of samples with exact log-probs and supports."""

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        """Yield samples as they finish, in any order; ``Sample.key`` identifies them."""
        ...

    def publish(self, version: int) -> None:
        """Switch to the policy's newest weights and label samples with ``version``."""
        ...


@runtime_checkable
class EpisodeSampler(Sampler, Protocol):
    """A sampler of episodes; an episode that waits for a reply keeps its cache."""

    def sample_turns(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue
    ) -> Iterator[Sample | None]:
        """Yield turns of episodes as they finish, until ``turns`` has ended all of them.

        Later turns are taken from ``turns``. Yield None while every open episode waits for its next turn.
        """
        ...


@runtime_checkable
class Closeable(Protocol):
    """An object that holds processes or memory, such as a sampler with its own copy of the model weights."""

    def close(self) -> None:
        """Release the resources. Calling it twice is safe."""
        ...
