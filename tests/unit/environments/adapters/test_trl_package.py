"""The adapter compared with TRL itself: a class plays the same scripted episode in ``GRPOTrainer`` and here."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from steelyard.environments.adapters import TRLEnvironment
from steelyard.environments.adapters.trl import tools_of
from steelyard.types import Task
from tests.adapter_episodes import play_inline

pytest.importorskip("trl", reason="needs the extra bench")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # TRL and its dependencies issue warnings

SCRIPT = [
    '<tool_call>\n{"name": "add", "arguments": {"number": 4}}\n</tool_call>',
    '<tool_call>\n{"name": "add", "arguments": {"number": -1}}\n</tool_call>',
    '<tool_call>\n{"name": "later", "arguments": {}}\n</tool_call>',
    "I am done.",
]
USER = ({"role": "user", "content": "Count."},)


class Counter:
    def reset(self, start: int, **columns: Any) -> str:
        self.total, self.prompt = start, columns["prompt"]
        return f" Start at {start}."

    def add(self, number: int) -> int:
        """Add a number.

        Args:
            number: What to add.

        """
        if number < 0:
            raise ValueError("no negative numbers")
        self.total += number
        return self.total

    async def later(self) -> str:
        """Wait.

        Returns:
            A promise.

        """
        return "later"

    def get_reward(self) -> float:
        return self.total + 0.5 * (self.prompt[-1]["content"] == "Count.")

    def _private(self) -> None: ...


def byte_tokenizer() -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = (files("trl") / "chat_templates" / "qwen2_5.jinja").read_text()
    return fast


def scripted_trainer(folder: Path) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = byte_tokenizer()
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=8192, **shape))
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(
            output_dir=str(folder),
            report_to=[],
            use_cpu=True,
            bf16=False,
            num_generations=2,
            per_device_train_batch_size=2,
            max_completion_length=4000,
        ),
        train_dataset=Dataset.from_list([{"prompt": list(USER), "start": 2}]),
        processing_class=tokenizer,
        environment_factory=Counter,
    )
    turns = iter(SCRIPT)

    def written(prompt_ids: list[Any], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        ids = tokenizer(next(turns) + "<|im_end|>", add_special_tokens=False)["input_ids"]
        return [list(ids) for _ in prompt_ids], None

    trainer._generate_single_turn = written
    return trainer


def test_tools_replies_and_reward_are_those_of_trl(tmp_path: Path) -> None:
    trainer = scripted_trainer(tmp_path)
    assert [tool.__name__ for tool in trainer._env_tools[None]] == list(tools_of(Counter()))
    seen: dict[str, Any] = {}
    calculate = trainer._calculate_rewards

    def observed(inputs: Any, prompts: Any, completions: Any, *rest: Any) -> Any:
        seen.update(prompts=prompts, completions=completions, rewards=calculate(inputs, prompts, completions, *rest))
        return seen["rewards"]

    trainer._calculate_rewards = observed
    trainer._generate_and_score_completions([{"prompt": list(USER), "start": 2}] * 2)

    prompt, *replies, verdict = play_inline(
        TRLEnvironment(Counter), Task("row", USER, {"start": 2}), lambda _, turns: SCRIPT[len(turns) // 2]
    )
    assert prompt[-1] == seen["prompts"][0][-1] == {"role": "user", "content": "Count. Start at 2."}
    results = [message for message in seen["completions"][0] if message["role"] == "tool"]
    assert [reply.messages[0]["content"] for reply in replies] == [message["content"] for message in results]
    assert [message["content"] for message in results] == ["6", "{'error': 'no negative numbers'}", "later"]
    assert verdict.reward == float(seen["rewards"][0][0]) == 6.5
    assert list(verdict.parts) == trainer.reward_func_names
