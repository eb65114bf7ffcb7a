"""Sample and verify a group for each of a few tasks, for `sample`, `render` and `report`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, get_args

from steelyard.commands.inputs.target import Target, open_policy
from steelyard.commands.output.screen import CountedSampler, loading
from steelyard.config import Config
from steelyard.domains.base import SPLIT_NAMES, Domain, Split
from steelyard.text import with_unit
from steelyard.tracking.bars import progress_bar
from steelyard.types import Group, Task, Verdict

if TYPE_CHECKING:
    from steelyard.compose import OpenedPolicy
    from steelyard.verification import Pool

NOT_SCORED = "not scored"


def add_split(parser: argparse.ArgumentParser, condition: str = "") -> None:
    default = "default: held_out, or train if no tasks are held out"
    parser.add_argument("--split", choices=get_args(Split), help=f"{condition}task split ({default})")


def sample_groups(
    target: Target,
    samples: int,
    *,
    split: Split | None,
    count: int,
    own: Sequence[Task] = (),
    scored: bool = True,
    domain: Domain | None = None,
) -> tuple[OpenedPolicy, list[Group]]:
    """Draw ``samples`` samples for each of the first ``count`` tasks of a split, or for the user's ``own`` tasks.

    Without a split, the held-out tasks are used, or the training tasks if no tasks are held out. Sampling uses the
    evaluation settings. Without ``scored``, no verifier is imported. ``domain``: the target's domain, if it has one.
    """
    with loading("torch and the model"):
        from steelyard.compose import (
            Supplied,
            build_evaluation_decoding,
            build_sampler,
            build_trial_pool,
            build_verifier,
            default_split,
            tasks_of_split,
            with_episodes,
        )
        from steelyard.training.evaluation import EVALUATION_STEP
        from steelyard.training.phases import collect, requests_for

        config, supplied = target.config, Supplied(domain=domain)
        tasks = list(own) or tasks_of_split(config, split or default_split(config, supplied), count, supplied)
        scored = scored and "verifier" not in config.run.supplied
        verifier = build_verifier(config, supplied) if scored else None
        pool = _unscored() if verifier is None else build_trial_pool(config, verifier, supplied)
        opened = open_policy(target, supplied)
    sampler, pool = with_episodes(config, opened.policy, verifier, build_sampler(config, opened.policy), pool)
    progress = progress_bar(f"sampling {with_unit(len(tasks), 'task')}", len(tasks) * samples, "sample")
    with closing(pool), progress as advance:
        requests = requests_for(tasks, EVALUATION_STEP, samples)
        return opened, collect(CountedSampler(sampler, advance), pool, requests, build_evaluation_decoding(config))


def tasks_note(count: int, config: Config, split: Split | None, domain: Domain | None) -> str:
    """Describe the tasks that were sampled, such as ``2 held-out tasks``."""
    from steelyard.compose import Supplied, default_split

    used = split or default_split(config, Supplied(domain=domain))
    reason = " (no tasks are held out)" if split is None and used == "train" else ""
    return f"{with_unit(count, f'{SPLIT_NAMES[used]} task')}{reason}"


def temperature_of(config: Config) -> float:
    """Return the temperature used for evaluation and for samples shown by commands."""
    from steelyard.compose import build_evaluation_decoding

    return build_evaluation_decoding(config).rule.temperature


def temperature_note(config: Config) -> str:
    """Describe the evaluation temperature and the key that sets it."""
    section = "sampling" if config.evaluate.temperature is None else "evaluate"
    return f"temperature {temperature_of(config):g} ({section}.temperature)"


def _unscored() -> Pool:
    from steelyard.verification import InlinePool, as_verifier

    return InlinePool(as_verifier(lambda _task, _text: Verdict.unscored(NOT_SCORED)))
