"""The infill domain: a text with holes, to be filled so that a program, and a judge if there is one, approve of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from steelyard.domains.artifacts import TextSpan
from steelyard.domains.base import Domain, Split
from steelyard.domains.infill.corpus import Sizes, Text, Unit, texts
from steelyard.domains.infill.cutting import PLAIN, cut
from steelyard.domains.infill.masking import Masking, Pattern, fills, with_holes
from steelyard.domains.infill.reward import ANY_TEXT, DEFAULT, Program
from steelyard.errors import ConfigError
from steelyard.special_tokens import SPECIAL_TOKENS
from steelyard.types import HOLE, Task
from steelyard.verification import FunctionVerifier

SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")
WARM_START = 3
"""Keys the holes of the warm start's examples, apart from those of the splits."""


@dataclass(frozen=True)
class Infill(Domain):
    """Training tasks have no end: every text in turn, with other holes each time. In validation and held-out each text
    comes once.
    """

    files: str = ""
    """A folder, a text file with blank lines between documents, or a JSONL file with one a line; empty: the standard
    library's own sources.
    """
    unit: Unit = "function"
    """``function``: whole Python functions; ``chunk``: runs of lines of any text."""
    shortest: int = 40
    longest: int = 256
    """Characters of a text."""
    characters: str = ""
    """Characters beside ASCII that texts may have; a text with others is left out."""
    tokenizer: str = ""
    """Folder or hub id of the tokenizer whose tokens holes stand for, that of the model; empty: characters."""
    masking: Pattern = "span"
    ratio: float | Sequence[float] = 0.2
    """The share of holes, or two shares between which it is drawn for each task."""
    run: float = 3.0
    """Average length of a span or of a sticky run, in holes; that of T5 (Raffel et al., arXiv 1910.10683)."""
    most: int = 64
    """The most holes of a text."""
    forbidden: tuple[str, ...] = ()
    """What must not be filled in: no token that has one of these in it."""
    weights: Mapping[str, float] | None = None
    """What the parts of :mod:`steelyard.domains.infill.reward` count; None: for functions how they tokenize and parse,
    for chunks what was recovered.
    """
    seed: int = 0
    """Decides the order of texts and where their holes are, not their split."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "forbidden", tuple(self.forbidden))
        if self.unit not in ("function", "chunk"):
            raise ConfigError(f"infill: unit={self.unit!r}; there are: function, chunk")
        if not 1 <= self.shortest <= self.longest:
            raise ConfigError(
                f"infill: shortest={self.shortest}, longest={self.longest}; needed: 1 <= shortest <= longest"
            )
        if HOLE in self.characters:
            raise ConfigError(f"infill: characters={self.characters!r} has {HOLE!r}, which stands for a hole")
        self.how  # noqa: B018 - what cannot work is refused now
        self.program  # noqa: B018

    @cached_property
    def how(self) -> Masking:
        """Where holes are made."""
        bounds = (self.ratio, self.ratio) if isinstance(self.ratio, int | float) else tuple(self.ratio)
        if len(bounds) != 2:
            raise ConfigError(f"infill: ratio={self.ratio!r}; it is a share, or two between which it is drawn")
        return Masking(self.masking, cast("tuple[float, float]", bounds), self.run, self.most)

    @cached_property
    def program(self) -> Program:
        default = DEFAULT if self.unit == "function" else ANY_TEXT
        return Program(dict(default if self.weights is None else self.weights), self.longest)

    def vocabulary(self) -> tuple[str, ...]:
        """The special tokens of every policy, and characters; a masked one has its mask besides."""
        return tuple(dict.fromkeys((*SPECIAL_TOKENS, *PLAIN, *self.characters)))

    def size(self, split: Split) -> int | None:
        return None if split == "train" else len(self._texts[split])

    def task(self, split: Split, index: int) -> Task:
        """The masks of a training text change with every epoch, those of the others never."""
        own = self._texts[split]
        epoch, place = divmod(index, len(own))
        text = own[self._order(split, epoch)[place]]
        name = f"{text.place}@{epoch}" if split == "train" else text.place
        return self._task(name, text, np.random.default_rng([self.seed, SPLITS.index(split), index]))

    def verifier(self) -> FunctionVerifier:
        return self.program.verifier()

    def examples(self, *, seed: int) -> Iterator[tuple[Task, str]]:
        """Training texts with holes of their own, and how they were."""
        own = self._texts["train"]
        for epoch in itertools.count():
            order = np.random.default_rng([seed, WARM_START, epoch]).permutation(len(own))
            for place, number in enumerate(order):
                rng = np.random.default_rng([seed, WARM_START, epoch, place])
                yield self._task(f"{own[number].place}@{epoch}", own[number], rng), own[number].text

    def highlights(self, task: Task, text: str) -> list[TextSpan]:
        """A filled text with what was given, what was filled as in the original, and what was filled otherwise. The
        original of a task without its spec is found by its id.
        """
        original = task.spec.get("text") or self._originals.get(task.id.rpartition("@")[0] or task.id, "")
        return spans(str(task.prompt), str(original), text)

    @cached_property
    def _originals(self) -> dict[str, str]:
        return {text.place: text.text for own in self._texts.values() for text in own}

    def _task(self, name: str, text: Text, rng: np.random.Generator) -> Task:
        own = cut(text.text, self.tokenizer)
        places = self.how.places(len(own), rng)
        spec = {"text": text.text} | ({"forbidden": list(self.forbidden)} if self.forbidden else {})
        return Task(name, with_holes(own, places), spec, difficulty=float(len(places)))

    def _order(self, split: Split, epoch: int) -> np.ndarray:
        number = len(self._texts[split])
        return np.random.default_rng([self.seed, SPLITS.index(split), epoch, number]).permutation(number)

    @cached_property
    def _texts(self) -> dict[Split, tuple[Text, ...]]:
        characters = frozenset(PLAIN + self.characters)
        return texts(self.files, self.unit, Sizes(self.shortest, self.longest, characters, self.tokenizer))


def spans(masked: str, original: str, text: str) -> list[TextSpan]:
    """The runs of a text by what became of them; a text that does not fit its input is one span."""
    if len(masked) != len(text):
        return _by_runs(masked, original, text)
    kinds = [
        "given" if hole != HOLE else "right" if original[place : place + 1] == filled else "made"
        for place, (hole, filled) in enumerate(zip(masked, text, strict=True))
    ]
    runs = itertools.groupby(zip(kinds, text, strict=True), key=lambda pair: pair[0])
    return [TextSpan("".join(filled for _, filled in run), kind) for kind, run in runs]  # pyright: ignore[reportArgumentType]


def _by_runs(masked: str, original: str, text: str) -> list[TextSpan]:
    """Holes that longer tokens filled: what stands between the given parts."""
    made, true = fills(masked, text), fills(masked, original)
    if made is None:
        return [TextSpan(text, "made")]
    filled = [TextSpan(own, "right" if true and own == true[run] else "made") for run, own in enumerate(made)]
    given = [TextSpan(part, "given") for part in re.split(f"{HOLE}+", masked)]
    woven = itertools.chain.from_iterable(itertools.zip_longest(given, filled))
    return [span for span in woven if span is not None and span.text]
