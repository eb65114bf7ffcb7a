"""Two learner ranks match one process on the same microbatches and resume bit for bit; one rank can load their state.

The cases are FSDP2 and DDP on gloo, full weights and LoRA, AdamW and 8-bit AdamW. Each takes five steps at a learning
rate of 1e-3 with exact KL, an entropy bonus, clipped gradients and sometimes an odd number of microbatches. The figure
is the distance between the weights of the ranks and of one process, relative to how far the latter moved. A control
learns from only half of the samples.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress
from torch import Tensor

from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.scale.process_ranks import ProcessGroup

STEPS = 5
SAVED = 3
BAR = 1e-3
WORDS = tuple(f"w{number}" for number in range(61))
PROMPTS = tuple(" ".join(WORDS[(7 * n + i) % 61] for i in range(1 + 3 * n)) for n in range(3))
OPTIMISERS = {"AdamW": "adamw", "8-bit AdamW": "adamw_8bit"}
SHARPEN = 3.0
NEW_TOKENS = 20

Weights = dict[str, Tensor]
Batches = list[list[Any]]


@dataclass(frozen=True)
class Case:
    sharding: str
    lora: bool
    optimiser: str

    @property
    def name(self) -> str:
        return f"{self.sharding}, {'LoRA' if self.lora else 'full'}, {self.optimiser}"


CASES = [Case(sharding, lora, name) for sharding in ("fsdp", "ddp") for lora in (False, True) for name in OPTIMISERS]
QUICK = [Case("fsdp", False, "8-bit AdamW"), Case("fsdp", True, "AdamW"), Case("ddp", False, "AdamW")]


@dataclass(frozen=True)
class Outcome:
    """Weight differences between one process and two ranks after training, resuming, loading on one rank and export."""

    distance: float
    """The larger of two distances, relative to the change in one process: between two ranks and one process after five
    steps, and between two ranks and one rank that continued from their checkpoint."""
    metrics: float
    resumed: int
    """Number of tensors that differ bitwise after resuming; the next two fields are similar counts."""
    on_one: int
    exported: int
    idle: int
    """Number of turns in which a rank had no microbatch left."""
    control: float


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses three of the cases."""
    from steelyard.quiet import quiet_engines

    cases = QUICK if quick else CASES
    task = progress.add_task("learner ranks", total=len(cases))
    outcomes: dict[Case, Outcome] = {}
    for case in cases:
        progress.update(task, description=case.name)
        with tempfile.TemporaryDirectory() as scratch, quiet_engines():
            outcomes[case] = compare(case, Path(scratch))
        progress.advance(task)
    return Result("learner-ranks", figures(outcomes), [_row(case, outcome) for case, outcome in outcomes.items()])


def figures(outcomes: Mapping[Case, Outcome]) -> tuple[Figure, ...]:
    distances = [
        Figure(
            f"largest distance, {name}", max(o.distance for c, o in outcomes.items() if c.optimiser == name), "<=", BAR
        )
        for name in OPTIMISERS
    ]
    every = list(outcomes.values())
    return (
        *distances,
        Figure("largest relative difference of a metric", max(o.metrics for o in every), "<=", BAR),
        Figure("tensors that differ after resuming two ranks", sum(o.resumed for o in every), "<=", 0),
        Figure("tensors that one rank loads differently", sum(o.on_one for o in every), "<=", 0),
        Figure("tensors that the transformers folder lacks or changes", sum(o.exported for o in every), "<=", 0),
        Figure("fewest idle turns of a rank", min(o.idle for o in every), ">=", 1),
        Figure("control: half of the samples", min(o.control for o in every), ">=", 100 * BAR),
    )


def _row(case: Case, outcome: Outcome) -> dict[str, Cell]:
    return {
        "sharding": case.sharding,
        "weights": "LoRA" if case.lora else "full",
        "optimiser": case.optimiser,
        "distance": outcome.distance,
        "metrics": outcome.metrics,
        "not resumed": outcome.resumed,
        "not loaded on one rank": outcome.on_one,
        "not exported": outcome.exported,
        "control": outcome.control,
    }


