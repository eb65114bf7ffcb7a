"""Run one workload with TRL in this process, and print the measurements as JSON on the last line.

``python -m benchmarks.speed.run_trl MODEL_FOLDER WORKLOAD_JSON``. Settings not named by the workload are TRL's
defaults.
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


def trainer_arguments(workload: Workload, scratch: str) -> dict[str, Any]:
    """Return the non-default settings. A group of 16 is two microbatches at TRL's default batch size of 8."""
    generation = {"min_new_tokens": workload.new_tokens} if workload.full_length else None
    return {
        "output_dir": scratch,
        "use_cpu": True,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": workload.group // 8,
        "num_generations": workload.group,
        "max_completion_length": workload.new_tokens,
        "generation_kwargs": generation,
        "beta": workload.beta,
        "learning_rate": workload.learning_rate,
        "max_steps": workload.steps + 1,
        "shuffle_dataset": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "model_init_kwargs": {"dtype": "bfloat16"},
    }


def run(folder: str, workload: Workload, extra: dict[str, Any]) -> dict[str, Any]:
    """Run ``workload.steps`` timed training steps and return the measurements."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import TrainerCallback
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    baseline = resident_memory()
    ends: list[float] = []
    worked: list[float] = []
    lengths: list[int] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.perf_counter())
            worked.append(time.process_time())

    def reward(completions: list[Any], completion_ids: list[list[int]], **columns: Any) -> list[float | None]:
        lengths.extend(len(ids) for ids in completion_ids)
        return reward_letters(completions, **columns)

    rank = workload.lora_rank
    lora = LoraConfig(r=rank, target_modules="all-linear", task_type="CAUSAL_LM") if rank else None
    with tempfile.TemporaryDirectory() as scratch:
        trainer = GRPOTrainer(
            model=folder,
            reward_funcs=reward,
            args=GRPOConfig(**{**trainer_arguments(workload, scratch), **extra}),
            train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts(workload)]),
            peft_config=lora,
            callbacks=[Clock()],
        )
        trainer.train()
    model: Any = trainer.model
    dtypes = sorted({str(parameter.dtype) for parameter in model.parameters()})
    return {
        "seconds": [end - start for start, end in pairwise(ends)],
        "cpu_seconds": [end - start for start, end in pairwise(worked)],
        "mean_length": sum(lengths[workload.group :]) / (len(lengths) - workload.group),
        "rss": peak_memory() - baseline,
        "baseline": baseline,
        "lengths": lengths[workload.group :],
        "dtypes": dtypes,
        "checkpointing": bool(trainer.args.gradient_checkpointing),
    }


if __name__ == "__main__":
    options = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    print(json.dumps(run(sys.argv[1], Workload(**json.loads(sys.argv[2])), options)))
