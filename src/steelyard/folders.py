"""Run folders: where a run lives, how its configuration is kept, and who may write to it. Imports no torch, so mistakes
show at once.
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
from steelyard.config.overrides import parse_overrides
from steelyard.errors import CheckpointError, ConfigError
from steelyard.trust import remember_run

log = logging.getLogger(__name__)
LOCK = ".lock"
START = "start"
"""Names the model before training where a checkpoint could be named."""
IN_RUN = "{run}/"
"""Begins a path inside the run folder, wherever that is moved to."""
TASK_FILES = {"tasks": f"{IN_RUN}tasks.jsonl", "eval_tasks": f"{IN_RUN}eval_tasks.jsonl"}
"""Where tasks that were handed over as Python objects are kept."""

NAMED_BY = {
    "model": ("model.path", "model.scratch"),
    "domain": ("domain.name", "domain"),
    "tasks": ("tasks.file", "tasks.dataset", "tasks.prompts", "tasks.source"),
    "eval_tasks": ("tasks.eval_file", "tasks.held_out"),
    "verifier": ("verify.verifier", "verify.verifiers"),
    "constraint": ("constraint",),
}
"""Keys that name what a run can also be given as Python objects (``run.supplied``)."""


def run_folder(config: Config) -> Path:
    return Path(config.run.folder) / config.run.name


def in_run(path: str, folder: Path) -> str:
    """The path, with the run folder filled in."""
    return str(folder / path.removeprefix(IN_RUN)) if path.startswith(IN_RUN) else path


def run_at(path: Path) -> tuple[Path, str | None] | None:
    """The run that a path means, and the step if the path is one of its checkpoints."""
    for run in (path, Path("runs") / path):
        if (run / "config.toml").is_file():
            return run, None
    for run in path.resolve().parents[:3]:
        if (run / "config.toml").is_file() and path.resolve().is_relative_to(run / "checkpoints"):
            step = path.resolve().relative_to(run / "checkpoints").parts[0].removeprefix("step-")
            if not step.isdigit():
                raise CheckpointError(f"{path} is not a checkpoint of {run}")
            return run, str(int(step))
    return None


def require_free(folder: Path) -> None:
    """A new run never writes into the folder of another."""
    if (folder / "config.toml").exists():
        raise ConfigError(
            f"{folder} holds a run already: go on with it by `{resume_command(folder)}`, "
            f"or choose another name with --run.name"
        )


def resume_command(folder: Path) -> str:
    return f"steelyard train --resume {shlex.quote(str(folder))}"


def write_config(folder: Path, config: Config, step: int = 0) -> None:
    """Keep the configuration that holds after ``step``. One that held until then and was another stays beside it, as
    ``config-until-step-00000120.toml``; where the folder is and was is no difference.
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
        if not held.exists():  # else what is there now was tried and came to no checkpoint
            held.write_text(before, encoding="utf-8")
    _replace(path, text)


def _replace(path: Path, text: str) -> None:
    """Whole or not at all, also when the machine loses power."""
    beside = path.with_name(f".{path.name}.writing")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def keep_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into the run folder, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        _replace(folder / name, text)


def run_table(folder: Path) -> dict[str, Any]:
    """The table [run] of a run folder's configuration."""
    table = _tables(folder).get("run")
    return table if isinstance(table, dict) else {}


def _tables(folder: Path) -> dict[str, Any]:
    path = folder / "config.toml"
    try:
        return configs.read_tables(path)
    except ConfigError as error:
        older = ", ".join(sorted(held.name for held in folder.glob("config-until-step-*.toml"))) or "none is there"
        raise CheckpointError(
            f"{error}; it is torn or was edited: restore it from a copy (of earlier steps: {older}), or start a new "
            f"run from a model in {folder / 'checkpoints'}"
        ) from error


def read_run(folder: Path, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Config:
    """The configuration of a run folder, wherever the folder has been moved to."""
    path = folder / "config.toml"
    if not path.is_file():
        raise CheckpointError(f"{folder} is no run folder: it has no config.toml")
    named = dict(overrides) if isinstance(overrides, Mapping) else parse_overrides(overrides)
    chat = recorded_chat(folder)
    if chat is not None and "tasks" not in named:
        named = {"tasks.chat": chat, **named}
    data = configs.load(path, named).model_dump(exclude_none=True)
    place = folder.resolve()
    data["run"] |= {"folder": str(place.parent), "name": place.name}
    return configs.build(data, source=str(path))


def recorded_chat(folder: Path) -> str | None:
    """How a run sends prompts that are strings. A run of [tasks] that does not say is of a release that sent them as
    they are; a run of a domain need not say.
    """
    tables = _tables(folder)
    tasks: Any = tables.get("tasks")
    if tasks is None and ("domain" in tables or "domain" in run_table(folder).get("supplied", [])):
        return None
    return tasks.get("chat", "never") if isinstance(tasks, dict) else "never"


def recorded_dtype(folder: Path) -> str | None:
    """The type of a run's weights, if its configuration names one."""
    model: Any = _tables(folder).get("model")
    return model.get("dtype") if isinstance(model, dict) else None


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    """``run.json``: versions and code that the run was last trained with."""
    _replace(folder / "run.json", json.dumps(about, indent=1) + "\n")


def read_about(folder: Path) -> dict[str, Any]:
    """What ``run.json`` says; nothing if it is missing or torn, since no run depends on it."""
    path = folder / "run.json"
    try:
        found = json.loads(path.read_bytes()) if path.is_file() else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class RunLock:
    """Holds a run folder, made if missing, for this process. The lock is the kernel's (flock): it ends with the
    process, however that ends, so there is never a stale one to remove. Child processes do not inherit it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor = self._take()
        while not self._in_place():  # its last owner has just removed it along with an empty folder
            os.close(self._descriptor)
            self._descriptor = self._take()

    def _take(self) -> int:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except (FileExistsError, NotADirectoryError) as error:
            file = next((path for path in (self.folder, *self.folder.parents) if path.is_file()), self.folder)
            raise ConfigError(
                f"{self.folder} cannot be a run folder: {file} is a file; remove it, or choose another place "
                "with --run.folder"
            ) from error
        except OSError as error:
            raise ConfigError(
                f"{self.folder} cannot be written ({error.strerror}): make it writable or free space there, or choose "
                "another place with --run.folder"
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
            log.warning("%s: its file system has no locks (%s); start no second process on it", self.folder, error)
        with suppress(OSError):  # who holds it is only for the message
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        return descriptor

    def require_in_place(self) -> None:
        """Raises if the folder was moved or deleted since it was locked."""
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
        """Remove the run that is in the folder."""
        for path in self.folder.iterdir():
            if path.name == LOCK:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def close(self) -> None:
        """Let go. A folder that holds nothing else, since the run did not get to start, is removed."""
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
        """Where the locked file is now, if the system says so and it is still there."""
        with suppress(OSError):
            place = Path(f"/proc/self/fd/{self._descriptor}").readlink()
            if os.path.samestat(place.stat(), os.fstat(self._descriptor)):
                return place.parent
        return None
