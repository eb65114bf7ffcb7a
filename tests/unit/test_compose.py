"""From a configuration to objects: what the keys promise is what the objects are built with."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from steelyard.policies.codec import Codec

from steelyard import compose
from steelyard import config as configs
from steelyard.algorithms.kl import AdaptiveKL
from steelyard.algorithms.surrogates import SurrogateInput
from steelyard.checkpoint import Store
from steelyard.cluster import samplers
from steelyard.compose import Supplied, runs
from steelyard.compose import tasks as compose_tasks
from steelyard.compose.learning import build_adaptive_kl
from steelyard.constraints.automaton import WordConstraint
from steelyard.constraints.base import members
from steelyard.constraints.examples.brackets import Brackets
from steelyard.constraints.grammar import GrammarConstraint
from steelyard.constraints.trie import CharacterConstraint
from steelyard.data import as_source
from steelyard.domains import make_domain
from steelyard.errors import (
    CheckpointError,
    ConfigError,
    ConstraintError,
    DataError,
    Invalid,
    MissingExtraError,
    PolicyError,
)
from steelyard.folders import read_run, run_folder
from steelyard.policies.reference import AdapterOffReference, AdapterReference, CopyReference, Ema, Periodic, static
from steelyard.sampling.local import LocalSampler
from steelyard.sampling.vllm import engine
from steelyard.tracking import read_metrics
from steelyard.training.phases import verify
from steelyard.types import Sample, Task, Verdict
from steelyard.verification import Item, Verifier, verifier
from steelyard.verification.processes.descendants import children
from tests.tiny import sample_of
from tests.verifying import verdicts_of


def config_of(tables: Mapping[str, Any] | None = None) -> configs.Config:
    """A tiny run on the sequences domain, with some tables changed."""
    plain: dict[str, Any] = {
        "model": {"scratch": {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "max_length": 32}, "device": "cpu"},
        "domain": {"name": "sequences"},
        "sampling": {"max_new_tokens": 6, "tasks_per_step": 2, "group_size": 4},
        "evaluate": {"every": 0},
        "tracking": {"console": False},
    }
    for name, table in (tables or {}).items():
        plain[name] = {**plain.get(name, {}), **table} if table is not None else None
    return configs.build({name: table for name, table in plain.items() if table is not None}, source="test")


def clip_of(loss: Mapping[str, Any]) -> tuple[float, float, float]:
    """The loss of one decision with advantage 1, -1 and -1 at ratios far above, below and above 1."""
    import torch

    chosen = compose.build_objective(config_of({"loss": loss}), None).surrogate
    shift_N, advantage_N = torch.tensor([3.0, -3.0, 3.0]), torch.tensor([1.0, -1.0, -1.0])
    zeros_N = torch.zeros(3)
    loss_N = chosen(SurrogateInput(shift_N, zeros_N, advantage_N, torch.arange(3))).loss_N
    return tuple(loss_N.tolist())


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ({}, (-1.2, 0.8, 20.0855)),
        ({"clip_high": 0.28}, (-1.28, 0.8, 20.0855)),
        ({"clip_low": 0.1, "dual_clip": 3.0}, (-1.2, 0.9, 3.0)),
        ({"surrogate": "gspo"}, (-1.0004, 0.9997, 20.0855)),
        ({"surrogate": "cispo"}, (-5.0 * 3, -0.0498 * 3, 5.0 * 3)),
        ({"surrogate": "cispo", "ratio_cap": 2.0}, (-2.0 * 3, -0.0498 * 3, 2.0 * 3)),
    ],
)
def test_clip_ranges_are_those_the_configuration_documents(
    loss: Mapping[str, Any], expected: tuple[float, ...]
) -> None:
    assert clip_of(loss) == pytest.approx(expected, rel=1e-3)


KL = {"kl": {"coefficient": 0.1}}


@pytest.mark.parametrize(
    ("tables", "kind", "renewal"),
    [
        ({}, type(None), None),
        ({"loss": KL}, CopyReference, static),
        ({"loss": KL, "reference": {"mode": "ema", "ema_decay": 0.9}}, CopyReference, Ema),
        ({"loss": KL, "reference": {"mode": "periodic", "every": 3}}, CopyReference, Periodic),
        ({"loss": KL, "lora": True}, AdapterOffReference, static),
        ({"loss": KL, "lora": True, "reference": {"mode": "ema", "ema_decay": 0.9}}, AdapterReference, Ema),
        ({"loss": KL, "lora": True, "reference": {"carrier": "adapter"}}, AdapterReference, static),
        ({"loss": KL, "lora": True, "reference": {"carrier": "copy"}}, CopyReference, static),
    ],
)
def test_the_reference_is_carried_by_the_least_that_is_right(tables: dict[str, Any], kind: type, renewal: Any) -> None:
    tables = dict(tables)
    if tables.pop("lora", False):
        scratch = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "max_length": 32}
        tables["model"] = {"scratch": scratch, "lora": {"rank": 2}}
    config = config_of(tables)
    reference: Any = compose.build_reference_of(config, compose.build_policy(config))
    assert type(reference) is kind
    if renewal is not None:
        assert reference.renewal is renewal or isinstance(reference.renewal, renewal)


@pytest.mark.parametrize(("horizon", "expected"), [(None, 10 * 4 * 6), (500.0, 500.0)])
def test_the_horizon_of_an_adaptive_kl_follows_the_size_of_a_step(horizon: float | None, expected: float) -> None:
    kl = {"coefficient": 0.05, "adaptive": {"target": 0.1} | ({} if horizon is None else {"horizon": horizon})}
    config = config_of({"loss": {"kl": kl}, "sampling": {"tasks_per_step": 4, "group_size": 6}})
    adaptive = config.loss.kl.adaptive
    assert adaptive is not None
    assert build_adaptive_kl(config, adaptive) == AdaptiveKL(0.1, expected)


def test_by_default_an_adaptive_kl_reacts_within_a_few_hundred_steps() -> None:
    config = config_of({"loss": {"kl": {"coefficient": 0.05, "adaptive": {"target": 0.1}}}})
    adaptive, samples = config.loss.kl.adaptive, config.sampling.tasks_per_step * config.sampling.group_size
    assert adaptive is not None
    rule, coefficient = build_adaptive_kl(config, adaptive), 1.0
    for _ in range(250):
        coefficient = rule.update(coefficient, 0.2, samples)
    assert coefficient > 100


# --- verifiers -------------------------------------------------------------------------------------------------------


def half(task: Task, text: str) -> float:
    if text == "bad":
        raise Invalid("it is bad")
    return 0.5


@verifier(floor=-7.0, success_at=0.1)
def declared(task: Task, text: str) -> float:
    return half(task, text)


class Whole(Verifier):
    """A verifier that is an object of its own."""

    name, floor = "whole", -9.0

    def verify(self, items: Any) -> list[Verdict]:
        return [Verdict.scored(0.25) for _ in items]


def sample(text: str) -> Sample:
    return sample_of([1, 2], text=text)


def judged(config: configs.Config, text: str = "good", supplied: Supplied = compose.NOTHING) -> Verdict:
    (verdict,) = verdicts_of(compose.build_verifier(config, supplied), [Item(Task("t", "p"), sample(text), 1)])
    return verdict


@pytest.fixture(autouse=True)
def module_of_checkers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("checkers_of_a_user")
    module.half, module.declared, module.Whole = half, declared, Whole  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "checkers_of_a_user", module)


def own(verify: Mapping[str, Any], **run: Any) -> configs.Config:
    scratch = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "max_length": 32, "vocabulary": ("a", "b")}
    tables = {"domain": None, "tasks": {"prompts": ["a"]}, "verify": verify, "model": {"scratch": scratch}, "run": run}
    return config_of(tables)


SETTINGS = {"floor": -2.0, "success_at": 0.4}


def test_a_plain_function_gets_floor_and_success_from_the_configuration() -> None:
    config = own({"verifier": "checkers_of_a_user:half", **SETTINGS})
    assert judged(config) == Verdict.scored(0.5, success=True)
    assert judged(config, "bad").reward == -2.0


def test_so_does_one_that_is_handed_over() -> None:
    config = own(SETTINGS, supplied=("verifier",))
    assert judged(config, supplied=Supplied(verifier=half)) == Verdict.scored(0.5, success=True)
    assert judged(config, "bad", Supplied(verifier=half)).reward == -2.0
    several = Supplied(verifier=[half, (declared, 2.0)])
    assert judged(config, supplied=several).reward == pytest.approx(1.5)
    assert judged(config, "bad", several).reward == -2.0


def pool_of(verify: Mapping[str, Any], supplied: Any = half) -> Any:
    """The pool behind all stages, closed again."""
    config = own(verify, supplied=("verifier",))
    pool: Any = compose.build_pool(config, compose.build_verifier(config, Supplied(verifier=supplied)))
    pool.close()
    return pool.pool


def test_where_a_verifier_runs() -> None:
    from steelyard.verification import InlinePool, ProcessPool, WeightedPool, as_verifier

    assert type(pool_of({})) is ProcessPool
    assert type(pool_of({"pool": "inline"})) is InlinePool
    harmless = as_verifier(half, isolate=False)
    assert type(pool_of({}, harmless)) is InlinePool
    assert type(pool_of({"pool": "processes"}, harmless)) is ProcessPool
    both = pool_of({}, {"far": half, "near": harmless})
    assert type(both) is WeightedPool
    assert [type(part.pool) for part in both.pools] == [ProcessPool, InlinePool]


def test_limits_of_nought_are_lifted_and_the_rest_arrives() -> None:
    limits = {"seconds": 0.0, "cpu_seconds": 2.0, "memory_mb": 0, "file_mb": 5, "open_files": 7, "output_kb": 9}
    pool = pool_of({"workers": 3, "limits": limits, "tries": 4, "blame": {"timeout": "unscored"}})
    found = pool.limits
    assert (found.seconds, found.cpu_seconds, found.memory_mb) == (None, 2.0, None)
    assert (found.file_mb, found.open_files, found.output_kb) == (5, 7, 9)
    assert (pool.workers, pool.blame.tries, pool.blame.outcome) == (3, 4, {"timeout": "unscored"})


def test_a_verifier_that_cannot_travel_stays_unless_it_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    import threading

    from steelyard.errors import VerifierError
    from steelyard.verification import InlinePool

    lock = threading.Lock()

    def bound(task: Task, text: str) -> float:
        return float(lock.locked())

    assert type(pool_of({}, bound)) is InlinePool
    assert "Until then it runs in this process" in caplog.text
    with pytest.raises(VerifierError, match="cannot be sent"):
        pool_of({"pool": "processes"}, bound)


def test_a_cache_is_used_only_for_what_declares_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from steelyard.verification import Breaker, CacheStage, as_verifier

    def stages(supplied: Any) -> list[type]:
        config = own({"pool": "inline", "cache": str(tmp_path / "verdicts.sqlite")}, supplied=("verifier",))
        pool: Any = compose.build_pool(config, compose.build_verifier(config, Supplied(verifier=supplied)))
        pool.close()
        return [type(stage) for stage in pool.stages]

    assert stages(half) == [Breaker]
    assert "half is verified anew every time: it does not declare itself deterministic" in caplog.text
    assert stages(as_verifier(half, version="1", deterministic=True)) == [Breaker, CacheStage]


def test_what_a_verifier_declares_stands() -> None:
    config = own({"verifier": "checkers_of_a_user:declared", **SETTINGS})
    assert judged(config, "bad").reward == -7.0
    assert judged(own({"verifier": "checkers_of_a_user:Whole", **SETTINGS})).reward == 0.25


@pytest.mark.parametrize(("verify", "floor"), [({}, 4 * -7.0), ({"floor": -2.0}, -2.0), ({"floor": 0.0}, 0.0)])
def test_several_are_rejected_with_the_floors_that_they_declare(verify: Mapping[str, Any], floor: float) -> None:
    """Unless the configuration has another floor for the sum."""
    entries = [
        {"function": "checkers_of_a_user:declared", "name": "once"},
        {"function": "checkers_of_a_user:declared", "weight": 3.0},
    ]
    assert judged(own({"verifiers": entries, **verify}), "bad").reward == floor
    supplied = Supplied(verifier={"once": declared, "declared": (declared, 3.0)})
    assert judged(own(verify, supplied=("verifier",)), "bad", supplied).reward == floor


def test_several_of_which_one_declares_no_floor_are_settled_by_the_group() -> None:
    supplied = Supplied(verifier=[half, (declared, 3.0)])
    verdict = judged(own({}, supplied=("verifier",)), "bad", supplied)
    assert (verdict.reward, verdict.open_floor) == (0.0, True)


def test_several_by_name_with_weights_and_settings_of_their_own() -> None:
    entries = [
        {"function": "checkers_of_a_user:half", "weight": 2.0},
        {"function": "checkers_of_a_user:Whole", "weight": 4.0, "name": "w"},
    ]
    config = own({"verifiers": entries, **SETTINGS})
    verdict = judged(config)
    assert verdict.reward == pytest.approx(2 * 0.5 + 4 * 0.25)
    assert verdict.parts == {"half": 0.5, "w": 0.25}
    assert judged(own({"verifiers": entries[:1], **SETTINGS})).success, "0.5 >= verify.success_at"
    strict = own({"verifiers": [{**entries[0], "success_at": 0.6}], **SETTINGS})
    assert not judged(strict).success


# --- the run ---------------------------------------------------------------------------------------------------------


def test_the_best_checkpoint_is_judged_as_documented(tmp_path: Path) -> None:
    run = {"folder": str(tmp_path)}
    plain = compose.build_trainer(config_of({"run": run}))
    evaluated = compose.build_trainer(config_of({"run": run, "evaluate": {"every": 5, "tasks": 2}}))
    chosen = compose.build_trainer(config_of({"run": run, "checkpoint": {"best_metric": "success"}}))
    assert plain.settings.best_metric == "reward/mean"
    assert evaluated.settings.best_metric == "eval/success"
    assert chosen.settings.best_metric == "success"


def test_evaluations_draw_as_training_does_but_for_their_own_keys() -> None:
    sampling = {"temperature": 0.8, "top_k": 5, "max_new_tokens": 6}
    same = config_of({"sampling": sampling})
    assert compose.build_evaluation_decoding(same) == compose.build_decoding(same)
    own = compose.build_evaluation_decoding(
        config_of({"sampling": sampling, "evaluate": {"temperature": 0.3, "max_new_tokens": 4}})
    )
    assert (own.rule.temperature, own.rule.top_k, own.max_new_tokens) == (0.3, 5, 4)


def test_coefficients_and_schedules_arrive(tmp_path: Path) -> None:
    tables = {
        "run": {"steps": 100, "folder": str(tmp_path)},
        "optimiser": {"lr": 0.5, "schedule": "linear", "warmup_steps": 4, "min_lr_ratio": 0.1, "grad_clip": 0.0},
        "loss": {
            "kl": {"coefficient": {"kind": "linear", "start": 0.2, "end": 0.1, "steps": 50}},
            "entropy": {"coefficient": 0.03},
            "aggregation": "constant",
        },
    }
    learner = compose.build_trainer(config_of(tables)).learner
    assert [learner.coefficients.lr.value(step) for step in (0, 4, 100)] == pytest.approx([0.1, 0.5, 0.05])
    assert [learner.kl_coefficient(step) for step in (0, 25, 99)] == pytest.approx([0.2, 0.15, 0.1])
    assert learner.coefficients.entropy.value(7) == 0.03
    assert learner.rule.grad_clip is None
    assert learner.rule.constant_length == 6, "sampling.max_new_tokens"
    assert learner.objective.kl == "k3_unbiased"


def test_kl_in_the_reward_is_not_in_the_loss(tmp_path: Path) -> None:
    kl = {"coefficient": 0.1, "placement": "reward", "estimator": "k1"}
    learner = compose.build_trainer(config_of({"run": {"folder": str(tmp_path)}, "loss": {"kl": kl}})).learner
    assert learner.kl_in_reward
    assert learner.objective.kl is None


def test_a_truncated_sample_loses_what_the_configuration_says() -> None:
    assert compose.build_credit(config_of({"credit": {"truncated": "penalise"}})).truncation_penalty == 1.0
    lighter = {"credit": {"truncated": "penalise", "truncation_penalty": 0.0}}
    assert compose.build_credit(config_of(lighter)).truncation_penalty == 0.0


def test_a_source_cannot_be_divided_and_says_so() -> None:
    tables = {
        "domain": None,
        "tasks": {"held_out": 2},
        "run": {"supplied": ["tasks", "verifier"]},
        "model": {"scratch": {"vocabulary": ["a"], "max_length": 32}},
        "evaluate": {"every": 1},
    }
    source = as_source([{"prompt": "a"}], seed=0)
    with pytest.raises(ConfigError, match="hand over eval_tasks"):
        compose.build_tasks(config_of(tables), Supplied(tasks=source, verifier=lambda task, text: 1.0))


def test_an_evaluation_without_tasks_is_refused_not_left_out() -> None:
    small = {"domain.options.limits.groups": 2, "domain.options.limits.largest": 4}
    with pytest.raises(ConfigError, match=r"'theories' has no task for validation .*evaluate.every = 0"):
        compose.build_tasks(configs.load("theories", small))
    _, tasks = compose.build_tasks(configs.load("theories", {**small, "evaluate.every": 0}))
    assert tasks == []


def test_a_run_whose_checkpoints_are_all_torn_does_not_begin_anew_in_silence(tmp_path: Path) -> None:
    config = config_of({"run": {"folder": str(tmp_path / "run"), "steps": 1}})
    trainer = compose.start_run(config)
    trainer.save()
    (state,) = tmp_path.rglob("state.json")
    state.write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"no checkpoint of .* is whole"):
        compose.resume_run(config)


def test_without_a_score_the_latest_checkpoint_counts_as_the_best(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that was stopped before its first evaluation has one whole checkpoint, and no score."""
    store = Store(tmp_path / "checkpoints")
    with pytest.raises(CheckpointError, match="none was written"):
        compose.find_checkpoint(tmp_path, "best")
    store.save(3, state={})
    assert compose.find_checkpoint(tmp_path, "best").step == 3
    assert "has a score" in caplog.text
    assert "using the latest (step 3)" in caplog.text
    (tmp_path / "checkpoints/step-00000003/state.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no whole checkpoint .step-00000003: "):
        compose.find_checkpoint(tmp_path, "best")


