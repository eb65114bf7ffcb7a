"""The manifest of a checkpoint: size and SHA-256 of every file. The manifest is written last, so an interrupted save
has none.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any

from steelyard.errors import CheckpointError

MANIFEST = "manifest.json"
FORMAT = 1


class DamagedCheckpoint(Exception):  # noqa: N818 - a finding, always handled inside this package
    """A checkpoint is incomplete or corrupt; the message says how."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    step: int
    score: float | None
    files: dict[str, FileEntry]
    """Entries by path relative to the checkpoint, with forward slashes."""


def seal(folder: Path, *, step: int, score: float | None) -> Manifest:
    """Flush every file of the folder to disk, then write and flush its manifest."""
    names = sorted(_files(folder))
    with ThreadPoolExecutor(max_workers=4) as threads:
        entries = list(threads.map(lambda name: _entry(folder / name, durable=True), names))
    manifest = Manifest(step, score, dict(zip(names, entries, strict=True)))
    path = folder / MANIFEST
    path.write_text(_dump(manifest), encoding="utf-8")
    sync_file(path)
    for parent in {folder, *(path for path in folder.rglob("*") if path.is_dir())}:
        sync_folder(parent)
    return manifest


def read(folder: Path) -> Manifest:
    """Read the manifest without checking the files; raises :class:`DamagedCheckpoint` if it is unreadable."""
    try:
        with _open_regular(folder / MANIFEST, MANIFEST) as file:
            data = json.loads(file.read())
    except FileNotFoundError:
        raise DamagedCheckpoint(f"{MANIFEST} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedCheckpoint(f"{MANIFEST} cannot be read ({error})") from error
    if not isinstance(data, dict) or data.get("sha256") != _digest(data):
        raise DamagedCheckpoint(f"{MANIFEST} does not match its own hash")
    if data["format"] != FORMAT:
        raise CheckpointError(
            f"{folder}: checkpoint format {data['format']} is not supported; this version of Steelyard reads format "
            f"{FORMAT}. Use the version that wrote the checkpoint"
        )
    files = {name: FileEntry(entry["bytes"], entry["sha256"]) for name, entry in data["files"].items()}
    return Manifest(data["step"], data["score"], files)


def check(folder: Path, manifest: Manifest, *, hashes: bool) -> None:
    """Raise :class:`DamagedCheckpoint` unless every listed file matches in size and, with ``hashes``, in hash.

    Links and pipes are rejected too: loading a checkpoint must not follow a link or block on a pipe.
    """
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise DamagedCheckpoint(f"{path.relative_to(folder)} is {_kind(path)}, not a regular file")
    for name, entry in manifest.files.items():
        path = path_inside(folder, name)
        if not path.is_file():
            raise DamagedCheckpoint(f"{name} is missing")
        if path.stat().st_size != entry.bytes:
            raise DamagedCheckpoint(f"{name} has {path.stat().st_size} bytes instead of {entry.bytes}")
    if not hashes:
        return
    with ThreadPoolExecutor(max_workers=4) as threads:
        found = threads.map(lambda name: _entry(folder / name, durable=False), manifest.files)
        for (name, entry), actual in zip(manifest.files.items(), found, strict=True):
            if actual != entry:
                raise DamagedCheckpoint(f"{name} does not match its hash")


def require_intact(folder: Path, solution: str) -> None:
    """Raise :class:`CheckpointError` with the given solution if a sealed folder has changed.

    A folder without a manifest, such as a model from another program, is accepted.
    """
    if not os.path.lexists(folder / MANIFEST):
        return
    try:
        check(folder, read(folder), hashes=True)
    except (DamagedCheckpoint, OSError) as error:
        raise CheckpointError(f"{folder} has changed since it was written: {error}; {solution}") from error


def path_inside(folder: Path, name: str) -> Path:
    """Return ``folder / name``; raise an error if that is outside the folder."""
    relative = PurePosixPath(name)
    if not name or relative.is_absolute() or ".." in relative.parts or "\\" in name or ":" in name:
        raise CheckpointError(f"{name!r} is not a path inside {folder}")
    return folder / relative


def sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Flush renames and new entries of a folder to disk (needed on POSIX systems only)."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _files(folder: Path) -> list[str]:
    found: list[str] = []
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise CheckpointError(f"{path}: a checkpoint must not contain links, because their targets may change")
        if path.is_file() and path != folder / MANIFEST:
            found.append(path.relative_to(folder).as_posix())
    return found


def _open_regular(path: Path, name: str) -> BufferedReader:
    """Open a regular file; never block on a pipe or follow a link."""
    if path.is_symlink():
        raise DamagedCheckpoint(f"{name} is a symbolic link, not a regular file")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DamagedCheckpoint(f"{name} is {_kind(path)}, not a regular file")
    return os.fdopen(descriptor, "rb")


def _kind(path: Path) -> str:
    if path.is_symlink():
        return "a symbolic link"
    return "a named pipe" if path.is_fifo() else "a special file"


def _entry(path: Path, *, durable: bool) -> FileEntry:
    with _open_regular(path, path.name) as file:
        if durable:
            os.fsync(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileEntry(file.tell(), digest)


def _dump(manifest: Manifest) -> str:
    data: dict[str, Any] = {
        "format": FORMAT,
        "step": manifest.step,
        "score": manifest.score,
        "files": {name: {"bytes": e.bytes, "sha256": e.sha256} for name, e in manifest.files.items()},
    }
    return json.dumps({**data, "sha256": _digest(data)}, indent=1, allow_nan=False)


def _digest(data: dict[str, Any]) -> str:
    body = {key: value for key, value in data.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
