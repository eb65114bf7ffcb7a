"""With one, two and three fill-in steps, log-probs, entropy, KL and expected update match enumeration to 1e-6.

The vocabulary and the text are small enough to list every trace in float64: which holes are filled at which step (the
order is random, so every order is weighted by its probability), and with which letters. Every pair of traces goes
through the real credit and loss, weighted by its probability, and is compared with values that plain torch computes
from the list. The common surrogate for diffusion models, which masks the whole answer and scores it in one forward
pass, is measured on the same traces; its bias is one of the figures.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from rich.progress import Progress
from torch import Tensor

from benchmarks.framework.result import Cell, Figure, Result
from steelyard.types import HOLE, CutRule, Decisions, Group, Sample, SampleKey, Task, Verdict

CHARACTERS = "abc"
PROMPT = f"a{HOLE}b{HOLE}{HOLE}c"
TEMPERATURE = 0.8
STEPS = (1, 2, 3)
LESSONS = 8
"""Number of updates that partly teach the policy to put the same letter in all holes, so one fill affects the next."""
DRAWN = 400
"""Number of samples from the real sampler whose log-probs are compared with the list."""
SHAPE = {"layers": 1, "width": 16, "heads": 2, "max_length": 16, "spaced": False}


@dataclass(frozen=True)
class Trace:
    """One way to fill the text: the sample, its order's probability (independent of the weights), and its reward."""

    sample: Sample
    order: float
    reward: float