def test_what_is_changed_on_resume_is_the_runs_from_then_on(tmp_path: Path) -> None:
    folder = tmp_path / "moved" / "run"

    def resumed(**overrides: Any) -> configs.Config:
        with closing(compose.resume_run(read_run(folder, overrides))) as trainer:
            trainer.train()
        return read_run(folder)

    with closing(compose.start_run(config_of({"run": {"folder": str(tmp_path), "steps": 1}}))) as trainer:
        trainer.train()
    folder.parent.mkdir()
    (tmp_path / "run").rename(folder)
    text = (folder / "config.toml").read_text(encoding="utf-8")
    again = resumed()
    assert (folder / "config.toml").read_text(encoding="utf-8") == text, "another place is no other configuration"
    longer = resumed(**{"run.steps": 2, "optimiser.lr": 0.5})
    assert (again.run.steps, longer.run.steps, longer.optimiser.lr) == (1, 2, 0.5)
    assert resumed() == longer, "the next resume needs no overrides"
    (before,) = folder.glob("config-*")
    assert (before.name, before.read_text(encoding="utf-8")) == ("config-until-step-00000001.toml", text)


def test_a_run_that_cannot_go_on_leaves_no_workers(tmp_path: Path) -> None:
    verify = {"verifier": "checkers_of_a_user:declared", "pool": "processes", "workers": 1}
    tables = own(verify, folder=str(tmp_path), steps=1).model_dump(exclude_none=True)
    with closing(compose.start_run(configs.build(tables, source="test"))) as trainer:
        trainer.save()
    tables["tasks"]["prompts"], before = ["a", "b"], children()
    with pytest.raises(DataError, match="the tasks changed"):
        compose.resume_run(configs.build(tables, source="test"))
    assert children() <= before


