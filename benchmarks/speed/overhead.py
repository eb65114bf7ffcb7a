"""Steelyard's sampler and learner add little time to the bare transformers and torch calls on the same batch.

SmolLM2-135M in bfloat16 draws 16 samples of 64 tokens with end-of-sequence disabled. The bare sampler is
``model.generate``; the bare update is forward, cross-entropy, backward and fused AdamW over the same microbatches. Both
sides use the same model object and alternate.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.speed.workloads import QUESTIONS, write_from_scratch
from steelyard.types import Sample

GROUP = 16
PAIRS = 5
QUICK_BARS = (0.7, 1.5)
"""The quick bars are wider than the full ones, because three short repetitions with a small policy are noisy."""


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses the 10M policy from scratch, fewer repetitions and wider bars."""
    with tempfile.TemporaryDirectory() as scratch:
        trainer, task, tokens = build(quick, scratch)
        pairs = 3 if quick else PAIRS
        bar = progress.add_task("warm-up", total=4 * pairs + 4)
        samples: list[Sample] = []

        def sampling() -> None:
            samples[:] = draw(trainer, task, tokens)

        ids = trainer.policy.encode(task.prompt)
        sides = {"sampling": (sampling, lambda: generate(trainer.policy, ids, tokens))}
        times = {"sampling": alternate(*sides["sampling"], pairs, progress, bar, "sampling")}
        batch = learner_batch(samples)
        optimiser = trainer.learner.optimiser
        sides["update"] = (
            lambda: trainer.learner.update(batch, 0),
            lambda: bare_update(trainer.policy.model, optimiser, samples, trainer.learner.rule.microbatch_tokens),
        )
        times["update"] = alternate(*sides["update"], pairs, progress, bar, "update")
    found = figures(times)
    if quick:
        found = tuple(replace(figure, bar=bar) for figure, bar in zip(found, QUICK_BARS, strict=True))
    return Result("overhead", found, details(times, GROUP * tokens))


def figures(times: dict[str, tuple[list[float], list[float]]]) -> tuple[Figure, ...]:
    """Return the speed ratio for sampling and the time ratio for the update."""
    ours, bare = times["sampling"]
    speed = [b / a for a, b in zip(ours, bare, strict=True)]
    mine, plain = times["update"]
    cost = [a / b for a, b in zip(mine, plain, strict=True)]
    return (
        Figure("sampling speed / generate", statistics.median(speed), ">=", 0.9, spread=max(speed) - min(speed)),
        Figure("update time / bare", statistics.median(cost), "<=", 1.1, spread=max(cost) - min(cost)),
    )


def details(times: dict[str, tuple[list[float], list[float]]], tokens: int) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for work, sides in times.items():
        for side, seconds in zip(("Steelyard", "bare"), sides, strict=True):
            middle = statistics.median(seconds)
            rows.append({"work": work, "side": side, "seconds": middle, "tokens/s": tokens / middle})
    return rows


def alternate(
    ours: Callable[[], object], bare: Callable[[], object], pairs: int, progress: Progress, bar: Any, name: str
) -> tuple[list[float], list[float]]:
    """Alternate between both sides, after one warm-up each, and return their times in seconds."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(pairs + 1):
        for place, work in enumerate((ours, bare)):
            progress.update(bar, description=f"{name} {number}")
            start = time.perf_counter()
            work()
            if number:
                seconds[place].append(time.perf_counter() - start)
            progress.advance(bar)
    return seconds


def build(quick: bool, scratch: str) -> tuple[Any, Any, int]:
    """Build a trainer whose policy never ends a sample; return the trainer, its task and the number of new tokens."""
    from pathlib import Path

    from benchmarks.framework.smollm import model_folder
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer
    from steelyard.policies.causal import CausalPolicy

    class Endless(CausalPolicy):
        end_ids = ()  # type: ignore[assignment]

    if quick:
        folder, prompt = Path(scratch) / "model", " ".join(f"w{i}" for i in range(40))
        write_from_scratch(folder)
    else:
        folder, prompt = model_folder(), ({"role": "user", "content": QUESTIONS[0]},)
    tables = {
        "run": {"folder": scratch, "supplied": ["tasks", "verifier"]},
        "model": {"path": str(folder), "dtype": "bfloat16", "device": "cpu"},
        "optimiser": {"name": "adamw_fused", "lr": 1e-6},
        "tracking": {"console": False},
    }
    supplied = Supplied(tasks=[{"prompt": prompt}], verifier=lambda task, text: float(len(text)))  # noqa: ARG005
    trainer = build_trainer(configs.build(tables, source="overhead"), supplied)
    trainer.policy.__class__ = Endless
    return trainer, trainer.parts.source.draw(0, 1)[0], 64


def draw(trainer: Any, task: Any, tokens: int) -> list[Sample]:
    from steelyard.sampling.base import Decoding
    from steelyard.training.phases import requests_for, sample

    return sample(trainer.parts.sampler, requests_for([task], 0, GROUP), Decoding(max_new_tokens=tokens))


def generate(policy: Any, ids: Sequence[int], tokens: int) -> None:
    """Sample the same batch with transformers' own ``generate``."""
    import torch

    prompt_BT = torch.tensor([list(map(int, ids))] * GROUP)
    policy.train(False)
    output = policy.model.generate(
        prompt_BT,
        attention_mask=torch.ones_like(prompt_BT),
        do_sample=True,
        top_k=0,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        pad_token_id=policy.pad_id,
    )
    assert output.shape == (GROUP, len(ids) + tokens)


def learner_batch(samples: Sequence[Sample]) -> list[Any]:
    import numpy as np

    from steelyard.training.learner_samples import LearnerSample

    signs = [1.0 if number % 2 else -1.0 for number in range(len(samples))]
    return [
        LearnerSample(sample, np.full(len(sample.decisions), sign, np.float32))
        for sample, sign in zip(samples, signs, strict=True)
    ]


def bare_update(model: Any, optimiser: Any, samples: Sequence[Sample], microbatch_tokens: int) -> None:
    """Run forward, cross-entropy on the completions, backward, clipping and the step on the same microbatches."""
    import torch

    from steelyard.training.learner_samples import by_length

    model.train()
    optimiser.zero_grad(set_to_none=True)
    for chosen in by_length([len(sample.token_ids) for sample in samples], microbatch_tokens):
        ids_BT = torch.stack([torch.as_tensor(samples[index].token_ids).long() for index in chosen])
        start = samples[0].prompt_length
        logits_BTV = model(input_ids=ids_BT[:, :-1], use_cache=False, logits_to_keep=ids_BT.shape[1] - start).logits
        flat = logits_BTV.float().flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(flat, ids_BT[:, start:].flatten()) * len(chosen) / len(samples)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
