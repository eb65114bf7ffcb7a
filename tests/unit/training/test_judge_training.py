"""A judge learns to distinguish real from generated texts and then scores generated ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from steelyard import compose
from steelyard import config as configs
from steelyard.algorithms.schedules import Schedule
from steelyard.compose import warmstart as warmstarting
from steelyard.compose.judge import judge_folder, make_judge
from steelyard.errors import ConfigError, TrainingError
from steelyard.policies.judge import ClassifierJudge
from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.training import judge_training
from steelyard.training.judge_training import logits_of, train_judge
from steelyard.training.warmstart import warm_start
from steelyard.types import Task
from steelyard.verification import Item, WeightedVerifier
from tests.small_infill import TABLES, config_of
from tests.tiny import sample_of


def classifier(seed: int = 0) -> tuple[Any, Any]:
    from transformers import ModernBertConfig, ModernBertForSequenceClassification

    tokenizer = closed_vocabulary_tokenizer(list("abc"), spaced=False, masks=True)
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        pad_token_id=0,
        num_labels=1,
        classifier_pooling="mean",
        max_position_embeddings=32,
        **sizes,
    )
    return ModernBertForSequenceClassification(config), tokenizer


def test_the_score_of_a_text_does_not_depend_on_its_batch() -> None:
    model, tokenizer = classifier()
    model.eval()
    with torch.no_grad():
        batched = logits_of(model, tokenizer, ["ab", "abcabcabc"])
        alone = torch.cat([logits_of(model, tokenizer, [text]) for text in ("ab", "abcabcabc")])
    assert torch.allclose(batched, alone, atol=1e-5)


def test_a_judge_learns_to_recognise_real_texts() -> None:
    model, tokenizer = classifier()
    pairs = [(["abab", "ababab", "abababab"], ["abba", "aabbab", "babbaaab"])] * 60
    found = list(train_judge(model, tokenizer, pairs, Schedule("constant", 3e-3)))
    assert found[0][0] == pytest.approx(0.69, abs=0.2)
    assert found[-1][0] < 0.1
    assert found[-1][1] == 1.0


def test_an_update_does_not_depend_on_the_microbatch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(["ab" * n for n in range(1, 11)], ["ba" * n for n in range(1, 11)])] * 3
    losses: list[list[float]] = []
    weights: list[torch.Tensor] = []
    for texts in (3, 100):
        monkeypatch.setattr(judge_training, "MICROBATCH_TEXTS", texts)
        model, tokenizer = classifier()
        losses.append([loss for loss, _ in train_judge(model, tokenizer, pairs, Schedule("constant", 1e-3))])
        weights.append(model.classifier.weight.detach())
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert torch.allclose(weights[0], weights[1], atol=1e-5)


def test_a_non_finite_loss_stops_training() -> None:
    model, tokenizer = classifier()
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    with pytest.raises(TrainingError, match=r"judge\.lr"):
        list(train_judge(model, tokenizer, [(["a"], ["b"])], Schedule("constant", 1e-3)))


@pytest.mark.parametrize("configured", [100, 10**9])
def test_a_warm_start_limits_the_tokens_per_microbatch(
    configured: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A microbatch size that suits groups with a common prompt is mostly padding for single texts."""
    config = config_of(tmp_path, optimiser={"microbatch_tokens": configured})
    policy, found = compose.build_policy(config), list[int]()

    def recorded(learner: Any, *arguments: Any, **named: Any) -> Any:
        found.append(learner.rule.microbatch_tokens)
        return warm_start(learner, *arguments, **named)

    monkeypatch.setattr(warmstarting, "warm_start", recorded)
    assert config.warmstart is not None
    warmstarting.make_warm_start(config, config.warmstart, policy, tmp_path / "warm")
    assert found == [min(configured, policy.default_microbatch_tokens())]


def test_a_run_trains_its_judge_and_adds_its_score(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with pytest.raises(ConfigError, match="trains its judge when it starts"):
        compose.build_verifier(config)
    trainer = compose.start_run(config)
    metrics = trainer.train_step()
    trainer.parts.pool.close()
    assert {"parts/judge/mean", "parts/program/parses/mean"} <= metrics.keys()
    expected = metrics["parts/program/mean"] + 0.5 * metrics["parts/judge/mean"]  # type: ignore[operator]
    assert metrics["reward/mean"] == pytest.approx(expected)
    verifier = compose.build_verifier(config)
    assert isinstance(verifier, WeightedVerifier)
    assert [part.decides for part in verifier.parts] == [True, False]
    judge = ClassifierJudge(str(judge_folder(config)), reads_prompt=False, device="cpu")
    items = [Item(Task("t", prompt, {}), sample_of([1, 2], text="x = 1\n"), 1) for prompt in ("a", "something else")]
    one, other = judge.scores(items)
    assert one == other, "it does not read the prompt"


def test_the_seed_determines_the_judge(tmp_path: Path) -> None:
    tables = {name: table for name, table in TABLES.items() if name != "warmstart"}
    config = configs.build({**tables, "run": {"folder": str(tmp_path)}}, source="test")
    policy = compose.build_policy(config)
    weights: list[torch.Tensor] = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        make_judge(config, configs.JudgeConfig(examples=8, batch=4, seed=seed), policy, tmp_path / name)
        weights.append(ClassifierJudge(str(tmp_path / name), device="cpu").model.classifier.weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_configured_judge_is_copied_into_the_run(tmp_path: Path) -> None:
    first = config_of(tmp_path / "first")
    compose.prepare_start(first)
    named = {**TABLES["judge"], "folder": str(judge_folder(first))}
    second = config_of(tmp_path / "second", judge=named)
    compose.prepare_start(second)
    files = [sorted((judge_folder(config) / "model.safetensors").read_bytes()) for config in (first, second)]
    assert files[0] == files[1]
    with pytest.raises(ConfigError, match="steelyard judge train"):
        compose.prepare_start(config_of(tmp_path / "third", judge={"folder": str(tmp_path / "nowhere")}))
