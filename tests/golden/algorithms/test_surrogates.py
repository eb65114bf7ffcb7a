"""Surrogate losses, their gradients and clip flags compared with values computed by hand."""

from __future__ import annotations

from math import exp, log, sqrt

import pytest
import torch

from steelyard.algorithms.surrogates import (
    Surrogate,
    SurrogateInput,
    cispo,
    gspo,
    ppo_clip,
    reinforce,
    surrogate,
)

pytestmark = pytest.mark.golden


def run(
    function: Surrogate, ratio: list[float], advantage: list[float], sample: list[int] | None = None
) -> tuple[list[float], list[float], list[bool]]:
    """Return losses, derivatives with respect to the log-prob and clip flags, for decisions of probability 1/2."""
    old_N = torch.tensor([0.5 / r for r in ratio], dtype=torch.float64).log().requires_grad_()
    logp_N = torch.full((len(ratio),), log(0.5), dtype=torch.float64, requires_grad=True)
    sample_N = torch.tensor(sample if sample is not None else range(len(ratio)))
    out = function(SurrogateInput(logp_N, old_N, torch.tensor(advantage, dtype=torch.float64), sample_N))
    out.loss_N.sum().backward()
    assert old_N.grad is None
    assert logp_N.grad is not None
    return out.loss_N.tolist(), logp_N.grad.tolist(), out.clipped_N.tolist()


def near(expected: list[float]) -> object:
    return pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_ppo_clip() -> None:
    # The clip is active only where it lowers the objective: above 1.3 for A > 0, below 0.8 for A < 0.
    loss, slope, clipped = run(
        surrogate("ppo_clip", clip_low=0.2, clip_high=0.3),
        [1.0, 1.2, 1.5, 0.5, 1.0, 1.5, 0.9, 0.5, 1.5, 0.5],
        [2.0, 2.0, 2.0, 0.5, -2.0, -2.0, -2.0, -2.0, 0.0, 0.0],
    )
    assert loss == near([-2.0, -2.4, -2.6, -0.25, 2.0, 3.0, 1.8, 1.6, 0.0, 0.0])
    assert slope == near([-2.0, -2.4, 0.0, -0.25, 2.0, 3.0, 1.8, 0.0, 0.0, 0.0])
    assert clipped == [False, False, True, False, False, False, False, True, False, False]


def test_ppo_clip_is_symmetric_by_default() -> None:
    loss, _, clipped = run(ppo_clip, [2.0, 0.1, 50.0], [1.0, -1.0, -1.0])
    assert loss == near([-1.2, 0.8, 50.0])
    assert clipped == [True, True, False]


def test_ppo_dual_clip() -> None:
    # For A < 0 the objective is at least 3 A. The bound is active where the ratio exceeds 3.
    loss, slope, clipped = run(
        surrogate("ppo_clip", clip_low=0.2, clip_high=0.2, dual_clip=3.0),
        [2.5, 4.0, 0.5, 4.0, 4.0],
        [-2.0, -2.0, -2.0, 2.0, 0.0],
    )
    assert loss == near([5.0, 6.0, 1.6, -2.4, 0.0])
    assert slope == near([5.0, 0.0, 0.0, 0.0, 0.0])
    assert clipped == [False, True, True, True, False]


def test_gspo_takes_the_geometric_mean_ratio_of_the_sample() -> None:
    # Sample 9: ratios 2 and 1/8, geometric mean 1/2. Sample 4: ratio 1.0001. Sample 6: 1.21 and 1, mean 1.1.
    # Bounds 0.9997 and 1.0004. Each decision has the loss of its sequence. The slope is s_i A if unclipped.
    loss, slope, clipped = run(
        gspo, [2.0, 1.0001, 0.125, 1.21, 1.0], [3.0, 3.0, 3.0, -1.0, -1.0], sample=[9, 4, 9, 6, 6]
    )
    assert loss == near([-1.5, -3.0003, -1.5, 1.1, 1.1])
    assert slope == near([-1.5, -3.0003, -1.5, 1.1, 1.1])
    assert clipped == [False] * 5


def test_gspo_clips_the_sequence_ratio() -> None:
    # Sample 0: mean ratio sqrt(1.002 * 1) = 1.0009995 > 1.0004. Sample 1: sqrt(0.999) = 0.99949987 < 0.9997.
    loss, slope, clipped = run(gspo, [1.002, 1.0, 0.999, 1.0], [1.0, 1.0, -1.0, -1.0], sample=[0, 0, 1, 1])
    assert loss == near([-1.0004, -1.0004, 0.9997, 0.9997])
    assert slope == [0.0] * 4
    assert clipped == [True] * 4


