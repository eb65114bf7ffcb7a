"""A group for each of a few tasks, sampled from a run or a model and judged: what `sample` and `render` show."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from steelyard.commands.screen import CountedSampler, loading
from steelyard.commands.target import Target, open_policy
from steelyard.config import Config
from steelyard.domains.base import Split
from steelyard.tracking.bars import counting
from steelyard.types import Group, Task, Verdict

if TYPE_CHECKING:
    from steelyard.compose import Opened
    from steelyard.verification import Pool

UNJUDGED = "nobody judges it"


def sample_groups(
    target: Target, samples: int, *, split: Split, count: int, own: Sequence[Task] = ()
) -> tuple[Opened, list[Group]]:
    """``samples`` of each of the first ``count`` tasks of a split, or of ``own`` tasks instead."""
    with loading("torch and the model"):
        from steelyard.compose import build_decoding, build_sampler, tasks_of_split
        from steelyard.training.evaluation import EVALUATION_STEP
        from steelyard.training.phases import collect, requests_for

        config = target.config
        tasks = list(own) or tasks_of_split(config, split, count)
        pool = _pool(config)
        opened = open_policy(target)
    sampler = build_sampler(config, opened.policy)
    with closing(pool), counting("sampling", len(tasks) * samples) as advance:
        requests = requests_for(tasks, EVALUATION_STEP, samples)
        return opened, collect(CountedSampler(sampler, advance), pool, requests, build_decoding(config))


def _pool(config: Config) -> Pool:
    from steelyard.compose import build_trial_pool, build_verifier
    from steelyard.verification import InlinePool, as_verifier

    if "verifier" in config.run.supplied:
        return InlinePool(as_verifier(lambda _task, _text: Verdict.unscored(UNJUDGED)))
    return build_trial_pool(config, build_verifier(config))
