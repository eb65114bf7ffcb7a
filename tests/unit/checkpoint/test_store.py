"""Which checkpoints a store keeps, finds and rejects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from steelyard.checkpoint import Checkpoint, Store, open_checkpoint
from steelyard.errors import CheckpointError


def write_model(folder: Path) -> None:
    (folder / "nested").mkdir()
    (folder / "config.json").write_text('{"model_type": "tiny"}')
    (folder / "nested" / "weights.bin").write_bytes(bytes(range(256)) * 8)


def save(store: Store, step: int, score: float | None = None) -> Path:
    return store.save(
        step,
        folders={"model": write_model},
        tensors={"optimiser": {"state": {0: {"exp_avg": torch.full((3,), float(step))}}}},
        state={"step": step, "lr": 0.1},
        score=score,
    )


def found(checkpoint: Checkpoint | None) -> Checkpoint:
    assert checkpoint is not None
    return checkpoint


def test_a_saved_checkpoint_can_be_loaded(tmp_path: Path) -> None:
    path = save(Store(tmp_path), 120, score=0.5)
    assert path == tmp_path / "step-00000120"
    checkpoint = found(Store(tmp_path).latest())
    assert (checkpoint.step, checkpoint.score, checkpoint.state) == (120, 0.5, {"step": 120, "lr": 0.1})
    assert checkpoint.tensors("optimiser")["state"][0]["exp_avg"].tolist() == [120.0] * 3
    assert (checkpoint.folder("model") / "nested" / "weights.bin").read_bytes() == bytes(range(256)) * 8
    assert checkpoint.has("model")
    assert checkpoint.has("optimiser")
    assert not checkpoint.has("reference")
    assert open_checkpoint(path) == checkpoint


def test_an_empty_or_missing_folder_has_no_checkpoint(tmp_path: Path) -> None:
    store = Store(tmp_path / "none")
    assert store.latest() is None
    assert store.best() is None
    assert store.steps() == []
    store.rewind(3)
    assert not (tmp_path / "none").exists()


def test_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path, keep_last=3)
    for step in range(10, 70, 10):
        save(store, step)
    assert store.steps() == [40, 50, 60]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-{step:08d}" for step in (40, 50, 60)]


@pytest.mark.parametrize(("mode", "best"), [("max", 20), ("min", 40)])
def test_the_best_checkpoint_is_kept_too(mode: str, best: int, tmp_path: Path) -> None:
    store = Store(tmp_path, keep_last=1, best_mode=mode)  # type: ignore[arg-type]
    scores = {10: 0.3, 20: 0.9, 30: None, 40: 0.1, 50: float("nan"), 60: 0.9, 70: 0.1, 80: 0.5}
    for step, score in scores.items():
        save(store, step, score)
    assert store.steps() == [best, 80]
    assert found(store.best()).step == best, "the earliest if tied"
    assert found(store.latest()).step == 80


def test_without_a_finite_score_there_is_no_best_checkpoint(tmp_path: Path) -> None:
    store = Store(tmp_path)
    save(store, 1, None)
    save(store, 2, float("inf"))
    assert store.best() is None


def test_a_higher_score_replaces_the_best_checkpoint(tmp_path: Path) -> None:
    store = Store(tmp_path, keep_last=1)
    for step, score in enumerate([0.1, 0.5, 0.4, 0.8, 0.2], start=1):
        save(store, step, score)
    assert store.steps() == [4, 5]


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    store = Store(tmp_path, keep_last=1)
    save(store, 5)
    store.save(5, state={"second": True})
    assert found(store.latest()).state == {"second": True}
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000005"]


def test_rewind_deletes_later_checkpoints(tmp_path: Path) -> None:
    store = Store(tmp_path, keep_last=5)
    for step in (1, 2, 3, 4):
        save(store, step)
    store.rewind(2)
    assert store.steps() == [1, 2]


def test_a_failed_save_keeps_earlier_checkpoints_and_leaves_no_files(tmp_path: Path) -> None:
    store = Store(tmp_path)
    save(store, 1)

    def full(folder: Path) -> None:
        (folder / "half").write_bytes(b"half")
        raise OSError("disk full")

    with pytest.raises(CheckpointError, match=r"step 2 .*disk full.*resume.* 1$"):
        store.save(2, folders={"model": full})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"], "the disk space is freed"
    assert found(store.latest()).step == 1
    save(store, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000003"]


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".", "..", "/tmp", "state", "manifest", "a\\b", "c:x"])
def test_names_cannot_point_outside_the_checkpoint(name: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with pytest.raises(CheckpointError, match="cannot be named"):
        store.save(1, tensors={name: {"x": torch.zeros(1)}})
    with pytest.raises(CheckpointError, match="cannot be named"):
        store.save(1, folders={name: write_model})
    save(store, 1)
    checkpoint = found(store.latest())
    for method in (checkpoint.tensors, checkpoint.folder, checkpoint.has):
        with pytest.raises(CheckpointError, match="cannot be named"):
            method(name)


def test_a_missing_part_is_an_error_that_names_it(tmp_path: Path) -> None:
    save(Store(tmp_path), 1)
    checkpoint = found(Store(tmp_path).latest())
    with pytest.raises(CheckpointError, match=r"'ema'.*optimiser"):
        checkpoint.tensors("ema")
    with pytest.raises(CheckpointError, match="'reference'"):
        checkpoint.folder("reference")


def test_a_link_in_a_checkpoint_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")

    def link(folder: Path) -> None:
        (folder / "link").symlink_to(tmp_path / "outside")

    with pytest.raises(CheckpointError, match="links"):
        Store(tmp_path / "store").save(1, folders={"model": link})


def test_keep_last_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="keep_last = 0 must be at least 1"):
        Store(tmp_path, keep_last=0)


def test_every_file_and_folder_is_flushed_to_disk_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def recorded_fsync(descriptor: int) -> None:
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def recorded_rename(path: Path, target: Path) -> Path:
        events.append(f"rename {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(Path, "rename", recorded_rename)
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    save(Store(tmp_path / "store"), 7)
    renamed = events.index("rename step-00000007")
    files = {"config.json", "weights.bin", "optimiser.safetensors", "state.json", "manifest.json"}
    folders = {"model", "nested", ".writing-step-00000007"}
    assert set(events[:renamed]) == files | folders
    assert max(events.index(name) for name in files - {"manifest.json"}) < events.index("manifest.json")
    assert events[renamed + 1 :] == ["store"]


def test_reading_changes_nothing_on_disk(tmp_path: Path) -> None:
    store = Store(tmp_path)
    save(store, 1, 0.5)
    (tmp_path / ".writing-step-00000002").mkdir()
    Store(tmp_path).latest()
    Store(tmp_path).best()
    assert (tmp_path / ".writing-step-00000002").is_dir(), "another process may be writing it"


def test_the_model_folder_loads_with_plain_transformers(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=11,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
    )
    model = AutoModelForCausalLM.from_config(config)
    Store(tmp_path).save(1, folders={"model": model.save_pretrained})
    loaded = AutoModelForCausalLM.from_pretrained(found(Store(tmp_path).latest()).folder("model"))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "model/config.json", "model/unlisted"])
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "link"])
@pytest.mark.timeout(60)
def test_a_pipe_or_link_in_a_checkpoint_is_reported_without_blocking(tmp_path: Path, name: str, kind: str) -> None:
    store = Store(tmp_path / "checkpoints")
    save(store, 1)
    path = save(store, 2) / name
    content = path.read_bytes() if path.exists() else b""
    path.unlink(missing_ok=True)
    os.mkfifo(path if kind == "pipe" else tmp_path / "pipe")
    (tmp_path / "file").write_bytes(content)
    if kind != "pipe":
        path.symlink_to(tmp_path / ("pipe" if kind == "link to a pipe" else "file"))
    with pytest.raises(CheckpointError, match=f"{Path(name).name} is a (named pipe|symbolic link)"):
        open_checkpoint(tmp_path / "checkpoints" / "step-00000002")
    assert found(store.latest()).step == 1


def test_removing_a_link_keeps_its_target(tmp_path: Path) -> None:
    store = Store(tmp_path / "checkpoints", keep_last=1)
    save(store, 1).rename(tmp_path / "kept")
    (tmp_path / "checkpoints" / "step-00000001").symlink_to(tmp_path / "kept")
    (tmp_path / "checkpoints" / ".writing-step-00000009").symlink_to(tmp_path / "kept")
    save(store, 2)
    assert store.steps() == [2]
    assert (tmp_path / "kept" / "manifest.json").is_file()
