"""Writes a tiny Llama model as GGUF with the ``gguf`` package, as llama.cpp's converter does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"


def write_gguf(path: Path, model: Any) -> Path:
    """Write float32 weights and a byte-level tokenizer with one merge."""
    from gguf import GGUFWriter, TokenType

    shape = model.config
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(shape.max_position_embeddings)
    writer.add_embedding_length(shape.hidden_size)
    writer.add_block_count(shape.num_hidden_layers)
    writer.add_feed_forward_length(shape.intermediate_size)
    writer.add_head_count(shape.num_attention_heads)
    writer.add_head_count_kv(shape.num_key_value_heads)
    writer.add_layer_norm_rms_eps(shape.rms_norm_eps)
    writer.add_rope_freq_base(shape.rope_parameters["rope_theta"])
    writer.add_vocab_size(shape.vocab_size)
    tokens = ["<s>", "</s>", "<|endoftext|>", *_alphabet(), "ab"]
    tokens += [f"<unused{number}>" for number in range(shape.vocab_size - len(tokens))]
    special = [TokenType.CONTROL] * 3 + [TokenType.NORMAL] * 257
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(special + [TokenType.UNUSED] * (len(tokens) - len(special)))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHAT)
    for name, tensor in model.state_dict().items():
        if (written := _name(name, tied=shape.tie_word_embeddings)) is not None:
            heads = {"attn_q": shape.num_attention_heads, "attn_k": shape.num_key_value_heads}
            kind = written.split(".")[-2]
            turned = _rotary(tensor, heads[kind]) if kind in heads else tensor
            writer.add_tensor(written, turned.float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _name(name: str, *, tied: bool) -> str | None:
    outer = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": None if tied else "output.weight",
    }
    if name in outer:
        return outer[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def _rotary(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Interleave the two halves of each head, as GGUF stores them."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def _alphabet() -> list[str]:
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())
