"""Checkpoints on a file system: written beside, sealed by a manifest, renamed into place.

A store's folder holds ``step-00000120/`` and so on, each with the folders its writers filled (``model/``, ...), one
safetensors file per tensor tree (``optimiser.safetensors``), ``state.json`` and ``manifest.json``. Names that begin
with a dot are work in progress. A kill at any instant leaves every finished checkpoint whole.

One process writes to a store; others may read it meanwhile (reading never changes anything on disk).
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
from steelyard.checkpoint.manifest import Manifest, Torn
from steelyard.checkpoint.tensors import Tree, from_json, load_tree, save_tree, to_json
from steelyard.defaults import BEST_MODE, KEEP_LAST
from steelyard.errors import CheckpointError

log = logging.getLogger(__name__)

Writer = Callable[[Path], object]
"""Fills an empty folder, for instance ``policy.save_pretrained``."""

_STATE = "state.json"
_STEP = re.compile(r"step-(\d{8,})")
_REPLACED = re.compile(r"\.replaced-step-(\d{8,})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_RESERVED = frozenset({"state", "manifest"})


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint: its manifest was found and every file matched it."""

    path: Path
    step: int
    """Optimiser steps done when it was written."""
    score: float | None
    """The chosen metric at that step, None if it was not measured."""
    state: dict[str, Any]

    def tensors(self, name: str) -> Tree:
        """The tree saved under this name (an optimiser's state dict, say), on the CPU."""
        path = self.path / f"{_safe(name)}.safetensors"
        if not path.is_file():
            raise CheckpointError(f"{self.path} holds no tensors named {name!r}; it holds {self._held('.safetensors')}")
        return load_tree(path)

    def folder(self, name: str) -> Path:
        """The folder a writer of this name filled; ``folder("model")`` opens with plain ``from_pretrained``."""
        path = self.path / _safe(name)
        if not path.is_dir():
            raise CheckpointError(f"{self.path} holds no folder named {name!r}")
        return path

    def has(self, name: str) -> bool:
        """Whether a folder or a tensor tree of this name was saved."""
        return (self.path / _safe(name)).is_dir() or (self.path / f"{name}.safetensors").is_file()

    def _held(self, suffix: str) -> str:
        return ", ".join(sorted(path.stem for path in self.path.glob(f"*{suffix}"))) or "none"


def open_checkpoint(path: Path) -> Checkpoint:
    """Open one checkpoint by its folder, every file checked against the manifest."""
    try:
        return _open(path)
    except Torn as torn:
        raise CheckpointError(f"{path} is not a whole checkpoint: {torn}; use another one of its run") from torn


