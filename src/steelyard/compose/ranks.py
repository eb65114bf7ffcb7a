"""Build a learner on the ranks of a cluster, from the same configuration as a local learner."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from steelyard.cluster.learners import LearnerGroup
from steelyard.compose.learning import build_learner, build_rule
from steelyard.compose.policy import build_model
from steelyard.config import Config
from steelyard.errors import ConfigError
from steelyard.policies.base import Policy
from steelyard.quiet import quiet_engines
from steelyard.training.learner import Learner
from steelyard.training.ranks import Ranks


def build_rank(config: Config, quarantine: Path, ranks: Ranks) -> Learner:
    """Build the learner of one rank, in that rank's process. Only rank 0 stores quarantined batches."""
    with quiet_engines():
        policy = build_model(config)
        return build_learner(config, policy, quarantine if ranks.rank == 0 else None, ranks)


def build_learner_group(config: Config, policy: Policy, quarantine: Path) -> LearnerGroup:
    """Build the learner group of [cluster.learners]; ``policy`` samples in this process and mirrors the weights."""
    learners = config.cluster.learners
    if learners is None:
        raise ConfigError("a learner group needs the table [cluster.learners]; add it")
    kl = config.loss.kl
    return LearnerGroup(
        partial(build_rank, config, quarantine.absolute()),
        build_rule(config, policy),
        ranks=learners.ranks,
        kl_in_reward=kl.active and kl.placement == "reward",
        sharding=learners.sharding,
        offload=learners.offload,
        mirror=policy,
        address=config.cluster.address,
        gpus=policy.device.type == "cuda",
        seconds=learners.timeout,
    )
