"""A damaged checkpoint is detected and reported, and the previous one is used."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from steelyard.checkpoint import Store, open_checkpoint
from steelyard.errors import CheckpointError

FILES = ("model/config.json", "model/weights.bin", "optimiser.safetensors", "state.json", "manifest.json")


def write_model(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "tiny"}')
    (folder / "weights.bin").write_bytes(random.Random(0).randbytes(5000))


def saved(folder: Path, *steps: int) -> Store:
    store = Store(folder, keep_last=len(steps))
    for step in steps:
        store.save(
            step, folders={"model": write_model}, tensors={"optimiser": {"x": torch.ones(50)}}, state={"n": step}
        )
    return store


def truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def cut_one_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def zero_the_tail(path: Path) -> None:
    """Simulate a power cut: the length is right, but the last block was never written."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def delete(path: Path) -> None:
    path.unlink()


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = [truncate, cut_one_byte, empty, flip_a_bit, zero_the_tail, delete, make_a_folder]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGE)
def test_the_previous_checkpoint_is_used(
    damage: Callable[[Path], None], name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = saved(tmp_path, 10, 20)
    damage(tmp_path / "step-00000020" / name)
    with caplog.at_level(logging.WARNING):
        checkpoint = store.latest()
    assert checkpoint is not None
    assert (checkpoint.step, checkpoint.state) == (10, {"n": 10})
    assert len(store.skipped) == 1
    assert store.skipped[0].startswith("step-00000020: ")
    assert Path(name).name in store.skipped[0]
    assert "step-00000020" in caplog.text
    with pytest.raises(CheckpointError, match=r"step-00000020 is damaged.*another checkpoint"):
        open_checkpoint(tmp_path / "step-00000020")


def test_every_flipped_byte_of_the_manifest_is_detected(tmp_path: Path) -> None:
    store = saved(tmp_path, 10)
    path = tmp_path / "step-00000010" / "manifest.json"
    original = path.read_bytes()
    for position in range(len(original)):
        data = bytearray(original)
        data[position] ^= 0x04
        path.write_bytes(bytes(data))
        found = store.latest()
        # Whitespace changes are harmless: the content is the same.
        assert found is None or json.loads(bytes(data)) == json.loads(original), (position, chr(original[position]))


def test_with_only_damaged_checkpoints_the_latest_is_none_and_all_reasons_are_listed(tmp_path: Path) -> None:
    store = saved(tmp_path, 10, 20, 30)
    for step in (10, 20, 30):
        delete(tmp_path / f"step-000000{step}" / "state.json")
    assert store.latest() is None
    assert [line.split(":")[0] for line in store.skipped] == ["step-00000030", "step-00000020", "step-00000010"]


def test_skipped_lists_only_the_last_search(tmp_path: Path) -> None:
    store = saved(tmp_path, 10, 20)
    delete(tmp_path / "step-00000020" / "state.json")
    store.latest()
    shutil.rmtree(tmp_path / "step-00000020")
    store.latest()
    assert store.skipped == []


def test_if_the_best_checkpoint_is_damaged_the_next_best_is_used(tmp_path: Path) -> None:
    store = Store(tmp_path, keep_last=5)
    for step, score in ((1, 0.2), (2, 0.9), (3, 0.5)):
        store.save(step, state={"n": step}, score=score)
    flip_a_bit(tmp_path / "step-00000002" / "state.json")
    best = store.best()
    assert best is not None
    assert best.step == 3
    assert len(store.skipped) == 1


def test_damaged_checkpoints_do_not_count_towards_keep_last(tmp_path: Path) -> None:
    store = saved(tmp_path, 10, 20)
    delete(tmp_path / "step-00000020" / "manifest.json")
    store.save(30, state={})
    assert store.steps() == [10, 30], "10 is the second newest intact one; the damaged 20 was deleted"


def test_a_damaged_step_is_written_again(tmp_path: Path) -> None:
    store = saved(tmp_path, 10, 20)
    truncate(tmp_path / "step-00000020" / "model" / "weights.bin")
    store.save(20, state={"again": True})
    found = store.latest()
    assert found is not None
    assert (found.step, found.state) == (20, {"again": True})


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a/../../b"])
def test_a_manifest_cannot_point_outside(name: str, tmp_path: Path) -> None:
    from steelyard.checkpoint import manifest as manifests

    saved(tmp_path, 10)
    folder = tmp_path / "step-00000010"
    forged = manifests.Manifest(10, None, {name: manifests.FileEntry(0, "")})
    (folder / "manifest.json").write_text(manifests._dump(forged))
    with pytest.raises(CheckpointError, match="not a path inside"):
        open_checkpoint(folder)


def test_a_newer_format_is_not_treated_as_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.checkpoint import manifest as manifests

    monkeypatch.setattr(manifests, "FORMAT", 2)
    store = saved(tmp_path, 10)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"checkpoint format 2 .*reads format 1"):
        store.latest()


class Killed(BaseException):
    """Simulates a kill between two of the store's system calls."""


def _die_at(monkeypatch: pytest.MonkeyPatch, call: int) -> list[str]:
    """Make the store raise just before its ``call``-th rename or removal."""
    done: list[str] = []
    rename, rmtree = Path.rename, shutil.rmtree

    def counted(action: Callable[..., object]) -> Callable[..., object]:
        def act(*args: object, **kwargs: object) -> object:
            if len(done) == call:
                raise Killed
            done.append(action.__name__)
            return action(*args, **kwargs)

        return act

    monkeypatch.setattr(Path, "rename", counted(rename))
    monkeypatch.setattr(shutil, "rmtree", counted(rmtree))
    return done


@pytest.mark.parametrize("again", [False, True], ids=["a new step", "the same step again"])
@pytest.mark.parametrize("call", range(4))
def test_a_kill_between_any_two_changes_leaves_an_intact_checkpoint(
    call: int, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, keep_last=1)
    store.save(10, state={"n": 10})
    step = 10 if again else 20
    _die_at(monkeypatch, call)
    died = False
    try:
        store.save(step, state={"n": step, "second": True})
    except Killed:
        died = True
    monkeypatch.undo()
    assert died == (call < 3)

    found = Store(tmp_path, keep_last=1).latest()
    assert found is not None
    assert found.state in ({"n": 10}, {"n": step, "second": True})
    store = Store(tmp_path, keep_last=1)
    store.save(30, state={"n": 30})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000030"]


def test_a_second_kill_in_a_row_keeps_the_checkpoint_that_the_first_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, keep_last=1)
    store.save(10, state={"n": 10})
    _die_at(monkeypatch, 1)  # the old step 10 has been renamed, but the new one has not
    with pytest.raises(Killed):
        store.save(10, state={"second": True})
    monkeypatch.undo()

    def die(_: Path) -> None:
        raise Killed

    with pytest.raises(Killed):
        Store(tmp_path, keep_last=1).save(20, folders={"model": die})
    found = Store(tmp_path, keep_last=1).latest()
    assert found is not None
    assert found.state == {"n": 10}
