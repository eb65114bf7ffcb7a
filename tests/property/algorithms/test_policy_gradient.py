"""Compare estimators and aggregations with the true policy gradient, by enumeration instead of sampling.

The language has the tokens a, b and end, and at most three tokens per sequence. The policy has separate logits for
every prefix. The tests enumerate all groups of G sequences with their probabilities and pass them through the real
objective as one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from steelyard.algorithms.advantages import estimator
from steelyard.algorithms.aggregation import decision_weights
from steelyard.algorithms.objective import Objective, ObjectiveInput
from steelyard.algorithms.surrogates import surrogate

pytestmark = pytest.mark.property

END = 2
MAX_LENGTH = 3
PREFIXES = [prefix for length in range(MAX_LENGTH) for prefix in product(range(END), repeat=length)]
SEQUENCES = [(*prefix, END) for prefix in PREFIXES] + list(product(range(END), repeat=MAX_LENGTH))


def reward_of(sequence: tuple[int, ...]) -> float:
    """Reward a short and a long sequence, and one rare sequence highly, so that lengths and reward spreads matter."""
    return {(END,): 1.0, (0, 1, 0): 1.5, (1, 1, 1): 6.0}.get(sequence, 0.1 * sequence.count(0))


def logits() -> Tensor:
    return torch.randn(len(PREFIXES), END + 1, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def sequence_logps(logit_PV: Tensor) -> list[Tensor]:
    """Return the log-probs of the tokens of each sequence."""
    logp_PV = logit_PV.log_softmax(-1)
    row = {prefix: logp_PV[i] for i, prefix in enumerate(PREFIXES)}
    return [torch.stack([row[s[:t]][token] for t, token in enumerate(s)]) for s in SEQUENCES]


def true_gradient() -> Tensor:
    logit_PV = logits().requires_grad_()
    probability_X = torch.stack([logp_T.sum().exp() for logp_T in sequence_logps(logit_PV)])
    assert probability_X.sum().item() == pytest.approx(1.0)
    reward_X = torch.tensor([reward_of(s) for s in SEQUENCES], dtype=torch.float64)
    return torch.autograd.grad((probability_X * reward_X).sum(), logit_PV)[0]


def expected_update(name: str, aggregation: str, size: int, surrogate_name: str = "ppo_clip") -> Tensor:
    """Return the expected negative gradient of the objective, over all groups of ``size`` sequences."""
    logit_PV = logits().requires_grad_()
    logps = sequence_logps(logit_PV)
    groups = torch.tensor(list(product(range(len(SEQUENCES)), repeat=size)))
    total_X = torch.stack([logp_T.sum().detach() for logp_T in logps])
    chance_U = total_X[groups].sum(1).exp()

    sequence_M = groups.flatten()
    group_M = torch.arange(len(groups)).repeat_interleave(size)
    reward_X = torch.tensor([reward_of(s) for s in SEQUENCES], dtype=torch.float64)
    advantage_M = estimator(name)(reward_X[sequence_M], group_M)

    length_M = torch.tensor([len(s) for s in SEQUENCES])[sequence_M]
    sample_N = torch.arange(len(sequence_M)).repeat_interleave(length_M)
    logp_N = torch.cat([logps[int(x)] for x in sequence_M])
    weight_N = decision_weights(aggregation, sample_N, length=MAX_LENGTH, dtype=torch.float64)
    weight_N = weight_N * len(groups) * chance_U[group_M][sample_N]
    old_N = logp_N.detach()
    inp = ObjectiveInput(logp_N, old_N, old_N, advantage_M[sample_N], sample_N, weight_N)
    return -torch.autograd.grad(Objective(surrogate(surrogate_name))(inp).loss, logit_PV)[0]


def cosine(first: Tensor, second: Tensor) -> float:
    return torch.nn.functional.cosine_similarity(first.flatten(), second.flatten(), dim=0).item()


@pytest.mark.parametrize("size", [2, 3])
def test_rloo_with_constant_is_the_exact_policy_gradient(size: int) -> None:
    torch.testing.assert_close(
        expected_update("rloo", "constant", size) * MAX_LENGTH, true_gradient(), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", ["reinforce", "cispo"])
def test_other_surrogates_give_the_exact_policy_gradient_on_policy(name: str) -> None:
    update_PV = expected_update("rloo", "constant", 2, name) * MAX_LENGTH
    torch.testing.assert_close(update_PV, true_gradient(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [2, 3])
def test_group_mean_is_the_policy_gradient_scaled_down(size: int) -> None:
    update_PV = expected_update("group_mean", "constant", size) * MAX_LENGTH
    torch.testing.assert_close(update_PV, true_gradient() * (size - 1) / size, rtol=0, atol=1e-12)


def test_grpo_differs_from_the_policy_gradient(record_property: Callable[[str, object], None]) -> None:
    found = cosine(expected_update("group_norm", "sequence_mean", 3), true_gradient())
    record_property("cosine", found)
    print(f"group_norm with sequence_mean: cosine {found:.3f} to the policy gradient")
    assert 0 < found < 0.99
    assert cosine(expected_update("rloo", "constant", 3), true_gradient()) > 1 - 1e-12
