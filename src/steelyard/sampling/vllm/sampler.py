"""The ``Sampler`` on top of the engine. It needs no learner's model: a codec, a constraint, weights from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from steelyard.constraints.base import Constraint
from steelyard.errors import PolicyError
from steelyard.policies.tokens.codec import Codec
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.offsets import TextOffsets
from steelyard.sampling.randomness import stream
from steelyard.sampling.row import Row
from steelyard.sampling.vllm.draft import DRAFT, Draft
from steelyard.sampling.vllm.engine import Engine
from steelyard.types import Sample, SampleKey

Weights = Iterable[tuple[str, Tensor]] | Path
"""All weights by the names of the transformers model, or the folder of an adapter."""

LOWEST_TEMPERATURE = 0.01
"""vLLM raises what is lower, without an error."""


class VllmSampler:
    """Samples from an engine; each draw is vLLM's own, seeded by (seed, step, slot, attempt, sample)."""

    def __init__(
        self,
        engine: Engine,
        codec: Codec,
        constraint: Constraint | None,
        *,
        seed: int,
        weights: Callable[[], Weights] | None = None,
    ) -> None:
        """``weights`` gives the policy's newest ones whenever they are published; None: they come by ``load``."""
        self.engine, self.codec, self.constraint, self.seed = engine, codec, constraint, seed
        engine.excluded[:] = codec.excluded
        self.offsets = TextOffsets(codec.tokenizer, codec.decode)
        self.version = 0
        self._weights = weights
        self._requests = 0

    def publish(self, version: int) -> None:
        if self._weights is None:
            raise PolicyError("this sampler has no source of weights; hand them over with load(weights, version)")
        self.load(self._weights(), version)

    def load(self, weights: Weights, version: int) -> None:
        """Sample with these weights from now on; what was cached with the old ones is forgotten."""
        if isinstance(weights, Path):
            self.engine.serve(weights)
        else:
            self.engine.load(weights)
        self.version = version

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        if decoding.rule.temperature < LOWEST_TEMPERATURE:
            raise PolicyError(f"temperature {decoding.rule.temperature}: vLLM draws at {LOWEST_TEMPERATURE} or above")
        restricted = self.constraint is not None or decoding.rule.cuts
        drafts: dict[str, Draft] = {}
        try:
            for request in requests:
                for draft in self._drafts(request, decoding):
                    if draft.row.finished is not None:  # all of it was forced
                        yield self._finished(draft)
                    else:
                        drafts[self._submit(draft, restricted)] = draft
            while drafts:
                for output in self.engine.llm.llm_engine.step():
                    draft = drafts.pop(output.request_id)
                    self.engine.drafts.pop(int(output.request_id), None)
                    _complete(draft, output.outputs[0])
                    yield self._finished(draft)
        finally:
            if drafts:
                self.engine.llm.llm_engine.abort_request(list(drafts))
                for name in drafts:
                    self.engine.drafts.pop(int(name), None)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def _drafts(self, request: SampleRequest, decoding: Decoding) -> Iterator[Draft]:
        ids = self.codec.encode(request.task.prompt)
        if len(ids) + decoding.max_new_tokens > self.engine.max_length:
            raise PolicyError(
                f"task {request.task.id}: a prompt of {len(ids)} tokens and {decoding.max_new_tokens} new ones pass "
                f"the engine's {self.engine.max_length} positions; shorten the prompt, lower sampling.max_new_tokens, "
                "or raise sampling.vllm.max_length as far as the model goes"
            )
        ends, vocabulary = frozenset(self.codec.end_ids), self.codec.vocabulary
        for index in range(request.count):
            key = SampleKey(request.step, request.slot, request.attempt, index)
            yield Draft(Row(request, key, ids, decoding, ends, self.constraint, vocabulary))

    def _submit(self, draft: Draft, restricted: bool) -> str:
        """Hand a draft to the engine; gives the name of its request."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        row, number = draft.row, self._requests
        self._requests += 1
        if restricted:
            self.engine.drafts[number] = draft
        params = SamplingParams(
            temperature=row.decoding.rule.temperature,
            seed=int(stream(self.seed, *row.key)) >> 1,
            max_tokens=row.decoding.max_new_tokens,
            stop_token_ids=sorted(row.end_ids),
            ignore_eos=True,
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
            extra_args={DRAFT: number} if restricted else None,
        )
        prompt: Any = {"prompt_token_ids": row.prompt_ids.tolist()}
        self.engine.llm.llm_engine.add_request(str(number), prompt, params, lora_request=self.engine.adapter)
        return str(number)

    def _finished(self, draft: Draft) -> Sample:
        return draft.row.finish(self.offsets, self.version)


def _complete(draft: Draft, output: Any) -> None:
    """The last tokens, and the log-probs of all: of each position the first is that of the token drawn."""
    draft.follow(output.token_ids)
    logps = output.logprobs
    draft.row.price(np.asarray(logps.logprobs, np.float32)[logps.start_indices].tolist())
