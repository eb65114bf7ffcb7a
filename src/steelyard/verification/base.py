"""What a verifier is, and what carries items to it and verdicts back.

A *verifier* judges items. It declares how many it wants at a time (its *mode*): one, a batch of any items, or a whole
group of one task. A *pool* takes items as the sampler finishes them, hands them to the verifier as its mode asks and
gives the verdicts back as they come, in any order. Inline, in processes and on a cluster the two protocols are the
same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, Protocol

from steelyard.types import Sample, SampleKey, Task, Verdict


class Cause(StrEnum):
    """What can go wrong with a checker; none of these is a judgement of the sample."""

    EXCEPTION = "exception"
    BAD_RETURN = "bad return"
    """Not a number, no verdict, or not one an item."""
    NO_SCORE = "no score"
    """It returned None: it declines to judge."""
    TIMEOUT = "timeout"
    CPU_LIMIT = "cpu limit"
    EXITED = "exited"
    """``Verdict.detail`` has the code."""
    SIGNAL = "killed by signal"
    """``Verdict.detail`` has its name."""
    OUT_OF_MEMORY = "out of memory"
    OUTPUT_OVERFLOW = "output overflow"
    LOST_WORKER = "lost worker"
    """The process or machine that ran it, or the connection to it, went away."""
    NOT_REPRODUCIBLE = "not reproducible"
    """A session that was opened again on another worker replied differently."""


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One thing to judge: a sample and the task it was made for."""

    task: Task
    sample: Sample
    group_size: int
    """How many samples the task gets; a verifier that compares them waits for all."""


@dataclass(frozen=True, slots=True)
class One:
    """The verifier takes one item at a time."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The verifier takes up to ``size`` items at a time, of any tasks; an item's verdict depends on itself alone."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"batch size {self.size}: a batch holds at least one item")


@dataclass(frozen=True, slots=True)
class WholeGroup:
    """The verifier takes all samples of one task together, since it compares them."""


Mode = One | Batch | WholeGroup


Outcome = Literal["rejected", "unscored"]
"""What a sample becomes when verifying it keeps failing: its own fault, or the verifier's."""


class Verifier(ABC):
    """Verifies items. Build one from a function with :func:`steelyard.verification.as_verifier`, or derive a class of
    your own: it has a ``name`` and ``verify``, and declares whatever differs from the defaults below.
    """

    name: str
    mode: Mode = One()
    floor: float | None = None
    """The reward of a rejected sample; ``None``: 0, or that of the worst scored sample of its group if lower."""
    version: str | None = None
    """Changes whenever a verdict could change. ``None``: not declared, so verdicts are never reused."""
    deterministic: bool = False
    """Whether the same item always gets the same verdict."""
    isolate: bool = True
    """Whether it runs in a process of its own; ``False``: it is fast and can neither crash nor hang."""
    blame: Mapping[str, Outcome] = MappingProxyType({})
    """What a failure that stays means, by its cause: ``{"timeout": "rejected"}``."""

    @abstractmethod
    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        """One verdict per item, in order. May raise; :func:`steelyard.verification.judge` turns that into verdicts."""


class Pool(Protocol):
    """Carries items to a verifier and verdicts back. Every item submitted comes back exactly once."""

    @abstractmethod
    def submit(self, items: Sequence[Item]) -> None:
        """Hand over one sample, several, or a whole group. The pool forms the calls that the verifier's mode asks."""
        ...

    @abstractmethod
    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        """Verdicts that are there. ``wait=True`` starts what was held back for a fuller batch or group, and goes on
        until everything submitted is done; a number does the same, but returns once nothing came for so many seconds.
        """
        ...

    def metrics(self) -> dict[str, float]:
        """What happened since this was last asked, for the metrics of a step: accidents, retries, cache hits."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Let go of workers; what was not completed is dropped."""
        ...
