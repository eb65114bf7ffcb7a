"""The workloads for the comparison with TRL: plain values that both sides receive as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUESTIONS = (
    "What is the capital of France?",
    "What do bees make?",
    "Name a fruit.",
    "What colour is the sky?",
    "Which animal barks?",
    "What is the opposite of hot?",
    "Give me a name for a cat.",
    "What is two plus two?",
)
EXAMPLE = ({"role": "user", "content": "What is the capital of Italy?"}, {"role": "assistant", "content": "Rome."})
"""After this exchange, most answers are short and some are cut off: 3 to 64 tokens, with an average of 20."""

VOCABULARY = 320
FROM_SCRATCH_PROMPT = 12


@dataclass(frozen=True)
class Workload:
    """One row of the comparison. ``model`` is the pretrained 135M model or the 10M policy from scratch."""

    name: str
    model: str
    group: int
    new_tokens: int
    full_length: bool
    """Suppress end-of-sequence so that every sample has ``new_tokens`` tokens."""
    lora_rank: int = 0
    steps: int = 3
    """Timed steps, after one warm-up step."""
    runs: int = 3
    beta: float = 0.04
    learning_rate: float = 1e-6


ROWS = (
    Workload("full-length", "smollm2", group=16, new_tokens=64, full_length=True),
    Workload("varying", "smollm2", group=16, new_tokens=64, full_length=False, steps=8),
    Workload("lora", "smollm2", group=16, new_tokens=64, full_length=True, lora_rank=64),
    Workload("from-scratch", "scratch", group=64, new_tokens=200, full_length=True),
)


def prompts(workload: Workload) -> list[Any]:
    """Return one prompt per step, in the same order for both sides: chat messages, or words of the vocabulary."""
    count = workload.steps + 1
    if workload.model == "smollm2":
        before = [] if workload.full_length else list(EXAMPLE)
        return [[*before, {"role": "user", "content": QUESTIONS[i % len(QUESTIONS)]}] for i in range(count)]
    words = [[f"w{(7 * i + 11 * j) % (VOCABULARY - 2)}" for j in range(FROM_SCRATCH_PROMPT)] for i in range(count)]
    return [" ".join(row) for row in words]


def reward_letters(completions: list[Any], **_: Any) -> list[float | None]:
    """Return the fraction of vowels: a cheap reward in TRL's format that varies between samples."""
    texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
    return [sum(letter in "aeiou02468" for letter in text) / max(len(text), 1) for text in texts]


def write_models(folder: Path) -> None:
    """Write both models in bfloat16 to the folders ``smollm2`` and ``scratch``, which each side loads on its own."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from benchmarks.framework.smollm import model_folder

    model = AutoModelForCausalLM.from_pretrained(model_folder(), dtype=torch.bfloat16)
    model.save_pretrained(folder / "smollm2")
    AutoTokenizer.from_pretrained(model_folder()).save_pretrained(folder / "smollm2")
    write_from_scratch(folder / "scratch")


def write_from_scratch(folder: Path) -> None:
    """Write a Llama of 4 layers and width 448 (about 10M parameters) over a closed vocabulary of words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i + 2 for i in range(VOCABULARY - 2)}}
    inner = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=448,
        intermediate_size=1280,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    model: Any = LlamaForCausalLM(config)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
