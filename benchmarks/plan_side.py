"""Configurations of the ``plan`` benchmark in this process: seconds of their phases and peak memory, as JSON.

``python -m benchmarks.plan_side CASES_JSON``. Torch has as many threads as the process has cores. On one core the
seconds are processor time, which other work on the machine hardly lengthens; steps whose checker waits are timed by the
clock on the wall.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.process import peak_memory, resident_memory
from steelyard.types import Task

WORDS = 197
"""Words of the closed vocabulary; with the three special ones there are 200."""


@dataclass(frozen=True)
class Case:
    """What is trained, and how much of it in a step. Every completion has its full length."""

    name: str
    layers: int = 4
    width: int = 128
    rows: int = 32
    """Samples a step, all of one group."""
    wave: int = 0
    """How many of them are decoded at once; 0: all."""
    prompt: int = 12
    tokens: int = 48
    rank: int = 0
    kl: float = 0.0
    words: int = WORDS
    check: float = 0.0
    """Seconds of the checker for a sample: it waits in processes of its own, and works in the training process."""
    workers: int = 0
    """Processes that check; 0: in the training process."""
    model: str = ""
    """Folder of a pretrained model instead."""
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
"""A step of it loads all that is loaded late, so that it is not counted as memory of the step."""


def check(task: Task, text: str) -> float:
    """Waits or works as long as the task says; differs between samples."""
    seconds = float(task.spec["seconds"])
    if task.spec["waits"]:
        time.sleep(seconds)
    end = time.process_time() + seconds
    while not task.spec["waits"] and time.process_time() < end:
        pass
    return float(len(text) % 7)


def tables(case: Case, scratch: str) -> dict[str, Any]:
    """The configuration of the run."""
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
    """Seconds: of this process alone if it has but one core."""
    return time.process_time() if cores() == 1 else time.perf_counter()


def run(case: Case) -> dict[str, Any]:
    """One step to warm up and ``case.steps`` measured ones, of which the fastest counts."""
    import peft  # noqa: F401
    import transformers.models.llama.modeling_llama  # noqa: F401

    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer
    from steelyard.data.sources import as_source
    from steelyard.policies.causal import CausalPolicy

    class Endless(CausalPolicy):
        """Nothing ends a sample but its limit."""

        end_ids = ()  # type: ignore[assignment]

    baseline = resident_memory()
    prompt = " ".join(f"w{number % case.words}" for number in range(case.prompt))
    words = prompt if not case.model else "the " * case.prompt
    source = as_source([{"prompt": words, "seconds": case.check, "waits": case.workers > 0}], shuffle=False)
    with tempfile.TemporaryDirectory() as scratch:
        supplied = Supplied(tasks=source, verifier=check)
        trainer = build_trainer(configs.build(tables(case, scratch), source="benchmark"), supplied)
        trainer.policy.__class__ = Endless
        now = time.perf_counter if case.workers else clock
        spent = {"score": 0.0, "update": 0.0}
        trainer.learner.score = _timed(trainer.learner.score, "score", spent, now)
        trainer.learner.update = _timed(trainer.learner.update, "update", spent, now)
        found: list[dict[str, float]] = []
        try:
            for _ in range(case.steps + 1):
                spent.update(score=0.0, update=0.0)
                began = now()
                trainer.train_step()
                step = now() - began
                found.append({**spent, "step": step, "sample": step - spent["score"] - spent["update"]})
        finally:
            trainer.pool.close()
        facts = {
            "prompt": len(trainer.policy.encode(words)),
            "microbatch": trainer.learner.rule.microbatch_tokens,
            "chunk": trainer.policy.chunk,
        }
    later = found[1:]
    fastest = min(later, key=lambda step: step["step"])
    spread = max(step["step"] for step in later) - fastest["step"]
    return {**fastest, "spread": spread, **facts, "memory": peak_memory() - baseline, "imports": baseline}


def _timed(function: Any, name: str, spent: dict[str, float], now: Callable[[], float]) -> Any:
    def call(*arguments: Any) -> Any:
        began = now()
        try:
            return function(*arguments)
        finally:
            spent[name] += now() - began

    return call


if __name__ == "__main__":
    asked = [Case(**case) for case in json.loads(sys.argv[1])]
    run(replace(TINY, rank=asked[0].rank, dtype=asked[0].dtype))
    print(json.dumps([run(case) for case in asked]))
