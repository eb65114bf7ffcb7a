"""Small models from scratch with a closed vocabulary, saved as ordinary transformers folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from steelyard.errors import PolicyError
from steelyard.planning.shape import feed_forward_width

PAD, BOS, EOS = "<pad>", "<bos>", "<eos>"
SPECIAL_TOKENS = (PAD, BOS, EOS)


@dataclass(frozen=True, slots=True)
class Architecture:
    """Size of a from-scratch causal transformer (Llama blocks with grouped-query attention)."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    kv_heads: int = 2
    feed_forward: int | None = None
    max_length: int = 512
    tie_embeddings: bool = True

    @property
    def feed_forward_width(self) -> int:
        """Eight thirds of the width, in multiples of 32, unless said otherwise."""
        return self.feed_forward or feed_forward_width(self.width)


def closed_vocabulary_tokenizer(words: Sequence[str], *, spaced: bool = True) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words split at white space, or of single characters written without any between them;
    what is outside the vocabulary is an error to encode.
    """
    tokens = [*SPECIAL_TOKENS, *(word for word in words if word not in SPECIAL_TOKENS)]
    if len(set(tokens)) != len(tokens):
        raise PolicyError("model.scratch.vocabulary has duplicates; list each token once")
    own = tokens[len(SPECIAL_TOKENS) :]
    bad = [token for token in own if not token or any(character.isspace() for character in token)]
    if spaced and bad:
        raise PolicyError(f"tokens must not be empty or contain white space: {bad[:5]}")
    if not spaced and (long := [token for token in own if len(token) != 1]):
        raise PolicyError(f"without spaces between them tokens must be single characters: {long[:5]}")
    core = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}))
    if spaced:
        core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        core.decoder = decoders.WordPiece(prefix="\0", cleanup=False)  # joins tokens with single spaces
    else:
        core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token=PAD, bos_token=BOS, eos_token=EOS)


def scratch_model(architecture: Architecture, tokenizer: Any, seed: int) -> Any:
    """A Llama of the given size with weights drawn from ``seed``, leaving torch's global generator as it was."""
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
