"""The reward of brick structures, with parts computed by hand, and its verifier."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from steelyard.domains.bricks import InvalidStructureError, Reason, World, largest_pull, parse
from steelyard.domains.bricks.actions import Lines
from steelyard.domains.bricks.briefs import Brief, Cantilever, Tower
from steelyard.domains.bricks.outcome import outcome
from steelyard.domains.bricks.reward import (
    BrickScorer,
    Penalties,
    RewardSettings,
    Weights,
    parse_reward_settings,
    step_rewards,
)
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.errors import ConfigError
from steelyard.types import Decisions, Sample, SampleKey, Task, Verdict
from steelyard.verification import Item, safe_verify

pytest.importorskip("highspy")

WORLD = World()
TOWER = Tower(height=3, length=2, width=4)
STANDING = "2x4 (0,0,0)\n2x4 (0,0,1)\n2x4 (0,0,2)\n"


def verdict(text: str, brief: Brief = TOWER, **settings: Any) -> Verdict:
    """Verify text the way a run does."""
    none = np.zeros(0, np.int32)
    sample = Sample(SampleKey(0, 0, 0, 0), none, 0, text, "stop", Decisions(none, none, np.zeros(0, np.float32)))
    verifier = BrickScorer(Lines(WORLD, 40), parse_reward_settings(settings)).verifier()
    return safe_verify(verifier, [Item(Task("t", "p", brief.spec), sample, 1)])[0]


def test_a_success_earns_the_first_four_weights() -> None:
    found = verdict(STANDING)
    assert (found.status, found.success) == ("scored", True)
    assert found.parts == {
        "purpose": 1.0,
        "stability": 1.0,
        "connectivity": 1.0,
        "success": 1.0,
        "length": pytest.approx(3 / 20),
        "quality": 0.0,
    }
    assert found.reward == pytest.approx(0.4 + 0.2 + 0.1 + 0.3)


def test_a_skipped_brick_lowers_quality_and_prevents_success() -> None:
    found = verdict(STANDING + "1x1 (0,0,0)\n9x9 (0,0,0)\n1x1 (20,0,0)\nhello\n")
    assert found.parts["quality"] == pytest.approx(-0.4)
    assert not found.success
    assert found.reward == pytest.approx(0.4 + 0.2 + 0.1 - 0.1 * 0.4)


@pytest.mark.parametrize(
    ("line", "name"),
    [("1x1 (0,0,0)", "collision"), ("1x1 (20,0,0)", "out_of_bounds"), ("9x9 (0,0,0)", "rejected"), ("?", "rejected")],
)
def test_each_flaw_has_its_penalty(line: str, name: str) -> None:
    penalties = {"collision": 0.0, "out_of_bounds": 0.0, "rejected": 0.0, name: 0.25}
    assert verdict(f"{STANDING}{line}\n{line}", penalties=penalties).parts["quality"] == pytest.approx(-0.5)
    assert verdict(STANDING, penalties=penalties).parts["quality"] == 0.0


def test_penalties_are_limited_to_one() -> None:
    assert verdict(STANDING + "?\n" * 30).parts["quality"] == -1.0
    assert verdict(STANDING, penalties={"part": 0.01}).parts["quality"] == pytest.approx(-0.03)


FLOATING = "2x4 (0,0,0)\n2x4 (0,0,2)\n"


def test_floating_bricks_are_unstable_and_the_purpose_scales_the_reward() -> None:
    found = verdict(FLOATING)
    assert (found.status, found.success) == ("scored", False)
    assert found.parts["purpose"] == pytest.approx(2 / 3)
    assert (found.parts["stability"], found.parts["connectivity"]) == (0.0, 0.5)
    assert found.parts["quality"] == 0.0
    assert found.reward == pytest.approx(0.4 * 2 / 3 + 0.1 * 0.5 * 2 / 3)
    assert verdict(FLOATING, needs_purpose=False).reward == pytest.approx(0.4 * 2 / 3 + 0.1 * 0.5)


def test_a_stable_heap_earns_nothing_by_default() -> None:
    brief, heap = Cantilever(3, 2, 4, 50), "2x4 (0,0,0)\n2x4 (2,0,0)\n2x4 (0,0,1)\n"
    assert verdict(heap, brief).reward == 0.0
    weights = {"purpose": 0.0, "success": 0.0, "stability": 0.7, "connectivity": 0.3}
    assert verdict(heap, brief, needs_purpose=False, weights=weights).reward == pytest.approx(1.0)


def test_the_load_affects_stability() -> None:
    arm = "4x2 (0,0,0)\n4x2 (0,0,1)\n6x2 (1,0,2)\n"
    light, heavy = verdict(arm, Cantilever(3, 2, 4, 20)), verdict(arm, Cantilever(3, 2, 4, 5000))
    assert light.success
    assert not heavy.success
    assert heavy.parts["purpose"] == 1.0
    pull = largest_pull(parse(arm, WORLD), Cantilever(3, 2, 4, 5000).loads(parse(arm, WORLD)))
    assert pull > PUBLISHED.capacity
    assert heavy.parts["stability"] == pytest.approx(0.5 * PUBLISHED.capacity / pull)
    assert heavy.reward == pytest.approx(0.4 + 0.1 + 0.2 * heavy.parts["stability"])


def test_method_and_symmetry_are_passed_to_the_solver() -> None:
    arm, brief = parse("4x2 (0,0,0)\n4x2 (0,0,1)\n6x2 (1,0,2)\n", WORLD), Cantilever(3, 2, 4, 5000)
    assert outcome(arm, brief, method="connectivity").success
    assert outcome(arm, brief, symmetric=True).pull >= outcome(arm, brief).pull > PUBLISHED.capacity


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ill formatted"),
        ("a chair", "ill formatted"),
        ("3x3 (0,0,0)", "not in library"),
        ("1x8 (0,13,0)", "out of"),
    ],
)
def test_a_text_without_bricks_is_rejected_with_a_reason(text: str, reason: str) -> None:
    found = verdict(text)
    assert (found.status, found.reward) == ("rejected", -0.1)
    assert found.reason.startswith(reason)


def test_strict_rejects_all_flaws_except_floating() -> None:
    found = verdict(STANDING + "1x1 (0,0,0)\n", strict=True)
    assert found.status == "rejected"
    assert found.reason.startswith("collision: brick 4")
    assert verdict(FLOATING, strict=True).status == "scored"
    with pytest.raises(InvalidStructureError) as caught:
        BrickScorer(Lines(WORLD, 40), RewardSettings(strict=True))(Task("t", "p", TOWER.spec), "1x1 (20,0,0)")
    assert caught.value.flaw.reason is Reason.OUT_OF_BOUNDS


def test_an_invalid_brief_leaves_the_sample_unscored() -> None:
    none = np.zeros(0, np.int32)
    sample = Sample(
        SampleKey(0, 0, 0, 0), none, 0, "2x4 (0,0,0)", "stop", Decisions(none, none, np.zeros(0, np.float32))
    )
    found = safe_verify(
        BrickScorer(Lines(WORLD, 40)).verifier(), [Item(Task("t", "p", {"kind": "castle"}), sample, 1)]
    )[0]
    assert found.status == "unscored"
    assert "castle" in found.reason


def test_step_rewards_by_hand() -> None:
    found = verdict(STANDING, step_rewards=True)
    assert [end for end, _ in found.steps] == [11, 23, 35]
    assert [gain for _, gain in found.steps] == pytest.approx([0.4 / 3, 0.4 / 3, 1.0 - 0.8 / 3])
    assert found.reward == verdict(STANDING).reward
    assert verdict(STANDING).steps == ()


def test_step_rewards_ignore_skipped_lines() -> None:
    text = "\n 2x4 (0,0,0) \nhello\n2x4 (0,0,1)"
    found = verdict(text, step_rewards=True)
    assert [text[:end].rsplit("\n", maxsplit=1)[-1].strip() for end, _ in found.steps] == ["2x4 (0,0,0)", "2x4 (0,0,1)"]
    assert sum(gain for _, gain in found.steps) == pytest.approx(found.reward)


def test_step_rewards_add_up_to_the_reward() -> None:
    structure = parse(STANDING, WORLD)
    assert sum(step_rewards(structure, TOWER, 0.7, 5.0)) == pytest.approx(5.0)
    assert step_rewards(parse("1x1 (0,0,0)", WORLD), TOWER, 0.7, 0.25) == [0.25]


def test_settings_are_part_of_the_version() -> None:
    plain = BrickScorer(Lines(WORLD, 40)).verifier()
    assert plain.deterministic
    assert plain.version == BrickScorer(Lines(World(), 40)).verifier().version
    others = [
        BrickScorer(Lines(WORLD, 40), RewardSettings(strict=True)),
        BrickScorer(Lines(WORLD, 40), RewardSettings(weights=Weights(purpose=0.5))),
        BrickScorer(Lines(World((20, 20, 21)), 40)),
    ]
    assert len({plain.version, *(other.verifier().version for other in others)}) == 4


def test_the_scorer_can_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(BrickScorer(Lines(WORLD, 40), RewardSettings(step_rewards=True))))
    assert again == BrickScorer(Lines(WORLD, 40), RewardSettings(step_rewards=True))
    assert again(Task("t", "p", TOWER.spec), STANDING).success


def test_settings_from_plain_data() -> None:
    settings = parse_reward_settings({"weights": {"purpose": 1}, "penalties": {"part": 0.01}, "step_rewards": True})
    assert settings == RewardSettings(Weights(purpose=1), Penalties(part=0.01), step_rewards=True)
    assert parse_reward_settings({}) == RewardSettings()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wieghts": {}}, "bricks reward: unknown setting 'wieghts'; did you mean 'weights'"),
        ({"weights": {"purpos": 1}}, "bricks weights: .* did you mean 'purpose'"),
        ({"penalties": {"zzz": 1}}, "bricks penalties: .* there are: collision"),
        ({"weights": {"purpose": -1}}, "weights: purpose = -1"),
        ({"penalties": {"part": float("nan")}}, "penalties: part = nan"),
        ({"weights": 3}, "weights = 3 must be a table"),
        ({"full_length": 0}, "full_length = 0"),
        ({"method": "simplex"}, "method = 'simplex'"),
    ],
)
def test_invalid_settings_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_reward_settings(options)
