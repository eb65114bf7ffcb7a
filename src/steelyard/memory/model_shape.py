"""The shape of a decoder: the sizes that determine its memory and compute time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.errors import PolicyError


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a causal transformer."""

    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    parameters: int
    linear: int
    """Parameters of the linear layers inside the blocks, which LoRA adapts and which can be quantised."""
    lora_parameters_per_rank: int
    """Sum of inputs + outputs over those layers; a LoRA adapter of rank r has r times as many parameters."""

    @property
    def cached(self) -> int:
        """Number of values that the KV cache holds per token."""
        return 2 * self.layers * self.kv_heads * self.head_width

    @property
    def matmul_parameters(self) -> int:
        """Number of parameters that every token is multiplied by: the linear layers and the output layer."""
        return self.linear + self.vocabulary * self.width


def decoder(
    *,
    layers: int,
    width: int,
    feed_forward: int,
    heads: int,
    kv_heads: int,
    vocabulary: int,
    head_width: int | None = None,
    tied: bool = True,
    bias: bool = False,
) -> ModelShape:
    """Compute the shape of a gated decoder (Llama, Qwen, SmolLM): grouped-query attention and three feed-forward
    matrices per layer. ``bias`` adds a bias to queries, keys and values.
    """
    head = head_width or width // heads
    inner, outer = heads * head, kv_heads * head
    linear = 2 * width * inner + 2 * width * outer + 3 * width * feed_forward
    lora_parameters_per_rank = 2 * (width + inner) + 2 * (width + outer) + 3 * (width + feed_forward)
    small = 2 * width + (inner + 2 * outer if bias else 0)
    embeddings = vocabulary * width * (1 if tied else 2)
    return ModelShape(
        layers=layers,
        width=width,
        feed_forward=feed_forward,
        heads=heads,
        kv_heads=kv_heads,
        head_width=head,
        vocabulary=vocabulary,
        parameters=embeddings + layers * (linear + small) + width,
        linear=layers * linear,
        lora_parameters_per_rank=layers * lora_parameters_per_rank,
    )


KNOWN_SHAPES = {
    "smollm2-135m": decoder(layers=30, width=576, feed_forward=1536, heads=9, kv_heads=3, vocabulary=49152),
    "qwen2.5-0.5b": decoder(
        layers=24, width=896, feed_forward=4864, heads=14, kv_heads=2, vocabulary=151936, bias=True
    ),
    "qwen2.5-7b": decoder(
        layers=28, width=3584, feed_forward=18944, heads=28, kv_heads=4, vocabulary=152064, tied=False, bias=True
    ),
    "qwen2.5-14b": decoder(
        layers=48, width=5120, feed_forward=13824, heads=40, kv_heads=8, vocabulary=152064, tied=False, bias=True
    ),
    "qwen2.5-32b": decoder(
        layers=64, width=5120, feed_forward=27648, heads=40, kv_heads=8, vocabulary=152064, tied=False, bias=True
    ),
    "llama-3.1-8b": decoder(
        layers=32, width=4096, feed_forward=14336, heads=32, kv_heads=8, vocabulary=128256, tied=False
    ),
    "llama-3.1-70b": decoder(
        layers=80, width=8192, feed_forward=28672, heads=64, kv_heads=8, vocabulary=128256, tied=False
    ),
}
"""Shapes of well-known models from their published configurations, so that planning works without a model hub."""
KNOWN_SHAPES["smollm2"] = KNOWN_SHAPES["smollm2-135m"]  # the name in `steelyard fetch`


SPECIAL_TOKEN_COUNT = 3
"""Special tokens of every closed vocabulary: padding, start and end."""


def feed_forward_width(width: int) -> int:
    """Return 8/3 of the width, rounded up to a multiple of 32."""
    return -(-8 * width // 3 // 32) * 32


def find_shape(name: str) -> ModelShape:
    """Return the shape of a model by its name in the table, its hub id or its folder."""
    short = name.rpartition("/")[2].lower().removesuffix("-instruct")
    return KNOWN_SHAPES[short] if short in KNOWN_SHAPES else read_shape(name)


EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""Configuration keys for the number of experts among which a token is routed."""


def read_shape(path: str) -> ModelShape:
    """Read the shape of a model from the configuration in a hub repository or folder, without loading weights."""
    import torch
    from torch import nn
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        file = Path(path)
        where = {"gguf_file": file.name} if file.suffix == ".gguf" else {}
        config = AutoConfig.from_pretrained(file.parent if where else path, trust_remote_code=False, **where)
        text: Any = config.get_text_config()
        experts = max(getattr(text, name, None) or 0 for name in EXPERTS)
        if experts > 1:
            raise PolicyError(
                f"{path!r} is a mixture of {experts} experts, but memory and time can be estimated only for dense "
                "models; choose a dense model"
            )
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    except (OSError, ValueError) as error:
        raise PolicyError(
            f"cannot read the shape of {path!r}: {error}; pass a folder or hub id, or one of {', '.join(KNOWN_SHAPES)}"
        ) from error
    head = model.get_output_embeddings()
    linear = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer is not head]
    return ModelShape(
        layers=text.num_hidden_layers,
        width=text.hidden_size,
        feed_forward=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
        heads=text.num_attention_heads,
        kv_heads=getattr(text, "num_key_value_heads", None) or text.num_attention_heads,
        head_width=getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads,
        vocabulary=text.vocab_size,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        linear=sum(layer.weight.numel() for layer in linear),
        lora_parameters_per_rank=sum(layer.in_features + layer.out_features for layer in linear),
    )
