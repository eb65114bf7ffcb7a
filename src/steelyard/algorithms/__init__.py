"""The algorithms as pure functions on tensors, without configuration, models or logging.

Read `advantages.py`, then `surrogates.py`, `aggregation.py` and `kl.py`, then `objective.py`, which combines them.
"""

from steelyard.algorithms.advantages import Estimator, estimator
from steelyard.algorithms.aggregation import decision_weights
from steelyard.algorithms.facts import RewardParts, SampleFacts
from steelyard.algorithms.kl import AdaptiveKL, kl_term
from steelyard.algorithms.objective import Objective, ObjectiveInput, ObjectiveOutput, merge_metrics
from steelyard.algorithms.passk import bootstrap_interval, pass_at_k_estimate, wilson_interval
from steelyard.algorithms.returns import span_advantages
from steelyard.algorithms.schedules import Schedule
from steelyard.algorithms.shaping import clip_advantages, handle_truncated, soft_length_penalty
from steelyard.algorithms.surrogates import Surrogate, SurrogateInput, SurrogateOutput, surrogate

__all__ = [
    "AdaptiveKL",
    "Estimator",
    "Objective",
    "ObjectiveInput",
    "ObjectiveOutput",
    "RewardParts",
    "SampleFacts",
    "Schedule",
    "Surrogate",
    "SurrogateInput",
    "SurrogateOutput",
    "bootstrap_interval",
    "clip_advantages",
    "decision_weights",
    "estimator",
    "handle_truncated",
    "kl_term",
    "merge_metrics",
    "pass_at_k_estimate",
    "soft_length_penalty",
    "span_advantages",
    "surrogate",
    "wilson_interval",
]
