"""Train a run's judge to distinguish the domain's examples from the policy's samples for the same tasks."""

from __future__ import annotations

import itertools
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from steelyard.algorithms.schedules import Schedule
from steelyard.compose.sampling import build_decoding, build_sampler
from steelyard.compose.supplied import NOTHING_SUPPLIED, Supplied, build_domain
from steelyard.compose.tasks import check_first_tasks
from steelyard.compose.warmstart import LAST, check_folder, copy_model, write_atomically
from steelyard.config import Config, JudgeConfig
from steelyard.domains.base import examples_of
from steelyard.errors import ConfigError, StoppedError
from steelyard.folders import run_folder
from steelyard.policies.adapters import plain_tensors
from steelyard.policies.base import Policy
from steelyard.policies.judge import build_judge
from steelyard.policies.masked import MaskedPolicy
from steelyard.tracking.bars import progress_bar
from steelyard.training.judge_training import train_judge
from steelyard.training.phases import requests_for, sample
from steelyard.training.stopping import StopRequest, stopping_on_signals
from steelyard.types import Task
from steelyard.verification import AnyVerifier, WeightedPart, WeightedVerifier

FAKES = 1_000_000
"""Offset for steps and seeds, so that a judge's data differs from a run's samples and a warm start's examples."""


def judge_folder(config: Config) -> Path:
    """Return the folder of a run's judge."""
    return run_folder(config) / "judge"


def with_judge(verifier: AnyVerifier, config: Config) -> AnyVerifier:
    """If there is a judge, add its score to the domain's reward. The judge does not affect success."""
    if config.judge is None:
        return verifier
    own = judge_folder(config)
    if not own.is_dir() and config.judge.folder is None:
        raise ConfigError(
            f"{own} does not exist yet: a run trains its judge when it starts. To use a judge before that, train one "
            f"with `steelyard judge train` and set --judge.folder"
        )
    path = own if own.is_dir() else Path(str(config.judge.folder))
    check_folder(path, "judge.folder", "steelyard judge train")
    judge = build_judge(str(path), "classifier", name="judge", reads_prompt=False, device=config.model.device)
    return WeightedVerifier(
        (WeightedPart(verifier), WeightedPart(judge, config.judge.weight, decides=False)),
        name="judged",
        floor=verifier.floor,
    )


def copy_named_judge(config: Config) -> None:
    """Copy the judge named in the configuration into the run folder."""
    judge, own = config.judge, judge_folder(config)
    if judge is not None and judge.folder is not None and not own.is_dir():
        copy_model(Path(judge.folder), own, "judge.folder", "steelyard judge train")


def make_judge(
    config: Config, judge: JudgeConfig, policy: Policy, folder: Path, supplied: Supplied = NOTHING_SUPPLIED
) -> float:
    """Train a judge from the policy's body and save it. Return the judge's accuracy over the last tenth of updates."""
    if not isinstance(policy, MaskedPolicy):
        raise ConfigError("judge: training starts from the body of a masked model; set model.kind = 'masked'")
    check_first_tasks(config, policy, supplied)
    examples = examples_of(build_domain(config, supplied), "judge", seed=FAKES + judge.seed)
    steps = judge.updates
    lr = Schedule("cosine", judge.lr, LAST * judge.lr, steps, min(judge.warmup_steps, steps - 1))
    model, accuracies = _classifier(policy, judge.seed), list[float]()
    shown = config.tracking.console
    bar = progress_bar("training the judge", steps, "update") if shown else nullcontext(lambda *_: None)
    stop = StopRequest()
    with stopping_on_signals(stop.request, "update"), bar as advance:
        for loss, accuracy in train_judge(model, policy.tokenizer, _pairs(config, judge, policy, examples), lr):
            accuracies.append(accuracy)
            advance(f"loss {loss:.3f}, accuracy {accuracy:.0%}")
            if stop.requested:
                break
    if len(accuracies) < steps:
        raise StoppedError(
            f"stopped training the judge after update {len(accuracies)} of {steps}; its training will start over."
        )
    write_atomically(folder, lambda place: (model.save_pretrained(place), policy.tokenizer.save_pretrained(place)))
    if stop.requested:
        raise StoppedError("stopped after training the judge; the judge is saved.")
    return statistics.mean(accuracies[-max(1, steps // 10) :])


def _classifier(policy: MaskedPolicy, seed: int) -> Any:
    """Build a classifier from the policy's body (with its adapter merged) and a new head with one label."""
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        policy.base.save_pretrained(folder, state_dict=dict(plain_tensors(policy.model)))
        torch.manual_seed(seed)
        model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1, dtype=torch.float32)
    return model.to(policy.device)


def _pairs(
    config: Config, judge: JudgeConfig, policy: Policy, examples: Iterator[tuple[Task, str]]
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield batches of (domain examples, policy samples for the same tasks)."""
    seeded = config.run.model_copy(update={"seed": config.run.seed + judge.seed})
    sampler, decoding = build_sampler(config.model_copy(update={"run": seeded}), policy), build_decoding(config)
    for step in range(judge.updates):
        drawn = list(itertools.islice(examples, judge.batch))
        samples = sample(sampler, requests_for([task for task, _ in drawn], FAKES + step, 1), decoding)
        yield [text for _, text in drawn], [one.text for one in samples]
