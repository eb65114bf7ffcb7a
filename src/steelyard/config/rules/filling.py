"""Rules for masked models, which fill holes instead of continuing text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steelyard.config.problems import Problem

if TYPE_CHECKING:
    from steelyard.config.sections import Sections


def judge(config: Sections) -> Iterator[Problem]:
    if config.judge is None:
        return
    if not config.has_domain:
        yield Problem(
            "judge", None, "learns from the examples of a [domain]; without a domain, use a model in verify.verifiers"
        )
    if config.model.kind != "masked" and config.judge.folder is None:
        yield Problem(
            "judge",
            None,
            "starts from the body of a model with kind = 'masked'; set judge.folder to a trained judge instead",
        )
    if config.model.quantize is not None and config.judge.folder is None:
        yield Problem(
            "judge",
            None,
            "starts from the policy's weights, which must not be quantised; set judge.folder to a trained judge",
        )


def order(config: Sections) -> Iterator[Problem]:
    sampling = config.sampling
    if config.model.kind != "masked" and sampling.fill_steps > 1:
        reason = "a causal model samples one token at a time; only kind = 'masked' fills in steps; remove it"
        yield Problem("sampling.fill_steps", sampling.fill_steps, reason)


def engines(config: Sections) -> Iterator[Problem]:
    """Reject settings that only causal models support."""
    if config.model.kind != "masked":
        return
    sampling, cluster = config.sampling, config.cluster
    if sampling.engine != "local":
        yield Problem(
            "sampling.engine",
            sampling.engine,
            "masked models are sampled only by the local engine; use engine = 'local'",
        )
    if sampling.staleness:
        reason = "masked models cannot sample during updates; set it to 0"
        yield Problem("sampling.staleness", sampling.staleness, reason)
    if cluster.learners is not None:
        yield Problem("cluster.learners", None, "masked models are trained in one process; remove the table")


def supports(config: Sections) -> Iterator[Problem]:
    if config.model.kind == "masked" and config.sampling.supports == "recomputed":
        reason = "masked models only store supports, which takes little space because most are equal; use 'stored'"
        yield Problem("sampling.supports", config.sampling.supports, reason)


def constraint(config: Sections) -> Iterator[Problem]:
    if config.model.kind == "masked" and (config.constraint is not None or "constraint" in config.run.supplied):
        reason = (
            "constraints work from left to right; list the forbidden tokens of a masked model as `forbidden` in tasks"
        )
        yield Problem("constraint", None, reason)
