"""The infill domain: fill holes in text so that a program, and optionally a judge model, accepts the result."""

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
from steelyard.domains.infill.corpus import Text, TextFilter, Unit, load_texts
from steelyard.domains.infill.masking import Masking, Pattern, fills, with_holes
from steelyard.domains.infill.reward import PYTHON_WEIGHTS, TEXT_WEIGHTS, InfillScorer
from steelyard.domains.infill.tokenization import PRINTABLE_ASCII, split_text
from steelyard.errors import ConfigError
from steelyard.special_tokens import SPECIAL_TOKENS
from steelyard.types import HOLE, Task
from steelyard.verification import FunctionVerifier

SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")
WARM_START = 3
"""RNG key for the holes in warm-start examples, distinct from the keys of the splits."""


@dataclass(frozen=True)
class Infill(Domain):
    """Texts with holes. The supply of training tasks is endless: every epoch visits all texts with new holes. The
    validation and held-out splits contain each text once.
    """

    files: str = ""
    """A folder, a text file with documents separated by blank lines, or a JSONL file with one document per line. If
    empty, the sources of the Python standard library are used.
    """
    unit: Unit = "function"
    """``function`` uses complete Python functions; ``chunk`` uses runs of lines from any text."""
    min_length: int = 40
    max_length: int = 256
    """Allowed range of text lengths, in characters."""
    characters: str = ""
    """Characters allowed in addition to ASCII; texts with other characters are skipped."""
    tokenizer: str = ""
    """Folder or hub id of the model's tokenizer; each hole replaces one token. If empty, holes replace characters."""
    masking: Pattern = "span"
    ratio: float | Sequence[float] = 0.2
    """Fraction of positions to mask, or a (low, high) range from which it is sampled per task."""
    mean_span: float = 3.0
    """Mean length of a span or sticky run, in holes. The default follows T5 (Raffel et al., arXiv 1910.10683)."""
    max_holes: int = 64
    """Maximum number of holes per text."""
    forbidden: tuple[str, ...] = ()
    """Strings that must not appear in a filled hole; tokens that contain one are excluded."""
    weights: Mapping[str, float] | None = None
    """Weights of the reward parts in :mod:`steelyard.domains.infill.reward`. ``None`` scores functions on tokenizing
    and parsing, and chunks on recovery.
    """
    seed: int = 0
    """Seed for the order of texts and the positions of holes; does not affect the splits."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "forbidden", tuple(self.forbidden))
        if self.unit not in ("function", "chunk"):
            raise ConfigError(f"infill: unit={self.unit!r} is invalid; choose function or chunk")
        if not 1 <= self.min_length <= self.max_length:
            raise ConfigError(
                f"infill: min_length={self.min_length}, max_length={self.max_length} must "
                "satisfy 1 <= min_length <= max_length"
            )
        if HOLE in self.characters:
            raise ConfigError(f"infill: characters={self.characters!r} must not contain {HOLE!r}, which marks a hole")
        self.masking_settings  # noqa: B018 - validate the settings now
        self.scorer  # noqa: B018

    @cached_property
    def masking_settings(self) -> Masking:
        bounds = (self.ratio, self.ratio) if isinstance(self.ratio, int | float) else tuple(self.ratio)
        if len(bounds) != 2:
            raise ConfigError(f"infill: ratio={self.ratio!r} must be a fraction, or a range given by two fractions")
        return Masking(self.masking, cast("tuple[float, float]", bounds), self.mean_span, self.max_holes)

    @cached_property
    def scorer(self) -> InfillScorer:
        default = PYTHON_WEIGHTS if self.unit == "function" else TEXT_WEIGHTS
        return InfillScorer(dict(default if self.weights is None else self.weights), self.max_length)

    def vocabulary(self) -> tuple[str, ...]:
        """The special tokens and all characters. A masked policy adds its mask token."""
        return tuple(dict.fromkeys((*SPECIAL_TOKENS, *PRINTABLE_ASCII, *self.characters)))

    def size(self, split: Split) -> int | None:
        return None if split == "train" else len(self._texts[split])

    def task(self, split: Split, index: int) -> Task:
        """Return a task. The holes of a training text change every epoch; those of other texts are fixed."""
        texts = self._texts[split]
        epoch, position = divmod(index, len(texts))
        text = texts[self._order(split, epoch)[position]]
        name = f"{text.source}@{epoch}" if split == "train" else text.source
        return self._task(name, text, np.random.default_rng([self.seed, SPLITS.index(split), index]))

    def verifier(self) -> FunctionVerifier:
        return self.scorer.verifier()

    def examples(self, *, seed: int) -> Iterator[tuple[Task, str]]:
        """Yield training texts with their own set of holes, paired with the originals."""
        texts = self._texts["train"]
        for epoch in itertools.count():
            order = np.random.default_rng([seed, WARM_START, epoch]).permutation(len(texts))
            for position, text in enumerate(texts[number] for number in order):
                rng = np.random.default_rng([seed, WARM_START, epoch, position])
                yield self._task(f"{text.source}@{epoch}", text, rng), text.text

    def highlights(self, task: Task, text: str) -> list[TextSpan]:
        """Highlight the given text, the holes filled as in the original, and the holes filled differently. If a task
        has no spec, its original is looked up by id.
        """
        original = task.spec.get("text") or self._originals.get(task.id.rpartition("@")[0] or task.id, "")
        return text_spans(str(task.prompt), str(original), text)

    @cached_property
    def _originals(self) -> dict[str, str]:
        return {text.source: text.text for texts in self._texts.values() for text in texts}

    def _task(self, name: str, text: Text, rng: np.random.Generator) -> Task:
        units = split_text(text.text, self.tokenizer)
        positions = self.masking_settings.positions(len(units), rng)
        spec = {"text": text.text} | ({"forbidden": list(self.forbidden)} if self.forbidden else {})
        return Task(name, with_holes(units, positions), spec, difficulty=float(len(positions)))

    def _order(self, split: Split, epoch: int) -> np.ndarray:
        number = len(self._texts[split])
        return np.random.default_rng([self.seed, SPLITS.index(split), epoch, number]).permutation(number)

    @cached_property
    def _texts(self) -> dict[Split, tuple[Text, ...]]:
        characters = frozenset(PRINTABLE_ASCII + self.characters)
        return load_texts(
            self.files, self.unit, TextFilter(self.min_length, self.max_length, characters, self.tokenizer)
        )


def text_spans(masked: str, original: str, text: str) -> list[TextSpan]:
    """Split filled text into given, correct and differing spans. Text that does not match its input becomes a single
    span.
    """
    if len(masked) != len(text):
        return _by_runs(masked, original, text)
    kinds = [
        "given" if hole != HOLE else "right" if original[position : position + 1] == filled else "made"
        for position, (hole, filled) in enumerate(zip(masked, text, strict=True))
    ]
    runs = itertools.groupby(zip(kinds, text, strict=True), key=lambda pair: pair[0])
    return [TextSpan("".join(filled for _, filled in run), kind) for kind, run in runs]  # pyright: ignore[reportArgumentType]


def _by_runs(masked: str, original: str, text: str) -> list[TextSpan]:
    """Split text into spans at runs of holes, for holes that may contain several characters."""
    written, true = fills(masked, text), fills(masked, original)
    if written is None:
        return [TextSpan(text, "made")]
    filled = [TextSpan(fill, "right" if true and fill == true[run] else "made") for run, fill in enumerate(written)]
    given = [TextSpan(part, "given") for part in re.split(f"{HOLE}+", masked)]
    woven = itertools.chain.from_iterable(itertools.zip_longest(given, filled))
    return [span for span in woven if span is not None and span.text]