@dataclass(frozen=True)
class Case:
    """The policy, its reference (slightly perturbed weights), and every trace."""

    trainer: Any
    task: Task
    steps: int
    traces: list[Trace]


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version leaves out the case of three steps."""
    rows: list[dict[str, Cell]] = []
    chosen = STEPS[:2] if quick else STEPS
    bar = progress.add_task("infill-exact", total=len(chosen))
    for steps in chosen:
        progress.update(bar, description=f"{steps} steps")
        rows.append(row(build(steps)))
        progress.advance(bar)
    largest = {
        name: max(float(one[name]) for one in rows) for name in ("sampler", "learner", "entropy", "KL", "update")
    }
    several = [one for one in rows if int(one["steps"]) > 1]
    biased = min(float(one["surrogate: update"]) for one in several)
    figures = (
        Figure("sampler: largest |Δ log-prob|", largest["sampler"], "<=", 1e-6, "nats"),
        Figure("learner: largest |Δ log-prob|", largest["learner"], "<=", 1e-6, "nats"),
        Figure("entropy: |Δ|", largest["entropy"], "<=", 1e-6, "nats"),
        Figure("KL: |Δ|", largest["KL"], "<=", 1e-6, "nats"),
        Figure("rloo: relative deviation of the expected update", largest["update"], "<=", 1e-6),
        Figure("control: deviation of the one-forward surrogate's update", biased, ">=", 1e-2),
    )
    note = "The surrogate masks the whole answer and scores it in one forward pass: " + "; ".join(
        f"in {one['steps']} steps its log-prob is off by {float(one['surrogate: log-prob']):.3f} nats on average, and "
        f"its expected update by {float(one['surrogate: update']):.1%} (cosine {float(one['surrogate: cosine']):.3f})"
        for one in several
    )
    return Result("infill-exact", figures, rows, note)


def row(case: Case) -> dict[str, Cell]:
    """Compute all deviations for one number of steps."""
    true, surrogate = true_gradient(case), expected_update(case, one_forward=True)
    listed, summed = trace_values(case), sums(case)
    return {
        "steps": case.steps,
        "traces": len(case.traces),
        "sampler": sampler_gap(case),
        "learner": learner_gap(case),
        "entropy": abs(listed[0] - summed[0]),
        "KL": abs(listed[1] - summed[1]),
        "update": relative(expected_update(case), true),
        "surrogate: log-prob": surrogate_gap(case),
        "surrogate: update": relative(surrogate, true),
        "surrogate: cosine": float(surrogate @ true / (surrogate.norm() * true.norm())),
    }


def build(steps: int) -> Case:
    """Build a tiny float64 policy that has learned a little, and every trace of one task."""
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer

    data: dict[str, Any] = {
        "run": {"folder": tempfile.gettempdir(), "supplied": ["tasks", "verifier"]},
        "model": {"kind": "masked", "device": "cpu", "scratch": {**SHAPE, "vocabulary": list(CHARACTERS)}},
        "sampling": {"tasks_per_step": 1, "max_new_tokens": 4, "fill_steps": steps, "temperature": TEMPERATURE},
        "loss": {"aggregation": "constant", "kl": {"coefficient": 0.1, "estimator": "exact"}},
        "tracking": {"console": False},
    }
    supplied = Supplied(tasks=[{"prompt": PROMPT}], verifier=_any_reward)
    trainer = build_trainer(configs.build(data, source="infill-exact"), supplied)
    teach(trainer.policy)
    trainer.policy.model.double()
    reference = trainer.learner.reference._copy.model.double()  # type: ignore[union-attr]
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for own, other in zip(trainer.policy.model.parameters(), reference.parameters(), strict=True):
            other.copy_(own + 0.1 * torch.randn(own.shape, generator=generator, dtype=own.dtype))
    task = trainer.parts.source.draw(0, 1)[0]
    return Case(trainer, task, steps, list(every_trace(trainer.policy, task, steps)))


def teach(policy: Any) -> None:
    """Take a few maximum-likelihood steps on texts whose holes agree, with some or all of the holes open."""
    parts = PROMPT.split(HOLE)
    samples = [
        policy.sample_from_text(
            Task("lesson", "".join(f"{part}{fill}" for part, fill in zip(parts, (*shown, ""), strict=True))),
            letter.join(parts),
            SampleKey(0, 0, 0, 0),
        )
        for letter in CHARACTERS
        for shown in itertools.product((HOLE, letter), repeat=len(parts) - 1)
        if HOLE in shown
    ]
    optimiser = torch.optim.Adam(policy.model.parameters(), lr=1e-2)
    for _ in range(LESSONS):
        optimiser.zero_grad()
        (-policy.evaluate(policy.collate(samples)).logp_N.mean()).backward()
        optimiser.step()


def every_trace(policy: Any, task: Task, steps: int) -> Iterator[Trace]:
    """Yield all divisions of the holes into steps and all fills, as the sampler would record them."""
    from steelyard.constraints.support_tables import SupportTableWriter

    masked = policy.encode(task.prompt)
    holes = np.flatnonzero(masked == policy.mask_id)
    letters = [policy.tokenizer.get_vocab()[letter] for letter in CHARACTERS]
    sizes = [len(part) for part in np.array_split(holes, steps) if len(part)]
    orders = sorted({_divided(order, sizes) for order in itertools.permutations(holes.tolist())})
    for order in orders:
        for number, fill in enumerate(itertools.product(letters, repeat=len(holes))):
            whole = masked.copy()
            whole[holes] = fill
            trace, now = list[np.ndarray](), masked.copy()
            for part in order:
                trace.append(now.copy())
                now[list(part)] = whole[list(part)]
            trail = SupportTableWriter(policy.vocabulary)
            place_N = np.asarray([place for part in order for place in part], np.int32)
            decisions = Decisions(
                position_N=place_N + len(trace) * len(masked),
                forward_N=np.repeat(np.arange(len(order), dtype=np.int32), [len(part) for part in order]),
                logp_N=np.zeros(len(holes), np.float32),
                rule=CutRule(TEMPERATURE),
                support_N=np.full(len(holes), trail.add(policy.allowed(task)), np.int32),
                supports=trail.table(),
            )
            ids = np.concatenate([*trace, whole]).astype(np.int32)
            sample = Sample(
                SampleKey(0, 0, 0, 0), ids, len(trace) * len(masked), policy.decode(whole), "stop", decisions
            )
            yield Trace(sample, 1.0 / len(orders), 0.1 * number + sample.text.count("ab"))


def _divided(order: Sequence[int], sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Split an order into steps; positions within a step are sorted, because they are filled together."""
    ends = list(itertools.accumulate(sizes))
    return tuple(tuple(sorted(order[end - size : end])) for size, end in zip(sizes, ends, strict=True))


