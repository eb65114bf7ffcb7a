"""Supervised training before reinforcement learning: the policy learns to produce given examples.

The loss is the mean negative log-prob of the decisions that produce the examples. This loss equals REINFORCE with
advantage 1 on given instead of sampled texts, so the learner's own update is used, with its gradient clipping,
microbatches, loss scaling and skipping of non-finite steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from steelyard.training.learner import Learner
from steelyard.training.learner_samples import LearnerSample
from steelyard.types import SampleKey, Task

Example = tuple[Task, str]
"""A task and an example text for it."""


def warm_start(
    learner: Learner, examples: Iterator[Example], *, steps: int, batch: int, done: int = 0
) -> Iterator[dict[str, float]]:
    """Run updates ``done`` to ``steps`` with ``batch`` examples each, and yield the metrics of each update.

    The examples of the first ``done`` updates are skipped, because those updates have already been made.
    """
    examples = itertools.islice(examples, done * batch, None)
    for step in range(done, steps):
        samples = [
            learner.policy.sample_from_text(task, text, SampleKey(step, slot, 0, 0))
            for slot, (task, text) in enumerate(itertools.islice(examples, batch))
        ]
        learnt = [LearnerSample(sample, np.ones(len(sample.decisions), np.float32)) for sample in samples]
        yield learner.update(learnt, step)


def loss_of(metrics: dict[str, Any]) -> float:
    """Return the loss in nats per token."""
    return -float(metrics["logp/mean"])
