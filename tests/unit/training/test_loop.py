"""The training loop: steps and their metrics, failing verifiers, evaluation, checkpoints and signals."""

from __future__ import annotations

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
from steelyard.types import Group, Task
from steelyard.verification import Blame, InlinePool, Item, as_verifier
from tests.tiny import KINDS, digit_share, tasks, tiny_policy, tiny_trainer, weights_of


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


def test_samples_record_the_policy_version(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    trainer = tiny_trainer(tmp_path)
    draw = trainer.parts.sampler.sample

    def watch(*args: Any) -> Any:
        for sample in draw(*args):
            seen.append((sample.key.step, sample.policy_version))
            yield sample

    trainer.parts.sampler.sample = watch  # type: ignore[method-assign]
    trainer.train()
    assert Counter(seen) == {(0, 0): 8, (1, 1): 8, (2, 2): 8}


def test_the_phases_can_be_called_one_by_one(tmp_path: Path) -> None:
    """Sampling, verifying, scoring, assigning credit and updating one by one is equivalent to ``train_step``."""
    by_hand, at_once = tiny_trainer(tmp_path / "a"), tiny_trainer(tmp_path / "b")
    at_once.train_step()
    drawn = by_hand.parts.source.draw(0, 2)
    samples = phases.sample(by_hand.parts.sampler, requests_for(drawn, 0, 4), by_hand.parts.decoding)
    assert [tuple(sample.key)[1::2] for sample in samples] == [(slot, index) for slot in (0, 1) for index in range(4)]
    verdicts = phases.verify(by_hand.parts.pool, [Item(drawn[sample.key.slot], sample, 4) for sample in samples])
    assert [verdict.reward for verdict in verdicts] == [digit_share(drawn[s.key.slot], s.text) for s in samples]
    groups = [Group(drawn[slot], tuple(samples[4 * slot :][:4]), tuple(verdicts[4 * slot :][:4])) for slot in (0, 1)]
    batch = by_hand.assign_credit(groups, samples, by_hand.learner.score(samples))
    by_hand.learner.update(batch, 0)
    one, other = weights_of(by_hand.policy), weights_of(at_once.policy)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_groups_are_in_order_however_samples_finish(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path)
    requests = requests_for(tasks(3), 0, 4)
    watch = Stopwatch()
    groups = collect(trainer.parts.sampler, trainer.parts.pool, requests, Decoding(max_new_tokens=6), watch)
    assert [group.task.id for group in groups] == ["t0", "t1", "t2"]
    assert [[sample.key.sample for sample in group.samples] for group in groups] == [[0, 1, 2, 3]] * 3
    for group in groups:
        assert [v.reward for v in group.verdicts] == [digit_share(group.task, s.text) for s in group.samples]
    assert watch.seconds.keys() == {"sample", "verify"}


def test_requests_of_two_steps_with_the_same_slot_are_distinct(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path)
    first, second = tasks(3)[1:]
    requests = requests_for([first], 0, 4) + requests_for([second], 1, 4)
    groups = collect(trainer.parts.sampler, trainer.parts.pool, requests, Decoding(max_new_tokens=6))
    for group, task in zip(groups, (first, second), strict=True):
        assert [v.reward for v in group.verdicts] == [digit_share(task, s.text) for s in group.samples]


def test_kl_in_the_reward_is_scaled_by_its_coefficient(tmp_path: Path) -> None:
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


def test_the_reference_is_updated_and_the_source_observes(tmp_path: Path) -> None:
    class Watching(ListSource):
        def observe(self, groups: Any) -> None:
            observed.append([group.task.id for group in groups])

    observed: list[list[str]] = []
    steps: list[int] = []

    class Counting(Ema):
        def __call__(self, step: int, *args: Any) -> None:
            steps.append(step)
            super().__call__(step, *args)

    policy = tiny_policy()
    learner = {"reference": CopyReference(policy, Counting(0.9)), "kl": 0.1}
    tiny_trainer(tmp_path, policy=policy, source=Watching(tasks(4), shuffle=False), learner=learner).train()
    assert steps == [1, 2, 3]
    assert observed == [["t0", "t1"], ["t2", "t3"], ["t0", "t1"]]


def test_the_loop_does_not_know_how_groups_are_sampled() -> None:
    """The loop takes groups from synchronous and asynchronous rollouts in the same way."""
    text = Path(loop.__file__).read_text(encoding="utf-8").lower()
    assert not [word for word in ("async", "ahead", "stale", "thread", "synchronous") if word in text]


# --- the verifier fails-----------------------------------------------------------------------------------------------


def test_too_many_unscored_samples_stop_the_run_with_examples(tmp_path: Path) -> None:
    def broken(task: Task, text: str) -> float:
        raise KeyError(f"no answer for {task.id}")

    trainer = tiny_trainer(tmp_path, verifier=broken)
    with pytest.raises(
        VerifierError, match=r"(?s)8 of the last 8 samples\b.*max_unscored = 0\.5.*no answer for t1.*steelyard check"
    ):
        trainer.train()
    assert trainer.step == 0


def test_unscored_samples_are_counted_and_excluded(tmp_path: Path) -> None:
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


def test_the_same_failure_twice_is_a_rejection_and_counted_by_cause(tmp_path: Path) -> None:
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


def test_evaluations_run_at_the_start_every_n_steps_and_at_the_end(tmp_path: Path) -> None:
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
    assert {sample.key.step for sample in runs[0]} == {-1}, "no training step has this key"


def test_an_evaluation_does_not_affect_training(tmp_path: Path) -> None:
    plain, evaluated = tiny_trainer(tmp_path / "a"), tiny_trainer(tmp_path / "b", evaluate_every=1)
    evaluated.evaluator = evaluator_of(evaluated)
    plain.train()
    evaluated.train()
    one, other = weights_of(plain.policy), weights_of(evaluated.policy)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_best_checkpoint_by_evaluation_is_kept(tmp_path: Path) -> None:
    """An evaluation ranks each checkpoint; the second of five is the best."""
    trainer = tiny_trainer(tmp_path, steps=5, save_every=1, evaluate_every=100, best_metric="eval/reward")
    rewards = iter([0.0, 0.1, 0.9, 0.2, 0.3, 0.4])  # the first evaluation precedes all checkpoints
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
    ("name", "message"),
    [
        ("reward/maen", "did you mean reward/mean?"),
        ("reward/histogram", "choose a metric"),
        ("eval/success", "set evaluate.every and hold out tasks"),
    ],
)
def test_a_best_metric_that_is_never_logged_is_reported_at_the_first_checkpoint(
    name: str, message: str, tmp_path: Path
) -> None:
    trainer = tiny_trainer(tmp_path, steps=4, save_every=2, best_metric=name)
    with pytest.raises(ConfigError, match=re.escape(message)):
        trainer.train()
    assert (trainer.step, trainer.store.steps()) == (2, [2]), "the steps so far are saved"


