"""Write a command's files in the format that the file name asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steelyard.errors import ConfigError, DataError


def form_of(path: Path, known: Sequence[str], option: str) -> str:
    """The form that a file's name asks for by its ending."""
    form = path.suffix.removeprefix(".").lower()
    if form not in known:
        endings = ", ".join(f".{name}" for name in known)
        raise ConfigError(f"{option} {path}: the ending says what to write, one of {endings}")
    return form


def write_file(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}; choose another place") from None
