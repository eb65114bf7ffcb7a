"""The run that ``benchmarks.experience.panel`` watches: a small model with a slow verifier."""

from __future__ import annotations

import sys
import time

import steelyard
from steelyard import Task, Verdict

WORDS = ("copy", *"0123456789")


def check(task: Task, text: str) -> Verdict:
    """Score the fraction of correct digits and the length, and take a quarter of a second."""
    time.sleep(0.25)
    wanted, given = str(task.prompt).split()[1:], text.split()
    right = sum(one == other for one, other in zip(wanted, given, strict=False)) / len(wanted)
    length = float(len(given) == len(wanted))
    return Verdict.scored((right + length) / 2, success=given == wanted, parts={"digits": right, "length": length})


def main(folder: str, steps: int, staleness: int) -> None:
    steelyard.train(
        model={"scratch": {"layers": 2, "width": 64, "heads": 4, "max_length": 16, "vocabulary": WORDS}},
        tasks=[f"copy {number // 10} {number % 10}" for number in range(40)],
        eval_tasks=[f"copy {number // 10} {number % 10}" for number in range(91, 99)],
        verifier="benchmarks.experience.slow_run:check",
        sampling={"tasks_per_step": 4, "group_size": 8, "max_new_tokens": 4, "staleness": staleness},
        verify={"pool": "processes", "workers": 4},
        loss={"kl": {"coefficient": 0.05}},
        optimiser={"lr": 3e-3, "epochs": 2, "minibatches": 2, "microbatch_tokens": 1},
        evaluate={"every": 2, "tasks": 8, "samples": 4, "ks": [1, 4]},
        checkpoint={"every": 2},
        run={"name": "copy", "folder": folder, "steps": steps},
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
