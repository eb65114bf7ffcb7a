"""What a domain is: a family of tasks with its checker.

Domains register by entry point, so a package of yours can add one::

    [project.entry-points."steelyard.domains"]
    mine = "my_package.domain:Mine"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Protocol, runtime_checkable

from steelyard.constraints.automaton import Automaton
from steelyard.types import Task
from steelyard.verification import Verifier

Split = Literal["train", "validation", "held_out"]


class Domain(Protocol):
    """Tasks and how to judge what is made for them."""

    @property
    def name(self) -> str: ...

    def vocabulary(self) -> tuple[str, ...] | None:
        """All words a policy may read or write, the special tokens first, for policies with a closed vocabulary
        (``<pad> <bos> <eos>``, then words that the text separates by spaces); ``None``: any text.
        """
        ...

    def size(self, split: Split) -> int | None:
        """How many tasks there are, ``None`` for no end. Splits share no task."""
        ...

    def task(self, split: Split, index: int) -> Task:
        """Task number ``index`` of a split: a pure function of these two and the domain's own parameters."""
        ...

    def verifier(self) -> Verifier: ...

    def automaton(self) -> Automaton[Any] | None:
        """What the things of this domain look like, over its words or over characters; ``None``: anything goes."""
        ...


@runtime_checkable
class Exemplary(Protocol):
    """A domain with examples for a warm start."""

    def examples(self, *, seed: int) -> Iterator[tuple[Task, str]]:
        """Training tasks without end, each with a text that a policy may begin from; a function of the seed."""
        ...
