"""Counts the work of each phase of a step (operations, bytes and kernel calls) from the model's shape.

A token costs 2 operations per parameter it is multiplied by in the forward pass, and twice that in the backward pass
(Kaplan et al., arXiv 2001.08361: 6 N per token in training). Exceptions to this count:

- under LoRA, frozen matrices need no gradient, so the backward pass costs 2 N instead of 4 N, plus 6 per adapter
  parameter (4 N + 6 N_adapter in total);
- gradient checkpointing repeats the forward pass of the body (+ 2 N);
- the output layer runs for decisions only, and again in the backward pass, because logits are not stored: 8 V D per
  decision, 6 V D under LoRA;
- attention costs 4 · context · heads · head width per layer and token in the forward pass; for complete sequences the
  average context is half their length.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from steelyard.memory.footprint import TrainingSetup, base_bytes, layer_activations
from steelyard.memory.model_shape import ModelShape

CALLS = 40
"""Number of kernels that one layer of a gated decoder launches in the forward pass."""
ADAPTER_CALLS = 28
"""Additional kernels with an adapter on its seven matrices: A, B, the scale and the sum."""


@dataclass(frozen=True, slots=True)
class Work:
    """Amounts of each kind of work that takes time; ``rates.Rates`` has one rate per kind."""

    calls: float = 0.0
    """Kernels launched."""
    flops: float = 0.0
    """Operations in matrix products."""
    weights: float = 0.0
    """Bytes of weights read."""
    cache: float = 0.0
    """Bytes of the KV cache read."""
    activations: float = 0.0
    """Bytes written between the matrix products."""
    logits: float = 0.0
    """Logits normalised."""
    state: float = 0.0
    """Bytes of gradients, weights and optimiser state that an optimiser step reads and writes."""
    tokens: float = 0.0
    """Tokens sampled, or decisions scored, one at a time in Python."""

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Work)))

    def times(self, count: float) -> Work:
        return Work(*(getattr(self, f.name) * count for f in fields(Work)))

    def amounts(self) -> list[float]:
        return [getattr(self, f.name) for f in fields(Work)]


def decode(shape: ModelShape, training: TrainingSetup, rows: float, context: float) -> Work:
    """Count the work of decoding one token for each of ``rows`` rows with ``context`` tokens on average."""
    body = _forward(shape, training, rows, context, passes=1)
    head = Work(flops=2 * rows * shape.vocabulary * shape.width, logits=rows * shape.vocabulary, tokens=rows)
    return body + head + Work(cache=rows * context * training.weight * shape.cached)


def prefill(shape: ModelShape, training: TrainingSetup, prompts: int, length: int) -> Work:
    """Count the work of running ``prompts`` prompts of ``length`` tokens in one pass."""
    return _forward(shape, training, prompts * length, length / 2, passes=1)


def score(
    shape: ModelShape, training: TrainingSetup, sequences: int, length: int, decisions: int, passes: float
) -> Work:
    """Count the work of scoring sequences with ``decisions`` decisions each in ``passes`` passes."""
    body = _forward(shape, training, sequences * length, length / 2, passes)
    return body + _head(shape, sequences * decisions, products=1, logits=1)


def update(
    shape: ModelShape,
    training: TrainingSetup,
    sequences: int,
    length: int,
    decisions: int,
    passes: float,
    steps: int = 1,
) -> Work:
    """Count the work of the forward pass, the backward pass and ``steps`` optimiser steps on complete sequences."""
    tokens = sequences * length
    forward = _forward(shape, training, tokens, length / 2, passes)
    frozen = bool(training.rank)
    backward = forward.times(2)
    if frozen:  # the frozen weights need no gradient
        saved = 2 * shape.linear * tokens
        backward = backward + Work(flops=-saved)
    again = forward if training.checkpointing else Work()
    trained = training.trained(shape)
    moved = steps * trained * 2 * (2 * training.trained_weight + training.trained_state)
    head = _head(shape, sequences * decisions, products=3 if frozen else 4, logits=3)
    return forward + backward + again + head + Work(state=moved)


def _forward(shape: ModelShape, training: TrainingSetup, tokens: float, context: float, passes: float) -> Work:
    adapter = training.rank * shape.lora_parameters_per_rank
    attention = 4 * context * shape.heads * shape.head_width * shape.layers
    return Work(
        calls=passes * shape.layers * (CALLS + (ADAPTER_CALLS if training.rank else 0)),
        flops=tokens * (2 * shape.linear + 2 * adapter + attention),
        weights=passes * (base_bytes(shape, training) + 4 * adapter),
        activations=tokens * shape.layers * layer_activations(shape, training, 0),
    )


def _head(shape: ModelShape, decisions: float, *, products: int, logits: int) -> Work:
    return Work(
        flops=2 * products * decisions * shape.vocabulary * shape.width,
        logits=logits * decisions * shape.vocabulary,
        tokens=decisions,
    )
