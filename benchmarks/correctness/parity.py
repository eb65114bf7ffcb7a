"""The sampler and learner compute the same log-probs in ragged batches, with temperature, top-k, top-p and min-p.

Everything is in float32. Samples of all tasks are drawn in one batch and scored again by the learner. Two controls show
that the measurement detects errors: a temperature that is off by 5% and ignored top-k truncation.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from steelyard.types import HOLE, CutRule, Sample

RULES = tuple(
    CutRule(temperature, top_k, top_p, min_p)
    for temperature, top_k, top_p, min_p in itertools.product((0.7, 1.0, 1.3), (0, 10), (1.0, 0.9), (0.0, 0.05))
)
WORDS = tuple(f"w{number}" for number in range(61))
SCRATCH_PROMPTS = tuple(
    " ".join(WORDS[(7 * n + i) % 61] for i in range(length)) for n, length in enumerate((2, 5, 9, 17))
)
TEXT_PROMPTS = (
    "What is the capital of France?",
    "Name a fruit.",
    "Tell me in one sentence why the sky is blue during the day and why it turns red in the evening.",
)
HOLED_PROMPTS = tuple(
    " ".join(HOLE if place % 3 else word for place, word in enumerate(prompt.split())) for prompt in SCRATCH_PROMPTS
)
FILL_STEPS = (1, 3)
SHARPEN = 2.0


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses only the from-scratch models."""
    details: list[dict[str, Cell]] = []
    task = progress.add_task("from scratch", total=len(RULES) * (len(FILL_STEPS) + (1 if quick else 2)))
    trainer = scratch_trainer()
    scratch = [_row("scratch", rule, trainer, 8, details, progress, task) for rule in RULES]
    figures = [Figure("scratch max |Δ log-prob|", float(np.concatenate(scratch).max()), "<=", 1e-5, "nats")]
    figures += controls(trainer)
    for steps in FILL_STEPS:
        progress.update(task, description=f"masked, {steps} steps")
        filling = masked_trainer(steps)
        gaps = [_row(f"masked, {steps} steps", rule, filling, 8, details, progress, task) for rule in RULES]
        name = f"masked, {steps} steps: max |Δ log-prob|"
        figures.append(Figure(name, float(np.concatenate(gaps).max()), "<=", 1e-5, "nats"))
    if not quick:
        progress.update(task, description="SmolLM2-135M")
        trainer = text_trainer()
        gaps = [_row("SmolLM2-135M", rule, trainer, 2, details, progress, task) for rule in RULES]
        together = np.concatenate(gaps)
        figures.append(Figure("SmolLM2 mean |Δ log-prob|", float(together.mean()), "<=", 1e-5, "nats"))
        figures.append(Figure("SmolLM2 max |Δ log-prob|", float(together.max()), "<=", 1e-4, "nats"))
    return Result("parity", tuple(figures), details)


def controls(trainer: Any) -> list[Figure]:
    """Return the log-prob gaps of samples scored with a wrong temperature or without top-k."""
    samples = draw(trainer, CutRule(0.7, top_k=10), 8)
    hot = [_with(sample, rule=replace(sample.decisions.rule, temperature=0.735)) for sample in samples]
    uncut = [_with(sample, rule=CutRule(0.7), support_N=None, supports=None) for sample in samples]
    return [
        Figure("control: temperature off by 5%", float(log_prob_gaps(trainer, hot).max()), ">=", 1e-2, "nats"),
        Figure("control: top-k ignored", float(log_prob_gaps(trainer, uncut).max()), ">=", 1e-2, "nats"),
    ]


def draw(trainer: Any, rule: CutRule, count: int) -> list[Sample]:
    """Draw ``count`` samples per task in one batch."""
    from steelyard.sampling.base import Decoding
    from steelyard.training.phases import requests_for, sample

    tasks = trainer.parts.source.draw(0, trainer.parts.tasks_per_step)
    return sample(
        trainer.parts.sampler,
        requests_for(tasks, 0, count),
        Decoding(rule, trainer.parts.decoding.max_new_tokens),
    )


def log_prob_gaps(trainer: Any, samples: Sequence[Sample]) -> np.ndarray:
    """Return |learner's log-prob - behaviour log-prob| for every decision."""
    old = trainer.learner.score(samples).old
    pairs = zip(old, samples, strict=True)
    return np.concatenate([np.abs(logp_N - sample.decisions.logp_N) for logp_N, sample in pairs])


def _row(
    model: str, rule: CutRule, trainer: Any, count: int, details: list[dict[str, Cell]], progress: Progress, task: Any
) -> np.ndarray:
    samples = draw(trainer, rule, count)
    gap_N = log_prob_gaps(trainer, samples)
    details.append({"model": model, **gap_columns(rule, samples, gap_N)})
    progress.advance(task)
    return gap_N


def gap_columns(rule: CutRule, samples: Sequence[Sample], gap_N: np.ndarray) -> dict[str, Cell]:
    """Return the table columns for the log-prob gaps of samples drawn with one truncation rule."""
    lengths = [len(sample.completion_ids) for sample in samples]
    return {
        "temperature": rule.temperature,
        "top-k": rule.top_k,
        "top-p": rule.top_p,
        "min-p": rule.min_p,
        "lengths": f"{min(lengths)}–{max(lengths)}",
        "decisions": len(gap_N),
        "mean |Δ|": float(gap_N.mean()),
        "max |Δ|": float(gap_N.max()),
    }


def _with(sample: Sample, **changes: Any) -> Sample:
    return replace(sample, decisions=replace(sample.decisions, **changes))


def scratch_trainer() -> Any:
    """Build a small transformer with scaled-up random weights so that its distributions are far from uniform."""
    return _sharpened(_trainer({"scratch": {"vocabulary": WORDS, "max_length": 128}}, SCRATCH_PROMPTS, 48))


def masked_trainer(steps: int) -> Any:
    """Build a small masked model in the same way; it fills two out of three words."""
    model = {"kind": "masked", "scratch": {"vocabulary": WORDS, "max_length": 128}}
    return _sharpened(_trainer(model, HOLED_PROMPTS, 48, steps))


def _sharpened(trainer: Any) -> Any:
    import torch

    with torch.no_grad():
        for parameter in trainer.policy.model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(SHARPEN)
    return trainer


def text_trainer() -> Any:
    from benchmarks.framework.smollm import model_folder

    prompts = [({"role": "user", "content": prompt},) for prompt in TEXT_PROMPTS]
    return _trainer({"path": str(model_folder())}, prompts, 24)


def _trainer(model: dict[str, Any], prompts: Sequence[Any], new_tokens: int, fill_steps: int = 1) -> Any:
    """Build a trainer; two minibatches per step make the learner compute the old log-probs, as in training."""
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer

    tables = {
        "run": {"folder": tempfile.gettempdir(), "supplied": ["tasks", "verifier"]},
        "model": {**model, "device": "cpu"},
        "sampling": {"tasks_per_step": len(prompts), "max_new_tokens": new_tokens, "fill_steps": fill_steps},
        "optimiser": {"minibatches": 2},
        "tracking": {"console": False},
    }
    supplied = Supplied(tasks=[{"prompt": prompt} for prompt in prompts], verifier=_any_reward)
    return build_trainer(configs.build(tables, source="parity"), supplied)


def _any_reward(task: Any, text: str) -> float:  # noqa: ARG001
    return 0.0
