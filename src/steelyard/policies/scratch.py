"""Builds small untrained models with a closed vocabulary; they are saved as ordinary transformers folders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    LlamaConfig,
    ModernBertConfig,
    PreTrainedTokenizerFast,
)

from steelyard import defaults
from steelyard.errors import PolicyError
from steelyard.memory.model_shape import feed_forward_width
from steelyard.special_tokens import BOS, EOS, MASK, PAD, SPECIAL_TOKENS


@dataclass(frozen=True, slots=True)
class Architecture:
    """Size of a from-scratch transformer: causal (Llama blocks with grouped-query attention) or masked (ModernBERT
    blocks with full attention in every layer; ``kv_heads`` is ignored).
    """

    layers: int = defaults.LAYERS
    width: int = defaults.WIDTH
    heads: int = defaults.HEADS
    kv_heads: int = defaults.KV_HEADS
    feed_forward: int | None = None
    max_length: int = defaults.MAX_LENGTH
    tie_embeddings: bool = True

    @property
    def feed_forward_width(self) -> int:
        """``feed_forward``, or by default 8/3 of the width, rounded up to a multiple of 32."""
        return self.feed_forward or feed_forward_width(self.width)


def closed_vocabulary_tokenizer(
    words: Sequence[str], *, spaced: bool = True, masks: bool = False
) -> PreTrainedTokenizerFast:
    """Build a tokenizer for words separated by whitespace, or for single characters if ``spaced`` is false. ``masks``
    adds a mask token. Encoding text outside the vocabulary raises an error.
    """
    special = (*SPECIAL_TOKENS, MASK) if masks else SPECIAL_TOKENS
    tokens = [*special, *(word for word in words if word not in special)]
    if len(set(tokens)) != len(tokens):
        raise PolicyError("model.scratch.vocabulary contains duplicates; list each token once")
    own = tokens[len(special) :]
    bad = [token for token in own if not token or any(character.isspace() for character in token)]
    if spaced and bad:
        raise PolicyError(
            f"model.scratch.vocabulary contains empty tokens or tokens with whitespace: {bad[:5]}; remove them"
        )
    if not spaced and (long := [token for token in own if len(token) != 1]):
        raise PolicyError(
            f"model.scratch.spaced = false allows only single characters in model.scratch.vocabulary; remove {long[:5]}"
        )
    core = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}))
    if spaced:
        core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        core.decoder = decoders.WordPiece(prefix="\0", cleanup=False)  # joins tokens with single spaces
    else:
        core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        core.decoder = decoders.Fuse()
    names = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS} | ({"mask_token": MASK} if masks else {})
    return PreTrainedTokenizerFast(tokenizer_object=core, **names)


def scratch_model(architecture: Architecture, tokenizer: Any, seed: int) -> Any:
    """Build a Llama model with weights initialised from ``seed``, without changing torch's global generator."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=architecture.width,
        intermediate_size=architecture.feed_forward_width,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        num_key_value_heads=architecture.kv_heads,
        max_position_embeddings=architecture.max_length,
        tie_word_embeddings=architecture.tie_embeddings,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config)


def rotary_base(architecture: Architecture) -> float:
    """Choose the rotary base θ such that the slowest pair of a head's d dimensions, with frequency θ^-(d-2)/d, makes
    half a turn over the longest text (Su et al., arXiv 2104.09864).
    """
    dimensions = architecture.width // architecture.heads
    return max(architecture.max_length / math.pi, 2.0) ** (dimensions / max(dimensions - 2, 1))


def scratch_masked_model(architecture: Architecture, tokenizer: Any, seed: int) -> Any:
    """Build a ModernBERT model with weights initialised from ``seed``, like :func:`scratch_model`.

    ModernBERT's defaults suit vocabularies of thousands of subwords. With these defaults, a small model over a few
    hundred characters is slow to learn anything beyond letter frequencies. The rotary base therefore follows the
    longest text, and weights start with a standard deviation of width^-1/2.
    """
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=architecture.width,
        intermediate_size=architecture.feed_forward_width,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        max_position_embeddings=architecture.max_length,
        tie_word_embeddings=architecture.tie_embeddings,
        layer_types=["full_attention"] * architecture.layers,
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": rotary_base(architecture)}},
        initializer_range=architecture.width**-0.5,
        classifier_pooling="mean",
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        cls_token_id=None,
        sep_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForMaskedLM.from_config(config)
