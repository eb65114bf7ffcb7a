"""The interface between the training loop and samplers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from steelyard import defaults
from steelyard.types import CutRule, Sample, Task


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request for ``count`` samples for a task; step, slot and attempt are part of the random key."""

    task: Task
    step: int
    slot: int
    count: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to sample: the cut rule, the length limit, and whether supports are stored or recomputed later."""

    rule: CutRule = CutRule()
    max_new_tokens: int = defaults.MAX_NEW_TOKENS
    supports: Literal["stored", "recomputed"] = defaults.SUPPORTS


class Sampler(Protocol):
    """Turns tasks into a stream of samples with exact log-probs and supports."""

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        """Yield samples as they finish, in any order; ``Sample.key`` identifies them."""
        ...

    def publish(self, version: int) -> None:
        """Switch to the policy's newest weights and label samples with ``version``."""
        ...


@runtime_checkable
class Closeable(Protocol):
    """An object that holds processes or memory, such as a sampler with its own copy of the model weights."""

    def close(self) -> None:
        """Release them. Calling it twice is safe."""
        ...
