"""A stopped and resumed run matches the uninterrupted one bit for bit: weights, optimiser state and metrics.

Everything runs in one process, with new objects after each stop, as in a new process.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from steelyard import compose
from steelyard import config as configs
from steelyard.checkpoint import flatten
from steelyard.training.loop import Trainer

STEPS = 5
KL = {"kl": {"coefficient": 0.05}}
LORA = {"lora": {"rank": 2, "alpha": 8}}
SCRATCH = {"layers": 2, "width": 32, "heads": 2, "kv_heads": 1, "max_length": 32}
MASKED: dict[str, dict[str, Any]] = {
    "model": {"kind": "masked", "scratch": {**SCRATCH, "max_length": 64, "spaced": False}},
    "domain": {"name": "infill", "options": {"max_length": 60, "max_holes": 6}},
}

RUNS: dict[str, dict[str, Any]] = {
    "full": {},
    "full, static copy": {"loss": KL},
    "full, copy on the CPU, exact KL": {
        "loss": {"kl": {"coefficient": 0.05, "estimator": "exact"}},
        "reference": {"device": "cpu"},
    },
    "full, EMA": {"loss": KL, "reference": {"mode": "ema", "ema_decay": 0.8}},
    "full, periodic": {"loss": KL, "reference": {"mode": "periodic", "every": 2}},
    "full, bfloat16, EMA": {"loss": KL, "reference": {"mode": "ema", "ema_decay": 0.8}, "model": {"dtype": "bfloat16"}},
    "full, bfloat16, master weights": {"model": {"dtype": "bfloat16"}, "optimiser": {"rounding": "master"}},
    "lora": {"model": LORA},
    "lora, adapter off": {"loss": KL, "model": LORA},
    "lora, second adapter": {"loss": KL, "model": LORA, "reference": {"storage": "adapter"}},
    "lora, second adapter, EMA": {"loss": KL, "model": LORA, "reference": {"mode": "ema", "ema_decay": 0.8}},
    "lora, second adapter, periodic": {"loss": KL, "model": LORA, "reference": {"mode": "periodic", "every": 2}},
    "lora, copy, periodic": {
        "loss": KL,
        "model": LORA,
        "reference": {"mode": "periodic", "every": 2, "storage": "copy"},
    },
    "dead groups refilled, adaptive KL in the reward, evaluation": {
        "loss": {
            "kl": {
                "coefficient": 0.05,
                "placement": "reward",
                "estimator": "k1",
                "adaptive": {"target": 0.001, "horizon": 50},
            }
        },
        "credit": {"refill_dead_groups": 2},
        "evaluate": {"every": 2, "tasks": 3},
    },
    "several updates, schedules, cuts": {
        "optimiser": {"epochs": 2, "minibatches": 2, "schedule": "cosine", "warmup_steps": 2},
        "sampling": {"temperature": 0.9, "top_k": 6, "top_p": 0.95},
    },
    "float16 with loss scaling": {"model": {"autocast": "float16"}},
    "8-bit AdamW": {"optimiser": {"name": "adamw_8bit"}, "model": {"scratch": {**SCRATCH, "width": 64}}},
    "fused AdamW": {"optimiser": {"name": "adamw_fused"}},
    "masked": {**MASKED},
    "masked, three steps, EMA, several updates, cuts, evaluation": {
        **MASKED,
        "loss": KL,
        "reference": {"mode": "ema", "ema_decay": 0.8},
        "sampling": {"fill_steps": 3, "temperature": 0.9, "top_p": 0.95},
        "optimiser": {"epochs": 2, "minibatches": 2},
        "evaluate": {"every": 2, "tasks": 3},
    },
    "masked, lora, second adapter": {
        **MASKED,
        "loss": KL,
        "model": {**MASKED["model"], **LORA},
        "reference": {"storage": "adapter"},
    },
    "masked, warm start and judge": {
        **MASKED,
        "warmstart": {"examples": 16, "batch": 8, "warmup_steps": 1},
        "judge": {"examples": 16, "batch": 8, "warmup_steps": 1},
    },
}


def config_of(tables: dict[str, Any], folder: Path, **checkpoint: Any) -> configs.Config:
    plain: dict[str, Any] = {
        "run": {"folder": str(folder.parent), "name": folder.name, "steps": STEPS, "seed": 3},
        "model": {"scratch": SCRATCH, "device": "cpu"},
        "domain": {"name": "sequences", "options": {"kinds": ["copy"], "symbols": 4}},
        "sampling": {"tasks_per_step": 3, "group_size": 4, "max_new_tokens": 6},
        "optimiser": {"lr": 3e-3, "microbatch_tokens": 40},
        "checkpoint": {"every": 0, "keep_last": 3, **checkpoint},
        "tracking": {"console": False, "samples_every": 2},
        "evaluate": {"every": 0},
    }
    for name, table in tables.items():
        plain[name] = {**({} if name == "domain" else plain.get(name, {})), **table}
    return configs.build(plain, source="test")


def started(config: configs.Config) -> Trainer:
    return compose.start_run(config)


def resumed(config: configs.Config) -> Trainer:
    return compose.resume_run(config)


def stop_after(trainer: Trainer, step: int) -> None:
    """Train and request a stop during this step, as a signal would."""
    observe = trainer.parts.source.observe

    def request_stop(groups: Any) -> None:
        observe(groups)
        if trainer.step == step:
            trainer.stopping = True

    trainer.parts.source.observe = request_stop  # type: ignore[method-assign]
    trainer.train()
    assert trainer.step == step


def bits(tree: Any) -> tuple[dict[str, bytes], str]:
    """Return the full content of a state dict: tensors as bytes, and the rest as text."""
    tensors, skeleton = flatten(tree)
    plain = {
        name: tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for name, tensor in tensors.items()
    }
    return plain, json.dumps(skeleton, sort_keys=True)


def outcome(trainer: Trainer, folder: Path) -> dict[str, Any]:
    """Return everything that must be equal at the end of two runs."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    rows = [{name: value for name, value in json.loads(line).items() if not name.startswith("time/")} for line in lines]
    reference = trainer.learner.reference
    return {
        "weights": bits(dict(trainer.policy.model.named_parameters())),
        "optimiser": bits(trainer.learner.optimiser.state_dict()),
        "reference": bits({} if reference is None else reference.tensors()),
        "learner": trainer.learner.state_dict(),
        "source": trainer.parts.source.state_dict(),
        "metrics": rows,
        "artifacts": {path.name: path.read_bytes() for path in sorted((folder / "artifacts").iterdir())},
        "step": trainer.step,
    }


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    for part, value in one.items():
        assert value == other[part], part