# --- computed from the list of traces, without the learner ------------------------------------------------------------


def log_probabilities(case: Case, model: Any, *, one_forward: bool = False) -> Tensor:
    """Return the log-prob of every trace: the sum over steps, each from a forward pass over the text at that step.

    Each distinct text is run once. With ``one_forward``, all log-probs come from the text with all holes open.
    """
    letters = [case.trainer.policy.tokenizer.get_vocab()[letter] for letter in CHARACTERS]
    wanted: list[tuple[int, tuple[int, ...], int, int]] = []
    for number, one in enumerate(case.traces):
        sample, width = one.sample, len(one.sample.completion_ids)
        pairs = zip(sample.decisions.position_N.tolist(), sample.decisions.forward_N.tolist(), strict=True)
        for position, forward in pairs:
            start = 0 if one_forward else forward * width
            text = tuple(sample.token_ids[start : start + width].tolist())
            wanted.append((number, text, position - sample.prompt_length, int(sample.token_ids[position])))
    texts = sorted({text for _, text, _, _ in wanted})
    logp_ULS = (model(input_ids=torch.tensor(texts)).logits[:, :, letters] / TEMPERATURE).log_softmax(-1)
    place = [(texts.index(text), column, letters.index(token)) for _, text, column, token in wanted]
    logp_N = logp_ULS[tuple(torch.tensor(place).T)]
    return logp_N.new_zeros(len(case.traces)).index_add(0, torch.tensor([number for number, *_ in wanted]), logp_N)


def true_gradient(case: Case) -> Tensor:
    """Return the gradient of the sum over traces of probability times reward."""
    weight = torch.tensor([one.order * one.reward for one in case.traces], dtype=torch.float64)
    expected = (weight * log_probabilities(case, case.trainer.policy.model).exp()).sum()
    return _flat(torch.autograd.grad(expected, _parameters(case)), _parameters(case))


@torch.no_grad()
def probabilities(case: Case) -> list[float]:
    """Return the probability of every trace, including its order."""
    logp = log_probabilities(case, case.trainer.policy.model)
    found = [one.order * math.exp(value) for one, value in zip(case.traces, logp.tolist(), strict=True)]
    if not math.isclose(sum(found), 1.0, abs_tol=1e-9):
        raise RuntimeError("the probabilities of the listed traces do not sum to 1; list all traces")
    return found


@torch.no_grad()
def trace_values(case: Case) -> tuple[float, float]:
    """Return the entropy of the fills given the order, and their KL to the reference's, from the list."""
    own = log_probabilities(case, case.trainer.policy.model)
    other = log_probabilities(case, case.trainer.learner.reference._copy.model)
    weight = torch.tensor(probabilities(case), dtype=own.dtype)
    return float(-(weight * own).sum()), float((weight * (own - other)).sum())


@torch.no_grad()
def surrogate_gap(case: Case) -> float:
    """Return the expected |log-prob from one forward pass - log-prob of the trace|."""
    model = case.trainer.policy.model
    gap = (log_probabilities(case, model, one_forward=True) - log_probabilities(case, model)).abs()
    return float((torch.tensor(probabilities(case), dtype=gap.dtype) * gap).sum())


# --- computed by the sampler and the learner --------------------------------------------------------------------------


