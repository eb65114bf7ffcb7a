"""A judge for a run: trained on a domain's examples against what the policy makes of the same tasks."""

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
from steelyard.compose.supplied import NOTHING, Supplied, build_domain
from steelyard.compose.tasks import check_beginning
from steelyard.compose.warmstart import LAST, check_folder, copy_model, written_beside
from steelyard.config import Config, JudgeConfig
from steelyard.domains.base import examples_of
from steelyard.errors import ConfigError, StoppedError
from steelyard.folders import run_folder
from steelyard.policies.adapters import plain_tensors
from steelyard.policies.base import Policy
from steelyard.policies.judge import build_judge
from steelyard.policies.masked import MaskedPolicy
from steelyard.tracking.bars import counting
from steelyard.training.judging import train_judge
from steelyard.training.phases import requests_for, sample
from steelyard.training.stopping import StopRequest, stopping_on_signals
from steelyard.types import Task
from steelyard.verification import AnyVerifier, Part, WeightedVerifier

FAKES = 1_000_000
"""Keys what a judge is shown apart from what a run samples and a warm start sees."""


def own_judge(config: Config) -> Path:
    """Where a run keeps its judge."""
    return run_folder(config) / "judge"


def with_judge(verifier: AnyVerifier, config: Config) -> AnyVerifier:
    """The domain's own checker and, if there is a judge, its score beside it. The judge does not decide on success."""
    if config.judge is None:
        return verifier
    own = own_judge(config)
    if not own.is_dir() and config.judge.folder is None:
        raise ConfigError(
            f"{own} is not there yet: a run trains its judge when it starts. For a look before that, make one with "
            f"`steelyard judge train` and name it with --judge.folder"
        )
    path = own if own.is_dir() else Path(str(config.judge.folder))
    check_folder(path, "judge.folder", "steelyard judge train")
    judge = build_judge(str(path), "classifier", name="judge", reads_prompt=False, device=config.model.device)
    return WeightedVerifier(
        (Part(verifier), Part(judge, config.judge.weight, decides=False)), name="judged", floor=verifier.floor
    )


def named_judge(config: Config) -> None:
    """A judge that the configuration names becomes the run's own."""
    judge, own = config.judge, own_judge(config)
    if judge is not None and judge.folder is not None and not own.is_dir():
        copy_model(Path(judge.folder), own, "judge.folder", "steelyard judge train")


def make_judge(config: Config, judge: JudgeConfig, policy: Policy, folder: Path, supplied: Supplied = NOTHING) -> float:
    """Train a judge that begins with the policy's own body, and save it; gives the share of texts that it told right,
    over the last tenth.
    """
    if not isinstance(policy, MaskedPolicy):
        raise ConfigError("judge: it begins with the body of a masked model; set model.kind to masked")
    check_beginning(config, policy, supplied)
    examples = examples_of(build_domain(config, supplied), "judge", seed=FAKES + judge.seed)
    steps = judge.updates
    lr = Schedule("cosine", judge.lr, LAST * judge.lr, steps, min(judge.warmup_steps, steps - 1))
    model, right = _classifier(policy, judge.seed), list[float]()
    bar = counting("judge", steps) if config.tracking.console else nullcontext(lambda *_: None)
    stop = StopRequest()
    with stopping_on_signals(stop.ask, "update"), bar as advance:
        for loss, share in train_judge(model, policy.tokenizer, _pairs(config, judge, policy, examples), lr):
            right.append(share)
            advance(f"{loss:.3f} nat, {share:.0%} right")
            if stop.asked:
                break
    if len(right) < steps:
        raise StoppedError(
            f"stopped while the judge was being trained, after update {len(right)} of {steps}; it will start over."
        )
    written_beside(folder, lambda place: (model.save_pretrained(place), policy.tokenizer.save_pretrained(place)))
    if stop.asked:
        raise StoppedError("stopped after the judge was trained; it is saved.")
    return statistics.mean(right[-max(1, steps // 10) :])


def _classifier(policy: MaskedPolicy, seed: int) -> Any:
    """The policy's body, with its adapter merged if it has one, under a fresh head with one label."""
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        policy.base.save_pretrained(folder, state_dict=dict(plain_tensors(policy.model)))
        torch.manual_seed(seed)
        model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1, dtype=torch.float32)
    return model.to(policy.device)


def _pairs(
    config: Config, judge: JudgeConfig, policy: Policy, examples: Iterator[tuple[Task, str]]
) -> Iterator[tuple[list[str], list[str]]]:
    """Texts of the domain's examples, and what the policy makes of the same tasks."""
    seeded = config.run.model_copy(update={"seed": config.run.seed + judge.seed})
    sampler, decoding = build_sampler(config.model_copy(update={"run": seeded}), policy), build_decoding(config)
    for step in range(judge.updates):
        drawn = list(itertools.islice(examples, judge.batch))
        made = sample(sampler, requests_for([task for task, _ in drawn], FAKES + step, 1), decoding)
        yield [text for _, text in drawn], [one.text for one in made]
