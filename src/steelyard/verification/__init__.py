"""Verifiers and the pools that run them. This package does not import torch, so workers start fast and stay small."""

from steelyard.verification.base import Batch, Cause, Item, Mode, One, Pool, Verifier, WholeGroup
from steelyard.verification.blame import Blame
from steelyard.verification.breaker import Breaker
from steelyard.verification.cache import CacheStage, VerdictCache, why_not_cached
from steelyard.verification.calling import UserFunction
from steelyard.verification.check import CheckReport, summarise_check
from steelyard.verification.functions import FunctionVerifier, as_verifier, for_run, load_verifier, mode_of, verifier
from steelyard.verification.inline import InlinePool
from steelyard.verification.loading import import_path_of, load_function
from steelyard.verification.pipeline import Pipeline, RejectTruncated, Stage
from steelyard.verification.processes import Limits, ProcessPool, Recycling
from steelyard.verification.safe_verify import judge
from steelyard.verification.sandbox import RunLimits, RunResult, describe_level, level_in_force, run_code, run_command
from steelyard.verification.trl import TRLVerifier
from steelyard.verification.weighted import AnyVerifier, Part, WeightedPool, WeightedVerifier, pool_for

__all__ = [
    "AnyVerifier",
    "Batch",
    "Blame",
    "Breaker",
    "CacheStage",
    "Cause",
    "CheckReport",
    "FunctionVerifier",
    "InlinePool",
    "Item",
    "Limits",
    "Mode",
    "One",
    "Part",
    "Pipeline",
    "Pool",
    "ProcessPool",
    "Recycling",
    "RejectTruncated",
    "RunLimits",
    "RunResult",
    "Stage",
    "TRLVerifier",
    "UserFunction",
    "VerdictCache",
    "Verifier",
    "WeightedPool",
    "WeightedVerifier",
    "WholeGroup",
    "as_verifier",
    "describe_level",
    "for_run",
    "import_path_of",
    "judge",
    "level_in_force",
    "load_function",
    "load_verifier",
    "mode_of",
    "pool_for",
    "run_code",
    "run_command",
    "summarise_check",
    "verifier",
    "why_not_cached",
]
