"""Verifiers and the pools that run them. This package does not import torch, so workers start fast and stay small."""

from steelyard.verification.base import BatchMode, Cause, GroupMode, Item, Mode, Pool, SingleMode, Verifier
from steelyard.verification.blame import Blame
from steelyard.verification.breaker import CircuitBreaker
from steelyard.verification.cache import CacheStage, VerdictCache, why_not_cached
from steelyard.verification.calling import UserFunction
from steelyard.verification.check import CheckReport, summarise_check
from steelyard.verification.functions import FunctionVerifier, as_verifier, for_run, load_verifier, mode_of, verifier
from steelyard.verification.inline import InlinePool
from steelyard.verification.loading import import_path_of, importable_name, load_function
from steelyard.verification.pipeline import Pipeline, RejectTruncated, Stage
from steelyard.verification.processes import ProcessPool, Recycling, WorkerLimits
from steelyard.verification.safe_verify import safe_verify
from steelyard.verification.sandbox import RunLimits, RunResult, describe_level, level_in_force, run_code, run_command
from steelyard.verification.trl import TRLVerifier
from steelyard.verification.weighted import AnyVerifier, WeightedPart, WeightedPool, WeightedVerifier, pool_for

__all__ = [
    "AnyVerifier",
    "BatchMode",
    "Blame",
    "CacheStage",
    "Cause",
    "CheckReport",
    "CircuitBreaker",
    "FunctionVerifier",
    "GroupMode",
    "InlinePool",
    "Item",
    "Mode",
    "Pipeline",
    "Pool",
    "ProcessPool",
    "Recycling",
    "RejectTruncated",
    "RunLimits",
    "RunResult",
    "SingleMode",
    "Stage",
    "TRLVerifier",
    "UserFunction",
    "VerdictCache",
    "Verifier",
    "WeightedPart",
    "WeightedPool",
    "WeightedVerifier",
    "WorkerLimits",
    "as_verifier",
    "describe_level",
    "for_run",
    "import_path_of",
    "importable_name",
    "level_in_force",
    "load_function",
    "load_verifier",
    "mode_of",
    "pool_for",
    "run_code",
    "run_command",
    "safe_verify",
    "summarise_check",
    "verifier",
    "why_not_cached",
]
