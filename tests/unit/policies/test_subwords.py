"""A pretrained masked model with byte-level BPE, like RoBERTa: each hole is one token."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

from steelyard import compose
from steelyard import config as configs
from steelyard.constraints.base import members
from steelyard.domains.infill import Infill
from steelyard.errors import ConfigError, PolicyError
from steelyard.policies.loading import PolicyOptions, pretrained_policy
from steelyard.policies.masked import MaskedPolicy
from steelyard.sampling.base import Decoding, SampleRequest
from steelyard.sampling.fill import FillSampler
from steelyard.types import HOLE, CutRule, SampleKey, Task

KEY = SampleKey(0, 0, 0, 0)
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
LINES = ["def get(self, name):\n    return self.values[name]\n", "x['name'] = ('a', \"b\")\n", "print(x + 1)\n"] * 3


def byte_level() -> PreTrainedTokenizerFast:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        LINES,
        trainers.BpeTrainer(vocab_size=340, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False),
    )
    core.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token=AddedToken("<mask>", lstrip=True, special=True),
    )


def word_piece() -> PreTrainedTokenizerFast:
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="[UNK]", pad_token="[PAD]", mask_token="[MASK]", cls_token="[CLS]"
    )


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tokenizer = tmp_path_factory.mktemp("models") / "roberta", byte_level()
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=len(tokenizer), pad_token_id=1, max_position_embeddings=130, **SIZES)
    RobertaForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def policy(roberta: Path) -> Any:
    return pretrained_policy(str(roberta), PolicyOptions(kind="masked", device="cpu"))


def test_given_text_is_not_changed(policy: MaskedPolicy) -> None:
    task = Task("t", f"    return {HOLE} + 1\n\n  x{HOLE}{HOLE}<s>y")
    ids = policy.encode_task(task, 3)
    assert (ids[0], ids[-1]) == (0, 2), "the model's special tokens surround it"
    assert (ids == policy.mask_id).sum() == 3
    (letter,) = policy._ids("x")
    assert policy.decode([letter if one == policy.mask_id else one for one in ids]) == "    return x + 1\n\n  xxx<s>y"
    sampler = FillSampler(policy, seed=0)
    (sample,) = sampler.sample([SampleRequest(task, 0, 0, 1)], Decoding(CutRule(), 3, "stored"))
    assert sample.text.startswith("    return ")
    assert sample.text.endswith("<s>y")
    assert policy.max_length == 128


def test_a_tokenizer_that_changes_texts_is_rejected(tmp_path: Path) -> None:
    tokenizer = word_piece()
    model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), pad_token_id=0, **SIZES))
    policy = MaskedPolicy(model, tokenizer)
    with pytest.raises(PolicyError, match=r"tokenizer changes .*use a model whose tokenizer preserves"):
        policy.encode_task(Task("t", f"print({HOLE})\n"), 3)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="choose a lossless one"):
        Infill(tokenizer=str(tmp_path)).task("train", 0)
    with pytest.raises(ConfigError, match=r"without tokenizer\.json"):
        Infill(tokenizer=str(tmp_path.parent)).task("train", 0)


def test_forbidden_texts_are_forbidden_within_tokens(policy: MaskedPolicy) -> None:
    texts = {token: policy.decode([token]) for token in policy._fills}
    assert len([text for text in texts.values() if "(" in text]) > 2, "not only the character"
    allowed = set(members(policy.allowed(Task("t", HOLE, {"forbidden": ["("]}))).tolist())
    assert allowed == {token for token, text in texts.items() if "(" not in text}


def test_holes_are_tokens_and_examples_fill_them(policy: MaskedPolicy, roberta: Path) -> None:
    domain = Infill(tokenizer=str(roberta), masking="random", ratio=0.4, max_length=100)
    tokenized_differently = 0
    for task, text in itertools.islice(domain.examples(seed=0), 150):
        sample = policy.sample_from_text(task, text, KEY)
        assert policy.decode(sample.completion_ids) == text
        assert len(sample.decisions) == str(task.prompt).count(HOLE) == task.difficulty
        assert domain.scorer(task, text).parts["recovered"] == 1.0
        tokenized_differently += sample.completion_ids[1:-1].tolist() != policy._ids(text)
    assert tokenized_differently, "given text next to a hole may be tokenized differently"
    task = Task("t", f"def get(self, {HOLE * 4}):\n")
    with pytest.raises(PolicyError, match="each hole must be one token of this model"):
        policy.sample_from_text(task, "def get(self, name):\n", KEY)


def config_of(folder: Path, model: Path, **options: Any) -> configs.Config:
    tables: dict[str, Any] = {
        "run": {"folder": str(folder), "name": "run", "steps": 1},
        "model": {"kind": "masked", "device": "cpu", "path": str(model)},
        "domain": {"name": "infill", "options": {"max_length": 60, "max_holes": 6, **options}},
        "sampling": {"tasks_per_step": 2, "group_size": 4, "fill_steps": 2},
        "warmstart": {"examples": 16, "batch": 8, "warmup_steps": 1},
        "judge": {"examples": 8, "batch": 4, "warmup_steps": 1},
        "tracking": {"console": False},
    }
    return configs.build(tables, source="test")


def test_a_run_from_a_folder_with_warm_start_and_judge(roberta: Path, tmp_path: Path) -> None:
    trainer = compose.start_run(config_of(tmp_path, roberta, tokenizer=str(roberta)))
    metrics = trainer.train_step()
    trainer.close()
    assert metrics["importance/log_abs_max"] < 1e-4  # type: ignore[operator]
    assert (tmp_path / "run" / "warmstart" / "tokenizer.json").is_file()
    with pytest.raises(PolicyError, match="each hole must be one token") as refused:
        compose.start_run(config_of(tmp_path / "other", roberta))
    assert "domain.options.tokenizer" in refused.value.__notes__[0]
