"""The chunked scores compared with plain autograd on full logits, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from steelyard.constraints.base import pack, unpack
from steelyard.policies.adapters import Lora
from steelyard.policies.batch import Batch, Supports
from steelyard.policies.logprobs import ScoringJob, score_decisions
from steelyard.types import CutRule
from tests.tiny import SHAPE, rollout, sample_of, tiny_policy

N, D, V = 7, 5, 11
TOLERANCE: dict[str, Any] = {"rtol": 0.0, "atol": 1e-10}


@dataclass(frozen=True)
class Case:
    """A scoring problem: hidden states, an output layer and supports."""

    hidden_ND: Tensor
    layer: nn.Linear
    batch: Batch
    reference_hidden_ND: Tensor
    reference_layer: nn.Linear

    def job(self, chunk: int, *, reference: bool = True) -> ScoringJob:
        if not reference:
            return ScoringJob(self.batch, self.layer, chunk)
        return ScoringJob(self.batch, self.layer, chunk, self.reference_layer, self.reference_hidden_ND)


def supports_of(kind: str, token_N: Tensor) -> Supports | None:
    """Return supports for no decisions (``none``), for all (``all``, sizes 1 to V) or for some of them (``some``)."""
    if kind == "none":
        return None
    sets = [sorted({int(token), *range(size)}) for token, size in zip(token_N, (1, 3, 5, 8, V, 2, 4), strict=True)]
    index_N = torch.arange(N)
    if kind == "some":
        index_N[[0, 3]] = -1
    return packed(sets, index_N)


def packed(sets: Sequence[Sequence[int]], index_N: Tensor, vocabulary: int = V) -> Supports:
    return Supports(torch.from_numpy(np.stack([pack(one, vocabulary) for one in sets])), index_N)


def case_of(*, supports: str = "none", ragged: bool = False, bias: bool = False) -> Case:
    torch.manual_seed(3)
    layers = [nn.Linear(D, V, bias=bias, dtype=torch.float64) for _ in range(2)]
    for layer in layers:
        nn.init.normal_(layer.weight)
    token_N = torch.randint(0, V, (N,))
    temperature_N = torch.linspace(0.5, 2.0, N, dtype=torch.float64) if ragged else torch.ones(N, dtype=torch.float64)
    zeros_N = torch.zeros(N, dtype=torch.int64)
    batch = Batch(
        torch.zeros(1, 1),
        torch.ones(1),
        zeros_N,
        zeros_N,
        token_N,
        zeros_N,
        temperature_N,
        supports_of(supports, token_N),
    )
    hidden_ND, other_ND = torch.randn(2, N, D, dtype=torch.float64)
    return Case(hidden_ND.requires_grad_(), layers[0], batch, other_ND, layers[1].requires_grad_(False))


def plain_log_distribution(logits_NV: Tensor, batch: Batch, excluded: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return log p (0 where p is 0) and p, computed with explicit masks."""
    allowed_NV = torch.ones_like(logits_NV, dtype=torch.bool)
    allowed_NV[:, list(excluded)] = False
    if (supports := batch.supports) is not None:
        for row, index in enumerate(supports.index_N.tolist()):
            if index >= 0:
                allowed_NV[row] = torch.from_numpy(unpack(supports.bits_UW[index].numpy(), allowed_NV.shape[1]))
    scaled_NV = (logits_NV / batch.temperature_N[:, None]).masked_fill(~allowed_NV, -torch.inf)
    logp_NV = scaled_NV.log_softmax(-1)
    return logp_NV.masked_fill(~allowed_NV, 0.0), logp_NV.exp()


