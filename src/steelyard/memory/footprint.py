"""Estimates the memory of each phase of a training step from the model's shape."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard import defaults
from steelyard.memory.model_shape import ModelShape

USABLE_SHARE = 0.8
"""Share of memory that weights and optimiser state may use when activations and the KV cache are not estimated."""
CPU_ACTIVATION_BYTES = 400 * 2**20
"""Budget in bytes for the activations of one microbatch on a CPU."""
LOGIT_COPIES = 4
"""Number of coexisting arrays of the size of a chunk's logits: logits, log-probs, probabilities, gradient."""


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """How a model is trained: precision, adapter, optimiser state and reference."""

    weight: float = 4
    """Bytes per weight; gradients and activations use the same precision."""
    rank: int = 0
    """LoRA rank; 0 trains all weights."""
    base: float | None = None
    """Bytes per weight of quantised linear layers, or None if they are not quantised."""
    state: float | None = None
    """Bytes of optimiser state per trained parameter; None means AdamW: two moments in the parameter's precision."""
    reference: bool = True
    """Whether the KL to a frozen reference is computed."""
    checkpointing: bool = False
    """Whether the backward pass recomputes activations (gradient checkpointing)."""
    eager: bool = False
    """Whether attention stores its scores, as it does in bfloat16 on a CPU."""

    @property
    def trained_weight(self) -> float:
        """Bytes per trained parameter. Adapters are float32 regardless of the base weights."""
        return 4 if self.rank else self.weight

    @property
    def trained_state(self) -> float:
        return 2 * self.trained_weight if self.state is None else self.state

    def trained(self, shape: ModelShape) -> int:
        """Count trained parameters: all, or r · (inputs + outputs) per linear layer with LoRA (arXiv 2106.09685)."""
        return self.rank * shape.lora_parameters_per_rank if self.rank else shape.parameters


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Sizes that determine peak memory use."""

    rows: int
    """Sequences decoded together."""
    length: int
    """Tokens per sequence, including prompt and completion."""
    microbatch: int
    """Tokens per forward and backward pass."""
    chunk: int
    """Number of decisions whose logits are computed together."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory in bytes, by purpose."""

    weights: float
    reference: float
    optimiser: float
    gradients: float
    activations: float = 0.0
    logits: float = 0.0
    cache: float = 0.0

    @property
    def persistent(self) -> float:
        """Bytes that stay allocated between steps."""
        return self.weights + self.reference + self.optimiser

    @property
    def rollout(self) -> float:
        return self.persistent + self.cache

    @property
    def update(self) -> float:
        return self.persistent + self.gradients + self.activations + self.logits

    @property
    def peak(self) -> float:
        """Peak memory of a process that samples and learns. The memory of all phases is added up, because memory freed
        by one phase is fragmented and rarely fits another.
        """
        return self.update + self.cache


def footprint(
    shape: ModelShape, training: TrainingSetup, batch: BatchSize | None = None, *, ranks: int = 1
) -> Footprint:
    """Estimate the memory of one learner process, or of one of ``ranks`` processes with FSDP sharding.

    Weights take w bytes, gradients w, AdamW 2w (2 with 8-bit state). The reference is a copy of the weights, except
    under LoRA, where it is the same model with the adapter disabled. With sharding, two complete layers are gathered in
    addition to the shards: the current one and the next.
    """
    trained = training.trained(shape)
    weights = base_bytes(shape, training) + (training.trained_weight * trained if training.rank else 0)
    gathered = 0.0 if ranks == 1 else 2 * training.weight * shape.linear / shape.layers
    plain = Footprint(
        weights=weights / ranks + gathered,
        reference=0.0 if training.rank or not training.reference else weights / ranks,
        optimiser=training.trained_state * trained / ranks,
        gradients=training.trained_weight * trained / ranks,
    )
    if batch is None:
        return plain
    head = 0.0 if training.rank else 2 * training.weight * shape.vocabulary * shape.width
    return Footprint(
        weights=plain.weights,
        reference=plain.reference,
        optimiser=plain.optimiser,
        gradients=plain.gradients,
        activations=batch.microbatch * activation_bytes(shape, training, batch.length),
        logits=LOGIT_COPIES * 4 * batch.chunk * shape.vocabulary + head,
        cache=batch.rows * batch.length * training.weight * shape.cached,
    )


