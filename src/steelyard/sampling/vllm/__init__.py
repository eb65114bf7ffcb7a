"""In-process sampling with vLLM: large batches with a paged cache; each group's prompt is processed once.

Only this package (and ``cluster``) imports vllm. ``engine`` holds the engine and updates its weights, ``masks`` applies
our constraints and cuts, ``sampler`` implements ``Sampler``.
"""

from __future__ import annotations

from steelyard.sampling.vllm.engine import Engine, EngineOptions
from steelyard.sampling.vllm.sampler import VllmSampler, Weights

__all__ = ["Engine", "EngineOptions", "VllmSampler", "Weights"]
