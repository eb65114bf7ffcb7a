"""Attacks on runs, one module per target; each lists its attacks as ``ATTACKS: tuple[Attack, ...]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Attack:
    """A hostile or broken input that must not harm a run."""

    target: str
    """The part of the system under attack, in a word or two."""
    name: str
    run: Callable[[Path], str | None]
    """Carries out the attack in an empty folder. Returns None if the system was unharmed, else the failure."""
    quick: bool = True
    """Whether the attack takes only a few seconds and so also runs as a test."""
