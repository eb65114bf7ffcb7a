"""The configuration, the objects it builds and the command line have the same defaults."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from steelyard import defaults
from steelyard.algorithms.surrogates import SURROGATES
from steelyard.checkpoint import Store
from steelyard.cluster.learners import LearnerGroup
from steelyard.cluster.pool import RayPool
from steelyard.cluster.samplers import RaySampler
from steelyard.compose.checkpoints import find_checkpoint
from steelyard.config import Config, LengthPenaltyConfig, LoraConfig, LossConfig, ScratchConfig, VllmConfig
from steelyard.config.cluster import LearnersConfig, SamplersConfig
from steelyard.config.tasks import TasksConfig
from steelyard.data import as_tasks, load_tasks
from steelyard.memory.footprint import estimate_methods
from steelyard.opened_run import Run
from steelyard.planning.plan import Deployment, PlannedRun
from steelyard.policies.adapters import Lora
from steelyard.policies.loading import PolicyOptions
from steelyard.policies.scratch import Architecture
from steelyard.sampling.base import Decoding
from steelyard.sampling.fill import FillSampler
from steelyard.sampling.local import LocalSampler
from steelyard.tracking.wandb import WandbTracker
from steelyard.training.credit import Credit, LengthPenalty
from steelyard.training.evaluation import Evaluator
from steelyard.training.learner import UpdateRule
from steelyard.training.optimisers import build_optimiser
from steelyard.training.rollouts import RolloutParts
from steelyard.types import CutRule
from steelyard.verification import Blame, CircuitBreaker, ProcessPool, Recycling, WorkerLimits
from steelyard.verification.functions import FunctionVerifier
from steelyard.verification.trl import TRLVerifier

pytestmark = pytest.mark.unit

SECTIONS: dict[str, type[Any]] = {
    "model.scratch": ScratchConfig,
    "model.lora": LoraConfig,
    "sampling.vllm": VllmConfig,
    "credit.length_penalty": LengthPenaltyConfig,
    "cluster.learners": LearnersConfig,
    "cluster.samplers": SamplersConfig,
    "tasks": TasksConfig,
}
"""Optional tables of the configuration."""

SAME: list[tuple[Callable[..., Any], dict[str, str]]] = [
    (CutRule, {name: f"sampling.{name}" for name in ("temperature", "top_k", "top_p", "min_p")}),
    (Decoding, {"max_new_tokens": "sampling.max_new_tokens", "supports": "sampling.supports"}),
    (LocalSampler, {"max_rows": "sampling.max_rows"}),
    (
        FillSampler,
        {"steps": "sampling.fill_steps", "order": "sampling.fill_order", "max_rows": "sampling.max_rows"},
    ),
    (PlannedRun, {"max_rows": "sampling.max_rows", "epochs": "optimiser.epochs"}),
    (Deployment, {"staleness": "sampling.staleness"}),
    (RolloutParts, {"refill_dead_groups": "credit.refill_dead_groups"}),
    (
        Credit,
        {
            "gamma": "credit.gamma",
            "clip": "credit.advantage_clip",
            "truncated": "credit.truncated",
            "length_penalty": "credit.length_penalty",
            "min_scored": "credit.min_scored",
        },
    ),
    (LengthPenalty, {"weight": "credit.length_penalty.weight"}),
    (
        UpdateRule,
        {
            "epochs": "optimiser.epochs",
            "minibatches": "optimiser.minibatches",
            "aggregation": "loss.aggregation",
            "constant_length": "loss.constant_length",
            "grad_clip": "optimiser.grad_clip",
            "max_skipped": "optimiser.max_skipped",
            "seed": "run.seed",
        },
    ),
    (build_optimiser, {name: f"optimiser.{name}" for name in ("betas", "eps", "weight_decay", "rounding")}),
    (
        Architecture,
        {
            name: f"model.scratch.{name}"
            for name in ("layers", "width", "heads", "kv_heads", "feed_forward", "max_length", "tie_embeddings")
        },
    ),
    (PolicyOptions, {name: f"model.{name}" for name in ("kind", "dtype", "device", "attention", "trust_remote_code")}),
    (Lora, {name: f"model.lora.{name}" for name in ("rank", "alpha", "targets")}),
    (estimate_methods, {"rank": "model.lora.rank"}),
    (load_tasks, {"prompt_column": "tasks.prompt_column", "split": "tasks.split"}),
    (as_tasks, {"prompt_column": "tasks.prompt_column"}),
    (FunctionVerifier, {"success_at": "verify.success_at"}),
    (TRLVerifier, {"success_at": "verify.success_at"}),
    (
        WorkerLimits,
        {name: f"verify.limits.{name}" for name in ("seconds", "memory_mb", "file_mb", "open_files", "output_kb")},
    ),
    (Recycling, {name: f"verify.recycle.{name}" for name in ("items", "memory_mb")}),
    (Blame, {"tries": "verify.tries"}),
    (
        CircuitBreaker,
        {"share": "verify.max_unscored", "then": "verify.when_unscored", "pause_seconds": "verify.pause_seconds"},
    ),
    (ProcessPool, {"keep_children": "verify.keep_children", "preload": "verify.preload", "workers": "verify.workers"}),
    (RayPool, {"address": "cluster.address"}),
    (RaySampler, {name: f"cluster.samplers.{name}" for name in ("replicas", "cpus")}),
    (
        LearnerGroup,
        {
            "sharding": "cluster.learners.sharding",
            "offload": "cluster.learners.offload",
            "seconds": "cluster.learners.timeout",
            "address": "cluster.address",
        },
    ),
    (Evaluator, {"samples": "evaluate.samples", "ks": "evaluate.ks"}),
    (Store, {"keep_last": "checkpoint.keep_last", "best_mode": "checkpoint.best_mode"}),
    (find_checkpoint, {"best_mode": "checkpoint.best_mode"}),
    (WandbTracker, {"project": "tracking.wandb_project"}),
]


def configured(key: str) -> Any:
    """Return the default of a dotted key."""
    table, _, name = key.rpartition(".")
    section: Any = SECTIONS.get(table)
    if section is None:
        section = Config
        for part in table.split("."):
            section = section.model_fields[part].annotation
    return section.model_fields[name].default


def declared(thing: Callable[..., Any], parameter: str) -> Any:
    return inspect.signature(thing).parameters[parameter].default


@pytest.mark.parametrize(
    ("thing", "parameter", "key"),
    [
        pytest.param(thing, parameter, key, id=f"{thing.__name__}.{parameter}")
        for thing, keys in SAME
        for parameter, key in keys.items()
    ],
)
def test_an_object_and_its_key_have_the_same_default(thing: Callable[..., Any], parameter: str, key: str) -> None:
    assert declared(thing, parameter) == configured(key)


@pytest.mark.parametrize("name", SURROGATES)
def test_surrogate_options_match_the_configuration(name: str) -> None:
    options = LossConfig.model_validate({"surrogate": name}).surrogate_options()
    assert {option: declared(SURROGATES[name], option) for option in options} == options


def test_ppo_clips_symmetrically_and_gspo_as_in_its_paper() -> None:
    """The defaults are those of PPO and GRPO; DAPO's clip-higher (0.28) must be set."""
    assert declared(SURROGATES["ppo_clip"], "clip_low") == declared(SURROGATES["ppo_clip"], "clip_high") == 0.2
    assert declared(SURROGATES["gspo"], "clip_low") == 3e-4
    assert declared(SURROGATES["gspo"], "clip_high") == 4e-4


