"""What the loop asks of a sampler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from steelyard import defaults
from steelyard.types import CutRule, Sample, Task


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """``count`` samples for a task; step, slot and attempt key the random numbers."""

    task: Task
    step: int
    slot: int
    count: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to draw: the cut rule, the length limit, and whether supports are stored or left to be found again."""

    rule: CutRule = CutRule()
    max_new_tokens: int = defaults.MAX_NEW_TOKENS
    supports: Literal["stored", "replayed"] = defaults.SUPPORTS


class Sampler(Protocol):
    """Tasks in, a stream of samples out, each with exact log-probs and supports."""

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        """Yield samples as they finish, in any order; ``Sample.key`` says where each belongs."""
        ...

    def publish(self, version: int) -> None:
        """Take over the policy's newest weights, which from now on are ``version``."""
        ...


@runtime_checkable
class Closeable(Protocol):
    """What holds processes or memory of its own, as a sampler beside the policy may."""

    def close(self) -> None:
        """Let go of them; twice does no harm."""
        ...
