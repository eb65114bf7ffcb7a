"""What a domain is: a family of tasks with its checker and, if its things can be looked at, a workshop.

Domains register by entry point, so a package of yours can add one::

    [project.entry-points."steelyard.domains"]
    mine = "my_package.domain:Mine"
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from steelyard.constraints.automaton import Automaton
from steelyard.text import printable
from steelyard.types import Prompt, Task, Verdict
from steelyard.verification import Verifier

LONGEST_DESCRIPTION = 120
Split = Literal["train", "validation", "held_out"]
ColourBy = Literal["part", "stress"]
"""What colours stand for: what each piece is, or how near it is to failing."""


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


@runtime_checkable
class SupportsDescriptions(Protocol):
    """A domain that can say in a few words what a task asks for."""

    def describe(self, task: Task) -> str: ...


def describe(domain: Domain | None, task: Task) -> str:
    """What a task asks for, in one line: in the words of its domain, else the prompt; too long a text is cut."""
    said = domain.describe(task) if isinstance(domain, SupportsDescriptions) else _request(task.prompt)
    return textwrap.shorten(printable(said), LONGEST_DESCRIPTION, placeholder=" …") or task.id


def _request(prompt: Prompt) -> str:
    """The prompt itself, or the last message of the user."""
    if isinstance(prompt, str):
        return prompt
    return next((message.get("content", "") for message in reversed(prompt) if message.get("role") == "user"), "")


class Piece(NamedTuple):
    """A run of what a policy made."""

    text: str
    kind: Literal["given", "right", "made"]
    """It was there before, it is what somebody would have put there, or it is the policy's own."""


@runtime_checkable
class Pieced(Protocol):
    """A domain in whose texts the policy's own part can be told from what was there."""

    def pieces(self, task: Task, text: str) -> list[Piece]: ...


@dataclass(frozen=True, slots=True)
class Made:
    """A thing to look at, as a file holds it (``Workshop.plain``)."""

    text: str
    title: str = ""
    spec: Mapping[str, Any] | None = None
    """What it was made for, as in ``Task.spec``."""
    verdict: Verdict | None = None


class Row(NamedTuple):
    """One piece of a thing in a report; a piece that is not ``good`` is marked."""

    cells: tuple[str, ...]
    good: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What a checker found, piece by piece, for people to read."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    flaws: tuple[str, ...]
    """What could not be read or placed, each with its line."""
    summary: tuple[str, ...]
    """A few lines; the first says what it comes to."""
    good: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """What many things come to: how many are really different, which are new."""

    summary: tuple[str, ...]
    """A few lines; the first says what it comes to."""
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    page: str
    """The same in full, as HTML."""


@runtime_checkable
class Surveyed(Protocol):
    """A domain that can look at many things together."""

    def survey(self, things: Sequence[Made], *, title: str = "") -> Survey: ...


class Workshop(Protocol):
    """Where the things of a domain are looked at and taken elsewhere. All texts are as files hold them; what a user
    asks for in vain is a ``ConfigError`` or a ``DataError``.
    """

    @property
    def pictures(self) -> tuple[str, ...]:
        """The forms of pictures, as file names end; ``svg`` is one of them and needs no extra."""
        ...

    @property
    def exports(self) -> tuple[str, ...]:
        """The forms in which things can be taken elsewhere."""
        ...

    def plain(self, text: str) -> str:
        """What a policy wrote, as a file holds it; what is no part of a thing is left out."""
        ...

    def look(
        self, things: Sequence[Made], form: str, *, by: ColourBy = "part", scale: float = 1.0, title: str = ""
    ) -> bytes:
        """The picture of a thing, or a sheet with several or with what was judged."""
        ...

    def leave(self, text: str, form: str, *, name: str) -> dict[str, bytes]:
        """The files of an export by name, ``name`` with an ending each; the one asked for is the first."""
        ...

    def report(self, text: str, spec: Mapping[str, Any] | None = None) -> Report: ...

    def judged_by(self, method: str) -> Workshop:
        """The same, with another way to judge."""
        ...


@runtime_checkable
class WithWorkshop(Protocol):
    """What a domain has besides if its things can be looked at."""

    def workshop(self) -> Workshop: ...


def workshop_of(domain: Domain) -> Workshop | None:
    """The workshop of a domain; ``None`` if it has none."""
    return domain.workshop() if isinstance(domain, WithWorkshop) else None
