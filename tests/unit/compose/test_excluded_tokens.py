"""``model.excluded_tokens`` reaches the policy, its constraint and the run's log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from steelyard import compose
from steelyard import config as configs
from steelyard.compose import Supplied
from steelyard.constraints.automaton import WordConstraint
from steelyard.constraints.base import members
from steelyard.constraints.examples.brackets import Brackets
from steelyard.constraints.without import WithoutTokens
from steelyard.errors import ConfigError, ConstraintError, PolicyError
from steelyard.folders import run_folder
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.scratch import Architecture, scratch_model
from steelyard.types import Task
from tests.grammars import small_table

TASK = Task("t", "a")
BRACKETS = "steelyard.constraints.examples.brackets:Brackets"


def config_of(*, constraint: dict[str, Any] | None = None, spaced: bool = True, **model: Any) -> configs.Config:
    scratch = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "max_length": 32, "spaced": spaced}
    tables: dict[str, Any] = {
        "model": {"scratch": {**scratch, "vocabulary": list("()[]ab")}, "device": "cpu", **model},
        "tasks": {"prompts": ["a", "b"]},
        "verify": {"verifier": "operator:eq", "pool": "inline"},
        "sampling": {"max_new_tokens": 6, "tasks_per_step": 1, "group_size": 2},
        "evaluate": {"every": 0},
        "tracking": {"console": False},
    }
    return configs.build(tables | ({"constraint": constraint} if constraint else {}), source="test")


def allowed_words(policy: Any) -> set[str]:
    walk = policy.constraint.begin(TASK)
    return set(policy.tokenizer.convert_ids_to_tokens(members(walk.allowed(6)).tolist()))


def test_the_key_reaches_the_policy_and_unknown_tokens_are_rejected() -> None:
    assert compose.build_policy(config_of()).excluded == (0, 1)
    assert compose.build_policy(config_of(excluded_tokens=["<pad>", "b"])).excluded == (0, 8)
    with pytest.raises(PolicyError, match=r"model\.excluded_tokens: '<start>' is not a token"):
        compose.build_policy(config_of(excluded_tokens=["<start>"]))


def test_a_run_reports_the_tokens_it_never_samples(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = config_of().model_dump(exclude_none=True)
    tables["run"] |= {"folder": str(tmp_path), "steps": 1}
    config = configs.build(tables, source="test")
    with caplog.at_level("INFO", "steelyard.policies"):
        compose.start_run(config).close()
    assert "<pad>, <bos>" in caplog.text
    assert json.loads((run_folder(config) / "run.json").read_text())["never_sampled"] == ["<pad>", "<bos>"]


@pytest.mark.parametrize("spaced", [True, False])
def test_automata_exclude_the_tokens(spaced: bool) -> None:
    table = {"kind": "automaton", "source": BRACKETS, "options": {"depth": 2}}
    assert allowed_words(compose.build_policy(config_of(constraint=table, spaced=spaced))) >= {"("}
    with pytest.raises(ConstraintError, match=r"'\('"):
        compose.build_policy(config_of(constraint=table, spaced=spaced, excluded_tokens=["("]))


def test_a_grammar_over_a_closed_vocabulary_excludes_the_tokens() -> None:
    table = {"kind": "regex", "source": "[ab]{1,3}"}
    policy = compose.build_policy(config_of(constraint=table, spaced=False, excluded_tokens=["a"]))
    assert allowed_words(policy) == {"b"}


def test_a_supplied_constraint_excludes_the_tokens() -> None:
    policy = compose.build_policy(config_of())
    words = {word: token for word, token in policy.tokenizer.get_vocab().items() if word != "<eos>"}
    given = WordConstraint(Brackets(2), words, end_id=2, vocabulary=policy.vocabulary)
    built = compose.build_constraint(config_of(), policy, Supplied(constraint=given))
    assert isinstance(built, WithoutTokens)
    assert built.inner is given


def test_a_grammar_over_subwords_needs_free_runs_to_exclude_text_tokens() -> None:
    backend: Any = small_table()._tokenizer
    names = {"bos_token": "<begin>", "eos_token": "<end>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    model = scratch_model(Architecture(1, 16, 2, 1), tokenizer, 0)
    tables = config_of().model_dump(exclude_none=True)
    tables["model"] = {"path": "somewhere", "device": "cpu"}
    tables["constraint"] = {"kind": "choices", "source": ["the end"]}

    def built(excluded: list[str] | None, **constraint: Any) -> Any:
        policy: Any = CausalPolicy(model, tokenizer, excluded=excluded)
        table = {**tables, "constraint": {**tables["constraint"], **constraint}}
        policy.constraint = compose.build_constraint(configs.build(table, source="test"), policy)
        return policy

    assert list(built(None).constraint.begin(TASK).forced(30))[:1] == [tokenizer.get_vocab()["the"]]
    with pytest.raises(ConfigError, match=r"constraint\.canonical_tokens = false"):
        built(["the"])
    others = allowed_words(built(["the"], canonical_tokens=False))
    assert "t" in others
    assert "the" not in others
