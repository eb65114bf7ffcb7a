"""The variety bonus: repeated successes in a group score less."""

from __future__ import annotations

import pytest

from steelyard.domains.registry import make_domain
from steelyard.domains.theories.reward.reward import FLOOR, TheoryScorer, reward_from_options
from steelyard.domains.theories.reward.variety import VarietyScorer
from steelyard.errors import ConfigError
from steelyard.types import Task
from steelyard.verification.base import GroupMode, SingleMode

TASK = Task("su5", "groups", {"kind": "groups", "given": "GAUGE SU(5) SSB", "terms": ""})
LIMITS = {"groups": 2, "abelian": 0, "multiplets": 6}


def theory(fermions: str) -> str:
    return f"GAUGE SU(5) SSB MULTIPLETS {fermions} INTERACTIONS"


ONE = theory("F1 left 10 x1 F2 left 5* x1")
OTHER_WAY_ROUND = theory("F1 left 5 x1 F2 left 10* x1")
WITH_A_PAIR = theory("F1 left 10 x1 F2 left 5* x2 F3 left 5 x1")
TWICE = theory("F1 left 10 x2 F2 left 5* x2")
WITH_A_SCALAR = theory("F1 left 10 x1 F2 left 5* x1 S1 5")
ANOMALOUS = theory("F1 left 10 x1")


def test_rare_successes_score_higher() -> None:
    domain = make_domain("theories", limits=LIMITS)
    judge = TheoryScorer(domain.bounds)  # type: ignore[attr-defined]
    texts = [ONE, OTHER_WAY_ROUND, TWICE, ANOMALOUS, WITH_A_PAIR, WITH_A_SCALAR, "GAUGE"]
    verdicts = VarietyScorer(judge, 6.0)(TASK, texts)
    same, with_scalar = (1 / 4 + 1 / 3) / 2, (1 / 4 + 1) / 2
    assert [verdict.parts.get("variety") for verdict in verdicts] == [same, same, 1.0, 0.0, same, with_scalar, None]
    for text, verdict in zip(texts[:6], verdicts[:6], strict=True):
        alone = judge(TASK, text)
        assert verdict.success == alone.success
        assert verdict.reward == pytest.approx(alone.reward + 6.0 * verdict.parts["variety"])
    assert verdicts[6].status == "rejected"


def test_vector_like_pairs_can_count_as_different() -> None:
    judge = TheoryScorer(reward=reward_from_options({"variety": 6.0, "vector_like": True}))
    verdicts = judge.verifier().function(TASK, [ONE, OTHER_WAY_ROUND, WITH_A_PAIR])
    assert [verdict.parts["variety"] for verdict in verdicts] == [0.5, 0.5, 1.0]
    with pytest.raises(ConfigError, match="vector_like = 'no' must be true or false"):
        reward_from_options({"vector_like": "no"})


def test_groups_are_scored_together_only_with_a_variety_weight() -> None:
    plain, varied = TheoryScorer().verifier(), TheoryScorer(reward=reward_from_options({"variety": 2.0})).verifier()
    assert isinstance(plain.mode, SingleMode)
    assert isinstance(varied.mode, GroupMode)
    assert plain.version != varied.version
    assert varied.floor == FLOOR
    with pytest.raises(ConfigError, match="variety = -1"):
        reward_from_options({"variety": -1})
