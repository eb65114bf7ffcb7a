"""Sample and verify a group for each of a few tasks, for `sample`, `render` and `report`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from steelyard.commands.inputs.target import Target, open_policy
from steelyard.commands.output.screen import CountedSampler, loading
from steelyard.config import Config
from steelyard.domains.base import Domain, Split
from steelyard.tracking.bars import progress_bar
from steelyard.types import Group, Task, Verdict

if TYPE_CHECKING:
    from steelyard.compose import OpenedPolicy, Supplied
    from steelyard.verification import Pool

NOT_SCORED = "not scored"


def sample_groups(
    target: Target,
    samples: int,
    *,
    split: Split,
    count: int,
    own: Sequence[Task] = (),
    scored: bool = True,
    domain: Domain | None = None,
) -> tuple[OpenedPolicy, list[Group]]:
    """Draw ``samples`` samples for each of the first ``count`` tasks of a split, or for the ``own`` tasks.

    Sampling uses the evaluation settings. Without ``scored``, no verifier is imported. ``domain``: the target's
    domain, if it has one.
    """
    with loading("torch and the model"):
        from steelyard.compose import Supplied, build_evaluation_decoding, build_sampler, tasks_of_split
        from steelyard.training.evaluation import EVALUATION_STEP
        from steelyard.training.phases import collect, requests_for

        config, supplied = target.config, Supplied(domain=domain)
        tasks = list(own) or tasks_of_split(config, split, count, supplied)
        pool = _pool(config, supplied) if scored and "verifier" not in config.run.supplied else _unscored()
        opened = open_policy(target, supplied)
    sampler = build_sampler(config, opened.policy)
    with closing(pool), progress_bar("sampling", len(tasks) * samples) as advance:
        requests = requests_for(tasks, EVALUATION_STEP, samples)
        return opened, collect(CountedSampler(sampler, advance), pool, requests, build_evaluation_decoding(config))


def temperature_of(config: Config) -> float:
    """Return the temperature used for evaluation and for samples shown by commands."""
    from steelyard.compose import build_evaluation_decoding

    return build_evaluation_decoding(config).rule.temperature


def temperature_note(config: Config) -> str:
    """Describe the evaluation temperature and the key that sets it."""
    section = "sampling" if config.evaluate.temperature is None else "evaluate"
    return f"temperature {temperature_of(config):g} ({section}.temperature)"


def _pool(config: Config, supplied: Supplied) -> Pool:
    from steelyard.compose import build_trial_pool, build_verifier

    return build_trial_pool(config, build_verifier(config, supplied), supplied)


def _unscored() -> Pool:
    from steelyard.verification import InlinePool, as_verifier

    return InlinePool(as_verifier(lambda _task, _text: Verdict.unscored(NOT_SCORED)))
