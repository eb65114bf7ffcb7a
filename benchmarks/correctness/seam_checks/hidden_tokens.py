"""Tokens that are invisible in the text are never sampled."""

from __future__ import annotations

import tempfile
from functools import cache
from typing import Any

import numpy as np

from benchmarks.correctness.seam_checks import SeamCheck

LIMIT = 8
"""Maximum tokens per sample in the README's run."""


def evens(task: Any, text: str) -> float:
    """Score like the README's first verifier: the requested count of numbers, all of them even."""
    numbers, count = text.split(), task.spec["count"]
    right = sum(number in "02468" for number in numbers)
    return min(right, count) / max(len(numbers), count)


@cache
def trained(steps: int) -> list[Any]:
    """Return 400 samples of the README's first run after ``steps`` steps."""
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer
    from steelyard.sampling.base import Decoding
    from steelyard.training.phases import requests_for, sample

    tables = {
        "run": {"folder": tempfile.gettempdir(), "name": "evens", "steps": steps, "supplied": ["tasks", "verifier"]},
        "model": {
            "scratch": {"layers": 2, "width": 64, "max_length": 16, "vocabulary": ["write", *"0123456789"]},
            "device": "cpu",
        },
        "sampling": {"max_new_tokens": LIMIT},
        "optimiser": {"lr": 3e-3},
        "verify": {"pool": "inline"},
        "tracking": {"console": False},
    }
    tasks = [{"prompt": f"write {count}", "count": count} for count in range(2, 7)]
    trainer = build_trainer(configs.build(tables, source="seams"), Supplied(tasks=tasks, verifier=evens))
    for _ in range(steps):
        trainer.train_step()
    drawn = sample(
        trainer.parts.sampler,
        requests_for(trainer.parts.source.draw(0, 5), steps, 80),
        Decoding(max_new_tokens=LIMIT),
    )
    trainer.close()
    return drawn


def steps_of(quick: bool) -> int:
    return 5 if quick else 60


def hiding(quick: bool) -> float:
    """Return the fraction of samples with a sampled token that is neither in the text nor the end token."""
    samples = trained(steps_of(quick))
    shown = [len(sample.text.split()) + (sample.finish == "stop") for sample in samples]
    return float(np.mean([len(sample.completion_ids) > count for sample, count in zip(samples, shown, strict=True)]))


CHECKS = (SeamCheck("hidden tokens", "share of samples with an invisible token", 0.99, hiding, "<=", 0.0),)
