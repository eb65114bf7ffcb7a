"""Measure configurations for the ``plan`` benchmark: seconds per phase and peak memory, as JSON.

``python -m benchmarks.scale.plan_measurements CASES_JSON``. Torch uses one thread per core of the process. On one core,
phases are measured in CPU time, which is hardly affected by other load on the machine; steps whose verifier waits are
measured in wall-clock time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.framework.process import peak_memory, resident_memory
from steelyard.types import Task

WORDS = 197
"""Number of words in the closed vocabulary; with the three special tokens, there are 200 tokens."""


@dataclass(frozen=True)
class Case:
    """A model and the size of its steps. Every completion has its full length."""

    name: str
    layers: int = 4
    width: int = 128
    rows: int = 32
    """Samples per step, all in one group."""
    wave: int = 0
    """Number of samples decoded at the same time; 0 means all."""
    prompt: int = 12
    tokens: int = 48
    rank: int = 0
    kl: float = 0.0
    words: int = WORDS
    check: float = 0.0
    """Verifier seconds per sample: spent waiting in worker processes, or computing in the training process."""
    workers: int = 0
    """Worker processes for verification; 0 means in the training process."""
    model: str = ""
    """Folder of a pretrained model, used instead of one from scratch."""
    dtype: str = "float32"
    steps: int = 3
    checkpointing: bool = False

    @property
    def heads(self) -> int:
        return max(self.width // 32, 1)

    @property
    def kv_heads(self) -> int:
        return self.heads // 2 if self.heads % 2 == 0 else 1


TINY = Case("tiny", layers=1, width=32, rows=4, tokens=4, kl=0.05, steps=1)
"""One step of this case loads all lazy imports, so they do not count towards the memory of the measured step."""


def check(task: Task, text: str) -> float:
    """Wait or compute for the seconds given by the task; the reward differs between samples."""
    seconds = float(task.spec["seconds"])
    if task.spec["waits"]:
        time.sleep(seconds)
    end = time.process_time() + seconds
    while not task.spec["waits"] and time.process_time() < end:
        pass
    return float(len(text) % 7)


def tables(case: Case, scratch: str) -> dict[str, Any]:
    """Return the configuration of the run."""
    model: dict[str, Any] = {
        "device": "cpu",
        "dtype": case.dtype,
        "threads": cores(),
        "gradient_checkpointing": case.checkpointing,
    }
    if case.model:
        model["path"] = case.model
    else:
        model["scratch"] = {
            "layers": case.layers,
            "width": case.width,
            "heads": case.heads,
            "kv_heads": case.kv_heads,
            "max_length": case.prompt + case.tokens + 8,
            "vocabulary": [f"w{number}" for number in range(case.words)],
        }
    if case.rank:
        model["lora"] = {"rank": case.rank}
    return {
        "run": {"folder": scratch, "steps": case.steps, "supplied": ["tasks", "verifier"]},
        "model": model,
        "sampling": {
            "tasks_per_step": 1,
            "group_size": case.rows,
            "max_new_tokens": case.tokens,
            "max_rows": case.wave or case.rows,
        },
        "loss": {"kl": {"coefficient": case.kl}},
        "optimiser": {"name": "adamw_fused"},
        "verify": {"pool": "processes", "workers": case.workers} if case.workers else {"pool": "inline"},
        "checkpoint": {"every": 0},
        "tracking": {"console": False},
    }


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def clock() -> float:
    """Return the time in seconds: this process's CPU time if it has one core, otherwise wall-clock time."""
    return time.process_time() if cores() == 1 else time.perf_counter()


class RunningCase:
    """The trainer for a case, and the measured seconds of each step."""

    def __init__(self, case: Case, scratch: str) -> None:
        from steelyard import config as configs
        from steelyard.compose import Supplied, build_trainer
        from steelyard.data.sources import as_source
        from steelyard.policies.causal import CausalPolicy

        class Endless(CausalPolicy):
            """Samples end only at their maximum length."""

            end_ids = ()  # type: ignore[assignment]

        self.case = case
        self.words = "the " * case.prompt if case.model else " ".join(f"w{n % case.words}" for n in range(case.prompt))
        source = as_source([{"prompt": self.words, "seconds": case.check, "waits": case.workers > 0}], shuffle=False)
        config = configs.build(tables(case, scratch), source="benchmark")
        self.trainer = build_trainer(config, Supplied(tasks=source, verifier=check))
        self.trainer.policy.__class__ = Endless
        self.now = time.perf_counter if case.workers else clock
        self.spent = {"score": 0.0, "update": 0.0}
        self.trainer.learner.score = self._timed(self.trainer.learner.score, "score")
        self.trainer.learner.update = self._timed(self.trainer.learner.update, "update")
        self.found: list[dict[str, float]] = []

    def step(self) -> None:
        self.spent.update(score=0.0, update=0.0)
        began = self.now()
        self.trainer.train_step()
        step = self.now() - began
        self.found.append({**self.spent, "step": step, "sample": step - self.spent["score"] - self.spent["update"]})

    def _timed(self, function: Any, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            began = self.now()
            try:
                return function(*arguments)
            finally:
                self.spent[name] += self.now() - began

        return call

    def result(self) -> dict[str, float]:
        """Return the fastest step after the warm-up step, and the sizes the prediction needs."""
        later = self.found[1:]
        fastest = min(later, key=lambda step: step["step"])
        return {
            **fastest,
            "spread": max(step["step"] for step in later) - fastest["step"],
            "prompt": len(self.trainer.policy.encode(self.words)),
            "microbatch": self.trainer.learner.rule.microbatch_tokens,
            "chunk": self.trainer.policy.chunk,
        }


def run(cases: Sequence[Case]) -> list[dict[str, float]]:
    """Run the cases round-robin, one step each, so that if the machine slows down, all cases are affected equally."""
    import peft  # noqa: F401
    import transformers.models.llama.modeling_llama  # noqa: F401

    baseline = resident_memory()
    with tempfile.TemporaryDirectory() as scratch:
        running: list[RunningCase] = []
        try:
            running.extend(RunningCase(case, f"{scratch}/{number}") for number, case in enumerate(cases))
            for _ in range(1 + max(case.steps for case in cases)):
                for one in running:
                    one.step()
            return [{**one.result(), "memory": peak_memory() - baseline} for one in running]
        finally:
            for one in running:
                one.trainer.parts.pool.close()


if __name__ == "__main__":
    chosen = [Case(**case) for case in json.loads(sys.argv[1])]
    run([replace(TINY, rank=chosen[0].rank, dtype=chosen[0].dtype)])
    print(json.dumps(run(chosen)))