def test_checkpoints_can_be_ranked_by_an_integer(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, steps=1, best_metric="samples")
    trainer.train()
    best = trainer.store.best()
    assert best is not None
    assert best.score == 8


# --- a model as scorer -----------------------------------------------------------------------------------------------


def test_a_model_as_scorer_raises_its_own_likelihood(tmp_path: Path) -> None:
    """The judge prefers different words than the policy; training raises the judge's likelihood of the samples."""
    tiny_policy(seed=5).save_pretrained(tmp_path / "judge")
    judge = LikelihoodJudge(str(tmp_path / "judge"), device="cpu")
    trainer = tiny_trainer(tmp_path, verifier=judge, steps=12, group_size=8, learner={"lr": 3e-3})
    trainer.train()
    rewards = [row["reward/mean"] for row in rows_of(tmp_path)]
    assert np.mean(rewards[-3:]) > np.mean(rewards[:3]) + 0.2


# --- stopping --------------------------------------------------------------------------------------------------------


def sends(number: signal.Signals, at_call: int, then: Any = digit_share) -> Any:
    """Return a verifier that sends a signal to this process during one of its calls."""
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


def test_a_stopped_run_can_continue(tmp_path: Path) -> None:
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


def test_stopping_adds_no_metrics(tmp_path: Path) -> None:
    """A checkpoint saved because of a signal triggers no evaluation, so its row has the ordinary metrics."""
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


def test_a_run_in_a_thread_does_not_handle_signals(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path)
    thread = threading.Thread(target=trainer.train)
    thread.start()
    thread.join()
    assert trainer.step == 3


# --- restoring ------------------------------------------------------------------------------------------------------


def test_another_base_model_is_rejected(tmp_path: Path) -> None:
    """A static reference is rebuilt from the base model, so resuming needs the same base model."""

    def run_from(seed: int) -> Trainer:
        policy = tiny_policy(seed=seed)
        return tiny_trainer(tmp_path, policy=policy, learner={"reference": CopyReference(policy), "kl": 0.1}, steps=1)

    run_from(0).train()
    other = run_from(1)
    checkpoint = other.store.latest()
    assert checkpoint is not None
    with pytest.raises(CheckpointError, match="a different reference policy"):
        other.restore(checkpoint)
    run_from(0).restore(checkpoint)