@pytest.mark.parametrize("broken", ["build_any_learner", "build_trackers"])
def test_what_was_opened_before_a_part_that_fails_is_closed(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise ConfigError("it cannot be built")

    closed: list[str] = []
    monkeypatch.setattr(runs, "build_pool", lambda *_: SimpleNamespace(close=lambda: closed.append("pool")))
    monkeypatch.setattr(runs, broken, fails)
    with pytest.raises(ConfigError, match="it cannot be built"):
        compose.build_trainer(own({"verifier": "checkers_of_a_user:half"}))
    assert closed == ["pool"]


# --- constraints -----------------------------------------------------------------------------------------------------

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
def test_the_constraint_is_the_one_that_was_named(table: dict[str, Any], spaced: bool, kind: type) -> None:
    policy = compose.build_policy(constrained(table, spaced=spaced))
    assert isinstance(policy.constraint, kind)
    first = members(policy.constraint.begin(Task("t", "a")).allowed(6)).tolist()
    opening = "([" if kind in (WordConstraint, CharacterConstraint) else "ab" if table["kind"] == "regex" else "a"
    words = [policy.tokenizer.convert_ids_to_tokens(token) for token in first]
    assert set(words) - {"<eos>"} == set(opening)


def test_an_automaton_can_be_handed_over() -> None:
    config = constrained(None, spaced=False)
    policy = compose.build_policy(config, Supplied(constraint=Brackets(2)))
    assert isinstance(policy.constraint, CharacterConstraint)
    with pytest.raises(ConfigError, match="hand over a table, an Automaton or a Constraint"):
        compose.build_policy(config, Supplied(constraint="Brackets"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "automaton", "source": "nowhere:Thing"}, "no module 'nowhere'"),
        ({"kind": "automaton", "source": BRACKETS, "options": {"deep": 2}}, "unexpected keyword argument 'deep'"),
        (
            {"kind": "automaton", "source": f"{__name__}:not_to_be_called"},
            "is not a subclass of steelyard.constraints.automaton",
        ),
        (
            {"kind": "automaton", "source": f"{__name__}:NotToBeBuilt"},
            "is not a subclass of steelyard.constraints.automaton",
        ),
    ],
)
def test_an_automaton_that_cannot_be_is_refused(table: dict[str, Any], message: str) -> None:
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