def test_the_default_truncation_penalty_matches_credit() -> None:
    assert declared(Credit, "truncation_penalty") == defaults.TRUNCATION_PENALTY == 1.0


def options_of(command: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    import_module(f"steelyard.commands.{command}").configure(parser)
    required = ["x" for action in parser._actions if not action.option_strings and action.nargs is None]
    return parser.parse_args(required)


def test_commands_and_the_python_api_have_the_same_defaults() -> None:
    sample, evaluate = options_of("sample"), options_of("evaluate")
    assert (sample.n, sample.tasks) == (declared(Run.sample, "n"), declared(Run.sample, "tasks"))
    assert sample.checkpoint == evaluate.checkpoint == declared(Run.sample, "checkpoint")
    assert evaluate.checkpoint == declared(Run.evaluate, "checkpoint") == declared(find_checkpoint, "which")
    assert [int(k) for k in evaluate.k.split(",")] == list(declared(Run.evaluate, "k"))


def test_the_plan_command_describes_the_site_that_planning_assumes() -> None:
    plan, site = options_of("plan"), Deployment.__dataclass_fields__
    assert plan.cores == site["cores"].default
    assert plan.check_seconds == site["check"].default.mean
    assert plan.publish_gbs * 1e9 == site["publish"].default
    assert plan.efficiency == site["efficiency"].default
    assert options_of("doctor").rank == configured("model.lora.rank")
