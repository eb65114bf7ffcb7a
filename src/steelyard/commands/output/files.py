"""Write output files in the format selected by the file name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steelyard.errors import ConfigError, DataError


def format_of(path: Path, known: Sequence[str], option: str) -> str:
    """Return the format selected by a file name's suffix."""
    form = path.suffix.removeprefix(".").lower()
    if form not in known:
        suffixes = ", ".join(f".{name}" for name in known)
        raise ConfigError(f"{option} {path}: the suffix selects the format; use one of {suffixes}")
    return form


def write_file(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}; choose another path") from None
