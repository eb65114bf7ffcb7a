"""A ``Sampler`` that uses the engine. The sampler needs a codec, a constraint and weights, but not the learner's
model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from steelyard.constraints.base import Constraint
from steelyard.errors import PolicyError
from steelyard.policies.tokens.codec import Codec
from steelyard.sampling.base import Decoding, SampleRequest, TurnQueue
from steelyard.sampling.offsets import TextOffsets
from steelyard.sampling.partial_sample import PartialSample
from steelyard.sampling.randomness import stream
from steelyard.sampling.vllm.engine import Engine
from steelyard.sampling.vllm.tracked_sample import TRACKED_KEY, TrackedSample
from steelyard.types import Sample, SampleKey

Weights = Iterable[tuple[str, Tensor]] | Path
"""All weights, named as in the transformers model, or the folder of an adapter."""

MIN_TEMPERATURE = 0.01
"""vLLM silently raises lower temperatures to this value."""


class VllmSampler:
    """Samples from an engine. vLLM draws the tokens, with a seed per (seed, step, slot, attempt, sample) and turn."""

    def __init__(
        self,
        engine: Engine,
        codec: Codec,
        constraint: Constraint | None,
        *,
        seed: int,
        weights: Callable[[], Weights] | None = None,
    ) -> None:
        """``weights`` returns the policy's newest weights for ``publish``; without it, pass weights to ``load``."""
        self.engine, self.codec, self.constraint, self.seed = engine, codec, constraint, seed
        engine.excluded[:] = codec.excluded
        self.offsets = TextOffsets(codec.tokenizer, codec.decode)
        self.version = 0
        self.prompt_tokens = 0
        """Total number of prompt tokens over all finished requests."""
        self.cached_tokens = 0
        """Number of these prompt tokens that were in the prefix cache."""
        self._weights = weights
        self._requests = 0

    def publish(self, version: int) -> None:
        if self._weights is None:
            raise PolicyError("this sampler has no source of weights; pass weights to load(weights, version)")
        self.load(self._weights(), version)

    def load(self, weights: Weights, version: int) -> None:
        """Switch to these weights and discard everything cached with the old ones."""
        if isinstance(weights, Path):
            self.engine.serve(weights)
        else:
            self.engine.load(weights)
        self.version = version

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        for sample in self._stream(requests, decoding, None):
            if sample is not None:
                yield sample

    def sample_turns(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue
    ) -> Iterator[Sample | None]:
        """See :class:`EpisodeSampler`. Send each turn as a request with the whole conversation so far; the prefix cache
        holds the earlier tokens.

        If vLLM needs the memory, it evicts the caches of waiting episodes and recomputes them later. Later turns
        are scheduled before new episodes.
        """
        return self._stream(requests, decoding, turns)

    def _stream(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue | None
    ) -> Iterator[Sample | None]:
        if decoding.rule.temperature < MIN_TEMPERATURE:
            raise PolicyError(
                f"sampling.temperature = {decoding.rule.temperature} is too low for vLLM; use {MIN_TEMPERATURE} or more"
            )
        restricted = self.constraint is not None or decoding.rule.cuts
        tracked_samples: dict[str, TrackedSample] = {}
        opened: set[SampleKey] = set()
        try:
            while True:
                for tracked in (tracked for request in requests for tracked in self._track(request, decoding)):
                    opened.add(tracked.row.key)
                    if tracked.row.finished is not None:  # every token was forced
                        yield self._finished(tracked)
                    else:
                        tracked_samples[self._submit(tracked, restricted)] = tracked
                if tracked_samples:
                    yield from self._step(tracked_samples)
                elif turns is None or all(turns.is_over(key) for key in opened):
                    return
                else:
                    yield None
                requests = [] if turns is None else turns.take()
        finally:
            if tracked_samples:
                self.engine.llm.llm_engine.abort_request(list(tracked_samples))
                for name in tracked_samples:
                    self.engine.tracked_samples.pop(int(name), None)

    def _step(self, tracked_samples: dict[str, TrackedSample]) -> Iterator[Sample]:
        """Draw one token per sequence, and yield the samples that end with it."""
        for output in self.engine.llm.llm_engine.step():
            tracked = tracked_samples.pop(output.request_id)
            self.engine.tracked_samples.pop(int(output.request_id), None)
            self.prompt_tokens += len(tracked.row.prompt_ids)
            self.cached_tokens += output.num_cached_tokens or 0
            _complete(tracked, output.outputs[0])
            yield self._finished(tracked)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def _track(self, request: SampleRequest, decoding: Decoding) -> Iterator[TrackedSample]:
        if (turn := request.next_turn) is None:
            ids = self.codec.encode(request.task.prompt)
        else:
            ids, decoding = turn.token_ids, replace(decoding, max_new_tokens=turn.max_new_tokens)
        if len(ids) + decoding.max_new_tokens > self.engine.max_length:
            raise PolicyError(
                f"task {request.task.id}: a prompt of {len(ids)} tokens plus sampling.max_new_tokens = "
                f"{decoding.max_new_tokens} exceeds the engine's {self.engine.max_length} positions; shorten the "
                "prompt, lower sampling.max_new_tokens, or raise sampling.vllm.max_length up to the model's maximum"
            )
        ends, vocabulary = frozenset(self.codec.end_ids), self.codec.vocabulary
        for key in request.keys:
            yield TrackedSample(PartialSample(request, key, ids, decoding, ends, self.constraint, vocabulary))

    def _submit(self, tracked: TrackedSample, restricted: bool) -> str:
        """Submit a sample to the engine and return the id of its request."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        row, number = tracked.row, self._requests
        self._requests += 1
        if restricted:
            self.engine.tracked_samples[number] = tracked
        params = SamplingParams(
            temperature=row.decoding.rule.temperature,
            seed=int(stream(self.seed, *row.key, *([row.drawn] if row.drawn else []))) >> 1,
            max_tokens=row.decoding.max_new_tokens,
            stop_token_ids=sorted(row.end_ids),
            ignore_eos=True,
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
            extra_args={TRACKED_KEY: number} if restricted else None,
        )
        prompt: Any = {"prompt_token_ids": row.prompt_ids.tolist()}
        self.engine.llm.llm_engine.add_request(
            str(number), prompt, params, lora_request=self.engine.adapter, priority=-row.drawn
        )
        return str(number)

    def _finished(self, tracked: TrackedSample) -> Sample:
        return tracked.row.finish(self.offsets, self.version)


def _complete(tracked: TrackedSample, output: Any) -> None:
    """Add the last tokens and all log-probs; the first log-prob of each position is that of the sampled token."""
    tracked.follow(output.token_ids)
    logps = output.logprobs
    tracked.row.set_log_probs(np.asarray(logps.logprobs, np.float32)[logps.start_indices].tolist())
