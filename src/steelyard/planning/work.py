"""The work of each phase of a step: operations, bytes and calls, from shapes alone.

A token costs 2 operations for every parameter it is multiplied with, forward, and twice that backward (Kaplan et al.,
arXiv 2001.08361: 6 N a token in training). What differs here:

- under LoRA nothing is multiplied for the gradient of a frozen matrix, so the backward pass costs 2 N, not 4 N, and the
  adapter 6 of its own (4 N + 6 N_adapter in all);
- gradient checkpointing runs the body forward once more (+ 2 N);
- the output layer is computed for decisions only, and once more in the backward pass, since logits are not kept:
  8 V D a decision, 6 V D under LoRA;
- attention costs 4 · context · heads · head width a layer and token, forward (half of the length on average when whole
  sequences are run).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from steelyard.memory.footprint import Training, base_bytes, layer_activations
from steelyard.memory.model_shape import Shape

CALLS = 40
"""Kernels that a layer of a gated decoder starts, forward."""
ADAPTER_CALLS = 28
"""More of them with an adapter on its seven matrices: A, B, the scale and the sum."""


@dataclass(frozen=True, slots=True)
class Work:
    """Amounts of what takes time; each has its own rate (``rates.Rates``)."""

    calls: float = 0.0
    """Kernels started."""
    flops: float = 0.0
    """Operations in matrix products."""
    weights: float = 0.0
    """Bytes of weights read."""
    cache: float = 0.0
    """Bytes of the KV cache read."""
    activations: float = 0.0
    """Bytes written between the products."""
    logits: float = 0.0
    """Numbers of the size of the vocabulary that are normalised."""
    state: float = 0.0
    """Bytes of gradients, weights and optimiser state that an optimiser step reads and writes."""
    tokens: float = 0.0
    """Tokens drawn, or decisions scored, one by one in Python."""

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Work)))

    def times(self, count: float) -> Work:
        return Work(*(getattr(self, f.name) * count for f in fields(Work)))

    def amounts(self) -> list[float]:
        return [getattr(self, f.name) for f in fields(Work)]


def decode(shape: Shape, training: Training, rows: float, context: float) -> Work:
    """One more token for each of so many rows that have ``context`` tokens on average."""
    body = _forward(shape, training, rows, context, passes=1)
    head = Work(flops=2 * rows * shape.vocabulary * shape.width, logits=rows * shape.vocabulary, tokens=rows)
    return body + head + Work(cache=rows * context * training.weight * shape.cached)


def prefill(shape: Shape, training: Training, prompts: int, length: int) -> Work:
    """Prompts of this length, run at once."""
    return _forward(shape, training, prompts * length, length / 2, passes=1)


def score(shape: Shape, training: Training, sequences: int, length: int, decisions: int, passes: float) -> Work:
    """Log-probs of whole sequences, ``decisions`` of each, in so many passes."""
    body = _forward(shape, training, sequences * length, length / 2, passes)
    return body + _head(shape, sequences * decisions, products=1, logits=1)


def update(
    shape: Shape, training: Training, sequences: int, length: int, decisions: int, passes: float, steps: int = 1
) -> Work:
    """Forward, backward and so many optimiser steps on whole sequences."""
    tokens = sequences * length
    forward = _forward(shape, training, tokens, length / 2, passes)
    frozen = bool(training.rank)
    backward = forward.times(2)
    if frozen:  # no gradient of the weights themselves
        saved = 2 * shape.linear * tokens
        backward = backward + Work(flops=-saved)
    again = forward if training.checkpointing else Work()
    trained = training.trained(shape)
    moved = steps * trained * 2 * (2 * training.trained_weight + training.trained_state)
    head = _head(shape, sequences * decisions, products=3 if frozen else 4, logits=3)
    return forward + backward + again + head + Work(state=moved)


def _forward(shape: Shape, training: Training, tokens: float, context: float, passes: float) -> Work:
    adapter = training.rank * shape.borders
    attention = 4 * context * shape.heads * shape.head_width * shape.layers
    return Work(
        calls=passes * shape.layers * (CALLS + (ADAPTER_CALLS if training.rank else 0)),
        flops=tokens * (2 * shape.linear + 2 * adapter + attention),
        weights=passes * (base_bytes(shape, training) + 4 * adapter),
        activations=tokens * shape.layers * layer_activations(shape, training, 0),
    )


def _head(shape: Shape, decisions: float, *, products: int, logits: int) -> Work:
    return Work(
        flops=2 * products * decisions * shape.vocabulary * shape.width,
        logits=logits * decisions * shape.vocabulary,
        tokens=decisions,
    )
