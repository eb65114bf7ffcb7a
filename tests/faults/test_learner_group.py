"""A learner with two real ranks: a complete run on Ray, and the loss of a rank."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.scale import learner_ranks
from benchmarks.scale.learner_ranks import Case
from steelyard import compose
from steelyard import config as configs
from steelyard.cluster.connection import Connection
from steelyard.errors import CheckpointError, TrainingError
from steelyard.tracking import read_metrics
from steelyard.training.loop import Trainer

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def cluster() -> Iterator[Connection]:
    connection = Connection()
    yield connection
    connection.close()


def config_of(folder: Path, steps: int, learners: dict[str, Any] | None, **model: Any) -> configs.Config:
    small = {"layers": 1, "width": 32, "heads": 2, "kv_heads": 1, "max_length": 32}
    return configs.build(
        {
            "run": {"folder": str(folder), "name": "run", "steps": steps},
            "model": {"scratch": small, "device": "cpu", "threads": 1, **model},
            "domain": {"name": "sequences"},
            "verify": {"pool": "inline"},
            "sampling": {"tasks_per_step": 3, "group_size": 4, "max_new_tokens": 4},
            "loss": {"kl": {"coefficient": 0.05, "adaptive": {"target": 0.01, "horizon": 100}}},
            "reference": {"mode": "ema", "ema_decay": 0.9},
            "optimiser": {"lr": 3e-3, "minibatches": 2, "microbatch_tokens": 40},
            "checkpoint": {"every": 2},
            "tracking": {"console": False},
            "cluster": {} if learners is None else {"learners": learners},
        },
        source="test",
    )


def rows_of(trainer: Trainer) -> list[dict[str, Any]]:
    rows = read_metrics(trainer.store.folder.parent / "metrics.jsonl")
    return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows]


def weights_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in trainer.policy.model.named_parameters()}


@pytest.mark.usefixtures("cluster")
def test_a_run_on_ray_ranks_matches_a_single_process_and_resumes_exactly(tmp_path: Path) -> None:
    alone = compose.start_run(config_of(tmp_path / "alone", 4, None))
    alone.train()
    config = config_of(tmp_path / "group", 4, {"ranks": 2, "sharding": "fsdp"})
    complete = compose.start_run(config)
    try:
        complete.train()
        rows, last = rows_of(complete), weights_of(complete)
        with pytest.raises(CheckpointError, match="without"):
            complete.learner.restore(alone.store.latest())  # type: ignore[arg-type]
        os.kill(complete.learner.processes[1], signal.SIGKILL)  # type: ignore[attr-defined]
        for _ in range(2):
            with pytest.raises(TrainingError, match=r"rank 1 was lost.*checkpoint"):
                complete.train_step()
    finally:
        complete.learner.close()
    complete.store.rewind(2)
    again = compose.resume_run(config)
    try:
        again.train()
    finally:
        again.learner.close()
    assert again.step == 4
    assert rows_of(again) == rows
    assert all(torch.equal(tensor, last[name]) for name, tensor in weights_of(again).items())
    for one, two in zip(rows_of(alone), rows, strict=True):
        assert one.keys() == two.keys()
        assert all(
            np.allclose(one[name], two[name], rtol=1e-3, atol=1e-5) for name in one if name != "reward/histogram"
        )
    with pytest.raises(CheckpointError, match="group"):
        alone.learner.restore(complete.store.latest())  # type: ignore[arg-type]


CASES = [Case("fsdp", True, "8-bit AdamW"), Case("fsdp", False, "AdamW")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_two_ranks_match_one_process(case: Case, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    outcome = learner_ranks.compare(case, tmp_path)
    assert outcome.distance < learner_ranks.BAR
    assert outcome.metrics < learner_ranks.BAR
    assert (outcome.resumed, outcome.on_one, outcome.exported) == (0, 0, 0)
    assert outcome.control > 100 * learner_ranks.BAR
