"""Measure reward, success, unbiased pass@k and distinct outputs on held-out tasks, with bootstrap intervals."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.table import Table

from steelyard.commands import FAILED
from steelyard.commands.inputs.groups import add_split, tasks_note, temperature_note, temperature_of
from steelyard.commands.inputs.target import Target, add_target, open_policy, resolve
from steelyard.commands.output.screen import CountedSampler, loading, positive, stdout
from steelyard.defaults import REPORTED_KS
from steelyard.domains.base import Split
from steelyard.environments.base import LIMITS
from steelyard.errors import ConfigError
from steelyard.text import printable, with_unit
from steelyard.tracking.bars import progress_bar

if TYPE_CHECKING:
    from steelyard.algorithms.passk import Interval
    from steelyard.training.evaluation import Evaluation


def configure(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--samples", type=positive, metavar="N", help="samples per task (default: the largest k)")
    parser.add_argument(
        "--k",
        default=",".join(map(str, REPORTED_KS)),
        metavar="K,K",
        help="values of k for pass@k (default: %(default)s)",
    )
    add_split(parser)
    parser.add_argument("--tasks", type=positive, metavar="N", help="number of tasks (default: evaluate.tasks)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    ks = _ks(arguments.k)
    samples = arguments.samples or max(ks)
    if samples < max(ks):
        raise ConfigError(
            f"pass@{max(ks)} needs at least {max(ks)} samples per task; use --samples {max(ks)} or lower --k"
        )
    target = resolve(arguments, overrides)
    if target.config.run.supplied:
        raise ConfigError(
            f"{arguments.target} is not a run, so you must specify the tasks and the verifier: --recipe FILE "
            f"(or --tasks.file … and --verify.verifier …)"
        )
    start = time.perf_counter()
    label, tasks, note, found = _evaluate(target, arguments.split, arguments.tasks, samples, ks)
    facts: dict[str, Any] = {"model": label, "split": found.split, "tasks": tasks, "samples": samples}
    facts["temperature"] = temperature_of(target.config)
    if arguments.json:
        report = facts | _plain(found) | {"seconds": round(time.perf_counter() - start, 3)}
        print(json.dumps(report, indent=1))
    else:
        _show(facts, found, note, temperature_note(target.config))
    return FAILED if math.isnan(found.reward.mean) else 0


def _ks(text: str) -> list[int]:
    try:
        ks = sorted({int(part) for part in text.split(",")})
    except ValueError:
        ks = [0]
    if ks[0] < 1:
        raise ConfigError(f"--k {text}: must be positive integers, such as --k 1,4,16")
    return ks


def _evaluate(
    target: Target, split: Split | None, count: int | None, samples: int, ks: Sequence[int]
) -> tuple[str, int, str, Evaluation]:
    """Return the model's label, the number of tasks, their description and the results."""
    with loading("torch and the model"):
        from steelyard.compose import (
            build_evaluator,
            build_pool,
            build_sampler,
            build_verifier,
            default_split,
            tasks_of_split,
            with_domain,
            with_episodes,
        )

        config, supplied = target.config, with_domain(target.config)
        used = split or default_split(config, supplied)
        tasks = tasks_of_split(config, used, count or config.evaluate.tasks, supplied)
        verifier, opened = build_verifier(config, supplied), open_policy(target, supplied)
        sampler = build_sampler(config, opened.policy)
        pool = build_pool(config, verifier, supplied)
        sampler, pool = with_episodes(config, opened.policy, verifier, sampler, pool)
    progress = progress_bar(f"sampling {with_unit(len(tasks), 'task')}", len(tasks) * samples, "sample")
    with closing(pool), progress as advance:
        counted = CountedSampler(sampler, advance)
        evaluator = build_evaluator(config, counted, pool, tasks, samples=samples, ks=ks)
        found = replace(evaluator.run(), split=used)
    return opened.label, len(tasks), tasks_note(len(tasks), config, split, supplied.domain), found


def _plain(found: Evaluation) -> dict[str, Any]:
    def interval(estimate: Interval) -> dict[str, float | None]:
        values = {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
        return {name: None if math.isnan(value) else value for name, value in values.items()}

    return {
        "reward": interval(found.reward),
        "best": interval(found.best),
        "success": interval(found.success),
        "pass_at": {str(k): interval(estimate) for k, estimate in found.pass_at.items()},
        "distinct": found.distinct,
        "unscored": found.unscored,
    } | ({"episodes": dict(found.episodes)} if found.episodes else {})


def _show(facts: dict[str, Any], found: Evaluation, tasks: str, temperature: str) -> None:
    title = f"{facts['model']}: {tasks} × {with_unit(facts['samples'], 'sample')}, {temperature}"
    table = Table("", "mean", "95% interval")
    table.columns[1].justify = "right"
    rows = [
        ("reward", found.reward, "{:.3f}"),
        (f"best of {facts['samples']}", found.best, "{:.3f}"),
        ("success", found.success, "{:.1%}"),
        *((f"pass@{k}", estimate, "{:.1%}") for k, estimate in found.pass_at.items()),
    ]
    for name, estimate, form in rows:
        table.add_row(name, form.format(estimate.mean), f"{form} – {form}".format(estimate.low, estimate.high))
    table.add_row("distinct outputs", f"{found.distinct:.1%}", "")
    for name, value in _episode_rows(found):
        table.add_row(name, value, "")
    console = stdout()
    console.print(title, style="bold", markup=False, soft_wrap=True)
    console.print(table)
    if found.unscored:
        console.print(_describe_unscored(found), style="yellow", markup=False)


def _episode_rows(found: Evaluation) -> Iterator[tuple[str, str]]:
    """Describe the turns of episodes and the limits that ended some of them."""
    if found.episodes:
        yield "turns per episode", f"{found.episodes['episode/turns']:.2f}"
    for limit, reason in LIMITS.items():
        if share := found.episodes.get(f"episode/ended_by/{limit}"):
            yield reason, f"{share:.1%}"


def _describe_unscored(found: Evaluation) -> str:
    """Explain why samples could not be scored; unscored samples are excluded from all other numbers."""
    unscored = [verdict for group in found.groups for verdict in group.verdicts if not verdict.has_reward]
    causes = ", ".join(f"{count} × {cause}" for cause, count in Counter(v.cause for v in unscored).most_common())
    return f"{found.unscored:.1%} could not be scored ({causes}), for example:\n{printable(unscored[0].reason)}"
