"""Constraints are built from the configuration, and apply to sampling, verification and training."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from steelyard import compose
from steelyard import config as configs
from steelyard.compose import Supplied
from steelyard.compose import tasks as compose_tasks
from steelyard.constraints.automaton import WordConstraint
from steelyard.constraints.base import members
from steelyard.constraints.examples.brackets import Brackets
from steelyard.constraints.grammar import GrammarConstraint
from steelyard.constraints.trie import CharacterConstraint
from steelyard.errors import ConfigError, ConstraintError, PolicyError
from steelyard.folders import run_folder
from steelyard.policies.tokens.codec import Codec
from steelyard.tracking import read_metrics
from steelyard.training.phases import verify
from steelyard.types import Task
from steelyard.verification import Item
from tests.tiny import sample_of

from .conftest import config_of

BRACKETS = "steelyard.constraints.examples.brackets:Brackets"


def constrained(table: dict[str, Any] | None, *, vocabulary: str = "()[]ab", **changes: Any) -> configs.Config:
    tables: dict[str, Any] = {
        "domain": None,
        "tasks": {"prompts": ["a", "b"]},
        "verify": {"verifier": f"{__name__}:length"},
        "model": {"scratch": {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "max_length": 32, **changes}},
        "constraint": table,
    }
    tables["model"]["scratch"]["vocabulary"] = list(vocabulary)
    return config_of(tables)


def length(task: Task, text: str) -> float:
    return float(len(text))


@pytest.mark.parametrize(
    ("table", "spaced", "kind"),
    [
        ({"kind": "automaton", "source": BRACKETS, "options": {"depth": 2}}, True, WordConstraint),
        ({"kind": "automaton", "source": BRACKETS, "options": {"depth": 2}}, False, CharacterConstraint),
        ({"kind": "regex", "source": "[ab]{1,3}"}, False, GrammarConstraint),
        ({"kind": "choices", "source": ["a", "ab"]}, False, GrammarConstraint),
    ],
)
def test_the_configured_constraint_is_built(table: dict[str, Any], spaced: bool, kind: type) -> None:
    policy = compose.build_policy(constrained(table, spaced=spaced))
    assert isinstance(policy.constraint, kind)
    first = members(policy.constraint.begin(Task("t", "a")).allowed(6)).tolist()
    opening = "([" if kind in (WordConstraint, CharacterConstraint) else "ab" if table["kind"] == "regex" else "a"
    words = [policy.tokenizer.convert_ids_to_tokens(token) for token in first]
    assert set(words) - {"<eos>"} == set(opening)


def test_an_automaton_can_be_supplied() -> None:
    config = constrained(None, spaced=False)
    policy = compose.build_policy(config, Supplied(constraint=Brackets(2)))
    assert isinstance(policy.constraint, CharacterConstraint)
    with pytest.raises(ConfigError, match="must be a table, an Automaton or a Constraint"):
        compose.build_policy(config, Supplied(constraint="Brackets"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "automaton", "source": "nowhere:Thing"}, "no module 'nowhere'"),
        ({"kind": "automaton", "source": BRACKETS, "options": {"deep": 2}}, "unexpected keyword argument 'deep'"),
        (
            {"kind": "automaton", "source": f"{__name__}:not_to_be_called"},
            "must be a subclass of steelyard.constraints.automaton",
        ),
        (
            {"kind": "automaton", "source": f"{__name__}:NotToBeBuilt"},
            "must be a subclass of steelyard.constraints.automaton",
        ),
    ],
)
def test_an_invalid_automaton_is_rejected(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose.build_policy(constrained(table))


def not_to_be_called() -> None:
    raise AssertionError("it was called")


class NotToBeBuilt:
    def __init__(self) -> None:
        raise AssertionError("it was built")


def test_a_limit_below_the_shortest_sample_fails_before_the_run(tmp_path: Path) -> None:
    table = {"kind": "automaton", "source": BRACKETS, "options": {"depth": 2, "least": 8}}
    with pytest.raises(ConstraintError, match=r"sampling\.max_new_tokens"):
        compose.build_trainer(constrained(table))


def test_held_out_tasks_have_their_own_limit(tmp_path: Path) -> None:
    table = {"kind": "automaton", "source": BRACKETS, "options": {"depth": 2, "least": 4}}
    tables = constrained(table).model_dump(exclude_none=True)
    tables["tasks"]["held_out"], tables["evaluate"] = 1, {"every": 1, "max_new_tokens": 4}
    tables["run"]["folder"] = str(tmp_path)
    with pytest.raises(ConstraintError, match="limit of 4") as caught:
        compose.build_trainer(configs.build(tables, source="test"))
    assert "its limit is evaluate.max_new_tokens" in caught.value.__notes__[0]
    tables["evaluate"]["every"] = 0
    compose.build_trainer(configs.build(tables, source="test")).close()


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_a_prompt_that_is_too_long_fails_before_the_run(kind: str, tmp_path: Path) -> None:
    """The model has 32 positions, and a sample has up to 6 tokens."""
    tables = constrained(None, spaced=False).model_dump(exclude_none=True)
    tables["model"]["kind"], tables["run"]["folder"] = kind, str(tmp_path)
    around = len(compose.build_policy(configs.build(tables, source="test")).encode("a")) - 1
    most = 32 - around - 6 * (kind == "causal")
    tables["tasks"]["prompts"] = ["a", "a" * most]
    compose.build_trainer(configs.build(tables, source="test")).close()
    tables["tasks"]["prompts"] = ["a", "a" * (most + 1)]
    with pytest.raises(PolicyError, match=r"task 1\b.* 32 .*; shorten"):
        compose.build_trainer(configs.build(tables, source="test"))


def test_only_some_prompts_of_a_long_list_are_encoded_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest prompts are checked, so a prompt that is too long is found."""
    monkeypatch.setattr(compose_tasks, "CHECKED", 10)
    tables = constrained(None, spaced=False).model_dump(exclude_none=True)
    tables["run"]["folder"] = str(tmp_path)
    encoded: list[Any] = []
    encode = Codec.encode
    monkeypatch.setattr(Codec, "encode", lambda self, prompt: (encoded.append(prompt), encode(self, prompt))[1])
    tables["tasks"]["prompts"] = ["a"] * 200
    compose.build_trainer(configs.build(tables, source="test")).close()
    assert len(encoded) == 10
    tables["tasks"]["prompts"][101] = "a" * 40
    with pytest.raises(PolicyError, match=r"task 101: .* 32 .*; shorten"):
        compose.build_trainer(configs.build(tables, source="test"))


