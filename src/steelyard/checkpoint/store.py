"""Checkpoints on a file system: written to a temporary folder, sealed by a manifest, then renamed.

A store contains one folder per checkpoint, such as ``step-00000120/``. Each checkpoint contains the folders that its
writers filled (``model/``, ...), one safetensors file per tensor tree (``optimiser.safetensors``), ``state.json`` and
``manifest.json``. Folders whose names start with a dot are incomplete. Killing the process at any time leaves every
finished checkpoint intact.

Only one process may write to a store. Other processes may read it at the same time; reading never changes anything on
disk.
"""

from __future__ import annotations

import logging
import math
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError

from steelyard.checkpoint import manifest as manifests
from steelyard.checkpoint.manifest import DamagedCheckpoint, Manifest
from steelyard.checkpoint.tensors import Tree, from_json, load_tree, save_tree, to_json
from steelyard.defaults import BEST_MODE, KEEP_LAST
from steelyard.errors import CheckpointError

log = logging.getLogger(__name__)

Writer = Callable[[Path], object]
"""Fills an empty folder; ``policy.save_pretrained`` is an example."""

_STATE = "state.json"
_STEP = re.compile(r"step-(\d{8,})")
_REPLACED = re.compile(r"\.replaced-step-(\d{8,})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_RESERVED = frozenset({"state", "manifest"})


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An intact checkpoint: every file matched its manifest."""

    path: Path
    step: int
    """Number of training steps completed when the checkpoint was written."""
    score: float | None
    """Value of the configured metric at that step, or None if it was not measured."""
    state: dict[str, Any]

    def tensors(self, name: str) -> Tree:
        """Load the tensor tree with this name, such as an optimiser's state dict, onto the CPU."""
        path = self.path / f"{_checked(name)}.safetensors"
        if not path.is_file():
            raise CheckpointError(f"{self.path} has no tensors named {name!r}; it has {self._tensor_names()}")
        return load_tree(path)

    def folder(self, name: str) -> Path:
        """Return the folder with this name; ``folder("model")`` loads with plain ``from_pretrained``."""
        path = self.path / _checked(name)
        if not path.is_dir():
            raise CheckpointError(f"{self.path} has no folder named {name!r}")
        return path

    def has(self, name: str) -> bool:
        """Return whether the checkpoint has a folder or a tensor tree with this name."""
        return (self.path / _checked(name)).is_dir() or (self.path / f"{name}.safetensors").is_file()

    def _tensor_names(self) -> str:
        return ", ".join(sorted(path.stem for path in self.path.glob("*.safetensors"))) or "none"


def open_checkpoint(path: Path) -> Checkpoint:
    """Open the checkpoint in a folder and check every file against the manifest."""
    try:
        return _open(path)
    except DamagedCheckpoint as error:
        raise CheckpointError(
            f"the checkpoint {path} is damaged: {error}; use another checkpoint from this run"
        ) from error


class Store:
    """Keeps the last ``keep_last`` checkpoints of a run, and the one with the best score."""

    def __init__(
        self, folder: Path, *, keep_last: int = KEEP_LAST, best_mode: Literal["max", "min"] = BEST_MODE
    ) -> None:
        if keep_last < 1:
            raise CheckpointError(
                f"keep_last = {keep_last} must be at least 1, because a run needs its newest checkpoint to resume"
            )
        self.folder = Path(folder)
        self.keep_last = keep_last
        self.best_mode: Literal["max", "min"] = best_mode
        self.skipped: list[str] = []
        """Damaged checkpoints that the last :meth:`latest` or :meth:`best` skipped, each with the reason."""

    def save(
        self,
        step: int,
        *,
        folders: Mapping[str, Writer] | None = None,
        tensors: Mapping[str, Tree] | None = None,
        state: Mapping[str, Any] | None = None,
        score: float | None = None,
    ) -> Path:
        """Write a checkpoint after ``step`` steps, delete those no longer kept, and return its folder.

        ``folders`` are filled by callbacks, ``tensors`` are nested state dicts, ``state`` is plain data (JSON).
        Saving a step again replaces its checkpoint.
        """
        temporary = self.folder / f".writing-{_name(step)}"
        try:
            self._clean_up()
            temporary.mkdir(parents=True)
            for name, write in (folders or {}).items():
                target = temporary / _checked(name)
                target.mkdir()
                write(target)
            for name, tree in (tensors or {}).items():
                save_tree(temporary / f"{_checked(name)}.safetensors", tree)
            (temporary / _STATE).write_text(to_json(dict(state or {}), what=_STATE), encoding="utf-8")
            manifests.seal(temporary, step=step, score=_finite(score))
            self._move_into_place(temporary, step)
            self._prune()
        except (OSError, SafetensorError) as error:
            shutil.rmtree(temporary, ignore_errors=True)  # the incomplete folder may be using the last free disk space
            kept = ", ".join(map(str, self.steps())) or "none"
            raise CheckpointError(
                f"the checkpoint for step {step} could not be written to {self.folder}: {error}. Free space there or "
                f"make it writable, then resume; steps with checkpoints: {kept}"
            ) from error
        return self.folder / _name(step)

    def latest(self) -> Checkpoint | None:
        """Return the newest intact checkpoint. Damaged ones are logged and listed in ``skipped``."""
        self.skipped = []
        for _, path in sorted(self._present().items(), reverse=True):
            if checkpoint := self._open_intact(path):
                return checkpoint
        return None

    def best(self) -> Checkpoint | None:
        """Return the intact checkpoint with the best score (the earliest if tied), or None if none has a score."""
        self.skipped = []
        scored = [(manifest.score, step) for step, manifest in self._manifests().items() if manifest.score is not None]
        for _, step in sorted(scored, key=self._rank):
            if checkpoint := self._open_intact(self._present()[step]):
                return checkpoint
        return None

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, damaged or not, in ascending order."""
        return sorted(self._present())

    def rewind(self, step: int) -> None:
        """Delete every checkpoint after ``step``; a resumed run will write them again."""
        self._clean_up()
        for later, path in self._present().items():
            if later > step:
                self._drop(path)

    def _present(self) -> dict[int, Path]:
        """Map steps to folders. While a checkpoint is being replaced, its old folder is used."""
        if not self.folder.is_dir():
            return {}
        found: dict[int, Path] = {}
        for pattern in (_REPLACED, _STEP):
            for path in self.folder.iterdir():
                if (match := pattern.fullmatch(path.name)) and path.is_dir():
                    found[int(match[1])] = path
        return found

    def _open_intact(self, path: Path) -> Checkpoint | None:
        try:
            return _open(path)
        except DamagedCheckpoint as error:
            self.skipped.append(f"{path.name}: {error}")
            log.warning("the checkpoint %s is damaged and was skipped: %s", path, error)
            return None

    def _manifests(self) -> dict[int, Manifest]:
        """Read the manifests of checkpoints whose files all have the right size; hashes are not computed."""
        found: dict[int, Manifest] = {}
        for step, path in self._present().items():
            try:
                manifest = manifests.read(path)
                manifests.check(path, manifest, hashes=False)
            except DamagedCheckpoint:
                continue
            found[step] = manifest
        return found

    def _rank(self, scored: tuple[float, int]) -> tuple[float, int]:
        score, step = scored
        return (-score if self.best_mode == "max" else score), step

    def _move_into_place(self, temporary: Path, step: int) -> None:
        target = self.folder / _name(step)
        if target.exists():
            replaced = self.folder / f".replaced-{target.name}"
            target.rename(replaced)
            temporary.rename(target)
            manifests.sync_folder(self.folder)
            _remove(replaced)
            return
        temporary.rename(target)
        manifests.sync_folder(self.folder)

    def _prune(self) -> None:
        """Delete all but the newest ``keep_last`` intact checkpoints and the best one; damaged ones are deleted too."""
        intact = self._manifests()
        keep = set(sorted(intact)[-self.keep_last :])
        scored = [(manifest.score, step) for step, manifest in intact.items() if manifest.score is not None]
        if scored:
            keep.add(min(scored, key=self._rank)[1])
        for step, path in self._present().items():
            if step not in keep:
                self._drop(path)

    def _drop(self, path: Path) -> None:
        """Rename a checkpoint, then delete it; if the process dies in between, the leftovers are deleted later."""
        dropped = self.folder / f".dropping-{path.name}"
        path.rename(dropped)
        _remove(dropped)

    def _clean_up(self) -> None:
        """Complete interrupted replacements and delete the leftovers of killed processes."""
        if not self.folder.is_dir():
            return
        for path in list(self.folder.iterdir()):
            if match := _REPLACED.fullmatch(path.name):
                target = self.folder / _name(int(match[1]))
                if target.exists():
                    _remove(path)
                else:
                    path.rename(target)
            elif path.name.startswith((".writing-", ".dropping-")):
                _remove(path)


def _remove(path: Path) -> None:
    """Delete a folder with its contents; if the path is a link, delete only the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _open(path: Path) -> Checkpoint:
    manifest = manifests.read(path)
    try:
        manifests.check(path, manifest, hashes=True)
        state = from_json((path / _STATE).read_text(encoding="utf-8"))
    except OSError as error:
        raise DamagedCheckpoint(f"cannot be read ({error})") from error
    return Checkpoint(path, manifest.step, manifest.score, state)


def _name(step: int) -> str:
    return f"step-{step:08d}"


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise CheckpointError(
            f"a part of a checkpoint cannot be named {name!r}; use letters, digits, - and _ "
            "(state and manifest are reserved)"
        )
    return name


def _finite(score: float | None) -> float | None:
    """Return the score, or None if it is not finite and cannot be ranked."""
    return None if score is None or not math.isfinite(score) else float(score)
