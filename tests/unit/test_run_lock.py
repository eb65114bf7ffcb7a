"""One process per run folder: the kernel holds the lock, and a moved folder is detected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.errors import CheckpointError
from steelyard.folders import LOCK, RunLock
from tests.tiny import tiny_trainer

HOLD = """
import sys, time
from pathlib import Path
from steelyard.folders import RunLock
lock = RunLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_a_second_process_is_rejected_and_a_killed_owner_leaves_no_lock(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "held\n"
            with pytest.raises(CheckpointError, match=rf"being trained by process {owner.pid} on .*--run\.name"):
                RunLock(folder)
        finally:
            owner.kill()
    RunLock(folder).close()


def test_children_do_not_hold_the_lock(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            lock.close()
            RunLock(tmp_path).close()
        finally:
            child.kill()


def test_a_folder_that_never_became_a_run_is_removed(tmp_path: Path) -> None:
    with RunLock(tmp_path / "runs" / "new"):
        assert (tmp_path / "runs" / "new" / LOCK).is_file()
    assert not (tmp_path / "runs" / "new").exists()
    with RunLock(tmp_path / "kept"):
        (tmp_path / "kept" / "config.toml").touch()
    assert (tmp_path / "kept" / "config.toml").is_file()


def test_moving_or_deleting_the_folder_is_detected(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with RunLock(folder) as lock:
        (folder / "config.toml").touch()
        lock.require_in_place()
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(CheckpointError, match=r"moved to .*elsewhere.*--resume"):
            lock.require_in_place()
        folder.mkdir()
        (folder / LOCK).touch()  # another run has taken its place
        with pytest.raises(CheckpointError, match="moved"):
            lock.require_in_place()
        (tmp_path / "elsewhere" / LOCK).unlink()
        with pytest.raises(CheckpointError, match="deleted"):
            lock.require_in_place()


def test_the_loop_writes_nothing_after_its_folder_moved(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path / "run", steps=3, show_every=1)

    def gone() -> None:
        if trainer.step == 2:
            raise CheckpointError("moved")

    trainer.before_writing = gone
    with pytest.raises(CheckpointError, match="moved"):
        trainer.train()
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count("\n") == 1
    assert not (tmp_path / "run" / "artifacts" / "samples-00000002.md").exists()
