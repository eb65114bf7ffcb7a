"""Attacks on runs, one module per target; each lists its attacks as ``ATTACKS: tuple[Attack, ...]``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Attack:
    """A hostile or broken input that must not harm a run."""

    target: str
    """The attacked part of the system, in a word or two."""
    name: str
    run: Callable[[Path], str | None]
    """Carries out the attack in an empty folder. Returns None if the system was not harmed, else what went wrong."""
    quick: bool = True
    """Takes a few seconds at most, so that it also runs as a test."""
