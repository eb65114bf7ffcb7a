"""The policy: which model, in which precision, with which adapter, and the reference beside it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from steelyard import defaults
from steelyard.config.base import Section


class ScratchConfig(Section):
    """A small transformer with random weights and a vocabulary of its own: a Llama, for kind masked a ModernBERT."""

    layers: int = Field(default=defaults.LAYERS, description="Transformer blocks.", ge=1)
    width: int = Field(default=defaults.WIDTH, description="Hidden width.", ge=8)
    heads: int = Field(default=defaults.HEADS, description="Attention heads.", ge=1)
    kv_heads: int = Field(
        default=defaults.KV_HEADS, description="Key/value heads, shared by the attention heads.", ge=1
    )
    feed_forward: int | None = Field(
        default=None, description="Width of the feed-forward layer; empty: 8/3 of width, rounded up to 32.", ge=8
    )
    max_length: int = Field(
        default=defaults.MAX_LENGTH, description="Longest sequence, prompt and completion together.", ge=2
    )
    vocabulary: tuple[str, ...] | None = Field(
        default=None, strict=False, description="The tokens; empty: the domain's own vocabulary.", min_length=1
    )
    spaced: bool = Field(
        default=True, description="Tokens are words with spaces between; false: single characters without."
    )
    tie_embeddings: bool = Field(default=True, description="Input and output embeddings share their weights.")


class LoraConfig(Section):
    """A low-rank adapter (PEFT). Dropout is always 0: sampling and scoring must see the same model."""

    rank: int = Field(default=defaults.LORA_RANK, description="Rank of the adapter matrices.", ge=1)
    alpha: float = Field(
        default=defaults.LORA_ALPHA, description="Scale: the adapter's output is multiplied by alpha/rank.", gt=0
    )
    targets: str | Annotated[tuple[str, ...], Strict(False)] = Field(
        default=defaults.LORA_TARGETS, description="Layers that get an adapter: all-linear or a list of module names."
    )
    adapter: str | None = Field(
        default=None,
        description="Folder of a trained LoRA or DoRA adapter to continue from, with its own rank, alpha and targets; "
        "adapters that train more than that (modules_to_save, biases) must be merged into model.path first.",
    )


class ModelConfig(Section):
    kind: Literal["causal", "masked"] = Field(
        default="causal", description="A causal language model writes on, a masked one fills holes in a text."
    )
    path: str | None = Field(
        default=None,
        description="Hub id, folder or .gguf file of a language model, or a name that `steelyard fetch` lists.",
        min_length=1,
    )
    scratch: ScratchConfig | None = Field(default=None, description="Train a small model from random weights instead.")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="float32",
        description="Type of the weights. auto: bfloat16 on a GPU that computes in it, else float32, unless only "
        "bfloat16 fits into main memory.",
    )
    autocast: Literal["bfloat16", "float16"] | None = Field(
        default=None, description="Mixed precision: compute in this type over float32 weights."
    )
    device: Literal["auto", "cuda", "mps", "cpu"] = Field(
        default="auto", description="auto takes cuda, then mps, then cpu."
    )
    gradient_checkpointing: bool = Field(default=False, description="Recompute activations: less memory, more time.")
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = Field(
        default="auto", description="Attention kernel."
    )
    quantize: Literal["8bit", "4bit"] | None = Field(
        default=None, description="Frozen base weights in 8 or 4 bits under LoRA (extra bitsandbytes)."
    )
    chunk_tokens: int | None = Field(
        default=None,
        description="Decisions whose logits are in memory at once; empty: what suits vocabulary and device.",
        ge=1,
    )
    threads: int | None = Field(default=None, description="Torch threads; empty: as torch chooses.", ge=1)
    trust_remote_code: bool = Field(
        default=False, description="Run Python code that comes with a hub model (docs/security.md)."
    )
    excluded_tokens: tuple[str, ...] | None = Field(
        default=None,
        strict=False,
        description="Tokens that are never sampled, by name; empty: padding, start and mask, which a text cannot show. "
        "The end token stays, and ids without a token are never sampled.",
    )
    lora: LoraConfig | None = Field(default=None, description="Train a low-rank adapter instead of all weights.")


class ReferenceConfig(Section):
    """The model that KL is measured against. It exists only if loss.kl is in use."""

    mode: Literal["static", "ema", "periodic"] = Field(
        default="static", description="The starting weights, their moving average, or a copy renewed every few steps."
    )
    ema_decay: float | None = Field(default=None, description="Decay per step; needed by mode ema.", gt=0, lt=1)
    every: int | None = Field(default=None, description="Steps between renewals; needed by mode periodic.", ge=1)
    device: Literal["same", "cpu"] = Field(default="same", description="Where the reference is kept.")
    carrier: Literal["auto", "copy", "adapter_off", "adapter"] = Field(
        default="auto",
        description="A frozen copy, the policy with its adapter off, or a second frozen adapter; auto takes what "
        "needs least memory and is right, and a copy if it is kept on another device.",
    )
