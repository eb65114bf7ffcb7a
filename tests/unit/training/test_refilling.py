"""Dead groups are replaced by groups for other tasks, and the metrics include the replaced groups."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from steelyard.data import ListSource
from steelyard.tracking import read_metrics
from steelyard.training.credit import Credit
from steelyard.training.loop import Trainer
from steelyard.training.phases import Stopwatch
from steelyard.types import Group, Task, Verdict
from steelyard.verification import as_verifier
from tests.tiny import rollout, tiny_policy, tiny_trainer


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return read_metrics(folder / "metrics.jsonl")


SCORES = itertools.count(2)


def dead_or_alive(task: Task, text: str) -> float:
    """Return a different score for every sample of a live task, and 1 for every sample of a dead task."""
    return 1.0 if task.id.startswith("dead") else 1 / next(SCORES)


def test_only_groups_of_the_last_step_can_be_fetched(tmp_path: Path) -> None:
    rollouts = tiny_trainer(tmp_path, verifier=lambda task, text: 1.0, refill_dead_groups=1).rollouts
    groups, replaced = rollouts.take(0, Stopwatch())
    assert [group.key for group in rollouts.fetch(groups[::-1])] == [group.key for group in groups[::-1]]
    assert [group.summary() for group in rollouts.fetch(groups)] == groups
    with pytest.raises(KeyError):
        rollouts.fetch(replaced)
    rollouts.take(1, Stopwatch())
    with pytest.raises(KeyError):
        rollouts.fetch(groups)


def named(*ids: str) -> ListSource:
    return ListSource([Task(name, f"{number} 2") for number, name in enumerate(ids)], shuffle=False)


def test_dead_groups_are_replaced_by_groups_for_other_tasks(tmp_path: Path) -> None:
    source = named("dead 0", "live 1", "dead 2", "dead 3", "live 4", "live 5", "live 6")
    trainer = tiny_trainer(
        tmp_path, verifier=dead_or_alive, source=source, tasks_per_step=3, refill_dead_groups=3, group_size=6
    )
    groups, replaced = trainer.rollouts.take(0, Stopwatch())
    # attempt 1 draws (dead 3, live 4) for slots 0 and 2, attempt 2 draws live 5 for slot 0
    assert [group.task.id for group in groups] == ["live 5", "live 1", "live 4"]
    assert [group.samples[0].key[1:3] for group in groups] == [(0, 2), (1, 0), (2, 1)]
    assert [group.task.id for group in replaced] == ["dead 0", "dead 2", "dead 3"]
    assert source.cursor == 6


def test_replaced_groups_are_included_in_the_metrics(tmp_path: Path) -> None:
    """Two samples of the first group are unscored; the groups to learn from contain none of them."""

    def shaky(task: Task, text: str) -> float | None:
        return next(scores) if task.id == "dead 0" else dead_or_alive(task, text)

    scores, tokens = iter([1.0, 0.0, None, None]), list[int]()
    source = named("dead 0", "live 1", "live 2")
    trainer = tiny_trainer(
        tmp_path, verifier=shaky, source=source, credit=Credit(min_scored=3), refill_dead_groups=1, group_size=4
    )
    draw = trainer.parts.sampler.sample

    def watch(*args: Any) -> Any:
        for sample in draw(*args):
            tokens.append(len(sample.completion_ids))
            yield sample

    trainer.parts.sampler.sample = watch  # type: ignore[method-assign]
    metrics: Any = trainer.train_step()
    assert (metrics["groups/refilled"], metrics["samples"], len(tokens)) == (1, 12, 12)
    assert (metrics["share/unscored"], metrics["unscored/no score"]) == (pytest.approx(2 / 12), 2.0)
    assert metrics["time/tokens_per_second"] * metrics["time/step"] == pytest.approx(sum(tokens))


def test_reward_and_success_before_a_refill_are_logged_separately(tmp_path: Path) -> None:
    trainer = tiny_trainer(
        tmp_path, verifier=dead_or_alive, source=named("dead 0", "live 1"), tasks_per_step=1, refill_dead_groups=1
    )
    metrics: Any = trainer.train_step()
    assert metrics["reward/mean"] < 1.0, "only the live group counts"
    assert metrics["sampled/reward"] == pytest.approx((metrics["reward/mean"] + 1.0) / 2)
    assert metrics["sampled/success"] == pytest.approx((metrics["success"] + 1.0) / 2)


def test_refilling_stops_after_the_configured_attempts(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, verifier=lambda task, text: 1.0, refill_dead_groups=2, steps=1)
    trainer.train()
    (row,) = rows_of(tmp_path)
    assert row["groups/refilled"] == 4
    assert row["groups/dead"] == 1
    assert row["gradient/norm"] == 0


def test_without_refilling_dead_groups_stay(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, verifier=dead_or_alive, source=named("dead 0", "live 1"))
    groups, replaced = trainer.rollouts.take(0, Stopwatch())
    assert [trainer.credit.dead(group) for group in trainer.rollouts.fetch(groups)] == [True, False]
    assert replaced == []


def test_groups_that_differ_only_in_their_step_rewards_are_alive() -> None:
    samples = tuple(rollout(tiny_policy(), count=2)[:2])
    verdicts = (Verdict.scored(1.0, steps=[(1, 1.0), (2, 0.0)]), Verdict.scored(1.0, steps=[(1, 0.0), (2, 1.0)]))
    assert not Credit().dead(Group(Task("t", ""), samples, verdicts))
    assert Credit().dead(Group(Task("t", ""), samples, (verdicts[0], verdicts[0])))
    assert Credit().dead(Group(Task("t", ""), samples, (Verdict.unscored("x"), Verdict.scored(1.0))))


class RecordingSource(ListSource):
    """Records the groups it observed and saves the record in its state."""

    seen: tuple[str, ...] = ()

    def observe(self, groups: Any) -> None:
        self.seen += tuple(group.task.id for group in groups)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"seen": list(self.seen)}

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        self.seen = tuple(state["seen"])


def test_the_source_observes_replaced_groups_and_a_resumed_run_keeps_them(tmp_path: Path) -> None:
    def run(folder: Path, steps: int) -> Trainer:
        names = ("dead 0", "live 1", "dead 2", "live 3")
        source = RecordingSource([Task(name, "1 2") for name in names], shuffle=False)
        settings: Any = {"tasks_per_step": 1, "refill_dead_groups": 1, "steps": steps, "save_every": 1}
        return tiny_trainer(folder, verifier=dead_or_alive, source=source, **settings)

    complete, stopped, resumed = run(tmp_path / "a", 2), run(tmp_path / "b", 1), run(tmp_path / "b", 2)
    complete.train()
    stopped.train()
    checkpoint = resumed.store.latest()
    assert checkpoint is not None
    resumed.restore(checkpoint)
    resumed.train()
    assert complete.parts.source.state_dict() == resumed.parts.source.state_dict()
    assert complete.parts.source.state_dict()["seen"] == ["dead 0", "live 1", "dead 2", "live 3"]


def test_a_declared_floor_above_a_scored_reward_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    verdicts = iter([Verdict.rejected("no digit"), Verdict.scored(-4.0)] * 12)
    verifier = as_verifier(lambda task, text: next(verdicts), floor=-1.0)
    trainer = tiny_trainer(tmp_path, verifier=verifier, steps=3)
    trainer.train()
    assert [row["floors/above_scored"] for row in rows_of(tmp_path)] == [0.5, 0.5, 0.5]
    (warning,) = [record.getMessage() for record in caplog.records if "floor" in record.getMessage()]
    assert "-1" in warning
    assert "-4" in warning
