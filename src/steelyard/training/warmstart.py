"""Supervised training before reinforcement: the policy learns to write given examples.

The loss is the mean negative log-prob of the examples' tokens, their end among them. That is the update of a rollout
whose samples were given instead of drawn, with advantage 1 everywhere under REINFORCE: so clipping, microbatches, loss
scaling and the skipping of non-finite steps are the learner's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from steelyard.policies.causal import CausalPolicy
from steelyard.training.learner import Learner
from steelyard.training.rollout import LearnerSample
from steelyard.types import Decisions, Sample, SampleKey, Task

Example = tuple[Task, str]
"""A task and a text for it."""


def given_sample(policy: CausalPolicy, example: Example, key: SampleKey) -> Sample:
    """The example as if the policy had drawn every token of it, the end included, from the whole vocabulary."""
    task, text = example
    prompt, answer = policy.encode(task.prompt), policy.encode_answer(text)
    token_ids = np.concatenate([prompt, answer])
    position_N = np.arange(len(prompt), len(token_ids), dtype=np.int32)
    forward_N = np.arange(len(answer), dtype=np.int32)
    decisions = Decisions(position_N, forward_N, np.zeros(len(answer), np.float32))
    return Sample(key, token_ids, len(prompt), text, "stop", decisions)


def warm_start(learner: Learner, examples: Iterator[Example], *, steps: int, batch: int) -> Iterator[dict[str, float]]:
    """``steps`` updates on the next ``batch`` examples each; yields the metrics of every one."""
    for step in range(steps):
        samples = [
            given_sample(learner.policy, example, SampleKey(step, slot, 0, 0))
            for slot, example in enumerate(itertools.islice(examples, batch))
        ]
        learnt = [LearnerSample(sample, np.ones(len(sample.decisions), np.float32)) for sample in samples]
        yield learner.update(learnt, step)


def loss_of(metrics: dict[str, Any]) -> float:
    """Nats a token."""
    return -float(metrics["logp/mean"])