def plain_scores(
    logits_NV: Tensor, batch: Batch, reference_NV: Tensor, excluded: Sequence[int] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    logp_NV, p_NV = plain_log_distribution(logits_NV, batch, excluded)
    reference_logp_NV, _ = plain_log_distribution(reference_NV, batch, excluded)
    logp_N = logp_NV.gather(1, batch.token_N[:, None])[:, 0]
    return logp_N, -(p_NV * logp_NV).sum(-1), (p_NV * (logp_NV - reference_logp_NV)).sum(-1)


def weighted(*outputs: Tensor) -> Tensor:
    """Return a scalar with a different weight for every value of every output."""
    generator = torch.Generator().manual_seed(1)
    return sum((torch.randn(o.shape, generator=generator, dtype=o.dtype) * o).sum() for o in outputs)  # type: ignore[return-value]


@pytest.mark.parametrize("chunk", [1, 3, N, 100])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("supports", ["none", "some", "all"])
def test_values_and_gradients_equal_those_of_full_logits(supports: str, ragged: bool, bias: bool, chunk: int) -> None:
    case = case_of(supports=supports, ragged=ragged, bias=bias)
    wanted = [case.hidden_ND, *case.layer.parameters()]
    expected = plain_scores(case.layer(case.hidden_ND), case.batch, case.reference_layer(case.reference_hidden_ND))
    expected_gradients = torch.autograd.grad(weighted(*expected), wanted)

    scores = score_decisions(case.job(chunk), case.hidden_ND, list(case.layer.parameters()))
    assert scores.kl_N is not None
    outputs = (scores.logp_N, scores.entropy_N, scores.kl_N)
    for value_N, expected_N in zip(outputs, expected, strict=True):
        torch.testing.assert_close(value_N, expected_N, **TOLERANCE)
    for gradient, expected_gradient in zip(
        torch.autograd.grad(weighted(*outputs), wanted), expected_gradients, strict=True
    ):
        torch.testing.assert_close(gradient, expected_gradient, **TOLERANCE)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_each_output_has_its_own_gradient(which: int) -> None:
    """If only one of log-prob, entropy and KL is computed, the shortcuts for the others must not matter."""
    case = case_of(supports="some", ragged=True, bias=True)
    expected = plain_scores(case.layer(case.hidden_ND), case.batch, case.reference_layer(case.reference_hidden_ND))
    scores = score_decisions(case.job(3), case.hidden_ND, list(case.layer.parameters()))
    output = (scores.logp_N, scores.entropy_N, scores.kl_N)[which]
    assert output is not None
    wanted = [case.hidden_ND, *case.layer.parameters()]
    expected_gradients = torch.autograd.grad(weighted(expected[which]), wanted)
    for gradient, expected_gradient in zip(
        torch.autograd.grad(weighted(output), wanted), expected_gradients, strict=True
    ):
        torch.testing.assert_close(gradient, expected_gradient, **TOLERANCE)


def test_gradcheck() -> None:
    case = case_of(supports="some", ragged=True, bias=True)

    def scores(hidden_ND: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        job = replace(case.job(2), head=lambda hidden: nn.functional.linear(hidden, weight, bias))
        found = score_decisions(job, hidden_ND, [weight, bias])
        assert found.kl_N is not None
        return found.logp_N, found.entropy_N, found.kl_N

    inputs = [tensor.detach().requires_grad_() for tensor in (case.hidden_ND, case.layer.weight, case.layer.bias)]
    assert torch.autograd.gradcheck(scores, inputs)


def test_a_frozen_output_layer_gets_no_gradient() -> None:
    case = case_of()
    case.layer.requires_grad_(False)
    score_decisions(case.job(3), case.hidden_ND, list(case.layer.parameters())).logp_N.sum().backward()
    assert case.layer.weight.grad is None
    assert case.hidden_ND.grad is not None


def test_without_a_reference_there_is_no_kl() -> None:
    case = case_of()
    assert score_decisions(case.job(3, reference=False), case.hidden_ND, []).kl_N is None


def test_a_support_with_one_token_scores_zero() -> None:
    """Log-prob, entropy, KL and their gradient are exactly 0 if the support has only one token."""
    case = case_of()
    alone = packed([[int(token)] for token in case.batch.token_N], torch.arange(N))
    job = replace(case.job(3), batch=replace(case.batch, supports=alone))
    scores = score_decisions(job, case.hidden_ND, list(case.layer.parameters()))
    assert scores.kl_N is not None
    for value_N in (scores.logp_N, scores.entropy_N, scores.kl_N):
        assert value_N.abs().max() == 0
    (gradient_ND,) = torch.autograd.grad(weighted(scores.logp_N, scores.entropy_N, scores.kl_N), [case.hidden_ND])
    assert gradient_ND.abs().max() == 0


class LargestTensor(TorchDispatchMode):
    """Records the number of elements of the largest tensor that any operation created."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, Tensor):
                self.largest = max(self.largest, tensor.numel())
        return out


@pytest.mark.parametrize("supports", [False, True])
def test_no_tensor_is_larger_than_a_chunk_of_logits(supports: bool) -> None:
    decisions, width, vocabulary, chunk = 60, 2, 48, 5
    hidden_ND = torch.randn(decisions, width, requires_grad=True)
    layer, zeros_N = nn.Linear(width, vocabulary), torch.zeros(decisions, dtype=torch.int64)
    table = packed([[0, 7]], zeros_N, vocabulary) if supports else None
    batch = Batch(torch.zeros(1, 1), torch.ones(1), zeros_N, zeros_N, zeros_N, zeros_N, torch.ones(decisions), table)
    job = ScoringJob(batch, layer, chunk, layer, hidden_ND.detach())
    with LargestTensor() as seen:
        scores = score_decisions(job, hidden_ND, list(layer.parameters()))
        weighted(scores.logp_N, scores.entropy_N, scores.kl_N).backward()  # type: ignore[arg-type]
    assert hidden_ND.grad is not None
    assert seen.largest == chunk * vocabulary


@pytest.mark.parametrize("rule", [CutRule(), CutRule(0.7, 5, 0.9)])
@pytest.mark.parametrize(
    ("tied", "lora"),
    [(True, None), (False, None), (True, Lora(4, 8)), (False, Lora(4, 8)), (False, Lora(4, 8, ("q_proj", "lm_head")))],
    ids=["tied", "untied", "tied-lora", "untied-lora", "untied-lora-on-head"],
)
def test_a_policy_scores_like_the_complete_model(tied: bool, rule: CutRule, lora: Lora | None) -> None:
    """Every trained weight gets the gradient of an ordinary forward pass; tied heads get it from both uses."""
    policy = tiny_policy(dtype="float64", shape=replace(SHAPE, tie_embeddings=tied), lora=lora, chunk=5)
    if lora is not None:
        with torch.no_grad():
            for _, parameter in policy.trainable():
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    batch = policy.collate(rollout(policy, count=2, rule=rule))
    policy.train(True)
    scores = policy.evaluate(batch)
    logits_NV = policy.model(input_ids=batch.input_ids).logits[batch.row_N, batch.column_N]
    logp_N, entropy_N, _ = plain_scores(logits_NV, batch, logits_NV.detach(), policy.excluded)
    torch.testing.assert_close(scores.logp_N, logp_N, **TOLERANCE)
    torch.testing.assert_close(scores.entropy_N, entropy_N, **TOLERANCE)
    trained = [parameter for _, parameter in policy.trainable()]
    expected = torch.autograd.grad(weighted(logp_N, entropy_N), trained)
    found = torch.autograd.grad(weighted(scores.logp_N, scores.entropy_N), trained)
    for gradient, expected_gradient in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-10, atol=1e-10)


def test_padding_does_not_change_scores() -> None:
    policy = tiny_policy(dtype="float64")
    short, long = sample_of([1, 4, 5]), sample_of([1, 4, 5, 6, 7, 8, 9])
    alone = policy.evaluate(policy.collate([short])).logp_N
    beside = policy.evaluate(policy.collate([long, short])).logp_N[-len(short.decisions) :]
    torch.testing.assert_close(alone, beside, **TOLERANCE)
