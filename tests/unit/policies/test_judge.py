"""Judges, with tiny random models saved to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM

from steelyard.errors import PolicyError
from steelyard.policies.judge import ClassifierJudge, LikelihoodJudge, build_judge
from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.types import Decisions, FinishReason, Prompt, Sample, SampleKey, Task
from steelyard.verification import BatchMode, Item, Verifier, as_verifier, safe_verify

WORDS = ("<pad>", "<bos>", "<eos>", "user", "assistant", "a", "b", "c")
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] + ' ' + m['content'] + ' ' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)
CHAT = ({"role": "user", "content": "a b"},)


def item(text: str, prompt: Prompt = "a b ", finish: FinishReason = "stop") -> Item:
    none = np.zeros(0, np.int32)
    return Item(
        Task("t", prompt),
        Sample(SampleKey(0, 0, 0, 0), none, 0, text, finish, Decisions(none, none, np.zeros(0, np.float32))),
        1,
    )


def tokenizer(template: str | None = TEMPLATE) -> Any:
    made = closed_vocabulary_tokenizer(WORDS)
    made.chat_template = template
    return made


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("judges")
    torch.manual_seed(0)
    common: dict[str, Any] = {
        "vocab_size": len(WORDS),
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "initializer_range": 0.5,
    }
    models = {
        "likelihood": LlamaForCausalLM(LlamaConfig(**common, num_key_value_heads=1, max_position_embeddings=16)),
        "one": BertForSequenceClassification(BertConfig(**common, id2label={0: "good"}, max_position_embeddings=16)),
        "three": BertForSequenceClassification(
            BertConfig(**common, id2label={0: "bad", 1: "fair", 2: "good"}, label2id={"bad": 0, "fair": 1, "good": 2})
        ),
    }
    for name, model in models.items():
        model.save_pretrained(root / name)
        tokenizer().save_pretrained(root / name)
    LlamaForCausalLM.from_pretrained(root / "likelihood").save_pretrained(root / "plain")
    tokenizer(template=None).save_pretrained(root / "plain")
    return {folder.name: folder for folder in root.iterdir()}


def rewards(verifier: Verifier, *items: Item) -> list[float]:
    verdicts = safe_verify(verifier, list(items))
    assert [verdict.status for verdict in verdicts] == ["scored"] * len(items), verdicts[0].reason
    return [verdict.reward for verdict in verdicts]


@torch.inference_mode()
def token_logps(folder: Path, ids: list[int]) -> list[float]:
    """Log-prob of each token after the first, from one forward pass over one row."""
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    logp = model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
    return [float(logp[place - 1, ids[place]]) for place in range(1, len(ids))]


def test_likelihood_is_the_mean_over_completion_and_end(folders: dict[str, Path]) -> None:
    path = folders["likelihood"]
    given = rewards(LikelihoodJudge(str(path)), item("c a"), item("b", finish="length"), item(""))
    a, b, c, end = (WORDS.index(word) for word in ("a", "b", "c", "<eos>"))
    expected = [
        np.mean(token_logps(path, [a, b, c, a, end])[1:]),
        token_logps(path, [a, b, b])[-1],
        token_logps(path, [a, b, end])[-1],
    ]
    assert given == pytest.approx(expected, abs=1e-5)
    assert len({round(value, 3) for value in given}) == 3


def test_likelihood_of_chat_goes_through_the_template(folders: dict[str, Path]) -> None:
    path = folders["likelihood"]
    ids = [WORDS.index(word) for word in ("user", "a", "b", "assistant", "c", "<eos>")]
    assert rewards(LikelihoodJudge(str(path)), item("c", CHAT)) == pytest.approx(
        [np.mean(token_logps(path, ids)[3:])], abs=1e-5
    )


def test_a_classifier_can_return_its_logit_or_the_sigmoid(folders: dict[str, Path]) -> None:
    path = folders["one"]
    model = BertForSequenceClassification.from_pretrained(path).eval()
    ids = [WORDS.index(word) for word in ("a", "b", "c")]
    logit = model(torch.tensor([ids])).logits[0, 0].item()
    assert rewards(ClassifierJudge(str(path), squash=False), item("c")) == pytest.approx([logit], abs=1e-5)
    assert rewards(ClassifierJudge(str(path)), item("c")) == pytest.approx([1 / (1 + np.exp(-logit))], abs=1e-5)


def test_a_classifier_of_several_labels_gives_the_probability_of_one(folders: dict[str, Path]) -> None:
    path = str(folders["three"])
    values = [rewards(ClassifierJudge(path, label=name), item("c"))[0] for name in ("bad", "fair", "good")]
    assert sum(values) == pytest.approx(1.0, abs=1e-5)
    assert rewards(ClassifierJudge(path, label=2), item("c")) == [values[2]]


def test_a_classifier_reads_chat_with_the_answer_in_it(folders: dict[str, Path]) -> None:
    path = folders["one"]
    plain = rewards(ClassifierJudge(str(path)), item("c", "user a b assistant "))
    assert rewards(ClassifierJudge(str(path)), item("c", CHAT)) == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize(("kind", "folder"), [("classifier", "one"), ("likelihood", "likelihood")])
def test_scores_do_not_depend_on_the_batch(kind: Any, folder: str, folders: dict[str, Path]) -> None:
    verifier = build_judge(str(folders[folder]), kind, size=4)
    items = [item("c"), item("a b c a b c"), item("b b"), item("a", finish="length")]
    alone = [rewards(verifier, entry)[0] for entry in items]
    assert rewards(verifier, *items) == pytest.approx(alone, abs=1e-5)
    assert len(set(alone)) == 4


def test_judges_are_verifiers_and_load_their_model_when_used() -> None:
    verifier = build_judge("no/such-model", "likelihood", name=None, size=3, success_at=-1.0)
    assert isinstance(verifier, LikelihoodJudge)
    assert as_verifier(verifier) is verifier
    assert (verifier.name, verifier.mode, verifier.success_at) == ("such-model", BatchMode(3), -1.0)
    with pytest.raises(PolicyError, match=r"kind = 'oracle'.*classifier, likelihood"):
        build_judge("x", "oracle")  # pyright: ignore[reportArgumentType]


def test_success_at_decides_success(folders: dict[str, Path]) -> None:
    path = str(folders["one"])
    (value,) = rewards(ClassifierJudge(path), item("c"))
    for limit, success in ((value - 0.01, True), (value + 0.01, False), (None, False)):
        assert safe_verify(ClassifierJudge(path, success_at=limit), [item("c")])[0].success is success


@pytest.mark.parametrize(
    ("folder", "kind", "settings", "asked", "message"),
    [
        ("three", ClassifierJudge, {}, item("c"), "has 3 labels; set label to one of bad, fair, good"),
        ("three", ClassifierJudge, {"label": "best"}, item("c"), "label = 'best' is unknown; it has bad, fair, good"),
        ("plain", LikelihoodJudge, {}, item("c", CHAT), "has no chat template"),
        ("likelihood", LikelihoodJudge, {}, item("a " * 20), "reads at most 16"),
    ],
)
def test_unscored_samples_have_a_reason(
    folder: str, kind: Any, settings: dict[str, Any], asked: Item, message: str, folders: dict[str, Path]
) -> None:
    (verdict,) = safe_verify(kind(str(folders[folder]), **settings), [asked])
    assert (verdict.status, verdict.cause) == ("unscored", "exception")
    assert message in verdict.reason


def test_a_sample_that_is_too_long_does_not_affect_the_others(folders: dict[str, Path]) -> None:
    verdicts = safe_verify(LikelihoodJudge(str(folders["likelihood"])), [item("a"), item("a " * 20), item("b")])
    assert [verdict.status for verdict in verdicts] == ["scored", "unscored", "scored"]
