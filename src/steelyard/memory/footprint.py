"""How much memory each phase of a step takes, from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard import defaults
from steelyard.memory.model_shape import Shape

ROOM = 0.8
"""Share of the memory that weights may take where activations and the KV cache are not counted."""
CPU_ACTIVATIONS = 400 * 2**20
"""Bytes that the activations of a microbatch may take on a CPU."""
LOGIT_COPIES = 4
"""Arrays of the size of a chunk's logits that are there at once: logits, log-probs, probabilities, gradient."""


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained, in which precision, with what beside it."""

    weight: float = 4
    """Bytes of a weight, of its gradient, and of what is computed with it."""
    rank: int = 0
    """Of LoRA; 0: all weights are trained."""
    base: float | None = None
    """Bytes of a weight of the quantised linear layers; None: as the others."""
    state: float | None = None
    """Bytes of optimiser state for a trained parameter; None: AdamW, two moments in the parameter's precision."""
    reference: bool = True
    """KL to a frozen reference."""
    checkpointing: bool = False
    """Activations are computed again in the backward pass."""
    eager: bool = False
    """Attention keeps its scores: bfloat16 on a CPU."""

    @property
    def trained_weight(self) -> float:
        """Adapters are float32, whatever the weights are."""
        return 4 if self.rank else self.weight

    @property
    def trained_state(self) -> float:
        return 2 * self.trained_weight if self.state is None else self.state

    def trained(self, shape: Shape) -> int:
        """Parameters that learn: W, or A and B of every linear layer, r · (inputs + outputs) (arXiv 2106.09685)."""
        return self.rank * shape.borders if self.rank else shape.parameters


@dataclass(frozen=True, slots=True)
class Batch:
    """How much is in memory at once."""

    rows: int
    """Sequences decoded together."""
    length: int
    """Tokens of a sequence, prompt and completion."""
    microbatch: int
    """Tokens of a forward and backward pass."""
    chunk: int
    """Decisions whose logits exist at once."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes by what they hold."""

    weights: float
    reference: float
    optimiser: float
    gradients: float
    activations: float = 0.0
    logits: float = 0.0
    cache: float = 0.0

    @property
    def kept(self) -> float:
        """What stays from step to step."""
        return self.weights + self.reference + self.optimiser

    @property
    def rollout(self) -> float:
        return self.kept + self.cache

    @property
    def update(self) -> float:
        return self.kept + self.gradients + self.activations + self.logits

    @property
    def peak(self) -> float:
        """Of a process that does both: an allocator keeps what one phase has left, in pieces the other rarely fits."""
        return self.update + self.cache


def footprint(shape: Shape, training: Training, batch: Batch | None = None, *, ranks: int = 1) -> Footprint:
    """One process of the learner, or one of ``ranks`` that share weights, gradients and optimiser among them (FSDP).

    Weights w bytes, gradient w, AdamW 2w or 2 with 8-bit state; the reference is a copy, but under LoRA it is the same
    model with the adapter off. Sharded, two whole layers stand beside the shares: the one at work and the next.
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


def base_bytes(shape: Shape, training: Training) -> float:
    """The weights without adapters; what is not quantised (embeddings, the head) keeps its precision."""
    inside = training.weight if training.base is None else training.base
    return inside * shape.linear + training.weight * (shape.parameters - shape.linear)


def activation_bytes(shape: Shape, training: Training, length: int) -> float:
    """What a token leaves for the backward pass, in all layers, and what the backward pass of one layer has beside it.

    With gradient checkpointing a layer leaves its input alone, and one layer at a time has all of it.
    """
    kept = layer_activations(shape, training, length)
    if training.checkpointing:
        return shape.layers * training.weight * shape.width + 2 * kept
    return (shape.layers + 1) * kept


def layer_activations(shape: Shape, training: Training, length: int) -> float:
    """Bytes that a token leaves in one layer of a gated decoder.

    Two norms (computed in float32) keep their input; attention its queries, keys, values and result; the feed-forward
    layer its gate, its activated gate, its other half and their product. A matrix that is trained keeps its input; one
    with an adapter keeps it in float32, once for each matrix if the model's own precision is another, and the r numbers
    between A and B; the output of B and its scaled copy, in float32, come and go between what stays and leave holes of
    their size, which an allocator rarely fills, so they count too (measured, not derived). Eager attention keeps the
    scores of all tokens before, in float32 and in the model's precision.
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


def comfortable_tokens(width: int, layers: int, *, adapted: bool, weight: int, memory: int | None = None) -> int:
    """How many tokens to run forward and backward at once: 55 numbers of the width per token and layer (with an adapter
    90), generously counted, in 400 MiB on a CPU or an eighth of the memory of an accelerator.
    """
    kept = (90 if adapted else 55) * width * layers * max(weight, 2)
    budget = CPU_ACTIVATIONS if memory is None else memory // 8
    return max(int(budget // kept), 96)


def comfortable_chunk(vocabulary: int, *, cpu: bool) -> int:
    """How many tokens' logits to have at once, 32 to 1024. On a CPU 24 MiB of float32: what is larger the allocator
    gives back to the system at once, and the pages are made anew for every chunk.
    """
    budget = (24 if cpu else 256) * 2**20
    return min(max(budget // (4 * vocabulary), 32), 1024)


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes for weights and optimiser under one way of training, KL to a frozen reference included."""

    way: str
    footprint: Footprint

    @property
    def rollout(self) -> float:
        return self.footprint.rollout

    @property
    def update(self) -> float:
        return self.footprint.update

    def fits(self, memory: float) -> str:
        share = self.footprint.peak / max(memory, 1)
        return "fits" if share <= ROOM else "tight" if share <= 1 else "no"


def needs(shape: Shape, *, rank: int = defaults.LORA_RANK) -> list[Need]:
    """The usual ways of training a model, without activations and KV cache."""
    ways = {
        "all weights, float32": Training(4),
        "all weights, float32, adamw_8bit": Training(4, state=2),
        "all weights, bfloat16": Training(2),
        f"LoRA {rank}, bfloat16": Training(2, rank),
        f"LoRA {rank}, 8-bit base": Training(2, rank, base=1),
        f"LoRA {rank}, 4-bit base": Training(2, rank, base=0.5),
    }
    return [Need(way, footprint(shape, training)) for way, training in ways.items()]
