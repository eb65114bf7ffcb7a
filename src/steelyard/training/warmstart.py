"""Supervised training before reinforcement: the policy learns to write given examples.

The loss is the mean negative log-prob of what the policy would have had to decide to make the examples. That is the
update of a rollout whose samples were given instead of drawn, with advantage 1 everywhere under REINFORCE: so clipping,
microbatches, loss scaling and the skipping of non-finite steps are the learner's own.
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
"""A task and a text for it."""


def warm_start(
    learner: Learner, examples: Iterator[Example], *, steps: int, batch: int, done: int = 0
) -> Iterator[dict[str, float]]:
    """``steps`` updates on the next ``batch`` examples each, the first ``done`` of them skipped, since they were made
    before; yields the metrics of every one that is made now.
    """
    examples = itertools.islice(examples, done * batch, None)
    for step in range(done, steps):
        samples = [
            learner.policy.given(task, text, SampleKey(step, slot, 0, 0))
            for slot, (task, text) in enumerate(itertools.islice(examples, batch))
        ]
        learnt = [LearnerSample(sample, np.ones(len(sample.decisions), np.float32)) for sample in samples]
        yield learner.update(learnt, step)


def loss_of(metrics: dict[str, Any]) -> float:
    """Nats a token."""
    return -float(metrics["logp/mean"])
