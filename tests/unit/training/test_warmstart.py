"""The loss of a warm start is the cross-entropy of the examples, and it falls."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from steelyard.algorithms.objective import Objective
from steelyard.algorithms.schedules import Schedule
from steelyard.algorithms.surrogates import surrogate
from steelyard.policies.causal import CausalPolicy
from steelyard.training.learner import Coefficients, Learner, UpdateRule
from steelyard.training.optimisers import build_optimiser
from steelyard.training.warmstart import loss_of, warm_start
from steelyard.types import SampleKey, Task
from tests.tiny import tiny_policy

EXAMPLES = [(Task("a", "1 2"), "3 4 5"), (Task("b", "2"), "6"), (Task("c", "7 7 7"), "8 9")]


def learner_of(policy: CausalPolicy, lr: float) -> Learner:
    parameters = [parameter for _, parameter in policy.trainable()]
    nothing = Schedule("constant", 0.0)
    coefficients = Coefficients(Schedule("constant", lr), nothing, nothing)
    rule = UpdateRule(microbatch_tokens=10, aggregation="token_mean", grad_clip=None)
    return Learner(
        policy, build_optimiser("adamw", parameters, lr=lr), Objective(surrogate("reinforce")), coefficients, rule
    )


def test_every_token_of_an_example_is_a_decision() -> None:
    policy = tiny_policy()
    sample = policy.sample_from_text(*EXAMPLES[0], SampleKey(0, 0, 0, 0))
    assert policy.decode(sample.completion_ids) == "3 4 5"
    assert sample.token_ids[-1] == policy.end_id
    assert sample.prompt_length == 2
    assert sample.decisions.position_N.tolist() == [2, 3, 4, 5]
    assert sample.finish == "stop"


def test_the_loss_is_the_cross_entropy_of_the_answers_and_their_ends() -> None:
    policy = tiny_policy(sharpness=1.0)
    expected: list[float] = []
    for task, text in EXAMPLES:
        prompt, answer = policy.encode(task.prompt), policy.encode_answer(text)
        ids = torch.tensor(np.concatenate([prompt, answer])[None], dtype=torch.long)
        with torch.no_grad():
            logits_TV = policy.model(input_ids=ids).logits[0]
        logp_TV = logits_TV.index_fill(-1, torch.tensor(policy.excluded), -torch.inf).log_softmax(-1)
        expected += [-float(logp_TV[len(prompt) + index - 1, token]) for index, token in enumerate(answer)]
    metrics = next(warm_start(learner_of(policy, 0.0), iter(EXAMPLES), steps=1, batch=3))
    assert loss_of(metrics) == pytest.approx(np.mean(expected), rel=1e-5)
    assert metrics["loss"] == pytest.approx(loss_of(metrics), rel=1e-5)


def test_examples_are_memorised() -> None:
    policy = tiny_policy(sharpness=1.0)
    learner = learner_of(policy, 3e-3)
    losses = [loss_of(metrics) for metrics in warm_start(learner, itertools.cycle(EXAMPLES), steps=60, batch=3)]
    assert len(losses) == 60
    assert losses[-1] < 0.1 < 1.0 < losses[0]


def test_every_update_takes_the_next_examples() -> None:
    left = iter([*EXAMPLES, *EXAMPLES])
    assert len(list(warm_start(learner_of(tiny_policy(), 0.0), left, steps=2, batch=2))) == 2
    assert len(list(left)) == 2
