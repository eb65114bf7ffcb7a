"""A complete run on a local Ray cluster with learner ranks, a vLLM replica and a Ray pool, while actors are killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("ray")
pytest.importorskip("vllm", reason="vLLM is not installed (docs/vllm.md)")

from benchmarks.scale.cluster_faults import logged, processes
from steelyard import config as configs
from steelyard.compose import NOTHING_SUPPLIED
from steelyard.run import run

STEPS = 6
ON_CLUSTER = {
    "model.scratch.width": 128,
    "model.device": "cpu",
    "sampling.engine": "vllm",
    "sampling.vllm.cache_gib": 0.25,
    "sampling.tasks_per_step": 8,
    "cluster.samplers.replicas": 1,
    "cluster.samplers.cpus": 0.5,
    "cluster.learners.ranks": 2,
    "verify.pool": "ray",
    "verify.workers": 1,
    "evaluate.every": 0,
    "checkpoint.every": 1,
    "tracking.console": False,
}


def kill_in_turn(folder: Path, names: list[str], killed: list[str]) -> None:
    """After every logged step, kill one process of the next class."""
    for name in names:
        before = len(logged(folder))
        while len(logged(folder)) == before or not (found := processes(name)):
            time.sleep(0.1)
        os.kill(found[0], signal.SIGKILL)
        killed.append(name)


def test_a_run_on_a_cluster_survives_killed_actors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = configs.load("sequences", {"run.folder": str(tmp_path), "run.steps": STEPS, **ON_CLUSTER})
    folder, killed = tmp_path / config.run.name, list[str]()
    names = ["SamplerActor", "LearnerRank", "VerifierActor"]
    threading.Thread(target=kill_in_turn, args=(folder, names, killed), daemon=True).start()
    trainer = run(config, NOTHING_SUPPLIED, resume=False)
    assert killed == names
    assert trainer.step == STEPS
    rows = logged(folder)
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1)), "every step is logged exactly once"
    sizes = [(8 + float(str(row["groups/refilled"]))) * config.sampling.group_size for row in rows]
    assert [row["samples"] for row in rows] == sizes
    assert all(float(str(row["importance/log_abs_max"])) < 1e-3 for row in rows), "every sampler had the newest weights"
    for event in ("a sampler was lost", "the learner group has stopped: rank"):
        assert any(event in record.message for record in caplog.records), event