class Store:
    """The last ``keep_last`` checkpoints of a run and the best one by score."""

    def __init__(
        self, folder: Path, *, keep_last: int = KEEP_LAST, best_mode: Literal["max", "min"] = BEST_MODE
    ) -> None:
        if keep_last < 1:
            raise CheckpointError(
                f"keep_last is {keep_last}; at least the newest checkpoint must be kept: use 1 or more"
            )
        self.folder = Path(folder)
        self.keep_last = keep_last
        self.best_mode: Literal["max", "min"] = best_mode
        self.skipped: list[str] = []
        """Torn checkpoints passed over by the last :meth:`latest` or :meth:`best`, with the reason."""

    def save(
        self,
        step: int,
        *,
        folders: Mapping[str, Writer] | None = None,
        tensors: Mapping[str, Tree] | None = None,
        state: Mapping[str, Any] | None = None,
        score: float | None = None,
    ) -> Path:
        """Write the run state after ``step`` steps, then drop what need not be kept. Returns the folder.

        ``folders`` are filled by callbacks, ``tensors`` are nested state dicts, ``state`` is plain data (JSON).
        Saving a step again replaces it.
        """
        beside = self.folder / f".writing-{_name(step)}"
        try:
            self._tidy()
            beside.mkdir(parents=True)
            for name, write in (folders or {}).items():
                target = beside / _safe(name)
                target.mkdir()
                write(target)
            for name, tree in (tensors or {}).items():
                save_tree(beside / f"{_safe(name)}.safetensors", tree)
            (beside / _STATE).write_text(to_json(dict(state or {}), what=_STATE), encoding="utf-8")
            manifests.seal(beside, step=step, score=_finite(score))
            self._place(beside, step)
            self._prune()
        except (OSError, SafetensorError) as error:
            shutil.rmtree(beside, ignore_errors=True)  # it may hold the last free space of the disk
            kept = ", ".join(map(str, self.steps())) or "none"
            raise CheckpointError(
                f"the checkpoint of step {step} could not be written to {self.folder}: {error}. Free space there or "
                f"make it writable, then resume; checkpoints that are there: {kept}"
            ) from error
        return self.folder / _name(step)

    def latest(self) -> Checkpoint | None:
        """The newest whole checkpoint. Torn ones are passed over, logged, and listed in ``skipped``."""
        self.skipped = []
        for _, path in sorted(self._present().items(), reverse=True):
            if found := self._whole(path):
                return found
        return None

    def best(self) -> Checkpoint | None:
        """The whole checkpoint with the best score (the earliest of equals), or None if none has a score."""
        self.skipped = []
        scored = [(manifest.score, step) for step, manifest in self._manifests().items() if manifest.score is not None]
        for _, step in sorted(scored, key=self._rank):
            if found := self._whole(self._present()[step]):
                return found
        return None

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, torn or whole, in rising order."""
        return sorted(self._present())

    def rewind(self, step: int) -> None:
        """Drop every checkpoint after ``step``: the run goes on from there and will write them anew."""
        self._tidy()
        for later, path in self._present().items():
            if later > step:
                self._drop(path)

    def _present(self) -> dict[int, Path]:
        """Step → folder. A replaced one counts while its successor is not yet in place."""
        if not self.folder.is_dir():
            return {}
        found: dict[int, Path] = {}
        for pattern in (_REPLACED, _STEP):
            for path in self.folder.iterdir():
                if (match := pattern.fullmatch(path.name)) and path.is_dir():
                    found[int(match[1])] = path
        return found

    def _whole(self, path: Path) -> Checkpoint | None:
        try:
            return _open(path)
        except Torn as torn:
            self.skipped.append(f"{path.name}: {torn}")
            log.warning("checkpoint %s is torn and passed over: %s", path, torn)
            return None

    def _manifests(self) -> dict[int, Manifest]:
        """Manifests of the checkpoints whose files are all there with the right size (hashes not computed)."""
        found: dict[int, Manifest] = {}
        for step, path in self._present().items():
            try:
                manifest = manifests.read(path)
                manifests.check(path, manifest, hashes=False)
            except Torn:
                continue
            found[step] = manifest
        return found

    def _rank(self, scored: tuple[float, int]) -> tuple[float, int]:
        score, step = scored
        return (-score if self.best_mode == "max" else score), step

    def _place(self, beside: Path, step: int) -> None:
        target = self.folder / _name(step)
        if target.exists():
            replaced = self.folder / f".replaced-{target.name}"
            target.rename(replaced)
            beside.rename(target)
            manifests.sync_folder(self.folder)
            _remove(replaced)
            return
        beside.rename(target)
        manifests.sync_folder(self.folder)

    def _prune(self) -> None:
        """Keep the newest ``keep_last`` and the best; torn ones do not count and go."""
        whole = self._manifests()
        keep = set(sorted(whole)[-self.keep_last :])
        scored = [(manifest.score, step) for step, manifest in whole.items() if manifest.score is not None]
        if scored:
            keep.add(min(scored, key=self._rank)[1])
        for step, path in self._present().items():
            if step not in keep:
                self._drop(path)

    def _drop(self, path: Path) -> None:
        """Rename first, so that a kill half-way leaves rubbish by name and not a torn checkpoint."""
        dropped = self.folder / f".dropping-{path.name}"
        path.rename(dropped)
        _remove(dropped)

    def _tidy(self) -> None:
        """Finish or clear what a killed process left behind."""
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
    """A folder with all that is in it; of a link only the link."""
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
        raise Torn(f"cannot be read ({error})") from error
    return Checkpoint(path, manifest.step, manifest.score, state)


def _name(step: int) -> str:
    return f"step-{step:08d}"


def _safe(name: str) -> str:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise CheckpointError(
            f"{name!r} cannot name a part of a checkpoint; use letters, digits, - and _, and neither state nor manifest"
        )
    return name


def _finite(score: float | None) -> float | None:
    """A score that is not a number ranks nowhere."""
    return None if score is None or not math.isfinite(score) else float(score)