def compare(case: Case, scratch: Path) -> Outcome:
    """Train in one process, then on two ranks that are saved, resumed, loaded on one rank, and exported."""
    from steelyard.checkpoint import Store

    start, batches, rule = _start(case)
    alone, ours = in_one_process(case, batches)
    half, _ = in_one_process(case, [batch[::2] for batch in batches])
    store = Store(scratch)

    def group(ranks: int) -> ProcessGroup:
        return ProcessGroup(partial(build, case), rule, ranks=ranks, sharding=case.sharding)

    with closing(group(2)) as two:
        theirs = learn(two, batches[:SAVED], 0)
        parts = two.checkpoint_parts()
        store.save(SAVED, folders=parts.folders, tensors=parts.tensors, state=parts.state)
        saved = dict(two.weights("all"))
        theirs += learn(two, batches[SAVED:], SAVED)
        together, merged = dict(two.weights("all")), dict(two.weights())
        state = two.checkpoint_parts().state
    checkpoint = store.latest()
    if checkpoint is None:
        raise RuntimeError("the store has no checkpoint after saving")
    _, resumed, resumed_state = _continued(group(2), checkpoint, batches)
    loaded, on_one, _ = _continued(group(1), checkpoint, batches)
    moved = [name for name in together if not torch.equal(together[name], start[name])]
    return Outcome(
        distance=max(distance(together, alone, start), distance(on_one, together, start)),
        metrics=_metric_difference(ours, theirs),
        resumed=_unequal(resumed, together) + (resumed_state != state) + (not moved),
        on_one=_unequal(loaded, saved),
        exported=_unequal(opened(case, checkpoint.folder("model")), saved) + _unequal_names(merged, start),
        idle=sum(idle_turns(batch, rule) for batch in batches),
        control=distance(half, alone, start),
    )


def _continued(group: ProcessGroup, checkpoint: Any, batches: Batches) -> tuple[Weights, Weights, Any]:
    """Restore a checkpoint and train on the remaining batches; return the weights before and after, and the state."""
    with closing(group):
        group.restore(checkpoint)
        loaded = dict(group.weights("all"))
        learn(group, batches[SAVED:], SAVED)
        return loaded, dict(group.weights("all")), group.checkpoint_parts().state


def idle_turns(batch: Sequence[Any], rule: Any) -> int:
    """Count how often one of two ranks is idle: once for every step with an odd number of microbatches."""
    from steelyard.training.learner_samples import by_length, minibatches

    parts = minibatches(batch, rule.minibatches, rule.epochs, (rule.seed, 0))
    counts = [len(by_length([len(i.sample.token_ids) for i in part], rule.microbatch_tokens)) for part in parts]
    return sum(count % 2 for count in counts)


def in_one_process(case: Case, batches: Batches) -> tuple[Weights, list[dict[str, float]]]:
    from steelyard.training.ranks import SINGLE_PROCESS

    learner = build(case, SINGLE_PROCESS)
    metrics = learn(learner, batches, 0)
    return _copied(learner.policy.model), metrics


def learn(learner: Any, batches: Batches, first: int) -> list[dict[str, float]]:
    """Score and update as the loop does, and return the metrics of every step."""
    from dataclasses import replace

    found: list[dict[str, float]] = []
    for step, batch in enumerate(batches, start=first):
        old = learner.score([item.sample for item in batch]).old
        items = [replace(item, old_logp_N=logp_N) for item, logp_N in zip(batch, old, strict=True)]
        found.append(learner.update(items, step))
        learner.after_step(step + 1)
    return found


def build(case: Case, ranks: Any) -> Any:
    """Build a process's learner, alone or as a rank, in the same way as a run does."""
    from steelyard import compose

    config = _config(case)
    policy = compose.build_model(config)
    sharpen(policy.model)
    return compose.build_learner(config, policy, None, ranks)


