"""Test a verifier on a few samples from the base model: speed, reward spread, dead groups and determinism."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from steelyard import config as configs
from steelyard.commands import FAILED
from steelyard.commands.inputs.recording_pool import RecordingPool
from steelyard.commands.inputs.target import add_trust
from steelyard.commands.output.screen import CountedSampler, loading, positive, stdout
from steelyard.config import Config
from steelyard.errors import ConfigError
from steelyard.text import printable, with_unit
from steelyard.tracking.bars import progress_bar
from steelyard.tracking.figures import duration, number
from steelyard.tracking.shown import select_samples
from steelyard.trust import load_recipe
from steelyard.types import Group, Sample, Task, Verdict
from steelyard.verification import Item, Pool
from steelyard.verification.check import (
    LIMIT_KEYS,
    CheckReport,
    EpisodeReport,
    summarise_check,
    summarise_episodes,
)

if TYPE_CHECKING:
    from steelyard.sampling.base import Sampler, SampleRequest

BROKEN = """\
The verifier failed on every sample, so there is nothing to train on. It is called as f(task, text): task.prompt is the
prompt, task.spec holds the task's other columns, and text is the model's output. It must return a number, True, False
or a Verdict; to reject a sample, raise steelyard.Invalid("reason"). Fix the failure shown above and check again."""
BROKEN_ENVIRONMENT = """\
The environment failed in every episode, so there is nothing to train on. It is called as reply(task, turns), or
reply(text) for a session: turns are the messages after the prompt, and the last one is what the model wrote. It must
return a text or a Reply to continue the episode, or a number, True, False or a Verdict to end it; to reject an episode,
raise steelyard.Invalid("reason"). Fix the failure shown above and check again."""


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """Samples from the base model, verified twice."""

    groups: list[Group]
    second: list[list[Verdict]]
    """Verdicts from the second verification; empty for episodes."""
    verifying: float
    """Duration in seconds of the faster verification; the first one also waits for workers to start."""
    sampling: float
    """Seconds spent on sampling."""
    prompts: str
    """A description of how prompts are sent."""
    episodes: EpisodeReport | None = None
    """Set if the verifier is an environment."""


def configure(parser: argparse.ArgumentParser) -> None:
    shipped = ", ".join(configs.recipes())
    parser.add_argument("recipe", metavar="RECIPE|FILE", help=f"a recipe ({shipped}) or a TOML file")
    parser.add_argument("--tasks", type=positive, default=4, metavar="N", help="number of tasks (default: 4)")
    parser.add_argument("--samples", type=positive, metavar="N", help="samples per task (default: sampling.group_size)")
    add_trust(parser)


def epilog() -> str:
    return "Configuration keys can be set as in training; `steelyard train --help` lists them."


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    config = load_recipe(arguments.recipe, overrides, trust=arguments.trust)
    samples = arguments.samples or config.sampling.group_size
    if samples < 2:
        raise ConfigError(
            f"--samples {samples}: a check needs at least two samples per task to compare; use --samples 8"
        )
    trial = _sample_and_verify(config, arguments.tasks, samples)
    dead = _dead(config, trial.groups)
    report = summarise_check(trial.groups, trial.second, trial.verifying, dead=dead, episodes=trial.episodes)
    console = stdout()
    _show(console, config, trial, report)
    if report.unscored == report.items:
        console.print(BROKEN if trial.episodes is None else BROKEN_ENVIRONMENT, style="red", markup=False)
        return FAILED
    concerns = report.concerns()
    for concern in concerns:
        console.print(Text(f"! {concern}", style="yellow"))
    command = shlex.join(["steelyard", "train", arguments.recipe, *overrides])
    console.print(f"train:  {command}", markup=False, soft_wrap=True)
    return 0


def _sample_and_verify(config: Config, tasks: int, samples: int) -> _Trial:
    with loading("torch and the model"):
        from steelyard.compose import (
            build_policy,
            build_sampler,
            build_tasks,
            build_trial_pool,
            build_verifier,
            with_domain,
            with_episodes,
        )
        from steelyard.compose.prompting import describe_prompting
        from steelyard.environments import EnvironmentVerifier
        from steelyard.training.phases import requests_for

        supplied = with_domain(config)
        verifier = build_verifier(config, supplied)
        drawn = build_tasks(config, supplied)[0].draw(0, tasks)
        policy = build_policy(config, supplied)
        sampler = build_sampler(config, policy)
    prompts = describe_prompting(policy)
    if isinstance(verifier, EnvironmentVerifier):
        recording = RecordingPool(build_trial_pool(config, verifier, supplied))
        episodes, verdicts = with_episodes(config, policy, verifier, sampler, recording)
        return _play(config, episodes, verdicts, recording, requests_for(drawn, 0, samples), prompts)
    pool = build_trial_pool(config, verifier, supplied)
    return _verify_twice(config, sampler, pool, drawn, samples, prompts)


def _verify_twice(
    config: Config, sampler: Sampler, pool: Pool, tasks: Sequence[Task], samples: int, prompts: str
) -> _Trial:
    """Sample all tasks, then verify the samples twice."""
    start = time.perf_counter()
    with closing(pool):
        with progress_bar(f"sampling {with_unit(len(tasks), 'task')}", len(tasks) * samples, "sample") as advance:
            samples_by_task = _sample(config, CountedSampler(sampler, advance), tasks, samples)
        sampling = time.perf_counter() - start
        with progress_bar("verifying twice", 2 * len(tasks), "group") as advance:
            (first, seconds), (second, seconds_again) = (
                _verify(pool, tasks, samples_by_task, advance) for _ in range(2)
            )
    groups = [
        Group(task, tuple(own), tuple(verdicts))
        for task, own, verdicts in zip(tasks, samples_by_task, first, strict=True)
    ]
    return _Trial(groups, second, min(seconds, seconds_again), sampling, prompts)


def _play(
    config: Config,
    sampler: Sampler,
    verdicts: Pool,
    recording: RecordingPool,
    requests: Sequence[SampleRequest],
    prompts: str,
) -> _Trial:
    """Play the requested episodes, then send their turns to the environment again and compare its answers."""
    from steelyard.compose import build_decoding
    from steelyard.training.phases import collect

    total = sum(request.count for request in requests)
    start = time.perf_counter()
    with closing(verdicts):
        with progress_bar("playing", total, "episode") as advance:
            groups = collect(CountedSampler(sampler, advance), verdicts, requests, build_decoding(config))
        playing = time.perf_counter() - start
        with progress_bar("replying again", recording.rounds, "round") as advance:
            again = recording.ask_again(advance)
    report = summarise_episodes(groups, answers=again.answers, seconds=again.seconds, same=again.same)
    return _Trial(groups, [], again.seconds, playing, prompts, report)


def _dead(config: Config, groups: Sequence[Group]) -> int:
    """Count the dead groups: groups in which every advantage is zero under the configured credit assignment."""
    from steelyard.compose import build_credit

    credit = build_credit(config)
    return sum(credit.dead(group) for group in groups)


def _sample(config: Config, sampler: Sampler, tasks: Sequence[Task], samples: int) -> list[list[Sample]]:
    from steelyard.compose import build_decoding
    from steelyard.training.phases import requests_for, sample

    drawn = sample(sampler, requests_for(tasks, 0, samples), build_decoding(config))
    return [drawn[at : at + samples] for at in range(0, len(drawn), samples)]


def _verify(
    pool: Pool, tasks: Sequence[Task], samples_by_task: Sequence[Sequence[Sample]], advance: Callable[[], None]
) -> tuple[list[list[Verdict]], float]:
    """Verify the samples of each task; return their verdicts and the elapsed seconds."""
    from steelyard.training.phases import verify

    start, found = time.perf_counter(), list[list[Verdict]]()
    for task, samples in zip(tasks, samples_by_task, strict=True):
        found.append(verify(pool, [Item(task, sample, len(samples)) for sample in samples]))
        advance()
    return found, time.perf_counter() - start


def _show(console: Console, config: Config, trial: _Trial, report: CheckReport) -> None:
    table = Table(show_header=False)
    for name, value in _rows(config, trial, report):
        table.add_row(name, value)
    what = "samples" if report.episodes is None else "episodes"
    console.print(f"{report.groups} tasks × {report.items // report.groups} {what}", style="bold")
    console.print(table)
    if shown := select_samples(trial.groups):
        from steelyard.tracking.cards import SampleCards

        console.print(SampleCards(0, shown))
    for cause, count in report.causes.items():
        console.print(Text(f"{count} × {printable(cause)}", style="yellow"))
        if example := report.examples.get(cause):
            console.print(Text("  " + printable(example).replace("\n", "\n  "), style="dim"))


def _rows(config: Config, trial: _Trial, report: CheckReport) -> Iterator[tuple[str, str]]:
    per_step = config.sampling.tasks_per_step * config.sampling.group_size
    sampling, verifying = trial.sampling / report.items, report.seconds_per_item
    if trial.prompts:
        yield "prompts", trial.prompts.removeprefix("prompts are ")
    if report.episodes is not None:
        yield from _episode_rows(report.episodes, sampling, per_step)
    else:
        yield "time per sample", f"{_seconds(verifying)} to verify, {_seconds(sampling)} to sample"
        total = f"{_seconds(verifying * per_step)} verifying, {_seconds(sampling * per_step)} sampling"
        yield "training step", f"{per_step} samples: about {total}"
    yield "verdicts", f"{report.scored} scored, {report.rejected} rejected, {report.unscored} unscored"
    if report.reward_mean is not None:
        spread = f"{number(report.reward_min or 0.0)} – {number(report.reward_max or 0.0)}"
        yield "reward", f"mean {number(report.reward_mean)}, std {number(report.reward_std or 0.0)}, {spread}"
        yield "success", f"{report.success_share:.1%}"
    yield "dead groups", f"{report.dead_share:.0%} (no sample has an advantage)"
    if report.determinism is not None:
        yield "same verdict twice", f"{report.determinism:.0%}"


def _episode_rows(episodes: EpisodeReport, playing: float, per_step: int) -> Iterator[tuple[str, str]]:
    """Describe episodes; ``playing`` is the time per episode in seconds, replies included."""
    yield "turns", f"mean {number(fmean(episodes.turns))}, at most {max(episodes.turns)}"
    ended = {"the environment": episodes.finishes.get("stop", 0)}
    ended |= {key: episodes.finishes.get(limit, 0) for limit, key in LIMIT_KEYS.items()}
    ended["failures"] = episodes.failed
    yield "ended by", ", ".join(f"{key} {count}" for key, count in ended.items() if count)
    yield "time per reply", f"{_seconds(episodes.seconds_per_answer)} ({episodes.answers} replies and verdicts)"
    yield "time per episode", f"{_seconds(playing)}, sampling and replies together"
    yield "training step", f"{per_step} episodes: about {_seconds(playing * per_step)}"
    yield "same answers twice", f"{episodes.same:.0%}"


def _seconds(seconds: float) -> str:
    if seconds >= 100:
        return duration(seconds)
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
