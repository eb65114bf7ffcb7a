"""Build the objects of a run from its configuration. This is the only package that depends on all the others."""

from __future__ import annotations

from steelyard.compose.checkpoints import OpenedPolicy, find_checkpoint, open_policy
from steelyard.compose.constraint import build_constraint, check_budgets
from steelyard.compose.environments import with_episodes
from steelyard.compose.learning import (
    build_credit,
    build_learner,
    build_objective,
    build_rule,
    schedule,
)
from steelyard.compose.policy import build_model, build_policy, build_reference_of
from steelyard.compose.runs import (
    build_any_learner,
    build_evaluator,
    build_trackers,
    build_trainer,
    prepare_start,
    resume_run,
    start_run,
)
from steelyard.compose.sampling import build_decoding, build_evaluation_decoding, build_sampler
from steelyard.compose.supplied import NOTHING_SUPPLIED, Supplied, build_domain, with_domain
from steelyard.compose.tasks import build_tasks, default_split, split_tasks, tasks_of_split
from steelyard.compose.verifiers import build_pool, build_trial_pool, build_verifier

__all__ = [
    "NOTHING_SUPPLIED",
    "OpenedPolicy",
    "Supplied",
    "build_any_learner",
    "build_constraint",
    "build_credit",
    "build_decoding",
    "build_domain",
    "build_evaluation_decoding",
    "build_evaluator",
    "build_learner",
    "build_model",
    "build_objective",
    "build_policy",
    "build_pool",
    "build_reference_of",
    "build_rule",
    "build_sampler",
    "build_tasks",
    "build_trackers",
    "build_trainer",
    "build_trial_pool",
    "build_verifier",
    "check_budgets",
    "default_split",
    "find_checkpoint",
    "open_policy",
    "prepare_start",
    "resume_run",
    "schedule",
    "split_tasks",
    "start_run",
    "tasks_of_split",
    "with_domain",
    "with_episodes",
]
