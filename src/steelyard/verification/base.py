"""The interfaces of verifiers and pools.

A *verifier* scores items. Its *mode* declares how many items the verifier takes per call: one, a batch of any items, or
all samples of one task. A *pool* accepts items as the sampler finishes them, calls the verifier according to its mode
and returns the verdicts in the order in which they finish. Pools that run inline, in processes and on a cluster share
one interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, Protocol

from steelyard.types import Sample, SampleKey, Task, Verdict


class Cause(StrEnum):
    """Why a verifier failed. The cause of a failure says nothing about the quality of the sample."""

    EXCEPTION = "exception"
    BAD_RETURN = "bad return"
    """The verifier returned something other than one number or verdict per item."""
    NO_SCORE = "no score"
    """The verifier returned None and so declined to score the sample."""
    TIMEOUT = "timeout"
    CPU_LIMIT = "cpu limit"
    EXITED = "exited"
    """The verifier's process exited; ``Verdict.detail`` holds the exit code."""
    SIGNAL = "killed by signal"
    """A signal killed the verifier's process; ``Verdict.detail`` holds the name of the signal."""
    OUT_OF_MEMORY = "out of memory"
    OUTPUT_OVERFLOW = "output overflow"
    LOST_WORKER = "lost worker"
    """The process, the machine or the connection was lost."""
    NOT_REPRODUCIBLE = "not reproducible"
    """A session that was reopened on another worker replied differently."""


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A sample to verify, with its task."""

    task: Task
    sample: Sample
    group_size: int
    """Number of samples of the task. A verifier that compares samples waits for all of them."""


@dataclass(frozen=True, slots=True)
class SingleMode:
    """The verifier takes one item per call."""


@dataclass(frozen=True, slots=True)
class BatchMode:
    """The verifier takes up to ``size`` items of any tasks per call. Verdicts must not depend on other items."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"batch size = {self.size} must be at least 1")


@dataclass(frozen=True, slots=True)
class GroupMode:
    """The verifier takes all samples of one task per call, because it compares them."""


Mode = SingleMode | BatchMode | GroupMode


Outcome = Literal["rejected", "unscored"]
"""Result for a sample whose verification keeps failing: ``rejected`` blames the sample, ``unscored`` the verifier."""


class Verifier(ABC):
    """Base class of verifiers.

    Build a verifier from a function with :func:`steelyard.verification.as_verifier`, or derive a class with a ``name``
    and a ``verify`` method. The other attributes have defaults.
    """

    name: str
    mode: Mode = SingleMode()
    floor: float | None = None
    """Reward of a rejected sample; ``None`` for 0, or the lowest scored reward of its group if that is lower."""
    version: str | None = None
    """Version of the verifier; change it whenever a verdict could change. ``None``: verdicts are never cached."""
    deterministic: bool = False
    """Whether equal items always get equal verdicts."""
    isolate: bool = True
    """Whether the verifier runs in a separate process. Use ``False`` only if the verifier is fast and cannot crash or
    hang."""
    blame: Mapping[str, Outcome] = MappingProxyType({})
    """Result of a persistent failure, by its cause: ``{"timeout": "rejected"}``."""
    sessions: bool = False
    """Whether the verifier keeps a session for a sample between calls. Later calls for the sample then go to the same
    worker."""
    keeps_processes: bool = False
    """Whether processes that the verifier starts during a call may run until the sample's session ends."""

    @abstractmethod
    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        """Return one verdict per item, in order. Pools turn exceptions into verdicts."""

    def open_sessions(self) -> Collection[SampleKey]:
        """Return the samples whose sessions are open in this process."""
        return ()

    def close_sessions(self) -> None:  # noqa: B027 - most verifiers have none
        """Close all sessions. Pools call this when a worker ends."""


class Pool(Protocol):
    """Runs a verifier on submitted items. Every submitted item gets exactly one verdict."""

    @abstractmethod
    def submit(self, items: Sequence[Item]) -> None:
        """Submit any number of items. The pool groups them into calls according to the mode of the verifier."""
        ...

    @abstractmethod
    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        """Yield the verdicts that are available.

        With ``wait=True``, start incomplete batches and groups too, and continue until every submitted item is done.
        With a number, do the same but return after that many seconds without a verdict.
        """
        ...

    def observe(self, key: SampleKey, verdict: Verdict) -> None:
        """Record a verdict that this pool did not produce, such as the one for an unusable reply."""

    def metrics(self) -> dict[str, float]:
        """Return counters since the last call, such as lost workers, retries and cache hits."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Release the workers and discard unfinished items."""
        ...
