"""The single-file reference loop has the same gradients as the composed objective."""

from __future__ import annotations

import copy
import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from steelyard.algorithms import Objective, ObjectiveInput, decision_weights, estimator, surrogate

FILE = Path(__file__).parents[3] / "examples" / "reference_loop.py"


@pytest.fixture(scope="module")
def loop() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_loop", FILE)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference_loop"] = module
    spec.loader.exec_module(module)
    return module


def prepare(loop: ModuleType):
    """Return a model, a different model as reference, and rollouts of the model."""
    config = loop.Config(tasks_per_step=4, group_size=4, temperature=0.7, kl_coefficient=0.3)
    model, reference = loop.make_model(0).eval(), loop.make_model(1).eval()
    generator = random.Random(2)
    rollouts = loop.sample(model, [loop.draw_task(generator) for _ in range(4)], config)
    with torch.no_grad():
        reference_logp_N = loop.answer_logps(reference, rollouts, config)
    return config, model, rollouts, reference_logp_N


def test_it_fits_in_one_file_without_steelyard() -> None:
    lines = FILE.read_text().splitlines()
    assert len(lines) <= 250
    assert not [line for line in lines if "import" in line and "steelyard" in line]


def test_update_has_the_gradient_of_the_objective(loop: ModuleType) -> None:
    config, model, rollouts, reference_logp_N = prepare(loop)
    twin = copy.deepcopy(model)
    lengths = [rollout.answer_length for rollout in rollouts]
    microbatches = [[0, 5, 6, 7], [1], [2, 3, 4, 8, 9, 10, 11, 12], [15, 14, 13]]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    metrics = loop.update(model, optimizer, rollouts, reference_logp_N.split(lengths), config, microbatches)

    group_M = torch.tensor([rollout.group for rollout in rollouts])
    reward_M = torch.tensor([rollout.reward for rollout in rollouts], dtype=torch.float64)
    sample_N = torch.arange(len(rollouts)).repeat_interleave(torch.tensor(lengths))
    logp_N = loop.answer_logps(twin, rollouts, config)
    out = Objective(surrogate("ppo_clip", clip_low=config.clip_low, clip_high=config.clip_high), "k3")(
        ObjectiveInput(
            logp_N=logp_N,
            old_logp_N=logp_N.detach(),
            behaviour_logp_N=logp_N.detach(),
            advantage_N=estimator("group_norm")(reward_M, group_M).float()[sample_N],
            sample_N=sample_N,
            weight_N=decision_weights("sequence_mean", sample_N),
            reference_logp_N=reference_logp_N,
        ),
        kl_coefficient=config.kl_coefficient,
    )
    out.loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(twin.parameters(), config.grad_clip)
    assert metrics == pytest.approx({"loss": out.loss.item(), "grad_norm": norm.item()}, rel=1e-4)
    assert norm.item() > 0.1
    for mine, its in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad, rtol=1e-3, atol=1e-6)


def test_same_seed_same_rewards(loop: ModuleType) -> None:
    config = loop.Config(steps=2, tasks_per_step=2, group_size=4)
    assert loop.train(config) == loop.train(config)


def test_score(loop: ModuleType) -> None:
    zero, end = loop.FIRST_DIGIT, loop.END
    assert loop.score([1, 0], [zero, zero + 1, end]) == 1.0
    assert loop.score([1, 0], [zero, zero + 1]) == pytest.approx(2 / 3)
    assert loop.score([1, 0], [zero, zero + 1, end + 1, end, end]) == pytest.approx(2 / 5)