def test_gspo_has_the_gradient_of_the_sequence_ratio() -> None:
    logp_N = torch.tensor([-1.0, -2.0, -0.5], dtype=torch.float64, requires_grad=True)
    old_N = torch.tensor([-1.1, -1.9, -0.4], dtype=torch.float64)
    inp = SurrogateInput(logp_N, old_N, torch.full((3,), 2.0, dtype=torch.float64), torch.zeros(3, dtype=torch.int64))
    gspo(inp, clip_low=0.5, clip_high=0.5).loss_N.mean().backward()
    assert logp_N.grad is not None
    gradient = logp_N.grad.clone()
    logp_N.grad = None
    (-2.0 * (logp_N - old_N).mean().exp()).backward()
    torch.testing.assert_close(gradient, logp_N.grad, rtol=1e-12, atol=0)


def test_cispo_caps_the_weight_and_drops_nothing() -> None:
    # loss = -min(ratio, 5) A log(1/2), slope = -min(ratio, 5) A.
    loss, slope, clipped = run(cispo, [1.0, 0.25, 4.0, 8.0, 5.5], [2.0, 2.0, -2.0, 2.0, -2.0])
    weights = [-2.0, -0.5, 8.0, -10.0, 10.0]
    assert loss == near([weight * log(0.5) for weight in weights])
    assert slope == near(weights)
    assert clipped == [False, False, False, True, True]


def test_cispo_with_its_own_cap() -> None:
    _, slope, clipped = run(surrogate("cispo", ratio_cap=2.0), [1.5, 3.0], [1.0, 1.0])
    assert slope == near([-1.5, -2.0])
    assert clipped == [False, True]


def test_reinforce_ignores_the_ratio() -> None:
    loss, slope, clipped = run(reinforce, [1.0, 7.0, 0.1], [2.0, -3.0, 0.0])
    assert loss == near([-2 * log(0.5), 3 * log(0.5), 0.0])
    assert slope == near([-2.0, 3.0, 0.0])
    assert clipped == [False, False, False]


@pytest.mark.parametrize("name", ["ppo_clip", "gspo", "cispo"])
def test_a_huge_log_ratio_does_not_overflow(name: str) -> None:
    # exp(100) is inf in float32 and inf * 0 is NaN, so the log ratio is clamped to 20.
    logp_N = torch.tensor([-1.0, -1.0, -1.0], requires_grad=True)
    inp = SurrogateInput(logp_N, logp_N.detach() - 100, torch.tensor([1.0, 0.0, -1.0]), torch.arange(3))
    out = surrogate(name)(inp)
    out.loss_N.sum().backward()
    assert logp_N.grad is not None
    assert torch.isfinite(logp_N.grad).all()
    ends = {"ppo_clip": [-1.2, exp(20)], "gspo": [-1.0004, exp(20)], "cispo": [5.0, -5.0]}[name]
    assert [out.loss_N[0].item(), out.loss_N[2].item()] == pytest.approx(ends, rel=1e-6)
    assert out.loss_N[1].item() == 0.0


def test_ratios_up_to_exp_twenty_are_exact() -> None:
    loss, _, _ = run(ppo_clip, [exp(19.5)], [-1.0])
    assert loss == pytest.approx([exp(19.5)], rel=1e-9)
    loss, _, _ = run(ppo_clip, [exp(20.5)], [-1.0])
    assert loss == pytest.approx([exp(20)], rel=1e-9)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ppo_clip", {"clip_low": 0.0, "clip_high": 0.0}),
        ("ppo_clip", {"dual_clip": 1.0}),
        ("gspo", {"clip_low": 0.0, "clip_high": 0.0}),
        ("cispo", {"ratio_cap": 1.0}),
        ("reinforce", {}),
    ],
)
def test_a_ratio_at_the_bound_is_not_clipped(name: str, options: dict[str, float]) -> None:
    one_N = torch.tensor([-1.0, -1.0])
    out = surrogate(name, **options)(SurrogateInput(one_N, one_N, torch.tensor([1.0, -1.0]), torch.tensor([0, 1])))
    assert out.clipped_N.tolist() == [False, False]
    assert out.clipped_N.dtype == torch.bool


def test_geometric_mean_of_the_worked_example() -> None:
    assert sqrt(2.0 * 0.125) == 0.5
    assert sqrt(1.21) == pytest.approx(1.1)
