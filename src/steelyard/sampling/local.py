"""Batched generation with the policy's own transformers model.

Each draw uses one uniform keyed by (seed, step, slot, attempt, sample, position). A sample therefore does not depend on
the other samples in its batch or, in an episode, on how long replies take; its log-probs may differ by rounding errors
only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from transformers import PretrainedConfig
from transformers.cache_utils import DynamicCache, DynamicLayer

from steelyard import defaults
from steelyard.errors import PolicyError
from steelyard.policies.causal import CausalPolicy
from steelyard.sampling.base import Decoding, SampleRequest, TurnQueue
from steelyard.sampling.episode_wave import EpisodeWave
from steelyard.sampling.offsets import TextOffsets
from steelyard.sampling.partial_sample import PartialSample
from steelyard.sampling.wave import MASKED_KERNELS, Wave
from steelyard.types import Sample

OTHER_ENGINE = "use sampling.engine = 'vllm' (extra vllm) if it supports the model, or another model"


def require_sampleable(policy: CausalPolicy) -> None:
    """Reject architectures with an unsupported cache or positions: sampling would be wrong or fail midway."""
    config = policy.model.config
    spread = all(hasattr(layer, "batch_select_indices") for layer in DynamicCache(config=config).layers)
    if not spread or getattr(policy.base, "_is_stateful", False):
        raise PolicyError(
            f"model {config.model_type!r} has a recurrent state (hybrid or state-space), which the local sampler "
            f"cannot copy from a prompt to its samples; {OTHER_ENGINE}"
        )
    if policy.constraint is not None and has_alibi(config):
        raise PolicyError(
            f"model {config.model_type!r} uses ALiBi positions, which do not support the masks that rows of different "
            f"lengths need under a constraint; remove the constraint, or {OTHER_ENGINE}"
        )


def has_alibi(config: PretrainedConfig) -> bool:
    """Return whether attention is biased by distance instead of using position embeddings (BLOOM, MPT, some Falcon)."""
    attention: Any = getattr(config, "attn_config", None)
    return config.model_type == "bloom" or bool(getattr(config, "alibi", False) or getattr(attention, "alibi", False))


def require_episodes(policy: CausalPolicy) -> None:
    """Reject models whose cache does not allow rows to pause and resume at different lengths."""
    config, kernel = policy.model.config, policy.attention_kernel
    plain = all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)
    if not plain or kernel not in MASKED_KERNELS or has_alibi(config):
        raise PolicyError(
            f"model {config.model_type!r} with attention {kernel!r} has a cache in which episodes cannot wait for "
            "replies (a sliding window, ALiBi positions, or a kernel without masks); set model.attention = 'sdpa', or "
            + OTHER_ENGINE
        )


class LocalSampler:
    """Samples from a ``CausalPolicy`` in this process; updates by the learner take effect immediately."""

    def __init__(self, policy: CausalPolicy, *, seed: int, max_rows: int = defaults.MAX_ROWS) -> None:
        require_sampleable(policy)
        self.policy = policy
        self.seed = seed
        self.max_rows = max_rows
        self.offsets = TextOffsets(policy.tokenizer, policy.decode)
        self.version = 0

    def publish(self, version: int) -> None:
        self.version = version

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        starts = [(request, key) for request in requests for key in request.keys]
        self.policy.sample_mode()
        for first in range(0, len(starts), self.max_rows):
            wave = Wave(self.policy, self.seed, starts[first : first + self.max_rows], decoding)
            for row in wave.run():
                if row is not None:
                    yield self._finished(row)

    def sample_turns(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue
    ) -> Iterator[Sample | None]:
        """See :class:`EpisodeSampler`. At most ``max_rows`` episodes are open at a time, which bounds their caches."""
        require_episodes(self.policy)
        starts = [(request, key) for request in requests for key in request.keys]
        if not starts:
            return
        self.policy.sample_mode()
        for row in EpisodeWave(self.policy, self.seed, starts, decoding, turns, self.max_rows).run():
            yield None if row is None else self._finished(row)

    def _finished(self, row: PartialSample) -> Sample:
        return row.finish(self.offsets, self.version)
