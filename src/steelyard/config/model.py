"""Configuration of the policy (model, precision, adapter) and of the reference model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from steelyard import defaults
from steelyard.config.base import Section


class ScratchConfig(Section):
    """A small, randomly initialised transformer with its own vocabulary: Llama, or ModernBERT for kind = masked."""

    layers: int = Field(default=defaults.LAYERS, description="Number of transformer blocks.", ge=1)
    width: int = Field(default=defaults.WIDTH, description="Hidden width.", ge=8)
    heads: int = Field(default=defaults.HEADS, description="Number of attention heads.", ge=1)
    kv_heads: int = Field(
        default=defaults.KV_HEADS, description="Number of key/value heads, shared by the attention heads.", ge=1
    )
    feed_forward: int | None = Field(
        default=None,
        description="Width of the feed-forward layer. Default: 8/3 of width, rounded up to a multiple of 32.",
        ge=8,
    )
    max_length: int = Field(
        default=defaults.MAX_LENGTH, description="Maximum sequence length, prompt and completion together.", ge=2
    )
    vocabulary: tuple[str, ...] | None = Field(
        default=None, strict=False, description="The tokens. Default: the domain's vocabulary.", min_length=1
    )
    spaced: bool = Field(
        default=True, description="true: tokens are words separated by spaces; false: tokens are single characters."
    )
    tie_embeddings: bool = Field(default=True, description="Share weights between input and output embeddings.")


class LoraConfig(Section):
    """A low-rank adapter (PEFT). Dropout is always 0, because sampling and scoring must use the same model."""

    rank: int = Field(default=defaults.LORA_RANK, description="Rank of the adapter matrices.", ge=1)
    alpha: float = Field(
        default=defaults.LORA_ALPHA, description="Scale of the adapter: its output is multiplied by alpha/rank.", gt=0
    )
    targets: str | Annotated[tuple[str, ...], Strict(False)] = Field(
        default=defaults.LORA_TARGETS,
        description="Layers that receive an adapter: all-linear, or a list of module names.",
    )
    adapter: str | None = Field(
        default=None,
        description="Folder of a trained LoRA or DoRA adapter to start from; its own rank, alpha and targets are used. "
        "Adapters with other trained weights (modules_to_save, biases) must be merged into model.path first.",
    )


class ModelConfig(Section):
    kind: Literal["causal", "masked"] = Field(
        default="causal",
        description="causal: a language model that continues text; masked: a model that fills holes in text.",
    )
    path: str | None = Field(
        default=None,
        description="Hub id, folder or .gguf file of a language model, or a model name listed by `steelyard fetch`.",
        min_length=1,
    )
    scratch: ScratchConfig | None = Field(
        default=None, description="Train a small model from random weights; replaces model.path."
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="float32",
        description="Data type of the weights. auto: bfloat16 on GPUs that support it; otherwise float32, or bfloat16 "
        "if float32 does not fit in main memory.",
    )
    autocast: Literal["bfloat16", "float16"] | None = Field(
        default=None, description="Mixed precision: compute in this data type while keeping the weights in float32."
    )
    device: Literal["auto", "cuda", "mps", "cpu"] = Field(
        default="auto", description="Device to run the model on; auto selects cuda, then mps, then cpu."
    )
    gradient_checkpointing: bool = Field(
        default=False, description="Recompute activations in the backward pass to save memory at the cost of speed."
    )
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = Field(
        default="auto", description="Attention implementation."
    )
    quantize: Literal["8bit", "4bit"] | None = Field(
        default=None,
        description="Quantise the frozen base weights to 8 or 4 bits (requires LoRA and the bitsandbytes extra).",
    )
    chunk_tokens: int | None = Field(
        default=None,
        description="Number of decisions whose logits are held in memory at a time. Default: chosen automatically.",
        ge=1,
    )
    threads: int | None = Field(default=None, description="Number of torch threads. Default: torch's default.", ge=1)
    trust_remote_code: bool = Field(
        default=False, description="Run Python code shipped with a hub model (docs/security.md)."
    )
    excluded_tokens: tuple[str, ...] | None = Field(
        default=None,
        strict=False,
        description="Names of tokens that are never sampled. Default: the padding, start and mask tokens, which have "
        "no text. The end token can always be sampled; ids without a token are never sampled.",
    )
    lora: LoraConfig | None = Field(default=None, description="Train a low-rank adapter instead of all weights.")


class ReferenceConfig(Section):
    """The model against which KL is measured. The reference is built only if loss.kl is used."""

    mode: Literal["static", "ema", "periodic"] = Field(
        default="static",
        description="The initial weights, a moving average of the policy, or a copy refreshed every few steps.",
    )
    ema_decay: float | None = Field(default=None, description="Decay per step; required for mode = ema.", gt=0, lt=1)
    every: int | None = Field(default=None, description="Steps between refreshes; required for mode = periodic.", ge=1)
    device: Literal["same", "cpu"] = Field(
        default="same", description="Device of the reference: the policy's device (same) or the CPU."
    )
    storage: Literal["auto", "copy", "adapter_off", "adapter"] = Field(
        default="auto",
        description="How the reference is stored: a frozen copy, the policy with its adapter disabled, or a second "
        "frozen adapter. auto selects a copy on another device, otherwise the valid option that uses the least memory.",
    )
