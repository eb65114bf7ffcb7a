"""Estimators that request more inputs than rewards and groups, on their own and in a run configured in TOML."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from statistics import fmean

import pytest
import torch
from torch import Tensor

from steelyard import compose
from steelyard import config as configs
from steelyard.algorithms import estimator
from steelyard.algorithms.advantages import group_mean
from steelyard.algorithms.facts import FACTS, RewardParts, requested_facts
from steelyard.errors import ConfigError
from steelyard.tracking import read_metrics
from steelyard.training.credit import Credit
from steelyard.training.phases import Stopwatch
from steelyard.types import Group, Task, Verdict
from tests.tiny import sample_of

pytestmark = pytest.mark.unit

OWN = '''
import json
import torch

def two(rewards, groups):
    return rewards - rewards.mean()

def with_own_option(rewards, groups, scale=2.0):
    return scale * rewards

def by_parts(rewards, groups, parts, lengths):
    """The part "right" minus 0.01 per token, relative to the mean of the group."""
    score = torch.nan_to_num(parts["right"]) - 0.01 * lengths
    advantages = torch.zeros_like(score)
    for group in groups.unique():
        of_group = groups == group
        advantages[of_group] = score[of_group] - score[of_group].mean()
    with open("calls.jsonl", "a") as file:
        file.write(json.dumps([len(rewards), advantages.tolist()]) + "\\n")
    return advantages

def everything(rewards, groups, *, parts, lengths, decisions, truncated, tasks, k):
    return k * lengths.double()

def misspelt(rewards, groups, lenghts):
    return rewards

def unheard_of(rewards, groups, weather):
    return rewards

def wrong_part(rewards, groups, parts):
    return parts["rigth"]

def score(task, text):
    from steelyard import Verdict
    right = sum(word == "a" for word in text.split())
    return Verdict.scored(right - 0.5, parts={"right": right, "words": len(text.split())})
'''

TOML = """
[run]
name = "own"
steps = 2
folder = "runs"
[model]
device = "cpu"
[model.scratch]
layers = 1
width = 16
heads = 2
kv_heads = 1
max_length = 16
vocabulary = ["a", "b", "c"]
[tasks]
prompts = ["a", "b"]
[verify]
verifier = "outside_estimator:score"
pool = "inline"
[sampling]
tasks_per_step = 2
group_size = 4
max_new_tokens = 6
[credit]
advantage = "outside_estimator:by_parts"
refill_dead_groups = 1
[tracking]
console = false
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "outside_estimator.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "outside_estimator", raising=False)
    return "outside_estimator"


def group(*verdicts: Verdict, lengths: tuple[int, ...] = (2, 3, 4), slot: int = 0) -> Group:
    samples = [
        sample_of(
            [1] * (length + 1),
            key=(0, slot, 0, index),
            starts=range(length),
            finish="length" if index == 1 else "stop",
        )
        for index, length in enumerate(lengths)
    ]
    return Group(Task(f"t{slot}", ""), tuple(samples), verdicts)


def test_an_estimator_with_two_parameters_gets_rewards_and_groups(outside: str) -> None:
    for name in ("two", "with_own_option"):
        assert requested_facts(estimator(f"{outside}:{name}")) == ()
    credit = Credit(estimator(f"{outside}:two"))
    rows = credit.assign([group(Verdict.scored(0.0), Verdict.scored(1.0), Verdict.scored(5.0))])
    assert [row.advantage_N[0] for row in rows] == [-2.0, -1.0, 3.0]
    doubled = estimator(f"{outside}:with_own_option")(torch.tensor([1.0]), torch.tensor([0]))
    assert doubled.tolist() == [2.0]


