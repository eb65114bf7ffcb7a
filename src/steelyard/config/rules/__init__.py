"""Rules that reject invalid combinations of keys and explain why.

A rule is a generator that checks the whole configuration and yields problems. All rules run, so that one error lists
every problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from steelyard.config.problems import Problem
from steelyard.config.rules import constraint, credit, engines, filling, inputs, learning

if TYPE_CHECKING:
    from steelyard.config.sections import Sections

RULES: tuple[Callable[[Sections], Iterator[Problem]], ...] = (
    inputs.model_source,
    inputs.scratch_shape,
    inputs.warm_start,
    filling.judge,
    filling.order,
    filling.engines,
    filling.supports,
    filling.constraint,
    inputs.precision,
    inputs.domain_source,
    inputs.task_source,
    inputs.task_options,
    inputs.sampled_source,
    inputs.prompting,
    inputs.verifier_source,
    inputs.verifier_entries,
    inputs.tools,
    constraint.source,
    constraint.options,
    engines.settings,
    engines.replicas,
    engines.weights,
    credit.groups,
    credit.stale_cuts,
    credit.estimator_k,
    credit.rewards_of_pass_at_k,
    credit.truncation,
    credit.lengths,
    learning.surrogate,
    learning.aggregation,
    learning.kl,
    learning.schedules,
    learning.reference_mode,
    learning.reference_storage,
    learning.updates,
    learning.rounding,
    learning.learner_group,
    learning.evaluation,
    learning.checkpoints,
)


def broken_rules(config: Sections) -> list[Problem]:
    """Return every problem in the configuration, in rule order."""
    return [problem for rule in RULES for problem in rule(config)]
