"""Run folders: their location, their stored configuration, and the lock that keeps out other processes.

This module does not import torch, so that mistakes are reported immediately.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shlex
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from steelyard import config as configs
from steelyard.config import Config
from steelyard.config.overrides import apply_overrides, parse_overrides
from steelyard.errors import CheckpointError, ConfigError
from steelyard.trust import remember_run

log = logging.getLogger(__name__)
LOCK = ".lock"
START = "start"
"""Accepted in place of a checkpoint name; means the model before training."""
IN_RUN = "{run}/"
"""Prefix of a path inside the run folder; it stays valid when the folder is moved."""
TASK_FILES = {"tasks": f"{IN_RUN}tasks.jsonl", "eval_tasks": f"{IN_RUN}eval_tasks.jsonl"}
"""Files in which a run stores tasks passed as Python objects."""

NAMED_BY = {
    "model": ("model.path", "model.scratch"),
    "domain": ("domain.name", "domain"),
    "tasks": ("tasks.file", "tasks.dataset", "tasks.prompts", "tasks.source"),
    "eval_tasks": ("tasks.eval_file", "tasks.held_out"),
    "verifier": ("verify.verifier", "verify.verifiers"),
    "constraint": ("constraint",),
    "tools": ("episode.tools",),
}
"""For each part that can be passed as a Python object (``run.supplied``), the keys that can name it instead."""


def run_folder(config: Config) -> Path:
    return Path(config.run.folder) / config.run.name


def in_run(path: str, folder: Path) -> str:
    """Resolve the ``{run}/`` prefix of a path."""
    return str(folder / path.removeprefix(IN_RUN)) if path.startswith(IN_RUN) else path


def run_at(path: Path) -> tuple[Path, str | None] | None:
    """Find the run at a path. If the path is a checkpoint of the run, also return its step."""
    for run in (path, Path("runs") / path):
        if (run / "config.toml").is_file():
            return run, None
    for run in path.resolve().parents[:3]:
        if (run / "config.toml").is_file() and path.resolve().is_relative_to(run / "checkpoints"):
            step = path.resolve().relative_to(run / "checkpoints").parts[0].removeprefix("step-")
            if not step.isdigit():
                raise CheckpointError(f"{path} is not a checkpoint of {run}; see {run / 'checkpoints'}")
            return run, str(int(step))
    return None


def require_free(folder: Path) -> None:
    """Raise if the folder already holds a run; a new run never writes into another run's folder."""
    if (folder / "config.toml").exists():
        raise ConfigError(
            f"{folder} already contains a run: resume it with `{resume_command(folder)}`, "
            f"or choose another name with --run.name"
        )


def resume_command(folder: Path) -> str:
    return f"steelyard train --resume {shlex.quote(str(folder))}"


def write_config(folder: Path, config: Config, step: int = 0) -> None:
    """Write the configuration that applies after ``step``.

    A different previous configuration is kept as ``config-until-step-00000120.toml``. Moving the run folder does not
    count as a difference.
    """
    remember_run(folder, config)
    path, text = folder / "config.toml", configs.dump(config)
    if path.exists():
        place = {key: value for key, value in run_table(folder).items() if key in ("folder", "name")}
        before = path.read_text(encoding="utf-8")
        text = configs.dump(config.model_copy(update={"run": config.run.model_copy(update=place)}))
        if text == before:
            return
        held = folder / f"config-until-step-{step:08d}.toml"
        if not held.exists():  # if it exists, no checkpoint was saved with the current configuration
            held.write_text(before, encoding="utf-8")
    _replace(path, text)


def _replace(path: Path, text: str) -> None:
    """Write a file atomically and durably, so that it survives a power loss."""
    temporary = path.with_name(f".{path.name}.writing")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def keep_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into the run folder; ``files`` maps names to contents."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        _replace(folder / name, text)


def run_table(folder: Path) -> dict[str, Any]:
    """Read the [run] table of a run folder's configuration."""
    table = _tables(folder).get("run")
    return table if isinstance(table, dict) else {}


def _tables(folder: Path) -> dict[str, Any]:
    path = folder / "config.toml"
    try:
        return configs.with_new_names(configs.read_tables(path))
    except ConfigError as error:
        older = ", ".join(sorted(held.name for held in folder.glob("config-until-step-*.toml"))) or "none"
        raise CheckpointError(
            f"{error}; the file is incomplete or was edited: restore it from a copy (copies from earlier "
            f"steps: {older}), or start a new run from a model in {folder / 'checkpoints'}"
        ) from error


