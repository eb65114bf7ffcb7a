"""Draws compared with the definition: temperature, then top-k, then top-p, then min-p."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from steelyard.policies import cuts
from steelyard.sampling.draw import draw
from steelyard.sampling.randomness import stream, uniform
from steelyard.types import CutRule

RULES = [
    CutRule(temperature, top_k, top_p, min_p)
    for temperature, top_k, top_p, min_p in itertools.product(
        (1.0, 0.6, 1.7), (0, 1, 4, 50), (1.0, 0.9, 0.3), (0.0, 0.05, 0.5)
    )
]


def by_definition(logit_V: list[float], rule: CutRule) -> dict[int, float]:
    """Return token -> probability, most likely first, applying each truncation rule to a plain list."""
    size_V = [math.exp(logit / rule.temperature) for logit in logit_V]
    kept = sorted(range(len(logit_V)), key=lambda token: -size_V[token])
    if rule.top_k:
        kept = kept[: rule.top_k]
    if rule.top_p < 1:
        total, reached, count = sum(size_V[token] for token in kept), 0.0, 0
        while reached < rule.top_p and count < len(kept):
            reached += size_V[kept[count]] / total
            count += 1
        kept = kept[:count]
    if rule.min_p:
        kept = [token for token in kept if size_V[token] >= rule.min_p * size_V[kept[0]]]
    total = sum(size_V[token] for token in kept)
    return {token: size_V[token] / total for token in kept}


def check(logit_V: list[float], rule: CutRule) -> None:
    """Check that a uniform in the middle of each token's interval draws that token with its log-prob."""
    expected = by_definition(logit_V, rule)
    order = list(expected) if rule.cuts else sorted(expected)
    ends = np.cumsum([expected[token] for token in order])
    middle_K = np.asarray([end - expected[token] / 2 for token, end in zip(order, ends, strict=True)])
    logits_KV = torch.tensor([logit_V] * len(order), dtype=torch.float64)
    drawn = draw(logits_KV, rule, torch.from_numpy(middle_K))
    assert drawn.token_B.tolist() == order
    np.testing.assert_allclose(drawn.logp_B.exp(), [expected[token] for token in order], rtol=1e-9)
    assert drawn.logp_B.exp().sum().item() == pytest.approx(1.0, abs=1e-12)
    if rule.cuts:
        assert drawn.kept_BK is not None
        assert drawn.count_B is not None
        assert drawn.count_B.tolist() == [len(order)] * len(order)
        assert drawn.kept_BK[0, : len(order)].tolist() == order


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_rule_on_random_logits(rule: CutRule) -> None:
    rng = np.random.default_rng(0)
    for spread in (0.3, 1.0, 4.0):
        check((spread * rng.normal(size=23)).tolist(), rule)