def test_facts_describe_the_samples_that_are_compared() -> None:
    """The unscored sample is not included; a rejected sample has no parts."""
    seen: dict[str, object] = {}

    def recording(
        reward_M: Tensor, group_M: Tensor, tasks: tuple[Task, ...], parts: RewardParts, lengths: Tensor,
        decisions: Tensor, truncated: Tensor,
    ) -> Tensor:  # fmt: skip
        seen.update(
            tasks=[task.id for task in tasks],
            right=parts["right"].nan_to_num(-9).tolist(),
            names=list(parts),
            lengths=lengths.tolist(),
            decisions=decisions.tolist(),
            truncated=truncated.tolist(),
        )
        return group_mean(reward_M, group_M)

    forced = sample_of([1] * 6, key=(0, 1, 0, 1), decided=[2, 3])
    second = Group(
        Task("t1", ""), (sample_of([1, 1], key=(0, 1, 0, 0)), forced), (Verdict.scored(1), Verdict.scored(2))
    )
    first = group(Verdict.scored(1, parts={"right": 0.5}), Verdict.unscored("timeout"), Verdict.rejected("bad"))
    Credit(recording).assign([first, second])
    assert seen == {
        "tasks": ["t0", "t0", "t1", "t1"],
        "right": [0.5, -9, -9, -9],
        "names": ["right"],
        "lengths": [2, 4, 1, 5],
        "decisions": [2, 4, 1, 2],
        "truncated": [False, False, False, False],
    }
    cut_off = group(Verdict.scored(1.0), Verdict.scored(2.0), Verdict.scored(3.0))
    Credit(recording).assign([cut_off])
    assert seen["truncated"] == [False, True, False]
    Credit(recording, truncated="mask").assign([cut_off])
    assert seen["lengths"] == [2, 4]


def test_dead_groups_and_step_rewards(outside: str) -> None:
    """Groups with equal rewards have a learning signal if the parts differ. All spans share their sample's facts."""
    credit = Credit(estimator(f"{outside}:by_parts"))
    equal = [Verdict.scored(1.0, parts={"right": float(right)}) for right in (0, 1, 2)]
    assert not credit.dead(group(*equal, lengths=(2, 2, 2)))
    assert credit.dead(group(*[Verdict.scored(index, parts={"right": 1.0}) for index in range(3)], lengths=(2, 2, 2)))
    assert credit.dead(group(*[Verdict.rejected("bad")] * 3, lengths=(2, 2, 2))), "no parts at all"
    steps = [Verdict.scored(1.0, parts={"right": float(right)}, steps=((1, 0.5), (2, 0.5))) for right in (0, 1, 2)]
    rows = credit.assign([group(*steps, lengths=(2, 2, 2))])
    assert [row.advantage_N.tolist() for row in rows] == [[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]


def test_facts_with_k(outside: str) -> None:
    own = estimator(f"{outside}:everything", 3)
    assert set(requested_facts(own)) == set(FACTS)
    rows = Credit(own).assign([group(*[Verdict.scored(1.0)] * 3)])
    assert [row.advantage_N[0] for row in rows] == [6.0, 9.0, 12.0]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("misspelt", r"parameter 'lenghts'.*can request parts, lengths, .*did you mean lengths\?"),
        ("unheard_of", r"parameter 'weather'.*can request parts, lengths"),
        ("everything", r"missing a required.*'k'"),
    ],
)
def test_unknown_parameters_are_rejected_when_the_estimator_is_loaded(
    outside: str, function: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"'{outside}:{function}'.*{message}"):
        estimator(f"{outside}:{function}")


def test_a_part_that_no_sample_has_is_named(outside: str) -> None:
    credit = Credit(estimator(f"{outside}:wrong_part"))
    with pytest.raises(ConfigError, match=r"returned nan.*no sample has the reward part 'rigth', did you mean 'right'"):
        credit.assign([group(*[Verdict.scored(1.0, parts={"right": 1.0})] * 3)])


@pytest.mark.usefixtures("outside")
def test_a_run_configured_by_toml_credits_by_parts() -> None:
    """The advantages of two steps equal those computed from the texts."""
    Path("recipe.toml").write_text(TOML, encoding="utf-8")
    config = configs.load("recipe.toml")
    trainer = compose.build_trainer(config)
    with closing(trainer):
        groups = trainer.rollouts.fetch(trainer.rollouts.take(0, Stopwatch()).groups)
        credited = {item.sample.key: item.advantage_N for item in trainer.credit.assign(groups)}
        for one in groups:
            scores = [sample.text.split().count("a") - 0.01 * len(sample.completion_ids) for sample in one.samples]
            for sample, score in zip(one.samples, scores, strict=True):
                expected = [score - fmean(scores)] * len(sample.decisions)
                assert credited[sample.key].tolist() == pytest.approx(expected, abs=1e-6)
        assert any(abs(advantage_N).max() > 0.1 for advantage_N in credited.values() if len(advantage_N))
        Path("calls.jsonl").unlink()
        trainer.train()
        assert trainer.step == 2
    calls = [json.loads(line) for line in Path("calls.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [count for count, _ in calls if count == 8] == [8, 8], (
        "one call per step has all samples; dead() calls it once per group"
    )
    assert len(list(read_metrics(Path("runs") / "own" / "metrics.jsonl"))) == 2