def test_held_out_tasks_have_a_limit_of_their_own(tmp_path: Path) -> None:
    table = {"kind": "automaton", "source": BRACKETS, "options": {"depth": 2, "least": 4}}
    tables = constrained(table).model_dump(exclude_none=True)
    tables["tasks"]["held_out"], tables["evaluate"] = 1, {"every": 1, "max_new_tokens": 4}
    tables["run"]["folder"] = str(tmp_path)
    with pytest.raises(ConstraintError, match="there is room for 4") as told:
        compose.build_trainer(configs.build(tables, source="test"))
    assert "its limit is evaluate.max_new_tokens" in told.value.__notes__[0]
    tables["evaluate"]["every"] = 0
    compose.build_trainer(configs.build(tables, source="test")).close()


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_a_prompt_that_leaves_no_room_fails_before_the_run(kind: str, tmp_path: Path) -> None:
    """The model has 32 positions and a sample 6 tokens."""
    tables = constrained(None, spaced=False).model_dump(exclude_none=True)
    tables["model"]["kind"], tables["run"]["folder"] = kind, str(tmp_path)
    around = len(compose.build_policy(configs.build(tables, source="test")).encode("a")) - 1
    most = 32 - around - 6 * (kind == "causal")
    tables["tasks"]["prompts"] = ["a", "a" * most]
    compose.build_trainer(configs.build(tables, source="test")).close()
    tables["tasks"]["prompts"] = ["a", "a" * (most + 1)]
    with pytest.raises(PolicyError, match=r"task 1: .* pass(es)? the (model's )?32 positions.*; shorten"):
        compose.build_trainer(configs.build(tables, source="test"))