@torch.no_grad()
def sampler_gap(case: Case) -> float:
    """Return the largest difference between a sample's recorded log-prob and the listed value."""
    from steelyard.training.phases import requests_for, sample

    logp = log_probabilities(case, case.trainer.policy.model).tolist()
    listed = {_name(one.sample): value for one, value in zip(case.traces, logp, strict=True)}
    drawn = sample(case.trainer.parts.sampler, requests_for([case.task], 0, DRAWN), case.trainer.parts.decoding)
    return max(abs(float(one.decisions.logp_N.astype(np.float64).sum()) - listed[_name(one)]) for one in drawn)


@torch.no_grad()
def learner_gap(case: Case) -> float:
    policy = case.trainer.policy
    logp_N = policy.evaluate(policy.collate([one.sample for one in case.traces])).logp_N
    own = logp_N.reshape(len(case.traces), -1).sum(-1)
    return float((own - log_probabilities(case, policy.model)).abs().max())


@torch.no_grad()
def sums(case: Case) -> tuple[float, float]:
    """Return the expected sums over decisions of entropy and exact KL; by the chain rule they equal the enumeration."""
    learner, totals = case.trainer.learner, np.zeros(2)
    for one, weight in zip(case.traces, probabilities(case), strict=True):
        scores = learner.policy.evaluate(learner.policy.collate([one.sample]), learner.reference)
        totals += weight * np.asarray([float(scores.entropy_N.sum()), float(scores.kl_N.sum())])
    return float(totals[0]), float(totals[1])


def expected_update(case: Case, *, one_forward: bool = False) -> Tensor:
    """Return the negative gradient of the loss over all weighted pairs of traces, with ``rloo`` and ``constant``.

    The loss is linear in the advantages. Therefore the expected advantage of each trace is computed first, with the
    real credit for every pair, followed by one real loss per trace.
    """
    from steelyard.algorithms.advantages import estimator
    from steelyard.training.credit import Credit
    from steelyard.training.learner_samples import LearnerSample

    learner, probability = case.trainer.learner, probabilities(case)
    credit, advantage = Credit(estimator("rloo", None)), np.zeros(len(case.traces))
    for pair in itertools.product(range(len(case.traces)), repeat=2):
        samples = tuple(replace(case.traces[i].sample, key=SampleKey(0, 0, 0, at)) for at, i in enumerate(pair))
        verdicts = tuple(Verdict.scored(case.traces[index].reward) for index in pair)
        for item in credit.assign([Group(case.task, samples, verdicts)]):
            weight = probability[pair[0]] * probability[pair[1]]
            advantage[pair[item.sample.key.sample]] += weight * float(item.advantage_N[0]) / 2
    total = torch.zeros_like(_flat(_parameters(case), _parameters(case)))
    objective, learner.objective = learner.objective, replace(learner.objective, kl=None)
    try:
        for one, value in zip(case.traces, advantage, strict=True):
            sample = in_one_forward(one.sample) if one_forward else one.sample
            item = LearnerSample(sample, np.full(len(sample.decisions), value, np.float64))  # type: ignore[arg-type]
            (weight_N,) = learner._weights([[item]])
            loss = learner.loss([item], weight_N, 0).loss
            total -= _flat(torch.autograd.grad(loss, _parameters(case), allow_unused=True), _parameters(case))
    finally:
        learner.objective = objective
    return total * learner.rule.constant_length


def in_one_forward(sample: Sample) -> Sample:
    """Return the trace as the surrogate scores it, with every hole scored from the first input."""
    return replace(sample, decisions=replace(sample.decisions, forward_N=np.zeros_like(sample.decisions.forward_N)))


def relative(found: Tensor, true: Tensor) -> float:
    return float((found - true).norm() / true.norm())


def _any_reward(task: Any, text: str) -> float:  # noqa: ARG001
    return 0.0


def _name(sample: Sample) -> tuple[Any, ...]:
    """Identify a trace by its inputs and its final text."""
    return tuple(sample.token_ids.tolist())


def _parameters(case: Case) -> list[Tensor]:
    return [parameter for _, parameter in case.trainer.policy.trainable()]


def _flat(gradients: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    pairs = zip(gradients, like, strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).detach().flatten() for g, p in pairs])
