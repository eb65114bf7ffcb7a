"""Asynchronous rollouts: the staleness bound, late groups, new weights, pauses, the end of a run and errors."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steelyard.algorithms.objective import Objective
from steelyard.data import ListSource
from steelyard.policies.adapters import Lora
from steelyard.policies.reference import Ema, build_reference
from steelyard.sampling.base import SampleRequest
from steelyard.sampling.local import LocalSampler
from steelyard.sampling.snapshot import SnapshotSampler
from steelyard.tracking import Activity, read_metrics
from steelyard.training import loop
from steelyard.training.evaluation import Evaluator
from steelyard.training.loop import Trainer
from steelyard.training.phases import Stopwatch
from steelyard.training.rollouts import AsynchronousRollouts, StepGroups
from steelyard.training.rollouts.asynchronous import PendingGroup, choose_groups
from steelyard.types import SampleKey, Task, Verdict
from steelyard.verification import as_verifier
from steelyard.verification.processes import ProcessPool
from tests.tiny import SHAPE, digit_share, tasks, tiny_policy, tiny_trainer, weights_of


def asynchronous_trainer(folder: Path, staleness: int, **settings: Any) -> Trainer:
    """Build a trainer with asynchronous rollouts, whose sampler has its own copy of the weights."""
    trainer = tiny_trainer(folder, **settings)
    trainer.parts.sampler = SnapshotSampler(trainer.policy, seed=0)
    trainer.learner.objective = Objective(trainer.learner.objective.surrogate, None, 2.0)
    trainer.rollouts = AsynchronousRollouts(trainer.parts, steps=trainer.settings.steps, staleness=staleness)
    return trainer


def evaluator_of(trainer: Trainer) -> Evaluator:
    """Return an evaluator that shares the sampler and the pool of the run."""
    parts = trainer.parts
    return Evaluator(parts.sampler, parts.pool, tasks(2), parts.decoding, samples=2)


def wait_for_bound(trainer: Trainer) -> None:
    """Wait until the thread has sampled everything that the staleness bound allows."""
    rollouts, count = trainer.rollouts, trainer.parts.tasks_per_step
    assert isinstance(rollouts, AsynchronousRollouts)

    def at_the_bound() -> bool:
        step = rollouts._started // count
        beyond = step >= rollouts._end_step or step - rollouts._version > rollouts.staleness
        return beyond and not rollouts._queue and not rollouts._sampling

    with rollouts._changed:
        rollouts._changed.wait_for(at_the_bound)


# --- which groups are trained on next --------------------------------------------------------------------------------


def pending(number: int, version: int, *, complete: bool, count: int = 2) -> PendingGroup:
    group = PendingGroup(SampleRequest(Task(str(number), ""), number // count, number % count, 1), version)
    if complete:
        group.verdicts[SampleKey(number // count, number % count, 0, 0)] = Verdict.scored(1.0)
    return group


def test_the_oldest_complete_groups_come_first_in_slot_order() -> None:
    groups = [pending(number, 0, complete=True) for number in (3, 1, 0, 2)]
    chosen = choose_groups(groups, 0, 2, staleness=1)
    assert chosen is not None
    assert [one.step_slot for one in chosen] == [(0, 0), (0, 1)]


def test_a_late_group_may_wait_while_the_bound_allows_it() -> None:
    groups = [pending(0, 0, complete=False), *(pending(number, 0, complete=True) for number in (1, 2, 3))]
    chosen = choose_groups(groups, 0, 2, staleness=1)
    assert chosen is not None
    assert [one.step_slot for one in chosen] == [(0, 1), (1, 0)]
    assert choose_groups(groups[:1] + groups[3:] + [pending(4, 1, complete=True)], 1, 2, staleness=1) is None


def test_newer_groups_wait_if_too_many_late_groups_would_remain() -> None:
    """The late groups fill two steps, but only one step remains within the bound."""
    late = [pending(number, 0, complete=False) for number in range(4)]
    newer = [pending(number, 1, complete=True) for number in (4, 5)]
    assert choose_groups([*late, *newer], 1, 2, staleness=2) is None


@given(
    count=st.integers(1, 4),
    staleness=st.integers(0, 4),
    delays=st.lists(st.integers(0, 12), min_size=1, max_size=20),
)
def test_every_group_is_used_once_and_within_the_bound(count: int, staleness: int, delays: list[int]) -> None:
    """Simulate sampler, pool and learner in turns. The verdicts of a group arrive after ``delays`` turns."""
    version, started, turn = 0, 0, 0
    open_groups: dict[int, tuple[PendingGroup, int]] = {}
    used: list[int] = []
    while version < 8:
        turn += 1
        assert turn < 1000, "the simulation is stuck"
        if started // count - version <= staleness:
            when = turn + delays[started % len(delays)]
            open_groups[started] = pending(started, version, complete=False, count=count), when
            started += 1
        for number, (one, when) in open_groups.items():
            if turn >= when:
                one.verdicts[SampleKey(number // count, number % count, 0, 0)] = Verdict.scored(1.0)
        chosen = choose_groups([one for one, _ in open_groups.values()], version, count, staleness)
        if chosen is not None:
            assert len(chosen) == count
            assert all(version - one.version <= staleness for one in chosen)
            numbers = [one.step_slot[0] * count + one.step_slot[1] for one in chosen]
            used += numbers
            for number in numbers:
                del open_groups[number]
            version += 1
    assert len(set(used)) == len(used) == 8 * count
    assert all(version - one.version <= staleness for one, _ in open_groups.values())


# --- a run -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("staleness", [1, 3])
def test_a_run_ends_with_samples_within_the_bound(tmp_path: Path, staleness: int) -> None:
    trainer = asynchronous_trainer(tmp_path, staleness, steps=8)
    update = trainer.learner.update

    def slow(*args: Any) -> Any:
        wait_for_bound(trainer)
        return update(*args)

    trainer.learner.update = slow  # type: ignore[method-assign]
    trainer.train()
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert max(row["staleness/max"] for row in rows) == staleness
    assert all(0 <= row["staleness/mean"] <= staleness for row in rows)
    assert all(row["samples"] == 8 for row in rows)
    assert not [thread for thread in threading.enumerate() if thread.name == "asynchronous rollouts"]


def test_samples_keep_the_log_probs_of_the_weights_that_drew_them(tmp_path: Path) -> None:
    trainer = asynchronous_trainer(tmp_path, 2, steps=6, learner={"lr": 0.05})
    seen: list[tuple[int, float]] = []
    update = trainer.learner.update

    def watch(samples: Any, step: int, report: Any) -> Any:
        logps = trainer.learner._logps([item.sample for item in samples], lambda b: trainer.policy.evaluate(b).logp_N)
        for item, logp_N in zip(samples, logps, strict=True):
            seen.append((step - item.sample.policy_version, float(abs(logp_N - item.sample.decisions.logp_N).max())))
        wait_for_bound(trainer)
        return update(samples, step, report)

    trainer.learner.update = watch  # type: ignore[method-assign]
    trainer.train()
    assert max(gap for behind, gap in seen if behind == 0) < 1e-4
    assert min(gap for behind, gap in seen if behind == 2) > 1e-3, "old samples keep the log-probs of old weights"


def test_staleness_zero_is_the_synchronous_run(tmp_path: Path) -> None:
    """With a bound of 0, the asynchronous run equals the synchronous run bit for bit."""
    plain, other = tiny_trainer(tmp_path / "a", steps=4), asynchronous_trainer(tmp_path / "b", 0, steps=4)
    plain.learner.objective = other.learner.objective
    plain.train()
    other.train()
    one, another = weights_of(plain.policy), weights_of(other.policy)
    assert all(torch.equal(one[name], another[name]) for name in one)


def test_late_verdicts_do_not_hold_up_the_learner(tmp_path: Path) -> None:
    """One of four tasks gets its verdicts only after the first step. With a bound of 2, the others are used first."""
    taken_once = tmp_path / "taken"

    def slow(task: Task, text: str) -> float:
        while task.id == "t0" and not taken_once.exists():
            time.sleep(0.01)
        return float(len(text) % 3)

    trainer = asynchronous_trainer(tmp_path, 2, steps=4, source=ListSource(tasks(4), shuffle=False), tasks_per_step=2)
    trainer.parts.pool = ProcessPool(as_verifier(slow), workers=6)
    taken: list[list[str]] = []
    take = trainer.rollouts.take

    def watch(step: int, clock: Stopwatch) -> StepGroups:
        found = take(step, clock)
        taken_once.touch()
        taken.append([group.task.id for group in found.groups])
        return found

    trainer.rollouts.take = watch  # type: ignore[method-assign]
    trainer.train()
    trainer.parts.pool.close()
    assert "t0" not in taken[0], "its verdicts were late, so other groups went first"
    assert "t0" in {task for step in taken for task in step}


def test_evaluation_and_sampling_do_not_overlap(tmp_path: Path) -> None:
    trainer = asynchronous_trainer(tmp_path, 2, steps=6, evaluate_every=2)
    trainer.evaluator = evaluator_of(trainer)
    overlaps = Counter[str]()
    sample, busy = trainer.parts.sampler.sample, threading.Lock()

    def alone(*args: Any) -> Any:
        overlaps["seen"] += not busy.acquire(blocking=False)
        yield from sample(*args)
        if busy.locked():
            busy.release()

    trainer.parts.sampler.sample = alone  # type: ignore[method-assign]
    trainer.train()
    assert not overlaps["seen"]
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert sum("eval/reward" in row for row in rows) == 4


def test_dead_groups_are_refilled_with_other_tasks(tmp_path: Path) -> None:
    def only_odd(task: Task, text: str) -> float:
        return digit_share(task, text) if int(task.id[1:]) % 2 else 0.0

    trainer = asynchronous_trainer(tmp_path, 1, steps=3, verifier=only_odd, refill_dead_groups=3)
    trainer.train()
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert sum(row["groups/refilled"] for row in rows) > 0
    assert all(row["samples"] == 8 + 4 * row["groups/refilled"] for row in rows)
    assert sum(row["sampled/reward"] for row in rows) < sum(row["reward/mean"] for row in rows)
    assert sum(row["groups/dead"] for row in rows) < 1.5


class RecordingSource(ListSource):
    """Records the groups it observed and saves the record in its state."""

    seen: tuple[str, ...] = ()

    def observe(self, groups: Any) -> None:
        self.seen += tuple(str(group.samples[0].key[:3]) for group in groups)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"seen": list(self.seen)}

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        self.seen = tuple(state["seen"])


def test_the_source_observes_replaced_groups_and_a_checkpoint_holds_all_observations(tmp_path: Path) -> None:
    """The saved state precedes the draw of unfinished tasks but includes all later observations."""

    def only_odd(task: Task, text: str) -> float:
        return digit_share(task, text) if int(task.id[1:]) % 2 else 0.0

    source = RecordingSource(tasks(4), shuffle=False)
    trainer = asynchronous_trainer(
        tmp_path, 1, steps=4, verifier=only_odd, source=source, refill_dead_groups=3, save_every=1
    )
    saved: list[tuple[list[str], tuple[str, ...]]] = []
    save = trainer.store.save

    def watch(step: int, **parts: Any) -> Any:
        saved.append((parts["state"]["source"]["seen"], source.seen))
        return save(step, **parts)

    trainer.store.save = watch  # type: ignore[method-assign]
    trainer.train()
    rows = read_metrics(tmp_path / "metrics.jsonl")
    refilled = sum(row["groups/refilled"] for row in rows)
    assert refilled > 0
    assert len(source.seen) == len(set(source.seen)) == 8 + refilled, "every group once"
    assert [tuple(state) for state, _ in saved] == [seen for _, seen in saved]


def test_nothing_is_sampled_past_the_last_step_unless_requested(tmp_path: Path) -> None:
    trainer = asynchronous_trainer(tmp_path, 2, steps=3, evaluate_every=3)
    trainer.evaluator = evaluator_of(trainer)
    draw, drawn = trainer.parts.source.draw, list[int]()

    def counted(step: int, count: int) -> Any:
        drawn.append(step)
        return draw(step, count)

    trainer.parts.source.draw = counted  # type: ignore[method-assign]
    update = trainer.learner.update

    def slow(*args: Any) -> Any:
        wait_for_bound(trainer)
        return update(*args)

    trainer.learner.update = slow  # type: ignore[method-assign]
    for _ in range(3):
        trainer.train_step()
    wait_for_bound(trainer)
    assert drawn == [0, 1, 2]
    trainer._evaluate()
    trainer.train_step()
    assert drawn == [0, 1, 2, 3], "a step past the last one is sampled when it is taken"
    trainer.rollouts.close()


def test_an_error_in_the_thread_ends_the_run(tmp_path: Path) -> None:
    trainer = asynchronous_trainer(tmp_path, 1)

    def broken(*_: Any) -> Any:
        raise ValueError("lost the sampling engine")
        yield

    trainer.parts.sampler.sample = broken  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="lost the sampling engine"):
        trainer.train()


def test_an_interrupted_run_does_not_wait_for_a_hanging_verifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "GRACE_SECONDS", 0.01)
    called, released = threading.Event(), threading.Event()

    def hanging(task: Task, text: str) -> float:
        called.set()
        released.wait()
        return 0.0

    def interrupted(_: Activity) -> None:
        if called.is_set():
            raise KeyboardInterrupt

    trainer = asynchronous_trainer(tmp_path, 1, verifier=hanging)
    monkeypatch.setattr(trainer.tracker, "progress", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            trainer.train()
        assert [thread for thread in threading.enumerate() if thread.name == "asynchronous rollouts"], "it still hangs"
        trainer.close()
    finally:
        released.set()


def test_closing_does_not_wait_for_a_whole_portion(tmp_path: Path) -> None:
    trainer = asynchronous_trainer(tmp_path, 1, steps=1)
    made, sample = list[SampleKey](), trainer.parts.sampler.sample

    def closing_early(*args: Any) -> Any:
        for one in sample(*args):
            made.append(one.key)
            trainer.rollouts._closing = True  # type: ignore[attr-defined]
            yield one

    trainer.parts.sampler.sample = closing_early  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="closed"):
        trainer.train_step()
    trainer.rollouts.close()
    assert len(made) == 1


def test_a_resumed_run_skips_no_task(tmp_path: Path) -> None:
    first = asynchronous_trainer(tmp_path, 2, steps=3)
    first.train()
    state = first.store.latest().state  # type: ignore[union-attr]
    again = asynchronous_trainer(tmp_path, 2, steps=6)
    again.restore(first.store.latest())  # type: ignore[arg-type]
    seen: list[str] = []
    take = again.rollouts.take

    def watch(step: int, clock: Stopwatch) -> StepGroups:
        found = take(step, clock)
        seen.extend(group.task.id for group in found.groups)
        return found

    again.rollouts.take = watch  # type: ignore[method-assign]
    again.train()
    assert again.step == 6
    assert state["source"] != again.parts.source.state_dict()
    assert seen[:2] == ["t2", "t3"], "six groups of four tasks were used, so the third task is next"


# --- the twin --------------------------------------------------------------------------------------------------------


def test_the_twin_has_the_weights_of_the_last_publication(tmp_path: Path) -> None:
    policy = tiny_policy()
    twin = SnapshotSampler(policy, seed=0)
    before = weights_of(policy)
    with torch.no_grad():
        policy.model.lm_head.weight.add_(1.0)
    assert all(torch.equal(weight, before[name]) for name, weight in weights_of(twin.policy).items())
    twin.publish(1)
    assert all(torch.equal(weight, weights_of(twin.policy)[name]) for name, weight in weights_of(policy).items())
    requests = [SampleRequest(task, 0, slot, 2) for slot, task in enumerate(tasks(2))]
    decoding = tiny_trainer(tmp_path).parts.decoding
    own, local = (list(s.sample(requests, decoding)) for s in (twin, LocalSampler(policy, seed=0)))
    assert [sample.text for sample in own] == [sample.text for sample in local]
    assert {sample.policy_version for sample in own} == {1}


def test_an_adapter_added_later_does_not_reach_the_twin(tmp_path: Path) -> None:
    """Publishing copies the trained adapter; the base and the adapter of the reference are not copied."""
    policy = tiny_policy(lora=Lora(rank=2))
    twin = SnapshotSampler(policy, seed=0)
    build_reference(policy, "adapter", Ema(0.9))
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.add_(0.5)
    before = weights_of(twin.policy)
    twin.publish(1)
    learnt, own = weights_of(policy), weights_of(twin.policy)
    assert own.keys() == before.keys() < learnt.keys()
    assert all(torch.equal(weight, learnt[name]) for name, weight in own.items())
    changed = {name for name, weight in own.items() if not torch.equal(weight, before[name])}
    assert changed == {name for name, _ in policy.trainable()}
    requests = [SampleRequest(task, 0, slot, 2) for slot, task in enumerate(tasks(2))]
    decoding = tiny_trainer(tmp_path).parts.decoding
    drawn, local = (list(s.sample(requests, decoding)) for s in (twin, LocalSampler(policy, seed=0)))
    assert [sample.text for sample in drawn] == [sample.text for sample in local]


@pytest.mark.parametrize("tied", [True, False])
def test_all_weights_of_a_model_without_an_adapter_are_published(tied: bool) -> None:
    policy = tiny_policy(shape=replace(SHAPE, tie_embeddings=tied))
    twin = SnapshotSampler(policy, seed=0)
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.add_(0.5)
    twin.publish(1)
    state = twin.policy.model.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in policy.model.state_dict().items())
    assert (state["lm_head.weight"].data_ptr() == state["model.embed_tokens.weight"].data_ptr()) == tied
