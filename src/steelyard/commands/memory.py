"""How much memory a model takes in each phase of a step, from its size alone; activations come on top."""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.errors import PolicyError

ROOM = 0.8
"""Share of the memory that weights may take: the rest is for activations and the KV cache."""


@dataclass(frozen=True, slots=True)
class Size:
    """What of a model decides about memory."""

    parameters: int
    linear: int
    """Of these in the linear layers inside, which LoRA adapts and which can be quantised."""
    borders: int
    """Sum of inputs + outputs over those layers: LoRA of rank r has r times as many parameters."""
    cached: int
    """Numbers in the KV cache for one token."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes for weights and optimiser under one way of training, KL to a frozen reference included."""

    way: str
    rollout: int
    """Policy and reference."""
    update: int
    """The same, with gradients and the state of the optimiser."""

    def fits(self, memory: int) -> str:
        share = max(self.rollout, self.update) / max(memory, 1)
        return "fits" if share <= ROOM else "tight" if share <= 1 else "no"


def needs(size: Size, *, rank: int = 64) -> list[Need]:
    """Per parameter: weight w bytes, gradient w, AdamW 2w, or 2 with 8-bit state; a copy as reference w.

    Under LoRA the reference is the same model with the adapter off, and gradients and optimiser are only the
    adapter's, in float32; what is not quantised (embeddings, the head) stays in bfloat16.
    """
    adapter = rank * size.borders
    return [
        _full("all weights, float32", size, weight=4, state=8),
        _full("all weights, float32, adamw_8bit", size, weight=4, state=2),
        _full("all weights, bfloat16", size, weight=2, state=4),
        _lora(f"LoRA {rank}, bfloat16", size, adapter, weight=2.0),
        _lora(f"LoRA {rank}, 8-bit base", size, adapter, weight=1.0),
        _lora(f"LoRA {rank}, 4-bit base", size, adapter, weight=0.5),
    ]


def _full(way: str, size: Size, *, weight: int, state: int) -> Need:
    both = 2 * weight * size.parameters
    return Need(way, both, both + (weight + state) * size.parameters)


def _lora(way: str, size: Size, adapter: int, *, weight: float) -> Need:
    model = int(weight * size.linear) + 2 * (size.parameters - size.linear) + 4 * adapter
    return Need(way, model, model + 12 * adapter)


def size_of(path: str) -> Size:
    """The size of a model by hub id or folder: only its configuration is read, no weights."""
    import torch
    from torch import nn
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(path)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError) as error:
        raise PolicyError(f"the size of {path!r} cannot be read: {error}") from error
    head = model.get_output_embeddings()
    linear = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer is not head]
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return Size(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        linear=sum(layer.weight.numel() for layer in linear),
        borders=sum(layer.in_features + layer.out_features for layer in linear),
        cached=2 * text.num_hidden_layers * heads * width,
    )
