"""What a program says of a filled text, in named parts with weights.

- ``tokenizes``: 1 if Python's tokenizer gets through it
- ``parses``: 1 if ``ast`` parses it
- ``recovered``: the share of holes that hold what the original had there
- ``exact``: 1 if all of them do

reward = Σ weight · part. By default only tokenizing and parsing count: there is more than one good way to fill a hole.
Of text that is no Python only ``recovered`` counts.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.domains.infill.masking import fills
from steelyard.errors import ConfigError
from steelyard.types import HOLE, Task, Verdict
from steelyard.verification import FunctionVerifier

PARTS = ("tokenizes", "parses", "recovered", "exact")
DEFAULT: Mapping[str, float] = {"tokenizes": 0.25, "parses": 0.75}
ANY_TEXT: Mapping[str, float] = {"recovered": 1.0}
RULES = "2"
"""Counts up when verdicts change for the same settings."""
HARMLESS = 4096
"""Characters up to which Python's parser, which is written in C, is asked in the run's own process."""


def tokenizes(text: str) -> bool:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return False
    return all(token.type != tokenize.ERRORTOKEN for token in tokens)


def parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def recovered(masked: str, original: str, text: str) -> float:
    """The share of holes filled as in the original. Holes that are filled with more than a character count by runs, and
    a text that does not fit them has 0.
    """
    if len(masked) == len(original) == len(text):
        right = [given == true for hole, true, given in zip(masked, original, text, strict=True) if hole == HOLE]
        return sum(right) / max(len(right), 1)
    runs = re.findall(f"{HOLE}+", masked)
    pairs = zip(runs, fills(masked, original) or (), fills(masked, text) or (), strict=False)
    return sum(len(run) for run, true, given in pairs if given == true) / max(masked.count(HOLE), 1)


@dataclass(frozen=True)
class Program:
    """The function behind the verifier."""

    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT))
    longest: int = 256

    def __post_init__(self) -> None:
        unknown = [name for name in self.weights if name not in PARTS]
        if unknown or not self.weights:
            raise ConfigError(
                f"infill: weights={dict(self.weights)}; a number for some of {', '.join(PARTS)} is needed"
            )

    def __call__(self, task: Task, text: str) -> Verdict:
        """Success: it parses, or, where that is not asked for, it is the original."""
        original = str(task.spec["text"])
        python = not {"tokenizes", "parses"}.isdisjoint(self.weights)
        parts = {"recovered": recovered(str(task.prompt), original, text), "exact": float(text == original)}
        if python:
            parts = {"tokenizes": float(tokenizes(text)), "parses": float(parses(text)), **parts}
        reward = sum(weight * parts[name] for name, weight in self.weights.items())
        return Verdict.scored(reward, success=parts["parses" if python else "exact"] == 1.0, parts=parts)

    def verifier(self) -> FunctionVerifier:
        """Other weights give other verdicts, so they are part of the version."""
        return FunctionVerifier(
            self,
            name="program",
            version=f"{RULES}-{zlib.crc32(repr(sorted(self.weights.items())).encode()):08x}",
            deterministic=True,
            isolate=self.longest > HARMLESS,
        )