@settings(max_examples=150)
@given(
    logit_V=st.lists(st.floats(-8, 8), min_size=1, max_size=30, unique=True),
    temperature=st.floats(0.3, 3.0),
    top_k=st.integers(0, 35),
    top_p=st.floats(0.05, 1.0),
    min_p=st.one_of(st.just(0.0), st.floats(0.01, 0.9)),
)
def test_any_rule_on_any_logits(
    logit_V: list[float], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    rule = CutRule(temperature, top_k, top_p, min_p)
    exact = by_definition(logit_V, rule)
    for nearby in (1 - 1e-9, 1 + 1e-9):  # a token within rounding error of the threshold may be kept or dropped
        moved = CutRule(temperature, top_k, min(top_p * nearby, 1.0), min_p * nearby)
        assume(by_definition(logit_V, moved).keys() == exact.keys())
    assume(min(exact.values()) > 1e-9)
    assume(len({math.exp(logit / temperature) for logit in logit_V}) == len(logit_V))
    check(logit_V, rule)


@pytest.mark.parametrize(
    "rule", [CutRule(), CutRule(0.8, 6), CutRule(1.3, 0, 0.85), CutRule(1.0, 10, 0.95, 0.1)], ids=str
)
def test_keyed_draws_follow_the_distribution(rule: CutRule) -> None:
    """Chi-squared test over 60,000 draws of neighbouring samples at one position."""
    logit_V = (1.5 * np.random.default_rng(2).normal(size=12)).tolist()
    expected, n = by_definition(logit_V, rule), 60_000
    uniform_B = torch.from_numpy(uniform(stream(0, 3, 1, 0, np.arange(n)), 17))
    drawn = draw(torch.tensor([logit_V]).expand(n, -1), rule, uniform_B)
    counts = np.bincount(drawn.token_B, minlength=12)
    assert set(np.nonzero(counts)[0].tolist()) <= expected.keys()
    wanted = np.asarray([n * expected[token] for token in expected])
    chi_square = ((counts[list(expected)] - wanted) ** 2 / wanted).sum()
    freedom = len(expected) - 1
    assert chi_square < freedom + 4 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("spread", [0.01, 2.0, 6.0])
@pytest.mark.parametrize(
    "rule",
    [CutRule(1.0, 0, 0.9), CutRule(0.7, 0, 0.99, 0.001), CutRule(1.2, 0, 1.0, 0.02), CutRule(1.0, 5000, 0.5)],
    ids=str,
)
def test_sorting_candidates_equals_sorting_everything(
    rule: CutRule, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, vocabulary = 20, 1500
    spread_B1 = spread * torch.linspace(0.3, 2.0, rows)[:, None]  # mixes wide and narrow rows in one batch
    logits_BV = spread_B1 * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(0))
    uniform_B = torch.rand(rows, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    quick = draw(logits_BV, rule, uniform_B)
    monkeypatch.setattr(cuts, "CANDIDATES", vocabulary)
    whole = draw(logits_BV, rule, uniform_B)
    assert torch.equal(quick.token_B, whole.token_B)
    torch.testing.assert_close(quick.logp_B, whole.logp_B, rtol=0, atol=1e-6)
    assert quick.kept_BK is not None and whole.kept_BK is not None and quick.count_B is not None  # noqa: PT018
    assert torch.equal(quick.count_B, whole.count_B)  # type: ignore[arg-type]
    for row, count in enumerate(quick.count_B.tolist()):
        assert torch.equal(quick.kept_BK[row, :count], whole.kept_BK[row, :count])


def test_candidates_avoid_the_full_sort_except_for_wide_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples take both branches of the shortcut."""
    sorts: list[int] = []
    sort = torch.Tensor.sort
    monkeypatch.setattr(
        torch.Tensor, "sort", lambda *args, **kwargs: (sorts.append(len(args[0])), sort(*args, **kwargs))[1]
    )
    uniform_B, logits_BV = torch.full((3,), 0.5), torch.linspace(0, 60, 1500).repeat(3, 1)
    draw(logits_BV, CutRule(1.0, 0, 0.9), uniform_B)
    assert not sorts
    logits_BV[1] = 0.0
    drawn = draw(logits_BV, CutRule(1.0, 0, 0.9), uniform_B)
    assert sorts == [1]
    assert drawn.count_B is not None
    assert drawn.count_B.tolist() == pytest.approx([58, 1350, 58], abs=1)


@pytest.mark.parametrize("rule", [CutRule(), CutRule(1.0, 3), CutRule(1.0, 0, 0.999)], ids=str)
@pytest.mark.parametrize("edge", [0.0, 1.0 - 2**-53])
def test_uniforms_at_the_edges_draw_possible_tokens(rule: CutRule, edge: float) -> None:
    """A uniform of 0, or one that rounds to 1, must not draw a token without mass at either end."""
    logits_BV = torch.tensor([[-200.0, 0.0, 1.0, -1.0, -200.0]])
    drawn = draw(logits_BV, rule, torch.tensor([edge], dtype=torch.float64))
    assert drawn.token_B.item() in (1, 2, 3)
    assert torch.isfinite(drawn.logp_B).all()


def test_bfloat16_logits_are_drawn_from_in_float32() -> None:
    logits_BV = torch.randn(4, 9, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    drawn = draw(logits_BV, CutRule(0.7), torch.full((4,), 0.3))
    exact_BV = (logits_BV.double() / 0.7).log_softmax(-1)
    assert drawn.logp_B.dtype == torch.float32
    np.testing.assert_allclose(drawn.logp_B, exact_BV.gather(1, drawn.token_B[:, None])[:, 0], atol=1e-6)
