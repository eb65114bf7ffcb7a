"""The reward of theories: parts computed by hand, the success criterion and rejected texts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from steelyard.algorithms.advantages import group_norm
from steelyard.domains.registry import make_domain
from steelyard.domains.theories.domain import Theories
from steelyard.domains.theories.grammar.random_theories import random_theory
from steelyard.domains.theories.grammar.starting_points import model, standard_model_text
from steelyard.domains.theories.grammar.text import read
from steelyard.domains.theories.model.limits import Limits
from steelyard.domains.theories.physics.mass_spectrum import light_exotics
from steelyard.domains.theories.reward.parts import EXTRA
from steelyard.domains.theories.reward.reward import FLOOR, TheoryScorer, bounded, reward_from_options
from steelyard.domains.theories.reward.success import LIGHT, Findings, succeeds
from steelyard.errors import ConfigError, Invalid
from steelyard.types import Task, Verdict

ANY = Task("any", "nothing")
SM = standard_model_text()
CHIRAL = "F1 left +5/6 x1 F2 left -2/3 x2 F3 left +1/6 x3"
BROKEN = f"GAUGE U(1) SSB S1 +1/6 c1 2e2 MULTIPLETS {CHIRAL} INTERACTIONS"


def judged(text: str, **options: Any) -> Verdict:
    return TheoryScorer(Limits(), reward_from_options(options))(ANY, text)


def found(text: str) -> Findings:
    return Findings(read(text), len(text.split()))


def with_one_higgsino() -> str:
    return SM.replace(" INTERACTIONS", " F6 left 2 1 +1/2 x1 INTERACTIONS")


def test_the_standard_model_succeeds() -> None:
    verdict = judged(SM)
    assert verdict.success
    assert verdict.reward == 1.0
    assert verdict.parts == {
        "anomalies": 0.0,
        "chirality": 0.0,
        "exotics": 0.0,
        "length": 0.0,
        "parameters": 0.0,
        "success": 1.0,
    }


def test_every_anomaly_condition_counts() -> None:
    """Four of six conditions fail: SU(2)²U(1) by ¼, U(1)³ by ¼, gravity by 1 and Witten by 1."""
    missing = 4 * 5 + 2 * math.log(1.25) + 2 * math.log(2)
    assert judged(with_one_higgsino()).parts["anomalies"] == pytest.approx(-missing / 6 / 2)
    assert judged(with_one_higgsino(), preset="published").parts["anomalies"] == pytest.approx(-missing / 10)


def test_neutral_and_vector_like_fermions_do_not_succeed() -> None:
    """Every anomaly cancels, but the gauge group acts on no chiral multiplet."""
    neutral = "GAUGE U(1) SSB S1 +1/6 c1 2e2 MULTIPLETS F1 left 0 x1 INTERACTIONS"
    pair = "GAUGE U(1) SSB S1 +1/6 c1 2e2 MULTIPLETS F1 left +1 x1 F2 right +1 x1 INTERACTIONS mass F1 F2* 1e3"
    for text in (neutral, pair):
        verdict = judged(text)
        assert verdict.parts["anomalies"] == verdict.parts["exotics"] == 0.0
        assert verdict.parts["chirality"] == -1.0
        assert not verdict.success
    assert judged(BROKEN).success


@pytest.mark.parametrize(
    ("fermions", "vector_like_groups"),
    [
        ("F1 left 2 x1", ()),
        ("F1 left 2 x2", ("SU2",)),
        ("F1 left 3 x1", ("SU2",)),
        ("F1 left 4 x3", ()),
        ("F1 left 4 x1 F2 right 4 x1", ("SU2",)),
    ],
)
def test_an_odd_number_of_pseudoreal_multiplets_is_chiral(fermions: str, vector_like_groups: tuple[str, ...]) -> None:
    """Two pseudoreal multiplets have a mass term together; a real multiplet has one alone."""
    assert found(f"GAUGE SU(2) SSB MULTIPLETS {fermions} INTERACTIONS").vector_like_groups == vector_like_groups


def test_each_gauge_factor_needs_a_chiral_multiplet() -> None:
    text = "GAUGE SU(5) SU(5) SSB MULTIPLETS F1 left 10 1 x1 F2 left 5* 1 x1 F3 left 1 24 x1 INTERACTIONS"
    assert found(text).vector_like_groups == ("SU5b",)
    assert judged(text).parts["chirality"] == -0.5
    assert not judged(text).success


@pytest.mark.parametrize("abelian", [0, 1])
def test_light_exotics_equal_those_of_the_spectrum(abelian: int) -> None:
    """Masses are computed only for random theories with an unbroken electric charge or colour."""
    domain = make_domain("theories", limits={"groups": 2, "abelian": abelian, "largest": 4}, max_example_words=40)
    theories = [read(text) for _, text in itertools.islice(domain.examples(), 60)]  # type: ignore[attr-defined]
    worked_out = 0
    for theory in theories:
        own = Findings(theory, 0)
        assert own.light_exotics == light_exotics(theory, LIGHT)
        worked_out += "spectrum" in vars(own)
    assert 0 < worked_out < len(theories)


def test_breaking_electromagnetism_does_not_hide_light_exotics() -> None:
    """Charged and coloured scalars stay massless while another scalar gives mass to the photon or the gluons."""
    massless = SM.replace(" INTERACTIONS", " S2 1 1 +1 S3 1 3 +2/3 INTERACTIONS")
    seen = judged(massless)
    assert -1.0 < seen.parts["exotics"] < 0.0
    for vacuum, fields in (
        ("S2 1 1 +1 c1 1e3", "S3 1 1 +1 S4 1 3 +2/3"),
        ("S2 1 1 +1 c1 1e3 S3 1 3 +1/6 c1 1e3", "S4 1 1 +1 S5 1 3 +2/3"),
    ):
        text = SM.replace(" MULTIPLETS", f" {vacuum} MULTIPLETS").replace(" INTERACTIONS", f" {fields} INTERACTIONS")
        hidden = judged(text)
        assert hidden.parts["exotics"] == -1.0
        assert hidden.reward < seen.reward
        assert not hidden.success


def test_the_penalty_of_light_exotics_depends_on_their_mass() -> None:
    """A pair of charge 2 costs nothing if heavy, and c / (1 + c) with c = log10 9.9 / 20 at 10 GeV. A massless pair
    costs as much as one of 1 MeV.
    """
    pair = SM.replace(" INTERACTIONS", " F6 left 1 1 +2 x1 F7 right 1 1 +2 x1 INTERACTIONS")
    assert judged(f"{pair} mass F6 F7* 1e3").parts["exotics"] == 0.0
    assert judged(f"{pair} mass F6 F7* 1e3").success
    cost = math.log10(9.9) / 20
    assert judged(f"{pair} mass F6 F7* 1e1").parts["exotics"] == pytest.approx(-cost / (1 + cost))
    massless = judged(pair)
    assert math.isfinite(massless.reward)
    assert massless.parts["exotics"] == pytest.approx(-(cost := math.log10(99e3) / 20) / (1 + cost))
    assert not massless.success


def test_length_and_parameter_penalties() -> None:
    verdict = judged(SM, max_words=58, max_parameters=3)
    assert verdict.parts["length"] == pytest.approx(-20 * 10 / 212)
    assert verdict.parts["parameters"] == pytest.approx(-20 * 2 / 25)
    assert not verdict.success
    assert succeeds(found(SM), max_words=68, max_parameters=5)
    assert not succeeds(found(SM), max_words=67, max_parameters=5)
    assert not succeeds(found(SM), max_words=68, max_parameters=4)


def test_extra_parts_by_name_and_by_import_path() -> None:
    verdict = judged(SM, extra={"standard_model": 2.0, "massless": 1.0, f"{__name__}:fields": 0.1})
    assert verdict.parts["standard_model"] == 1.0
    assert verdict.parts["massless"] == 0.0
    assert verdict.parts[f"{__name__}:fields"] == 6.0
    assert verdict.reward == pytest.approx(1 + 2 + 0.6)
    assert not any(EXTRA[name](found(BROKEN)) for name in ("standard_model", "massless", "proton"))


def fields(of: Findings) -> float:
    return len(of.theory.fields)


def test_the_weak_angle_of_the_standard_model_is_that_of_su5() -> None:
    assert EXTRA["weak_angle"](found(SM)) == pytest.approx(0.0)
    assert EXTRA["weak_angle"](found(with_one_higgsino())) < -0.005
    assert EXTRA["weak_angle"](found(BROKEN)) == -1.0


def test_a_scalar_that_couples_to_two_quarks_and_to_a_quark_and_a_lepton_allows_proton_decay() -> None:
    leptoquark = SM.replace(" INTERACTIONS", " S2 1 3 -1/3 INTERACTIONS")
    safe = f"{leptoquark} yukawa F1 F3 S2* 1e-1"
    assert EXTRA["proton"](found(safe)) == 0.0
    assert EXTRA["proton"](found(f"{safe} yukawa F3 F3 S2 1e-1")) == -1.0


def test_invalid_texts_are_rejected() -> None:
    extended = next(model(Limits()))
    task, judge = Task("sm", "model", extended.spec), TheoryScorer()
    for text, reason in (
        ("GAUGE U(1)", "does not start"),
        (SM.replace("INTERACTIONS", "INTERACTIONS phi4 S1"), "expected a field"),
        (SM.replace(" phi2 S1 S1* 1e4", ""), "interactions do not start"),
        (f"{SM} phi2 S1 S1* 1e4", "the same term occurs twice"),
        (SM, "no fermion follows"),
        (SM.replace(" INTERACTIONS", " S2 2 1 +1/2 INTERACTIONS"), "no fermion follows"),
    ):
        with pytest.raises(Invalid, match=reason):
            judge(task, text)
    with pytest.raises(Invalid, match="not gauge-invariant"):
        judge(ANY, SM.replace("yukawa F3 F4* S1 1e0", "yukawa F3 F4* S1* 1e0"))
    with pytest.raises(Invalid, match="has no fermion"):
        judge(ANY, "GAUGE U(1) SSB MULTIPLETS INTERACTIONS")
    assert judge(task, SM.replace(" INTERACTIONS", " F6 left 1 1 0 x1 INTERACTIONS")).success
    assert judge.verifier().floor == FLOOR


def test_the_reward_is_bounded_and_increases_with_the_sum() -> None:
    """r for r ≥ 0, -5 |r| / (5 + |r|) below."""
    assert [bounded(r) for r in (2.0, 0.0, -5.0, -20.0)] == [2.0, 0.0, -2.5, -4.0]
    sums = [-1e308, -1e9, -100.0, -10.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 1e308]
    rewards = [bounded(r) for r in sums]
    assert rewards == sorted(rewards)
    assert len(set(rewards[1:])) == len(sums) - 1
    assert min(rewards) >= FLOOR


def test_no_theory_scores_below_a_rejected_text() -> None:
    """Check several weights and extra parts."""
    bad = with_one_higgsino()
    for options in (
        {},
        {"preset": "published"},
        {"weights": {"anomalies": 1e6}},
        {"extra": {f"{__name__}:awful": 1.0}},
    ):
        verdict, judge = judged(bad, **options), TheoryScorer(reward=reward_from_options(options))
        assert not verdict.success
        assert judge.verifier().floor <= verdict.reward < 0
    assert judged(bad, extra={f"{__name__}:awful": 1.0}).reward < judged(bad).reward


def awful(_: Findings) -> float:
    return -1e12


def test_a_typical_failure_is_not_reinforced_next_to_a_success() -> None:
    """With default options, the median failure of a random group lies below the mean."""
    domain = Theories()
    judge, success = domain.scorer(), judged(SM).reward
    for number in range(3):
        task, rng = domain.task("train", 37 * number), np.random.default_rng([1, number])
        texts = [random_theory(domain.grammar, task, rng, max_words=domain.max_example_words) for _ in range(24)]
        failures = [verdict.reward for text in texts if not (verdict := judge(task, text)).success]
        reward_M = torch.tensor([*failures, success])
        advantage_M = group_norm(reward_M, torch.zeros(len(reward_M), dtype=torch.long))
        assert advantage_M[:-1].quantile(0.5) < 0 < advantage_M[-1]
        assert min(failures) > FLOOR


def test_unknown_settings_are_rejected() -> None:
    for options in ({"wieghts": {}}, {"weights": {"anomaly": 1}}, {"preset": "other"}, {"extra": {"sm": 1.0}}):
        with pytest.raises(ConfigError, match="theories"):
            reward_from_options(options)
    assert (
        TheoryScorer(reward=reward_from_options({"max_words": 9})).verifier().version
        != TheoryScorer().verifier().version
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_words": "x"}, "max_words = 'x'"),
        ({"max_parameters": -1}, "max_parameters = -1 must be a finite number of at least 0"),
        ({"weights": {"anomalies": "x"}}, "anomalies = 'x'"),
        ({"weights": {"success": math.nan}}, "success = nan"),
        ({"weights": 3}, "weights = 3 must be a table"),
        ({"extra": ["proton"]}, r"extra = \['proton'\] must be a table"),
        ({"extra": {"proton": True}}, "proton = True"),
    ],
)
def test_settings_of_the_wrong_type_are_rejected(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        reward_from_options(options)
