"""Verifiers and the pools that run them. Nothing here imports torch, so workers start fast and small."""

from steelyard.verification.base import Batch, Item, Mode, One, Pool, Verifier, WholeGroup
from steelyard.verification.check import CheckReport, summarise_check
from steelyard.verification.functions import FunctionVerifier, as_verifier, for_run, load_verifier, mode_of, verifier
from steelyard.verification.inline import InlinePool
from steelyard.verification.judging import judge, judge_all
from steelyard.verification.loading import load_function
from steelyard.verification.trl import TRLVerifier
from steelyard.verification.weighted import Part, WeightedVerifier
from steelyard.verification.whole import WholeSamples

__all__ = [
    "Batch",
    "CheckReport",
    "FunctionVerifier",
    "InlinePool",
    "Item",
    "Mode",
    "One",
    "Part",
    "Pool",
    "TRLVerifier",
    "Verifier",
    "WeightedVerifier",
    "WholeGroup",
    "WholeSamples",
    "as_verifier",
    "for_run",
    "judge",
    "judge_all",
    "load_function",
    "load_verifier",
    "mode_of",
    "summarise_check",
    "verifier",
]
