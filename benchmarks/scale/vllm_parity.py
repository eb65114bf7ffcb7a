"""vLLM and the learner compute the same log-prob for every sampled token, including after weight updates.

SmolLM2-135M in float32 samples freely, with top-p 0.95, under a JSON schema and under an automaton, with full
fine-tuning and with LoRA. After every update, the new samples are scored with the new weights and, as a control, with
the previous ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.progress import Progress

from benchmarks.constraints.constrained_policies import CONSTRAINTS
from benchmarks.correctness.parity import TEXT_PROMPTS, log_prob_gaps
from benchmarks.framework.result import Cell, Figure, Result
from steelyard.types import CutRule, Sample

METHODS: dict[str, tuple[CutRule, str | None]] = {
    "free": (CutRule(), None),
    "top-p 0.95": (CutRule(top_p=0.95), None),
    "JSON schema": (CutRule(), "JSON schema"),
    "automaton": (CutRule(), "automaton"),
}
TRAINED: dict[str, dict[str, Any]] = {
    "all weights": {"optimiser": {"lr": 1e-5}},
    "LoRA": {"model": {"lora": {"rank": 8, "alpha": 16}}, "optimiser": {"lr": 1e-3}},
}
FULL, QUICK = (4, 32), (2, 12)
"""Number of samples per task and of tokens per sample."""
UPDATES = 5
MEAN, MOST, APART = 2e-5, 2e-4, 100.0


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes one update of all weights, with few and short samples."""
    kinds, updates = (["all weights"], 1) if quick else (list(TRAINED), UPDATES)
    bar = progress.add_task("vLLM starts", total=len(kinds) * (updates + 1))
    details: list[dict[str, Cell]] = []
    figures: list[Figure] = []
    for kind in kinds:
        study = _Study(kind, *(QUICK if quick else FULL))
        gaps: list[np.ndarray] = []
        for update in range(updates + 1):
            progress.update(bar, description=f"{kind}, update {update}")
            gaps += study.round(update, details)
            progress.advance(bar)
        study.close()
        gap_N = np.concatenate(gaps)
        figures.append(Figure(f"{kind}: mean |Δ log-prob|", float(gap_N.mean()), "<=", MEAN, "nats"))
        figures.append(Figure(f"{kind}: max |Δ log-prob|", float(gap_N.max()), "<=", MOST, "nats"))
    apart = [float(row["previous / new"]) for row in details if row["previous / new"] != ""]
    figures.append(Figure("smallest ratio of mean gaps, previous / new weights", min(apart), ">=", APART))
    return Result("vllm-parity", tuple(figures), details)


class _Study:
    """A policy under training and its vLLM sampler."""

    def __init__(self, kind: str, count: int, tokens: int) -> None:
        from steelyard import config as configs
        from steelyard.compose import Supplied, build_constraint, build_trainer

        self.kind, self.count, self.tokens = kind, count, tokens
        rows = [{"prompt": ({"role": "user", "content": prompt},)} for prompt in TEXT_PROMPTS]
        supplied = Supplied(tasks=rows, verifier=_any_reward)
        self.trainer: Any = build_trainer(configs.build(_tables(kind, tokens, None), source="vllm-parity"), supplied)
        self.constraints: dict[str | None, Any] = {None: None}
        for name in ("JSON schema", "automaton"):
            config = configs.build(_tables(kind, tokens, name), source="vllm-parity")
            self.constraints[name] = build_constraint(config, self.trainer.policy)
        self.before: list[Any] | None = None

    def round(self, update: int, details: list[dict[str, Cell]]) -> list[np.ndarray]:
        """Sample with every method and compare, then take an optimiser step on all samples and publish the weights."""
        drawn: list[Sample] = []
        gaps: list[np.ndarray] = []
        for method, (rule, name) in METHODS.items():
            samples = self._draw(update, rule, self.constraints[name])
            gap_N = log_prob_gaps(self.trainer, samples)
            row: dict[str, Cell] = {
                "trained": self.kind,
                "updates": update,
                "sampling": method,
                "decisions": len(gap_N),
                "mean |Δ|": float(gap_N.mean()),
                "max |Δ|": float(gap_N.max()),
                "previous / new": "",
            }
            if self.before is not None:
                with self._previous(self.before):
                    row["previous / new"] = float(log_prob_gaps(self.trainer, samples).mean() / gap_N.mean())
            details.append(row)
            gaps.append(gap_N)
            drawn += samples
        self._update(drawn, update)
        return gaps

    def close(self) -> None:
        self.trainer.parts.sampler.engine.close()
        self.trainer.parts.pool.close()

    def _draw(self, step: int, rule: CutRule, constraint: Any) -> list[Sample]:
        from steelyard.sampling.base import Decoding
        from steelyard.training.phases import requests_for, sample

        trainer = self.trainer
        trainer.parts.sampler.constraint = constraint
        tasks = trainer.parts.source.draw(0, len(TEXT_PROMPTS))
        samples = sample(trainer.parts.sampler, requests_for(tasks, step, self.count), Decoding(rule, self.tokens))
        if {one.policy_version for one in samples} != {step}:
            raise RuntimeError(f"some samples of step {step} have a different policy version")
        return [one for one in samples if len(one.decisions)]

    def _update(self, samples: Sequence[Sample], step: int) -> None:
        from steelyard.training.learner_samples import LearnerSample

        rng = np.random.default_rng(step)
        batch = [LearnerSample(one, np.full(len(one.decisions), rng.normal(), np.float32)) for one in samples]
        trainer = self.trainer
        self.before = [parameter.detach().clone() for _, parameter in trainer.policy.trainable()]
        trainer.learner.update(batch, step)
        trainer.parts.sampler.publish(step + 1)

    @contextmanager
    def _previous(self, before: Sequence[Any]) -> Iterator[None]:
        """Use the weights from before the last update inside the context."""
        import torch

        parameters = [parameter for _, parameter in self.trainer.policy.trainable()]
        now = [parameter.detach().clone() for parameter in parameters]
        for values in (before, now):
            with torch.no_grad():
                for parameter, value in zip(parameters, values, strict=True):
                    parameter.copy_(value)
            if values is before:
                yield


def _tables(kind: str, tokens: int, constraint: str | None) -> dict[str, Any]:
    """Return the settings; two minibatches per step make the learner compute the old log-probs, as in training."""
    from benchmarks.framework.smollm import model_folder

    trained = TRAINED[kind]
    tables: dict[str, Any] = {
        "run": {"folder": tempfile.gettempdir(), "supplied": ["tasks", "verifier"]},
        "model": {"path": str(model_folder()), "device": "cpu", **trained.get("model", {})},
        "sampling": {
            "tasks_per_step": len(TEXT_PROMPTS),
            "max_new_tokens": tokens,
            "engine": "vllm",
            "vllm": {"max_length": 256, "cache_gib": 1.0},
        },
        "optimiser": {"minibatches": 2, **trained["optimiser"]},
        "tracking": {"console": False},
    }
    return tables if constraint is None else tables | {"constraint": CONSTRAINTS[constraint]}


def _any_reward(task: Any, text: str) -> float:  # noqa: ARG001
    return 0.0
