"""Under a constraint, the sampler and learner agree on every log-prob, with both stored and recomputed supports.

Float32 batches mix prompts and completions of different lengths. Automata, JSON schemas, regular expressions, Lark
grammars and choices are used alone and with temperature and top-p, on a closed character vocabulary and on SmolLM2's
49,152 tokens. In the control runs, the learner ignores the supports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.progress import Progress

from benchmarks.constraints.constrained_policies import (
    CONSTRAINTS,
    build_constrained_trainer,
    characters_model,
    sharpen,
    without_supports,
)
from benchmarks.correctness.parity import TEXT_PROMPTS, gap_columns, log_prob_gaps
from benchmarks.framework.result import Cell, Figure, Result
from steelyard.types import CutRule, Sample

RULES = (CutRule(), CutRule(0.7), CutRule(1.3, top_p=0.9), CutRule(1.0, top_k=20, top_p=0.95, min_p=0.01))
PROMPTS = ("a", "Now write.", "The quick brown fox jumps.")


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses only the small policy."""
    models = ["characters"] if quick else ["characters", "SmolLM2-135M"]
    bar = progress.add_task("constraints", total=len(models) * len(CONSTRAINTS) * len(RULES))
    details: list[dict[str, Cell]] = []
    figures: list[Figure] = []
    for model in models:
        gaps: list[np.ndarray] = []
        for name, constraint in CONSTRAINTS.items():
            trainer = _trainer(model, constraint)
            for rule in RULES:
                progress.update(bar, description=f"{model}, {name}")
                gaps += [_row(model, name, rule, trainer, details)]
                progress.advance(bar)
        together = np.concatenate(gaps)
        figures.append(_worst(model, together, "max", 1e-5 if model == "characters" else 1e-4))
        if model != "characters":
            figures.append(_worst(model, together, "mean", 1e-5))
    ignored = [float(row["max |Δ|, without supports"]) for row in details]
    figures.append(Figure("control: without supports, smallest max |Δ log-prob|", min(ignored), ">=", 1e-2, "nats"))
    return Result("constraints-parity", tuple(figures), details)


def _worst(model: str, gap_N: np.ndarray, which: str, bar: float) -> Figure:
    value = float(gap_N.max() if which == "max" else gap_N.mean())
    return Figure(f"{model} {which} |Δ log-prob|", value, "<=", bar, "nats")


def _trainer(model: str, constraint: dict[str, Any]) -> Any:
    from benchmarks.framework.smollm import model_folder

    if model == "characters":
        trainer = build_constrained_trainer(characters_model(), PROMPTS, constraint, new_tokens=96)
        sharpen(trainer.policy, 2.0)
        return trainer
    prompts = [({"role": "user", "content": prompt},) for prompt in TEXT_PROMPTS]
    return build_constrained_trainer({"path": str(model_folder())}, prompts, constraint, new_tokens=64)


def _row(model: str, name: str, rule: CutRule, trainer: Any, details: list[dict[str, Cell]]) -> np.ndarray:
    """Return the gaps with stored and with recomputed supports; the table also lists them without supports."""
    count = 8 if model == "characters" else 2
    stored = draw(trainer, rule, count, "stored")
    recomputed = with_recomputed_supports(trainer, draw(trainer, rule, count, "recomputed"))
    gap_N, again_N = log_prob_gaps(trainer, stored), log_prob_gaps(trainer, recomputed)
    details.append(
        {
            "model": model,
            "constraint": name,
            **gap_columns(rule, stored, gap_N),
            "max |Δ|, recomputed supports": float(again_N.max()),
            "max |Δ|, without supports": float(
                log_prob_gaps(trainer, [without_supports(sample) for sample in stored]).max()
            ),
        }
    )
    return gap_N if rule.cuts else np.concatenate([gap_N, again_N])  # top-p may differ at its threshold if recomputed


def draw(trainer: Any, rule: CutRule, count: int, supports: Any) -> list[Sample]:
    """Draw ``count`` samples per task in one batch, and omit samples without decisions."""
    from steelyard.sampling.base import Decoding
    from steelyard.training.phases import requests_for, sample

    tasks = trainer.parts.source.draw(0, trainer.parts.tasks_per_step)
    decoding = Decoding(rule, trainer.parts.decoding.max_new_tokens, supports)
    samples = sample(trainer.parts.sampler, requests_for(tasks, 0, count), decoding)
    return [one for one in samples if len(one.decisions)]


def with_recomputed_supports(trainer: Any, samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples with their supports recomputed."""
    from steelyard.training.supports import find_supports

    return find_supports(trainer.policy, samples, trainer.learner.rule.microbatch_tokens)
