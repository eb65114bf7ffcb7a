"""The loop: what a step does and logs, refilling, blind steps, evaluation, checkpoints and signals."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steelyard.algorithms.advantages import group_mean
from steelyard.data import ListSource
from steelyard.errors import CheckpointError, ConfigError, VerifierError
from steelyard.policies.judge import LikelihoodJudge
from steelyard.policies.reference import CopyReference, Ema
from steelyard.sampling.base import Decoding
from steelyard.tracking import read_metrics
from steelyard.training import loop, phases
from steelyard.training.credit import Credit
from steelyard.training.evaluation import Evaluator
from steelyard.training.learner_samples import LearnerSample
from steelyard.training.loop import Trainer
from steelyard.training.phases import Stopwatch, collect, requests_for
from steelyard.types import Group, Task, Verdict
from steelyard.verification import Blame, InlinePool, Item, as_verifier
from tests.tiny import KINDS, digit_share, rollout, tasks, tiny_policy, tiny_trainer, weights_of


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return read_metrics(folder / "metrics.jsonl")


# --- a step ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_logs_every_step_and_saves_the_last(kind: str, tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, policy=tiny_policy(kind=kind), steps=5, save_every=2)
    before = weights_of(trainer.policy)
    trainer.train()
    rows = rows_of(tmp_path)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
    assert trainer.store.steps() == [4, 5]
    assert any(not torch.equal(weight, before[name]) for name, weight in weights_of(trainer.policy).items())
    wanted = {"reward/mean", "reward/std", "success", "share/scored", "share/unscored", "groups/dead", "length/mean"}
    wanted |= {"loss", "entropy", "clip/share", "logp/mean", "gradient/norm", "lr", "skipped", "reward/histogram"}
    wanted |= {"importance/log_abs_max", "time/sample", "time/verify", "time/update", "time/step"}
    assert all(wanted <= row.keys() for row in rows)
    assert all(row["importance/log_abs_max"] < 1e-4 for row in rows), "the sampler always has the newest weights"


def test_samples_carry_the_version_that_made_them(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    trainer = tiny_trainer(tmp_path)
    made = trainer.parts.sampler.sample

    def watch(*args: Any) -> Any:
        for sample in made(*args):
            seen.append((sample.key.step, sample.policy_version))
            yield sample

    trainer.parts.sampler.sample = watch  # type: ignore[method-assign]
    trainer.train()
    assert Counter(seen) == {(0, 0): 8, (1, 1): 8, (2, 2): 8}


def test_the_phases_can_be_called_one_by_one(tmp_path: Path) -> None:
    """sample, verify, score, credit, update by hand do what ``train_step`` does."""
    by_hand, whole = tiny_trainer(tmp_path / "a"), tiny_trainer(tmp_path / "b")
    whole.train_step()
    drawn = by_hand.parts.source.draw(0, 2)
    samples = phases.sample(by_hand.parts.sampler, requests_for(drawn, 0, 4), by_hand.parts.decoding)
    assert [tuple(sample.key)[1::2] for sample in samples] == [(slot, index) for slot in (0, 1) for index in range(4)]
    verdicts = phases.verify(by_hand.parts.pool, [Item(drawn[sample.key.slot], sample, 4) for sample in samples])
    assert [verdict.reward for verdict in verdicts] == [digit_share(drawn[s.key.slot], s.text) for s in samples]
    groups = [Group(drawn[slot], tuple(samples[4 * slot :][:4]), tuple(verdicts[4 * slot :][:4])) for slot in (0, 1)]
    batch = by_hand.assign_credit(groups, samples, by_hand.learner.score(samples))
    by_hand.learner.update(batch, 0)
    one, other = weights_of(by_hand.policy), weights_of(whole.policy)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_groups_come_in_order_whatever_order_things_finish_in(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path)
    requests = requests_for(tasks(3), 0, 4)
    watch = Stopwatch()
    groups = collect(trainer.parts.sampler, trainer.parts.pool, requests, Decoding(max_new_tokens=6), watch)
    assert [group.task.id for group in groups] == ["t0", "t1", "t2"]
    assert [[sample.key.sample for sample in group.samples] for group in groups] == [[0, 1, 2, 3]] * 3
    for group in groups:
        assert [v.reward for v in group.verdicts] == [digit_share(group.task, s.text) for s in group.samples]
    assert watch.seconds.keys() == {"sample", "verify"}


def test_requests_of_two_steps_with_the_same_slot_are_kept_apart(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path)
    first, second = tasks(3)[1:]
    requests = requests_for([first], 0, 4) + requests_for([second], 1, 4)
    groups = collect(trainer.parts.sampler, trainer.parts.pool, requests, Decoding(max_new_tokens=6))
    for group, task in zip(groups, (first, second), strict=True):
        assert [v.reward for v in group.verdicts] == [digit_share(task, s.text) for s in group.samples]


def test_kl_in_the_reward_is_taken_off_by_its_coefficient(tmp_path: Path) -> None:
    policy = tiny_policy()
    reference = CopyReference(policy)
    with torch.no_grad():
        policy.model.lm_head.weight.add_(0.2 * torch.randn(16, 32, generator=torch.Generator().manual_seed(0)))
    trainer = tiny_trainer(
        tmp_path,
        policy=policy,
        credit=Credit(estimator=group_mean),
        learner={"reference": reference, "kl_in_reward": True, "kl": 0.5},
    )
    groups = trainer.rollouts.fetch(trainer.rollouts.take(0, Stopwatch()).groups)
    samples = [sample for group in groups for sample in group.samples]
    logps = trainer.learner.score(samples)
    assert logps.old is not None
    assert logps.reference is not None
    kl = [float((old_N - reference_N).sum()) for old_N, reference_N in zip(logps.old, logps.reference, strict=True)]
    assert max(map(abs, kl)) > 0.1
    batch = trainer.assign_credit(groups, samples, logps)
    shaped = [v.reward - 0.5 * one for v, one in zip([v for g in groups for v in g.verdicts], kl, strict=True)]
    for number, item in enumerate(batch):
        group = shaped[4 * (number // 4) :][:4]
        assert item.advantage_N[0] == pytest.approx(shaped[number] - np.mean(group), abs=1e-5)
        np.testing.assert_array_equal(item.old_logp_N, logps.old[number])
        np.testing.assert_array_equal(item.reference_logp_N, logps.reference[number])


def test_the_reference_is_renewed_and_the_source_told(tmp_path: Path) -> None:
    class Watching(ListSource):
        def observe(self, groups: Any) -> None:
            told.append([group.task.id for group in groups])

    told: list[list[str]] = []
    steps: list[int] = []

    class Counting(Ema):
        def __call__(self, step: int, *args: Any) -> None:
            steps.append(step)
            super().__call__(step, *args)

    policy = tiny_policy()
    learner = {"reference": CopyReference(policy, Counting(0.9)), "kl": 0.1}
    tiny_trainer(tmp_path, policy=policy, source=Watching(tasks(4), shuffle=False), learner=learner).train()
    assert steps == [1, 2, 3]
    assert told == [["t0", "t1"], ["t2", "t3"], ["t0", "t1"]]


# --- refilling -------------------------------------------------------------------------------------------------------


SCORES = itertools.count(2)


def dead_or_alive(task: Task, text: str) -> float:
    """No two samples of a live task score alike."""
    return 1.0 if task.id.startswith("dead") else 1 / next(SCORES)


def test_the_loop_does_not_know_how_it_is_fed() -> None:
    """One way to take groups, whoever samples them and when."""
    text = Path(loop.__file__).read_text(encoding="utf-8").lower()
    assert not [word for word in ("async", "ahead", "stale", "thread", "synchronous") if word in text]


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


def test_dead_groups_are_sampled_anew_with_other_tasks(tmp_path: Path) -> None:
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


def test_what_a_refill_replaces_is_in_the_figures(tmp_path: Path) -> None:
    """Of the first group two samples were not scored; the batch that is learnt from shows nothing of it."""

    def shaky(task: Task, text: str) -> float | None:
        return next(scores) if task.id == "dead 0" else dead_or_alive(task, text)

    scores, tokens = iter([1.0, 0.0, None, None]), list[int]()
    source = named("dead 0", "live 1", "live 2")
    trainer = tiny_trainer(
        tmp_path, verifier=shaky, source=source, credit=Credit(min_scored=3), refill_dead_groups=1, group_size=4
    )
    made = trainer.parts.sampler.sample

    def watch(*args: Any) -> Any:
        for sample in made(*args):
            tokens.append(len(sample.completion_ids))
            yield sample

    trainer.parts.sampler.sample = watch  # type: ignore[method-assign]
    metrics: Any = trainer.train_step()
    assert (metrics["groups/refilled"], metrics["samples"], len(tokens)) == (1, 12, 12)
    assert (metrics["share/unscored"], metrics["unscored/no score"]) == (pytest.approx(2 / 12), 2.0)
    assert metrics["time/tokens_per_second"] * metrics["time/step"] == pytest.approx(sum(tokens))


def test_reward_and_success_before_a_refill_stand_beside_those_of_the_batch(tmp_path: Path) -> None:
    trainer = tiny_trainer(
        tmp_path, verifier=dead_or_alive, source=named("dead 0", "live 1"), tasks_per_step=1, refill_dead_groups=1
    )
    metrics: Any = trainer.train_step()
    assert metrics["reward/mean"] < 1.0, "of the live group"
    assert metrics["sampled/reward"] == pytest.approx((metrics["reward/mean"] + 1.0) / 2)
    assert metrics["sampled/success"] == pytest.approx((metrics["success"] + 1.0) / 2)


def test_refilling_gives_up_after_so_many_attempts(tmp_path: Path) -> None:
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


def test_groups_that_differ_only_in_their_steps_are_alive() -> None:
    samples = tuple(rollout(tiny_policy(), count=2)[:2])
    verdicts = (Verdict.scored(1.0, steps=[(1, 1.0), (2, 0.0)]), Verdict.scored(1.0, steps=[(1, 0.0), (2, 1.0)]))
    assert not Credit().dead(Group(Task("t", ""), samples, verdicts))
    assert Credit().dead(Group(Task("t", ""), samples, (verdicts[0], verdicts[0])))
    assert Credit().dead(Group(Task("t", ""), samples, (Verdict.unscored("x"), Verdict.scored(1.0))))


class Watched(ListSource):
    """Remembers all that it observed, in its state too."""

    seen: tuple[str, ...] = ()

    def observe(self, groups: Any) -> None:
        self.seen += tuple(group.task.id for group in groups)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"seen": list(self.seen)}

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        self.seen = tuple(state["seen"])


def test_the_source_observes_replaced_groups_too_and_a_resumed_run_goes_on_with_them(tmp_path: Path) -> None:
    def run(folder: Path, steps: int) -> Trainer:
        names = ("dead 0", "live 1", "dead 2", "live 3")
        source = Watched([Task(name, "1 2") for name in names], shuffle=False)
        settings: Any = {"tasks_per_step": 1, "refill_dead_groups": 1, "steps": steps, "save_every": 1}
        return tiny_trainer(folder, verifier=dead_or_alive, source=source, **settings)

    whole, stopped, resumed = run(tmp_path / "a", 2), run(tmp_path / "b", 1), run(tmp_path / "b", 2)
    whole.train()
    stopped.train()
    checkpoint = resumed.store.latest()
    assert checkpoint is not None
    resumed.restore(checkpoint)
    resumed.train()
    assert whole.parts.source.state_dict() == resumed.parts.source.state_dict()
    assert whole.parts.source.state_dict()["seen"] == ["dead 0", "live 1", "dead 2", "live 3"]


def test_a_declared_floor_above_a_scored_reward_is_warned_of_once(
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


# --- the checker fails -----------------------------------------------------------------------------------------------


def test_a_blind_step_is_refused_with_examples(tmp_path: Path) -> None:
    def broken(task: Task, text: str) -> float:
        raise KeyError(f"no answer for {task.id}")

    trainer = tiny_trainer(tmp_path, verifier=broken)
    with pytest.raises(
        VerifierError, match=r"(?s)8 of the last 8 samples .*max_unscored is 0\.5.*no answer for t1.*steelyard check"
    ):
        trainer.train()
    assert trainer.step == 0


def test_some_unscored_samples_are_counted_and_left_out(tmp_path: Path) -> None:
    calls = iter(range(1000))

    def shaky(task: Task, text: str) -> float:
        if next(calls) % 4 == 0:
            raise OSError("lost the solver")
        return digit_share(task, text)

    trainer = tiny_trainer(tmp_path, verifier=shaky, blame=Blame(tries=1))
    learnt: list[int] = []
    update = trainer.learner.update

    def watch(batch: list[LearnerSample], step: int, report: Any) -> dict[str, float]:
        learnt.append(len(batch))
        return update(batch, step, report)

    trainer.learner.update = watch  # type: ignore[method-assign]
    trainer.train()
    assert learnt == [6, 6, 6]
    assert [row["share/unscored"] for row in rows_of(tmp_path)] == [0.25] * 3
    assert rows_of(tmp_path)[0]["unscored/exception"] == 2


def test_the_same_accident_twice_is_a_rejection_and_counted_by_cause(tmp_path: Path) -> None:
    def picky(task: Task, text: str) -> float:
        if task.id == "t1":
            raise OSError("the solver cannot do this one")
        return digit_share(task, text)

    trainer = tiny_trainer(tmp_path, verifier=picky, steps=1)
    trainer.train()
    (row,) = rows_of(tmp_path)
    assert (row["share/rejected"], row["rejected/exception"]) == (0.5, 4.0)
    assert "unscored/exception" not in row


def test_a_group_with_too_few_scored_samples_is_refilled(tmp_path: Path) -> None:
    def shaky(task: Task, text: str) -> float | None:
        return next(scores) if task.id == "t0" else digit_share(task, text)

    scores = iter([1.0, 0.0, None, None])
    trainer = tiny_trainer(tmp_path, verifier=shaky, credit=Credit(min_scored=3), refill_dead_groups=1)
    groups, replaced = trainer.rollouts.take(0, Stopwatch())
    assert replaced
    assert "t0" not in {group.task.id for group in groups}


# --- evaluation ------------------------------------------------------------------------------------------------------


def evaluator_of(trainer: Trainer, verifier: Any = digit_share) -> Evaluator:
    pool = InlinePool(as_verifier(verifier))
    return Evaluator(trainer.parts.sampler, pool, tasks(3), Decoding(max_new_tokens=6), samples=2, ks=(1, 2))


def test_evaluations_come_at_the_start_every_n_steps_and_at_the_end(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, steps=5, evaluate_every=2)
    trainer.evaluator = evaluator_of(trainer)
    trainer.train()
    assert [row["step"] for row in rows_of(tmp_path) if "eval/reward" in row] == [0, 2, 4, 5]
    assert {"eval/success", "eval/pass@1", "eval/pass@2", "eval/distinct", "eval/best"} <= rows_of(tmp_path)[0].keys()


def test_every_evaluation_uses_the_same_random_numbers(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path)
    evaluator = evaluator_of(trainer)
    runs = [[sample for group in evaluator.run().groups for sample in group.samples] for _ in range(2)]
    assert [sample.text for sample in runs[0]] == [sample.text for sample in runs[1]]
    assert {sample.key.step for sample in runs[0]} == {-1}, "a key that no step of training has"


def test_an_evaluation_leaves_training_as_it_was(tmp_path: Path) -> None:
    plain, evaluated = tiny_trainer(tmp_path / "a"), tiny_trainer(tmp_path / "b", evaluate_every=1)
    evaluated.evaluator = evaluator_of(evaluated)
    plain.train()
    evaluated.train()
    one, other = weights_of(plain.policy), weights_of(evaluated.policy)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_best_checkpoint_by_evaluation_stays(tmp_path: Path) -> None:
    """Each checkpoint is ranked by an evaluation of its own; here the second of five is the best."""
    trainer = tiny_trainer(tmp_path, steps=5, save_every=1, evaluate_every=100, best_metric="eval/reward")
    rewards = iter([0.0, 0.1, 0.9, 0.2, 0.3, 0.4])  # the first is the start's, before any checkpoint
    batch = [0.0]

    def scripted(task: Task, text: str) -> float:
        return batch[0]

    trainer.evaluator = evaluator_of(trainer, scripted)
    run = trainer.evaluator.run

    def next_reward(*_: Any) -> Any:
        batch[0] = next(rewards)
        return run()

    trainer.evaluator.run = next_reward  # type: ignore[method-assign]
    trainer.train()
    best = trainer.store.best()
    assert best is not None
    assert (best.step, best.score) == (2, 0.9)
    assert trainer.store.steps() == [2, 4, 5]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reward/maen", "did you mean reward/mean?"),
        ("reward/histogram", "choose a number"),
        ("eval/success", "set evaluate.every and hold out tasks"),
    ],
)
def test_a_best_metric_that_nobody_measures_is_told_at_the_first_checkpoint(
    name: str, said: str, tmp_path: Path
) -> None:
    trainer = tiny_trainer(tmp_path, steps=4, save_every=2, best_metric=name)
    with pytest.raises(ConfigError, match=re.escape(said)):
        trainer.train()
    assert (trainer.step, trainer.store.steps()) == (2, [2]), "what was learnt is saved"


def test_checkpoints_can_be_ranked_by_a_whole_number(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, steps=1, best_metric="samples")
    trainer.train()
    best = trainer.store.best()
    assert best is not None
    assert best.score == 8


# --- a model as scorer -----------------------------------------------------------------------------------------------


def test_a_model_as_scorer_raises_its_own_likelihood(tmp_path: Path) -> None:
    """The judge is a model that likes other words than the policy; its likelihood of the samples goes up."""
    tiny_policy(seed=5).save_pretrained(tmp_path / "judge")
    judge = LikelihoodJudge(str(tmp_path / "judge"), device="cpu")
    trainer = tiny_trainer(tmp_path, verifier=judge, steps=12, group_size=8, learner={"lr": 3e-3})
    trainer.train()
    rewards = [row["reward/mean"] for row in rows_of(tmp_path)]
    assert np.mean(rewards[-3:]) > np.mean(rewards[:3]) + 0.2


# --- stopping --------------------------------------------------------------------------------------------------------


def sends(number: signal.Signals, at_call: int, then: Any = digit_share) -> Any:
    """A checker that sends this process a signal at one of its calls."""
    calls = iter(range(1, 10_000))

    def verify(task: Task, text: str) -> float:
        if next(calls) == at_call:
            os.kill(os.getpid(), number)
        return then(task, text)

    return verify


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_step_saves_and_stops(tmp_path: Path, number: signal.Signals) -> None:
    handler = signal.getsignal(number)
    trainer = tiny_trainer(tmp_path, steps=9, verifier=sends(number, at_call=10))  # in the second step of 8 samples
    trainer.train()
    assert trainer.step == 2
    assert trainer.stopped
    assert trainer.store.steps() == [2]
    assert [row["step"] for row in rows_of(tmp_path)] == [1, 2]
    assert signal.getsignal(number) is handler


def test_a_run_that_was_stopped_goes_on_when_asked(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, steps=4, verifier=sends(signal.SIGTERM, at_call=10))
    trainer.train()
    trainer.train()
    assert trainer.step == 4
    assert not trainer.stopped


def test_a_signal_during_an_evaluation_loses_nothing(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, steps=9, evaluate_every=2)
    trainer.evaluator = evaluator_of(trainer, sends(signal.SIGTERM, at_call=8))  # the evaluation after step 2
    trainer.train()
    assert trainer.step == 2
    assert trainer.store.steps() == [2]


def test_stopping_logs_nothing_that_going_on_would_not(tmp_path: Path) -> None:
    """A checkpoint made by a signal gets no evaluation of its own: its row of metrics must be the ordinary one."""
    trainer = tiny_trainer(
        tmp_path,
        steps=9,
        save_every=5,
        evaluate_every=5,
        best_metric="eval/reward",
        verifier=sends(signal.SIGTERM, at_call=10),
    )
    trainer.evaluator = evaluator_of(trainer)
    trainer.train()
    assert [row["step"] for row in rows_of(tmp_path) if "eval/reward" in row] == [0]
    assert trainer.store.steps() == [2]


def test_a_second_signal_acts_as_usual(tmp_path: Path) -> None:
    def impatient(task: Task, text: str) -> float:
        os.kill(os.getpid(), signal.SIGINT)
        return 0.0

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            tiny_trainer(tmp_path, verifier=impatient).train()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_in_a_thread_leaves_signals_alone(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path)
    thread = threading.Thread(target=trainer.train)
    thread.start()
    thread.join()
    assert trainer.step == 3


# --- taking up -------------------------------------------------------------------------------------------------------


def test_another_base_model_is_refused(tmp_path: Path) -> None:
    """A static reference is built again from the base; if that is not the same base, the run cannot go on."""

    def run_from(seed: int) -> Trainer:
        policy = tiny_policy(seed=seed)
        return tiny_trainer(tmp_path, policy=policy, learner={"reference": CopyReference(policy), "kl": 0.1}, steps=1)

    run_from(0).train()
    other = run_from(1)
    checkpoint = other.store.latest()
    assert checkpoint is not None
    with pytest.raises(CheckpointError, match="not the one of the checkpoint"):
        other.restore(checkpoint)
    run_from(0).restore(checkpoint)
