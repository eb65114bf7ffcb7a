"""Verifiers and the pools that run them. Nothing here imports torch, so workers start fast and small."""

from steelyard.verification.base import Batch, Cause, Item, Mode, One, Pool, Verifier, WholeGroup, isolated
from steelyard.verification.blame import Blame
from steelyard.verification.breaker import Breaker, GuardedPool
from steelyard.verification.cache import CachedPool, VerdictCache, why_not_cached
from steelyard.verification.check import CheckReport, summarise_check
from steelyard.verification.composed import WeightedPool, WholeSamplesPool
from steelyard.verification.functions import FunctionVerifier, as_verifier, for_run, load_verifier, mode_of, verifier
from steelyard.verification.inline import InlinePool
from steelyard.verification.judging import judge, judge_all
from steelyard.verification.loading import import_path_of, load_function
from steelyard.verification.processes import Limits, ProcessPool, Recycling
from steelyard.verification.sandbox import Ran, RunLimits, describe_level, level_in_force, run_code, run_command
from steelyard.verification.trl import TRLVerifier
from steelyard.verification.weighted import Part, WeightedVerifier
from steelyard.verification.whole import WholeSamples

__all__ = [
    "Batch",
    "Blame",
    "Breaker",
    "CachedPool",
    "Cause",
    "CheckReport",
    "FunctionVerifier",
    "GuardedPool",
    "InlinePool",
    "Item",
    "Limits",
    "Mode",
    "One",
    "Part",
    "Pool",
    "ProcessPool",
    "Ran",
    "Recycling",
    "RunLimits",
    "TRLVerifier",
    "VerdictCache",
    "Verifier",
    "WeightedPool",
    "WeightedVerifier",
    "WholeGroup",
    "WholeSamples",
    "WholeSamplesPool",
    "as_verifier",
    "describe_level",
    "for_run",
    "import_path_of",
    "isolated",
    "judge",
    "judge_all",
    "level_in_force",
    "load_function",
    "load_verifier",
    "mode_of",
    "run_code",
    "run_command",
    "summarise_check",
    "verifier",
    "why_not_cached",
]