def base_bytes(shape: ModelShape, training: TrainingSetup) -> float:
    """Return the bytes of the weights without adapters; embeddings and the output layer are never quantised."""
    inside = training.weight if training.base is None else training.base
    return inside * shape.linear + training.weight * (shape.parameters - shape.linear)


def activation_bytes(shape: ModelShape, training: TrainingSetup, length: int) -> float:
    """Return the activation bytes per token: those stored in all layers, plus the backward pass of one layer.

    With gradient checkpointing, each layer stores only its input, and one layer at a time stores everything.
    """
    kept = layer_activations(shape, training, length)
    if training.checkpointing:
        return shape.layers * training.weight * shape.width + 2 * kept
    return (shape.layers + 1) * kept


def layer_activations(shape: ModelShape, training: TrainingSetup, length: int) -> float:
    """Return the bytes that one token stores in one layer of a gated decoder for the backward pass.

    Two norms (computed in float32) store their input; attention stores queries, keys, values and output; the
    feed-forward layer stores its gate, the activated gate, the up projection and their product. A trained matrix stores
    its input. A matrix with an adapter stores its input in float32 (once per matrix if the model's precision differs)
    and the r numbers between A and B. The float32 output of B and its scaled copy are temporary, but they leave holes
    that the allocator rarely fills, so they count too (measured, not derived). Eager attention stores the scores of all
    earlier tokens, in float32 and in the model's precision.
    """
    size, width, wide = training.weight, shape.width, shape.feed_forward
    inner = shape.heads * shape.head_width
    norms = 2 * 4 * width
    attention = size * 4 * inner
    gated = size * 3 * wide
    scores = (4 + size) * shape.heads * length if training.eager else 0
    if not training.rank:
        return norms + attention + gated + scores + size * (2 * 2 * width + wide)
    inputs = 2 * width + wide if size == 4 else 5 * width + inner + wide
    outputs = inner + 2 * shape.kv_heads * shape.head_width + 2 * width + 2 * wide
    return norms + attention + gated + scores + 4 * (inputs + 7 * training.rank + 2 * outputs)


def default_microbatch_tokens(width: int, layers: int, *, adapted: bool, weight: int, memory: int | None = None) -> int:
    """Choose the tokens per forward and backward pass. A token is assumed to store 55 numbers (90 with an adapter) per
    layer and unit of width; the budget is 400 MiB on a CPU or an eighth of the memory of an accelerator.
    """
    kept = (90 if adapted else 55) * width * layers * max(weight, 2)
    budget = CPU_ACTIVATION_BYTES if memory is None else memory // 8
    return max(int(budget // kept), 96)


def default_chunk(vocabulary: int, *, cpu: bool) -> int:
    """Choose how many tokens' logits to compute together, from 32 to 1024. A CPU gets 24 MiB of float32: the allocator
    returns larger blocks to the system immediately, so every chunk would fault its pages in again.
    """
    budget = (24 if cpu else 256) * 2**20
    return min(max(budget // (4 * vocabulary), 32), 1024)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Memory of one training method: weights, optimiser state and a frozen reference."""

    method: str
    footprint: Footprint

    @property
    def rollout(self) -> float:
        return self.footprint.rollout

    @property
    def update(self) -> float:
        return self.footprint.update

    def fits(self, memory: float) -> str:
        share = self.footprint.peak / max(memory, 1)
        return "fits" if share <= USABLE_SHARE else "tight" if share <= 1 else "no"


def estimate_methods(shape: ModelShape, *, rank: int = defaults.LORA_RANK) -> list[MemoryEstimate]:
    """Estimate the memory of the usual training methods, excluding activations and the KV cache."""
    ways = {
        "all weights, float32": TrainingSetup(4),
        "all weights, float32, adamw_8bit": TrainingSetup(4, state=2),
        "all weights, bfloat16": TrainingSetup(2),
        f"LoRA {rank}, bfloat16": TrainingSetup(2, rank),
        f"LoRA {rank}, 8-bit base": TrainingSetup(2, rank, base=1),
        f"LoRA {rank}, 4-bit base": TrainingSetup(2, rank, base=0.5),
    }
    return [MemoryEstimate(way, footprint(shape, training)) for way, training in ways.items()]