def uninterrupted_run(tables: dict[str, Any], folder: Path) -> dict[str, Any]:
    trainer = started(config_of(tables, folder))
    trainer.train()
    return outcome(trainer, folder)


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_equals_the_uninterrupted_one(name: str, tmp_path: Path) -> None:
    """The run stops after step 2 and again after step 3, and resumes with new objects each time."""
    if "8-bit" in name:
        pytest.importorskip("bitsandbytes")
    expected = uninterrupted_run(RUNS[name], tmp_path / "uninterrupted")
    config = config_of(RUNS[name], tmp_path / "parts")
    stop_after(started(config), 2)
    stop_after(resumed(config), 3)
    last = resumed(config)
    last.train()
    assert_same(expected, outcome(last, tmp_path / "parts"))
    rows = expected["metrics"]
    assert [row["step"] for row in rows if "loss" in row] == list(range(1, STEPS + 1))
    assert all(row["skipped"] == 0 for row in rows if "skipped" in row)
    if "refilled" in name:
        assert sum(row.get("groups/refilled", 0) for row in rows) > 0
        assert len({row["kl/coefficient"] for row in rows if "loss" in row}) == STEPS
    if "loss" in RUNS[name]:
        assert max(row.get("kl/k3", row.get("kl", 0.0)) for row in rows) > 1e-6, "the reference has an effect"


@pytest.mark.parametrize("name", ["full", "masked"])
def test_steps_after_the_checkpoint_are_repeated_and_logged_once(name: str, tmp_path: Path) -> None:
    """The run dies between two checkpoints; later metrics and samples are removed and written again."""
    expected = uninterrupted_run(RUNS[name], tmp_path / "uninterrupted")
    config = config_of(RUNS[name], tmp_path / "parts", every=2)
    trainer = started(config)
    trainer.settings = type(trainer.settings)(**{**_fields(trainer.settings), "steps": 4})
    trainer.train()
    trainer.step = 4
    trainer.tracker.log(5, {"loss": 123.0})  # step 5 was logged, then the run died
    shutil.rmtree(tmp_path / "parts" / "checkpoints" / "step-00000004")
    last = resumed(config_of(RUNS[name], tmp_path / "parts"))
    assert last.step == 2
    last.train()
    assert_same(expected, outcome(last, tmp_path / "parts"))


def _fields(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__slots__}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("model/model.safetensors", flip),
        ("optimiser.safetensors", truncate),
        ("state.json", Path.unlink),
        ("manifest.json", truncate),
    ],
)
def test_a_damaged_checkpoint_falls_back_to_the_previous_one(
    file: str, damage: Callable[[Path], None], tmp_path: Path, uninterrupted: tuple[str, dict[str, Any]]
) -> None:
    name, expected = uninterrupted
    config = config_of(RUNS[name], tmp_path / "parts", every=1)
    stop_after(started(config), 3)
    damage(tmp_path / "parts" / "checkpoints" / "step-00000003" / file)
    last = resumed(config)
    assert last.step == 2
    last.train()
    assert_same(expected, outcome(last, tmp_path / "parts"))


@pytest.fixture(scope="module", params=["full, EMA", "masked"])
def uninterrupted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any]]:
    """The name of a run and its outcome when it is not interrupted."""
    return request.param, uninterrupted_run(RUNS[request.param], tmp_path_factory.mktemp("runs") / "uninterrupted")


@pytest.mark.parametrize("name", ["full", "masked"])
def test_a_run_without_a_checkpoint_starts_over(name: str, tmp_path: Path) -> None:
    expected = uninterrupted_run(RUNS[name], tmp_path / "uninterrupted")
    config = config_of(RUNS[name], tmp_path / "parts")
    stop_after(started(config), 2)
    shutil.rmtree(tmp_path / "parts" / "checkpoints")
    last = resumed(config)
    assert last.step == 0
    last.train()
    assert_same(expected, outcome(last, tmp_path / "parts"))


def test_the_comparison_detects_a_difference(tmp_path: Path) -> None:
    """Control: a run with a different seed must have a different outcome."""
    one = uninterrupted_run(RUNS["full"], tmp_path / "a")
    other = started(
        config_of(
            {**RUNS["full"], "run": {"seed": 4, "folder": str(tmp_path), "name": "b", "steps": STEPS}}, tmp_path / "b"
        )
    )
    other.train()
    found = outcome(other, tmp_path / "b")
    for part in ("weights", "optimiser", "metrics"):
        assert one[part] != found[part]
