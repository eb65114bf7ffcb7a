"""Rules on masked models, which fill holes instead of writing on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steelyard.config.problems import Problem

if TYPE_CHECKING:
    from steelyard.config.sections import Sections as Config


def judge(config: Config) -> Iterator[Problem]:
    if config.judge is None:
        return
    if not config.has_domain:
        yield Problem("judge", None, "learns from the examples of a [domain]; without one list verify.verifiers")
    if config.model.kind != "masked" and config.judge.folder is None:
        yield Problem("judge", None, "begins with the body of a model of kind = 'masked'; name a judge.folder instead")
    if config.model.quantize is not None and config.judge.folder is None:
        yield Problem("judge", None, "begins with the policy's weights, not with quantised ones; name a judge.folder")


def order(config: Config) -> Iterator[Problem]:
    sampling = config.sampling
    if config.model.kind != "masked" and sampling.fill_steps > 1:
        reason = "a causal model draws one token after the other; only kind = 'masked' fills in steps"
        yield Problem("sampling.fill_steps", sampling.fill_steps, reason)


def engines(config: Config) -> Iterator[Problem]:
    """What only causal models have so far."""
    if config.model.kind != "masked":
        return
    sampling, cluster = config.sampling, config.cluster
    if sampling.engine != "local":
        yield Problem("sampling.engine", sampling.engine, "only the policy itself fills in; use engine = 'local'")
    if sampling.staleness:
        reason = "a masked model does not sample ahead of the learner; set it to 0"
        yield Problem("sampling.staleness", sampling.staleness, reason)
    if cluster.learners is not None:
        yield Problem("cluster.learners", None, "a masked model learns in one process; remove the table")


def supports(config: Config) -> Iterator[Problem]:
    if config.model.kind == "masked" and config.sampling.supports == "replayed":
        reason = "the supports of a masked model are stored, which takes little: nearly all of them are the same"
        yield Problem("sampling.supports", config.sampling.supports, reason)


def constraint(config: Config) -> Iterator[Problem]:
    if config.model.kind == "masked" and (config.constraint is not None or "constraint" in config.run.supplied):
        reason = "constraints are followed from left to right; what may not be filled in, tasks list as `forbidden`"
        yield Problem("constraint", None, reason)