def test_of_a_long_list_few_prompts_are_encoded_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest are among them, and one that is too long is found there."""
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
    with pytest.raises(PolicyError, match=r"task 101: .*32 positions.*; shorten"):
        compose.build_trainer(configs.build(tables, source="test"))


def inline(config: configs.Config) -> configs.Config:
    return config.model_copy(update={"verify": config.verify.model_copy(update={"pool": "inline"})})


def test_what_is_cut_off_under_a_constraint_is_rejected_without_asking() -> None:
    config = inline(constrained({"kind": "lark", "source": 'start: "a" start | "b"'}, spaced=False))
    verifier = compose.build_verifier(config)
    task = Task("t", "a")
    items = [Item(task, sample_of([1, 2], text="ab", finish=finish), 1) for finish in ("stop", "length")]
    with closing(compose.build_trial_pool(config, verifier)) as pool:
        verdicts = [verify(pool, [item])[0] for item in items]
    assert [(verdict.status, verdict.reward) for verdict in verdicts] == [("scored", 2.0), ("rejected", 0.0)]
    assert "truncated" in verdicts[1].reason


def test_only_a_constraint_makes_cut_off_samples_invalid() -> None:
    free = inline(constrained(None, spaced=False))
    checked = compose.build_verifier(free)
    cut_off = Item(Task("t", "a"), sample_of([1, 2], text="ab", finish="length"), 1)
    for supplied, status in ((compose.NOTHING, "scored"), (Supplied(constraint=Brackets(2)), "rejected")):
        for build in (compose.build_pool, compose.build_trial_pool):
            with closing(build(free, checked, supplied)) as pool:
                assert verify(pool, [cut_off])[0].status == status


@pytest.mark.parametrize("supports", ["stored", "replayed"])
def test_a_step_under_a_constraint(tmp_path: Path, supports: str) -> None:
    """Every sample keeps to it, and sampler and learner agree, with cuts and without stored supports."""
    table = {"kind": "automaton", "source": BRACKETS, "options": {"depth": 2, "least": 2}}
    config = constrained(table, spaced=False)
    tables = config.model_dump(exclude_none=True)
    tables["run"]["folder"], tables["verify"]["pool"] = str(tmp_path), "inline"
    tables["sampling"] |= {"supports": supports, "top_p": 0.95}
    trainer = compose.build_trainer(configs.build(tables, source="test"))
    metrics = trainer.train_step()
    assert metrics["share/scored"] == 1.0
    assert metrics["importance/log_abs_max"] < 1e-4


def test_steps_ahead_under_a_text_grammar(tmp_path: Path) -> None:
    config = constrained({"kind": "regex", "source": "[ab]{1,3}"}, spaced=False)
    tables = config.model_dump(exclude_none=True)
    tables["run"] |= {"folder": str(tmp_path), "steps": 2}
    tables["sampling"]["staleness"] = 1
    tables["verify"]["pool"] = "inline"
    config = configs.build(tables, source="test")
    compose.build_trainer(config).train()
    rows = read_metrics(run_folder(config) / "metrics.jsonl")
    assert [row["share/scored"] for row in rows] == [1.0, 1.0]


def test_a_closed_trainer_samples_ahead_no_more(tmp_path: Path) -> None:
    """Who takes the steps of a run one by one closes it as well."""
    tables = constrained(None, spaced=False).model_dump(exclude_none=True)
    tables["run"]["folder"], tables["sampling"]["staleness"] = str(tmp_path), 1
    tables["verify"]["pool"] = "inline"
    trainer = compose.build_trainer(configs.build(tables, source="test"))
    trainer.train_step()
    assert "asynchronous rollouts" in {thread.name for thread in threading.enumerate()}
    trainer.close()
    assert "asynchronous rollouts" not in {thread.name for thread in threading.enumerate()}


def test_the_end_under_a_constraint_is_the_tokenizers_own() -> None:
    """A chat model may have several end tokens; the one it is trained to write is not always the first."""
    policy = compose.build_policy(constrained(None, spaced=False))
    policy.model.generation_config.eos_token_id = [0, policy.tokenizer.eos_token_id]
    assert policy.end_ids[0] != policy.end_id == policy.tokenizer.eos_token_id
    constraint = compose.build_constraint(constrained(None, spaced=False), policy, Supplied(constraint=Brackets(2)))
    assert constraint is not None
    assert policy.end_id in members(constraint.begin(Task("t", "a")).allowed(6))
    assert 0 not in members(constraint.begin(Task("t", "a")).allowed(6))


@pytest.mark.parametrize(
    ("engine", "cap", "expected"),
    [("local", None, None), ("local", 3.0, 3.0), ("vllm", None, 2.0), ("vllm", 3.0, 3.0), ("vllm", 0.0, None)],
)
def test_samples_of_another_engine_are_corrected_unless_told_otherwise(
    engine: str, cap: float | None, expected: float | None
) -> None:
    loss = {} if cap is None else {"importance_cap": cap}
    config = config_of({"sampling": {"engine": engine, "max_new_tokens": 6}, "loss": loss})
    assert compose.build_objective(config, None).importance_cap == expected


@pytest.mark.parametrize("broken", [False, True])
def test_an_engine_is_closed_with_its_run_or_when_it_takes_no_weights(
    broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    def load(_weights: Any) -> None:
        if broken:
            raise PolicyError("there is no such weight")

    opened = SimpleNamespace(load=load, close=lambda: closed.append("engine"), excluded=[])
    monkeypatch.setattr(engine, "open_engine", lambda *_: opened)
    config = config_of({"sampling": {"engine": "vllm", "max_new_tokens": 6}, "verify": {"pool": "inline"}})
    with pytest.raises(PolicyError, match="no such weight") if broken else nullcontext():
        compose.build_trainer(config).close()
    assert closed == ["engine"]


def test_replicas_that_take_no_weights_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    def publish(_version: int) -> None:
        raise PolicyError("there is no such weight")

    replicas = SimpleNamespace(publish=publish, close=lambda: closed.append("replicas"))
    monkeypatch.setattr(samplers, "RaySampler", lambda *_, **__: replicas)
    config = config_of({"sampling": {"engine": "vllm", "max_new_tokens": 6}, "cluster": {"samplers": {"replicas": 2}}})
    with pytest.raises(PolicyError, match="no such weight"):
        compose.build_sampler(config, compose.build_policy(config))
    assert closed == ["replicas"]


def test_an_engine_that_is_not_installed_is_missed_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    config = config_of({"sampling": {"engine": "vllm"}})
    policy = compose.build_policy(config)
    with pytest.raises(MissingExtraError, match=r"docs/vllm\.md.*pip install 'steelyard\[vllm\]'"):
        compose.build_sampler(config, policy)
    assert isinstance(compose.build_sampler(config_of(), policy), LocalSampler)


SOURCE_TASKS: dict[str, Any] = {
    "domain": None,
    "verify": {"verifier": "steelyard.domains.sequences.domain:score"},
    "model": {"scratch": {"layers": 1, "width": 16, "heads": 2, "max_length": 32, "vocabulary": ["a", "b"]}},
}


def test_a_finite_domain_can_be_drawn_in_order_and_an_endless_one_as_a_list() -> None:
    def drawn(domain: dict[str, Any], source: dict[str, Any], count: int) -> list[str]:
        config = config_of({"domain": domain, "tasks": {"source": source}})
        return [task.id for task in compose.build_tasks(config)[0].draw(0, count)]

    sequences = {"name": "sequences", "options": {"symbols": 2, "max_length": 2, "kinds": ["copy"]}}
    size = make_domain("sequences", **sequences["options"]).size("train") or 0
    in_order = drawn(sequences, {"kind": "generated"}, 2 * size)
    assert in_order[:size] == in_order[size:]
    assert len(set(in_order)) == size
    bricks = {"name": "bricks", "options": {"kinds": ["tower"]}}
    assert len(set(drawn(bricks, {"kind": "dataset", "limit": 3}, 9))) == 3
    with pytest.raises(ConfigError, match=r"tasks\.source\.limit"):
        drawn(bricks, {"kind": "dataset"}, 1)


def test_every_listed_task_of_a_mixture_is_checked_before_the_run() -> None:
    parts = [{"name": "short", "prompts": ["a"]}, {"name": "long", "prompts": ["a " * 40]}]
    config = config_of({**SOURCE_TASKS, "tasks": {"source": {"kind": "mixture", "parts": parts}}})
    with pytest.raises(PolicyError, match="task long/0"):
        compose.build_trainer(config)


def test_a_source_of_the_users_own_gets_the_listed_tasks_and_the_domain() -> None:
    kind = {"kind": f"{__name__}:GivenTasks"}
    listed = config_of({**SOURCE_TASKS, "tasks": {"prompts": ["a", "b"], "source": kind}})
    own: Any = compose.build_tasks(listed)[0]
    assert ([task.prompt for task in own.context.tasks], own.context.domain, own.context.seed) == (["a", "b"], None, 0)
    own = compose.build_tasks(config_of({"tasks": {"source": kind}, "run": {"seed": 3}}))[0]
    assert (list(own.context.tasks), own.context.domain.name, own.context.seed) == ([], "sequences", 3)


class GivenTasks:
    """A source that only keeps what it is given."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def draw(self, step: int, n: int) -> list[Task]:
        return []

    def observe(self, groups: Any) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Any) -> None: ...
