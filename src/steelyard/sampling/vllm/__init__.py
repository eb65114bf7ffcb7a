"""Sampling by vLLM, in this process: many samples at once from a paged cache, the prompt of a group computed once.

Only this package (and ``cluster``) imports vllm. ``engine`` holds the engine and renews its weights, ``masks`` puts our
constraints and cuts into it, ``sampler`` is the ``Sampler``.
"""

from __future__ import annotations

from steelyard.sampling.vllm.engine import Engine, EngineOptions
from steelyard.sampling.vllm.sampler import VllmSampler, Weights

__all__ = ["Engine", "EngineOptions", "VllmSampler", "Weights"]
