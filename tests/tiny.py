"""Tiny from-scratch models, samples and runs for core tests: 2 layers, width 32, milliseconds per step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from steelyard.algorithms.objective import Objective
from steelyard.algorithms.schedules import Schedule
from steelyard.algorithms.surrogates import surrogate
from steelyard.checkpoint import Store
from steelyard.constraints.base import pack
from steelyard.constraints.support_tables import SupportTableWriter, members_of
from steelyard.data import ListSource
from steelyard.policies.base import Policy
from steelyard.policies.loading import PolicyOptions, from_scratch_policy
from steelyard.policies.masked import MaskedPolicy
from steelyard.policies.scratch import Architecture
from steelyard.sampling.base import Decoding, Sampler, SampleRequest
from steelyard.sampling.fill import FillSampler
from steelyard.sampling.local import LocalSampler
from steelyard.tracking import ArtifactTracker, JsonlTracker, Trackers
from steelyard.training.credit import Credit
from steelyard.training.learner import Coefficients, Learner, UpdateRule
from steelyard.training.learner_samples import LearnerSample
from steelyard.training.loop import LoopSettings, Trainer
from steelyard.training.optimisers import build_optimiser
from steelyard.training.rollouts import RolloutParts, SynchronousRollouts
from steelyard.types import HOLE, CutRule, Decisions, Sample, SampleKey, SupportTable, Task
from steelyard.verification import Blame, CircuitBreaker, InlinePool, Pipeline, as_verifier

WORDS = tuple(str(number) for number in range(13))
"""Together with three special tokens, the vocabulary has 16 entries."""

SHAPE = Architecture(layers=2, width=32, heads=2, kv_heads=1, max_length=128)
CPU = PolicyOptions(device="cpu", seed=2)
KINDS = ("causal", "masked")
"""The kinds of policies that the core must support equally well."""


def tiny_policy(
    *, words: Sequence[str] = WORDS, sharpness: float = 8.0, shape: Architecture = SHAPE, **options: Any
) -> Any:
    """Build a policy with weights large enough to make its distributions far from uniform."""
    policy = from_scratch_policy(shape, words, replace(CPU, **options))
    outer = sharpness / 3 if isinstance(policy, MaskedPolicy) else sharpness
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora" not in name and parameter.dim() == 2:
                parameter.mul_(outer if "embed" in name or "lm_head" in name else 4.0)
    return policy


def tasks(count: int = 3, *, holes: bool = False) -> list[Task]:
    """Return prompts of different lengths; with ``holes``, two of three words are holes to fill."""
    words = [[str((slot + place) % 9) for place in range(1 + 2 * slot)] for slot in range(count)]
    if holes:
        words = [[word if place % 3 == 0 else HOLE for place, word in enumerate([*own, "1", "2"])] for own in words]
    return [Task(f"t{slot}", " ".join(own)) for slot, own in enumerate(words)]


def tasks_for(policy: Policy, count: int = 3) -> list[Task]:
    """Return tasks that suit this kind of policy."""
    return tasks(count, holes=isinstance(policy, MaskedPolicy))


def sampler_of(policy: Any, seed: int = 0, steps: int = 2) -> Sampler:
    """Return the sampler for this kind of policy; a masked policy fills holes in ``steps`` passes."""
    if isinstance(policy, MaskedPolicy):
        return FillSampler(policy, seed=seed, steps=steps)
    return LocalSampler(policy, seed=seed)


def requests(count: int = 4, *, step: int = 0, of: Sequence[Task] | None = None) -> list[SampleRequest]:
    return [SampleRequest(task, step, slot, count) for slot, task in enumerate(of or tasks())]


def rollout(
    policy: Policy, *, count: int = 4, rule: CutRule = CutRule(), length: int = 12, seed: int = 0, step: int = 0
) -> list[Sample]:
    """Draw samples with different prompt and completion lengths, sorted by key."""
    sampler = sampler_of(policy, seed)
    samples = sampler.sample(requests(count, step=step, of=tasks_for(policy)), Decoding(rule, length))
    return sorted(samples, key=lambda sample: sample.key)


def sample_of(
    tokens: Sequence[int],
    prompt_length: int = 1,
    *,
    key: tuple[int, int, int, int] = (0, 0, 0, 0),
    decided: Sequence[int] | None = None,
    logp: float | Sequence[float] = -1.0,
    rule: CutRule = CutRule(),
    supports: Sequence[Sequence[int]] | None = None,
    text: str = "",
    finish: Any = "stop",
    starts: Sequence[int] | None = None,
) -> Sample:
    """Build a sample by hand; every completion token is a decision unless ``decided`` lists the positions."""
    positions = list(range(prompt_length, len(tokens))) if decided is None else list(decided)
    table, numbers = table_of(supports or ())
    decisions = Decisions(
        position_N=np.asarray(positions, np.int32),
        forward_N=np.arange(len(positions), dtype=np.int32),
        logp_N=np.broadcast_to(np.asarray(logp, np.float32), (len(positions),)).copy(),
        rule=rule,
        support_N=None if supports is None else numbers,
        supports=None if supports is None else table,
        text_start_N=None if starts is None else np.asarray(starts, np.int32),
    )
    return Sample(SampleKey(*key), np.asarray(tokens, np.int32), prompt_length, text, finish, decisions)


def table_of(sets: Sequence[Sequence[int]], vocabulary: int = 16) -> tuple[SupportTable, np.ndarray]:
    """Return a support table for the sets, and the index of each set in that table."""
    trail = SupportTableWriter(vocabulary)
    numbers = [trail.add(pack(one, vocabulary)) for one in sets]
    return trail.table(), np.asarray(numbers, np.int32)


def support_sets(sample: Sample) -> list[list[int]]:
    """Return the tokens that could have been sampled at each decision."""
    assert sample.decisions.supports is not None
    assert sample.decisions.support_N is not None
    return [members_of(sample.decisions.supports, index).tolist() for index in sample.decisions.support_N]


def with_advantages(samples: Sequence[Sample], seed: int = 0) -> list[LearnerSample]:
    """Give each sample a random advantage."""
    rng = np.random.default_rng(seed)
    return [LearnerSample(sample, np.full(len(sample.decisions), rng.normal(), np.float32)) for sample in samples]


def constant(value: float) -> Schedule:
    return Schedule("constant", value)


def tiny_learner(
    policy: Policy,
    *,
    objective: Objective | None = None,
    optimiser: str = "adamw",
    lr: float | Schedule = 1e-2,
    kl: float | Schedule = 0.0,
    entropy: float = 0.0,
    adaptive: Any = None,
    reference: Any = None,
    kl_in_reward: bool = False,
    quarantine: Any = None,
    **rule: Any,
) -> Learner:
    engine = build_optimiser(optimiser, [p for _, p in policy.trainable()], lr=1e-2)
    coefficients = Coefficients(
        lr=lr if isinstance(lr, Schedule) else constant(lr),
        kl=kl if isinstance(kl, Schedule) else constant(kl),
        entropy=constant(entropy),
        adaptive=adaptive,
    )
    return Learner(
        policy,
        engine,
        objective or Objective(surrogate("ppo_clip")),
        coefficients,
        UpdateRule(**rule),
        reference=reference,
        kl_in_reward=kl_in_reward,
        quarantine=quarantine,
    )


def weights_of(policy: Policy) -> dict[str, torch.Tensor]:
    """Return a copy of all weights."""
    return {name: p.detach().clone() for name, p in policy.model.named_parameters()}


def gradients_of(learner: Learner, samples: Sequence[LearnerSample]) -> dict[str, torch.Tensor]:
    """Return the gradient of one update, captured in place of the optimiser step."""
    caught: dict[str, torch.Tensor] = {}

    def catch(*_: Any, **__: Any) -> None:
        caught.update({name: p.grad.detach().clone() for name, p in learner.policy.trainable() if p.grad is not None})

    step: Callable[..., Any] = learner.optimiser.step
    learner.optimiser.step = catch  # type: ignore[method-assign]
    try:
        learner.update(samples, 0)
    finally:
        learner.optimiser.step = step  # type: ignore[method-assign]
    return caught


def digit_share(task: Task, text: str) -> float:
    """Return the fraction of words in the text that equal the first word of the prompt."""
    words, wanted = text.split(), str(task.prompt).split()[0]
    return sum(word == wanted for word in words) / max(len(words), 1)


def tiny_trainer(
    folder: Path,
    *,
    policy: Policy | None = None,
    verifier: Any = digit_share,
    source: Any = None,
    evaluator: Any = None,
    credit: Credit | None = None,
    learner: dict[str, Any] | None = None,
    blame: Blame | None = None,
    **settings: Any,
) -> Trainer:
    """Build a trainer from its parts, logging to ``folder``."""
    policy = policy or tiny_policy()
    wanted = {"tasks_per_step": 2, "group_size": 4, "decoding": Decoding(max_new_tokens=6), "refill_dead_groups": 0}
    counts = {name: settings.pop(name, default) for name, default in wanted.items()}
    credit = credit or Credit()
    parts = RolloutParts(
        source=ListSource(tasks_for(policy, 4), shuffle=False) if source is None else source,
        sampler=sampler_of(policy),
        pool=Pipeline(
            [CircuitBreaker(window=counts["tasks_per_step"] * counts["group_size"])],
            InlinePool(as_verifier(verifier), blame),
        ),
        dead=credit.dead,
        **counts,
    )
    return Trainer(
        policy=policy,
        rollouts=SynchronousRollouts(parts),
        credit=credit,
        learner=tiny_learner(policy, quarantine=folder / "artifacts", **(learner or {})),
        tracker=Trackers([JsonlTracker(folder / "metrics.jsonl"), ArtifactTracker(folder / "artifacts")]),
        store=Store(folder / "checkpoints"),
        settings=LoopSettings(**{"steps": 3} | settings),
        evaluator=evaluator,
    )
