"""The reward for filled text: a weighted sum of named parts.

- ``tokenizes``: 1 if Python's tokenizer accepts the text
- ``parses``: 1 if ``ast`` parses the text
- ``recovered``: fraction of holes filled as in the original
- ``exact``: 1 if all holes are filled as in the original

reward = Σ weight · part. By default, only ``tokenizes`` and ``parses`` count, because a hole can be filled correctly in
more than one way. For text other than Python, only ``recovered`` counts.
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
PYTHON_WEIGHTS: Mapping[str, float] = {"tokenizes": 0.25, "parses": 0.75}
TEXT_WEIGHTS: Mapping[str, float] = {"recovered": 1.0}
RULES = "2"
"""Version of the scoring rules; increment it when verdicts change for the same settings."""
MAX_INLINE_CHARACTERS = 4096
"""Texts longer than this are parsed in a separate process, because a crash in Python's C parser would kill the run."""


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
    """Return the fraction of holes filled as in the original. If a hole holds several characters, whole runs of holes
    are compared. Text that does not match the holes scores 0.
    """
    if len(masked) == len(original) == len(text):
        right = [given == true for hole, true, given in zip(masked, original, text, strict=True) if hole == HOLE]
        return sum(right) / max(len(right), 1)
    runs = re.findall(f"{HOLE}+", masked)
    pairs = zip(runs, fills(masked, original) or (), fills(masked, text) or (), strict=False)
    return sum(len(run) for run, true, given in pairs if given == true) / max(masked.count(HOLE), 1)


@dataclass(frozen=True)
class InfillScorer:
    """The verifier's scoring function."""

    weights: Mapping[str, float] = field(default_factory=lambda: dict(PYTHON_WEIGHTS))
    max_length: int = 256

    def __post_init__(self) -> None:
        unknown = [name for name in self.weights if name not in PARTS]
        if unknown or not self.weights:
            raise ConfigError(
                f"infill: weights={dict(self.weights)} must map at least one of {', '.join(PARTS)} to a number"
            )

    def __call__(self, task: Task, text: str) -> Verdict:
        """Score a text. Python code succeeds if it parses; other text succeeds if it equals the original."""
        original = str(task.spec["text"])
        python = not {"tokenizes", "parses"}.isdisjoint(self.weights)
        parts = {"recovered": recovered(str(task.prompt), original, text), "exact": float(text == original)}
        if python:
            parts = {"tokenizes": float(tokenizes(text)), "parses": float(parses(text)), **parts}
        reward = sum(weight * parts[name] for name, weight in self.weights.items())
        return Verdict.scored(reward, success=parts["parses" if python else "exact"] == 1.0, parts=parts)

    def verifier(self) -> FunctionVerifier:
        """Return the verifier, whose version includes the weights because they affect verdicts."""
        return FunctionVerifier(
            self,
            name="program",
            version=f"{RULES}-{zlib.crc32(repr(sorted(self.weights.items())).encode()):08x}",
            deterministic=True,
            isolate=self.max_length > MAX_INLINE_CHARACTERS,
        )