def read_run(folder: Path, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Config:
    """Read the configuration of a run folder, even if the folder was moved."""
    path = folder / "config.toml"
    if not path.is_file():
        raise CheckpointError(f"{folder} is not a run folder: it has no config.toml; pass the path of a run")
    named = dict(overrides) if isinstance(overrides, Mapping) else parse_overrides(overrides)
    chat = recorded_chat(folder)
    if chat is not None and "tasks" not in named:
        named = {"tasks.chat": chat, **named}
    config = configs.build(apply_overrides(_tables(folder), named), source=str(path))
    data = config.model_dump(exclude_none=True)
    place = folder.resolve()
    data["run"] |= {"folder": str(place.parent), "name": place.name}
    return configs.build(data, source=str(path))


def recorded_chat(folder: Path) -> str | None:
    """Read a run's ``tasks.chat``, which determines how string prompts are sent.

    A run with [tasks] but without this key comes from a release that never used the chat template. A run with a domain
    may omit the key; the result is then ``None``.
    """
    tables = _tables(folder)
    tasks: Any = tables.get("tasks")
    if tasks is None and ("domain" in tables or "domain" in run_table(folder).get("supplied", [])):
        return None
    return tasks.get("chat", "never") if isinstance(tasks, dict) else "never"


def recorded_dtype(folder: Path) -> str | None:
    """Read a run's ``model.dtype``, if its configuration sets it."""
    model: Any = _tables(folder).get("model")
    return model.get("dtype") if isinstance(model, dict) else None


def write_run_info(folder: Path, about: Mapping[str, Any]) -> None:
    """Write ``run.json``: the run's id, package versions and verifier code digests."""
    _replace(folder / "run.json", json.dumps(about, indent=1) + "\n")


def read_run_info(folder: Path) -> dict[str, Any]:
    """Read ``run.json``; return an empty dict if it is missing or corrupt, since no run depends on it."""
    path = folder / "run.json"
    try:
        found = json.loads(path.read_bytes()) if path.is_file() else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class RunLock:
    """Lock a run folder for this process, creating the folder if necessary.

    The kernel holds the lock (``flock``) and releases it when the process ends for any reason, so locks never become
    stale. Child processes do not inherit the lock.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor = self._take()
        while not self._in_place():  # the previous owner just removed the lock along with its empty folder
            os.close(self._descriptor)
            self._descriptor = self._take()

    def _take(self) -> int:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except (FileExistsError, NotADirectoryError) as error:
            file = next((path for path in (self.folder, *self.folder.parents) if path.is_file()), self.folder)
            raise ConfigError(
                f"{self.folder} cannot be a run folder: {file} is a file; remove it, or choose another folder "
                "with --run.folder"
            ) from error
        except OSError as error:
            raise ConfigError(
                f"{self.folder} cannot be written ({error.strerror}): make it writable or free space there, or choose "
                "another folder with --run.folder"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise CheckpointError(
                f"{self.folder} is being trained by {owner}; wait for it or stop it, or choose another name with "
                f"--run.name"
            ) from None
        except OSError as error:
            log.warning(
                "%s: the file system does not support locks (%s); do not train this run in two processes",
                self.folder,
                error,
            )
        with suppress(OSError):  # the owner is only needed for error messages
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        return descriptor

    def require_in_place(self) -> None:
        """Raise if the folder was moved or deleted since it was locked."""
        if self._in_place():
            return
        moved = self._moved_to()
        if moved is None:
            raise CheckpointError(f"{self.folder} was deleted while the run was training; training has stopped")
        raise CheckpointError(
            f"{self.folder} was moved to {moved} while the run was training; training has stopped. Resume from its "
            f"last checkpoint there: {resume_command(moved)}"
        )

    def clear(self) -> None:
        """Remove the run from the folder."""
        for path in self.folder.iterdir():
            if path.name == LOCK:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def close(self) -> None:
        """Release the lock. Remove the folder if it is otherwise empty because the run never started."""
        if self._in_place() and [path.name for path in self.folder.iterdir()] == [LOCK]:
            with suppress(OSError):
                (self.folder / LOCK).unlink()
                self.folder.rmdir()
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _in_place(self) -> bool:
        try:
            found, held = (self.folder / LOCK).stat(), os.fstat(self._descriptor)
        except OSError:
            return False
        return os.path.samestat(found, held)

    def _moved_to(self) -> Path | None:
        """Find the folder that now holds the locked file, if the system can tell and the file still exists."""
        with suppress(OSError):
            place = Path(f"/proc/self/fd/{self._descriptor}").readlink()
            if os.path.samestat(place.stat(), os.fstat(self._descriptor)):
                return place.parent
        return None