def inline(config: configs.Config) -> configs.Config:
    return config.model_copy(update={"verify": config.verify.model_copy(update={"pool": "inline"})})


def test_a_truncated_sample_under_a_constraint_is_rejected_without_verification() -> None:
    config = inline(constrained({"kind": "lark", "source": 'start: "a" start | "b"'}, spaced=False))
    verifier = compose.build_verifier(config)
    task = Task("t", "a")
    items = [Item(task, sample_of([1, 2], text="ab", finish=finish), 1) for finish in ("stop", "length")]
    with closing(compose.build_trial_pool(config, verifier)) as pool:
        verdicts = [verify(pool, [item])[0] for item in items]
    assert [(verdict.status, verdict.reward) for verdict in verdicts] == [("scored", 2.0), ("rejected", 0.0)]
    assert "truncated" in verdicts[1].reason


def test_truncated_samples_are_invalid_only_under_a_constraint() -> None:
    free = inline(constrained(None, spaced=False))
    checked = compose.build_verifier(free)
    cut_off = Item(Task("t", "a"), sample_of([1, 2], text="ab", finish="length"), 1)
    for supplied, status in ((compose.NOTHING_SUPPLIED, "scored"), (Supplied(constraint=Brackets(2)), "rejected")):
        for build in (compose.build_pool, compose.build_trial_pool):
            with closing(build(free, checked, supplied)) as pool:
                assert verify(pool, [cut_off])[0].status == status


@pytest.mark.parametrize("supports", ["stored", "recomputed"])
def test_a_step_under_a_constraint(tmp_path: Path, supports: str) -> None:
    """Every sample satisfies the constraint, and the sampler and the learner agree, even without stored supports."""
    table = {"kind": "automaton", "source": BRACKETS, "options": {"depth": 2, "least": 2}}
    config = constrained(table, spaced=False)
    tables = config.model_dump(exclude_none=True)
    tables["run"]["folder"], tables["verify"]["pool"] = str(tmp_path), "inline"
    tables["sampling"] |= {"supports": supports, "top_p": 0.95}
    trainer = compose.build_trainer(configs.build(tables, source="test"))
    metrics = trainer.train_step()
    assert metrics["share/scored"] == 1.0
    assert metrics["importance/log_abs_max"] < 1e-4


def test_asynchronous_steps_under_a_text_grammar(tmp_path: Path) -> None:
    config = constrained({"kind": "regex", "source": "[ab]{1,3}"}, spaced=False)
    tables = config.model_dump(exclude_none=True)
    tables["run"] |= {"folder": str(tmp_path), "steps": 2}
    tables["sampling"]["staleness"] = 1
    tables["verify"]["pool"] = "inline"
    config = configs.build(tables, source="test")
    compose.build_trainer(config).train()
    rows = read_metrics(run_folder(config) / "metrics.jsonl")
    assert [row["share/scored"] for row in rows] == [1.0, 1.0]


def test_a_closed_trainer_stops_sampling(tmp_path: Path) -> None:
    """Code that calls ``train_step`` itself must also close the trainer."""
    tables = constrained(None, spaced=False).model_dump(exclude_none=True)
    tables["run"]["folder"], tables["sampling"]["staleness"] = str(tmp_path), 1
    tables["verify"]["pool"] = "inline"
    trainer = compose.build_trainer(configs.build(tables, source="test"))
    trainer.train_step()
    assert "asynchronous rollouts" in {thread.name for thread in threading.enumerate()}
    trainer.close()
    assert "asynchronous rollouts" not in {thread.name for thread in threading.enumerate()}


def test_the_end_token_under_a_constraint_is_the_tokenizers() -> None:
    """A chat model may have several end tokens; the one it was trained on need not be the first."""
    policy = compose.build_policy(constrained(None, spaced=False))
    policy.model.generation_config.eos_token_id = [0, policy.tokenizer.eos_token_id]
    assert policy.end_ids[0] != policy.end_id == policy.tokenizer.eos_token_id
    constraint = compose.build_constraint(constrained(None, spaced=False), policy, Supplied(constraint=Brackets(2)))
    assert constraint is not None
    assert policy.end_id in members(constraint.begin(Task("t", "a")).allowed(6))
    assert 0 not in members(constraint.begin(Task("t", "a")).allowed(6))
