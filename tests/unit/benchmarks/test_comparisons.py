"""The benchmarks compute their figures from the right numbers, and detect differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.correctness import reference
from benchmarks.learning import learn_scratch
from benchmarks.learning.person_records import check, tasks
from benchmarks.robustness import resume
from benchmarks.speed import overhead, vs_trl
from benchmarks.speed.workloads import ROWS, prompts, reward_letters


def side(seconds: list[float], rss: int) -> dict[str, Any]:
    return {"seconds": seconds, "rss": rss, "baseline": 1, "mean_length": 64.0, "dtypes": ["x"], "checkpointing": True}


def test_step_time_and_memory_are_ratios_to_trl():
    ours = [side([6.0, 8.0], 100), side([5.0, 5.0], 120), side([8.0, 8.0], 90)]
    theirs = [side([10.0, 10.0], 200), side([10.0, 10.0], 200), side([20.0, 20.0], 200)]
    time, memory = vs_trl.compare(ROWS[0], ours, theirs)
    assert (time.value, time.bar, time.comparison) == (0.7, 0.7, "<=")
    assert time.spread == pytest.approx(0.3)  # 0.7, 0.5 and 0.4
    assert (memory.value, memory.bar) == (0.5, 0.85)


def test_every_claim_against_trl_has_its_bar():
    both = [side([1.0], 1)]
    bars = {figure.name: figure.bar for row in ROWS for figure in vs_trl.compare(row, both, both)}
    assert bars == {
        "full-length step time / TRL": 0.7,
        "full-length memory / TRL": 0.85,
        "varying step time / TRL": 0.5,
        "lora memory / TRL": 0.6,
        "from-scratch step time / TRL": 0.5,
    }


def test_both_sides_get_one_prompt_per_step():
    for row in ROWS:
        assert len(prompts(row)) == row.steps + 1


def test_the_reward_differs_between_samples():
    assert reward_letters([[{"role": "assistant", "content": "aa"}], [{"role": "assistant", "content": "ab"}]]) == [
        1,
        0.5,
    ]
    assert reward_letters(["", "xyz"]) == [0, 0]


def test_overhead_compares_sampling_speeds_and_update_times():
    sampling, update = overhead.figures({"sampling": ([2.0, 2.0], [1.0, 3.0]), "update": ([3.0], [2.0])})
    assert sampling.value == 1.0  # 0.5 and 1.5
    assert update.value == 1.5
    assert not update.ok


def test_learning_is_measured_by_the_worst_seed():
    rows = [{"variant": "a", "start": 0.1, "end": end} for end in (0.99, 0.94)]
    reached, start = learn_scratch.mean_figures(rows)
    assert reached.value == 0.94
    assert not reached.ok
    assert start.ok


def write_run(folder: Path, weights: bytes, metrics: str) -> Path:
    checkpoint = folder / "checkpoints" / "step-00000002" / "model"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(weights)
    (folder / "metrics.jsonl").write_text(metrics)
    return folder


def test_resume_detects_a_changed_bit_and_a_changed_metric_but_ignores_times(tmp_path):
    row = '{"step": 1, "loss": %s, "time/step": %s}\n'
    undisturbed = write_run(tmp_path / "undisturbed", b"\x00\x01", row % (0.5, 1.0))
    same = write_run(tmp_path / "same", b"\x00\x01", row % (0.5, 9.0))
    bit = write_run(tmp_path / "bit", b"\x00\x03", row % (0.5, 1.0))
    loss = write_run(tmp_path / "loss", b"\x00\x01", row % (0.5000000000000001, 1.0))
    assert resume.differences(undisturbed, same) == ()
    assert resume.differences(undisturbed, bit) == ("checkpoints/step-00000002/model/model.safetensors",)
    assert resume.differences(undisturbed, loss) == ("metrics.jsonl",)


def test_the_kills_of_a_run_that_ended_differently_are_not_survived():
    outcomes = {"a": resume.Outcome(25, 3, ()), "b": resume.Outcome(25, 4, ("metrics.jsonl",))}
    survived, in_writes = resume.figures(outcomes, 25)
    assert (survived.value, survived.bar, survived.ok) == (25, 50, False)
    assert in_writes.value == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "equal"),
    [
        ({}, True),
        ({"loss": {"kl": {"coefficient": 0.05, "estimator": "k2"}}}, False),
        ({"loss": {"aggregation": "token_mean", "kl": {"coefficient": 0.05, "estimator": "k3"}}}, False),
        ({"credit": {"advantage": "group_mean"}}, False),
        ({"optimiser": {"lr": 1.01e-3, "microbatch_tokens": 128}}, False),
    ],
)
def test_the_reference_loop_detects_a_different_algorithm(change, equal):
    final = reference.compare(0, **change)[-1]
    assert (float(final["share"]) <= reference.BAR) is equal


def test_held_out_names_and_sentences_do_not_occur_in_training():
    training, held_out = tasks("train", 200), tasks("held_out", 100)
    assert not {task.spec["name"] for task in training} & {task.spec["name"] for task in held_out}
    assert not {task.prompt[0]["content"] for task in training} & {task.prompt[0]["content"] for task in held_out}


@pytest.mark.parametrize(
    ("answer", "reward", "success"),
    [
        ('{"name": "Anna", "age": 30, "city": "Rome"}', 1.0, True),
        ('{"name": "Anna", "age": 31, "city": "Rome"}', 0.5 + 1 / 3, False),
        ('{"name": "Anna", "age": "30", "city": "Rome"}', 0.25, False),
        ('{"name": "Anna"}', 0.25, False),
        ('Sure! {"name": "Anna", "age": 30, "city": "Rome"}', 0.0, False),
    ],
)
def test_the_json_verifier_requires_the_schema_and_the_values(answer, reward, success):
    task = tasks("train", 1)[0]
    verdict = check(type(task)(task.id, task.prompt, {"name": "Anna", "age": 30, "city": "Rome"}), answer)
    assert verdict.reward == pytest.approx(reward)
    assert verdict.success is success


def test_pass_at_k_estimators_must_beat_group_norm():
    found = {"group_norm": [0.5, 0.7], "pass_at_k": [0.7, 0.7], "max_at_k": [0.5, 0.7]}
    better, equal = learn_scratch.pass_at_k_figures(found)
    assert better.value == pytest.approx(0.1)
    assert better.ok
    assert not equal.ok
