"""Run one workload with Steelyard in this process, and print the measurements as JSON on the last line.

``python -m benchmarks.speed.run_steelyard MODEL_FOLDER WORKLOAD_JSON [OVERRIDES_JSON]``. Settings not named by the
workload are Steelyard's defaults, except the optimiser, which is fused AdamW, TRL's default.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from itertools import pairwise
from typing import Any

from benchmarks.framework.process import peak_memory, resident_memory
from benchmarks.speed.workloads import Workload, prompts, reward_letters


def tables(folder: str, workload: Workload, scratch: str) -> dict[str, Any]:
    """Return the run's configuration."""
    model: dict[str, Any] = {"path": folder, "dtype": "bfloat16", "device": "cpu"}
    if workload.lora_rank:
        model["lora"] = {"rank": workload.lora_rank}
    return {
        "run": {"folder": scratch, "steps": workload.steps + 1, "supplied": ["tasks", "verifier"]},
        "model": model,
        "sampling": {"tasks_per_step": 1, "group_size": workload.group, "max_new_tokens": workload.new_tokens},
        "loss": {"kl": {"coefficient": workload.beta}},
        "optimiser": {"name": "adamw_fused", "lr": workload.learning_rate},
        "verify": {"pool": "inline"},  # as in the TRL run
        "checkpoint": {"every": 0},
        "tracking": {"console": False},
    }


def run(folder: str, workload: Workload, overrides: dict[str, Any]) -> dict[str, Any]:
    """Run ``workload.steps`` timed training steps and return the measurements."""
    import peft  # noqa: F401
    import transformers.models.llama.modeling_llama  # noqa: F401

    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer
    from steelyard.data.sources import as_source
    from steelyard.policies.causal import CausalPolicy

    class Endless(CausalPolicy):
        """Samples end only at their maximum length."""

        end_ids = ()  # type: ignore[assignment]

    baseline = resident_memory()
    with tempfile.TemporaryDirectory() as scratch:
        table = tables(folder, workload, scratch)
        for section, values in overrides.items():
            table[section] = {**table.get(section, {}), **values}
        rows = [{"prompt": prompt} for prompt in prompts(workload)]
        supplied = Supplied(tasks=as_source(rows, shuffle=False), verifier=reward_letters)
        trainer = build_trainer(configs.build(table, source="benchmark"), supplied)
        if workload.full_length:
            trainer.policy.__class__ = Endless
        ends: list[float] = []
        worked: list[float] = []
        lengths: list[float] = []
        times: list[dict[str, float]] = []
        for _ in range(workload.steps + 1):
            metrics: dict[str, Any] = trainer.train_step()
            trainer.tracker.log(trainer.step, metrics)
            ends.append(time.perf_counter())
            worked.append(time.process_time())
            lengths.append(metrics["time/tokens_per_second"] * metrics["time/step"] / workload.group)
            times.append({name: value for name, value in metrics.items() if name.startswith("time/")})
    return {
        "seconds": [end - start for start, end in pairwise(ends)],
        "cpu_seconds": [end - start for start, end in pairwise(worked)],
        "mean_length": sum(lengths[1:]) / workload.steps,
        "rss": peak_memory() - baseline,
        "baseline": baseline,
        "dtypes": sorted({str(parameter.dtype) for parameter in trainer.policy.model.parameters()}),
        "checkpointing": bool(getattr(trainer.policy.model, "is_gradient_checkpointing", False)),
        "times": times[-1],
    }


if __name__ == "__main__":
    options = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    print(json.dumps(run(sys.argv[1], Workload(**json.loads(sys.argv[2])), options)))