def sharpen(model: Any) -> None:
    """Scale up the random weights so that the distributions are far from uniform."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "lora" not in name:
                parameter.mul_(SHARPEN)


def _config(case: Case) -> Any:
    from steelyard import config as configs

    shape = {"vocabulary": WORDS, "layers": 2, "width": 128, "heads": 4, "kv_heads": 2, "max_length": 64}
    lora = {"lora": {"rank": 32, "alpha": 32}} if case.lora else {}
    return configs.build(
        {
            "run": {"folder": tempfile.gettempdir(), "supplied": ["tasks", "verifier"]},
            "model": {"scratch": shape, "device": "cpu", "threads": 1, **lora},
            "sampling": {"max_new_tokens": NEW_TOKENS},
            "loss": {"kl": {"coefficient": 0.05, "estimator": "exact"}, "entropy": {"coefficient": 0.01}},
            "optimiser": {
                "name": OPTIMISERS[case.optimiser],
                "lr": 1e-3,
                "schedule": "constant",
                "warmup_steps": 0,
                "minibatches": 2,
                "microbatch_tokens": 96,
                "grad_clip": 0.5,
            },
            "tracking": {"console": False},
        },
        source="learner-ranks",
    )


def _start(case: Case) -> tuple[Weights, Batches, Any]:
    """Return the initial weights and the batches: samples of the initial policy with random advantages."""
    from steelyard.sampling.base import Decoding
    from steelyard.sampling.local import LocalSampler
    from steelyard.training.learner_samples import LearnerSample
    from steelyard.training.phases import requests_for, sample
    from steelyard.training.ranks import SINGLE_PROCESS
    from steelyard.types import Task

    learner, rng = build(case, SINGLE_PROCESS), np.random.default_rng(0)
    sampler = LocalSampler(learner.policy, seed=0)
    tasks = [Task(f"t{number}", prompt) for number, prompt in enumerate(PROMPTS)]
    batches: Batches = []
    for step in range(STEPS):
        samples = sample(sampler, requests_for(tasks, step, 5), Decoding(max_new_tokens=NEW_TOKENS))
        advantages = [np.full(len(one.decisions), rng.normal(), np.float32) for one in samples]
        batches.append([LearnerSample(*pair) for pair in zip(samples, advantages, strict=True)])
    return _copied(learner.policy.model), batches, learner.rule


def opened(case: Case, folder: Path) -> Weights:
    """Return the weights of a checkpoint's model folder, loaded by transformers or PEFT."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    if not case.lora:
        return _copied(AutoModelForCausalLM.from_pretrained(folder))
    from steelyard import compose

    base = compose.build_model(_config(Case(case.sharding, False, case.optimiser))).model
    sharpen(base)
    return _copied(PeftModel.from_pretrained(base, folder))


def _copied(model: Any) -> Weights:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def distance(found: Weights, wanted: Weights, start: Weights) -> float:
    """Return |found - wanted| / |wanted - start| over all weights together."""
    return _norm(found, wanted) / _norm(wanted, start)


def _norm(one: Weights, other: Weights) -> float:
    return float(sum(float((one[name] - other[name]).double().square().sum()) for name in one) ** 0.5)


def _unequal(found: Weights, wanted: Weights) -> int:
    """Count the tensors that are missing, unexpected or not bitwise equal."""
    shared = found.keys() & wanted.keys()
    return len(found.keys() ^ wanted.keys()) + sum(not torch.equal(found[name], wanted[name]) for name in shared)


def _unequal_names(merged: Weights, start: Weights) -> int:
    """Count the merged weights whose names differ from those of the model without an adapter."""
    plain = [name.removeprefix("base_model.model.") for name in start if ".lora_" not in name]
    return len({name.replace(".base_layer", "") for name in plain} ^ merged.keys())


def _metric_difference(ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]]) -> float:
    pairs = [(one[name], other[name]) for one, other in zip(ours, theirs, strict=True) for name in one]
    return max(abs(one - other) / max(1.0, abs(one)) for one, other in pairs)
