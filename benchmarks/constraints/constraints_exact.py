"""Under a constraint, the expected update equals the gradient of the constrained policy's expected reward, to 1e-6.

The language is small enough to enumerate and has sentences of different lengths; everything runs in float64. Every
tuple of G sentences goes through the real credit and loss, weighted by its probability. The gradient, KL and entropy
are compared with values that plain torch computes from the list of all sentences. In the control runs, the learner
ignores the supports.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from rich.progress import Progress
from torch import Tensor

from benchmarks.constraints.constrained_policies import (
    BRACKETS,
    SHAPE,
    build_constrained_trainer,
    sharpen,
    without_supports,
)
from benchmarks.framework.result import Cell, Figure, Result
from steelyard.types import CutRule, Decisions, Group, Sample, SampleKey, Task, Verdict

LENGTH = 6
"""At most 5 brackets and the end token."""
TEMPERATURE = 0.8
ESTIMATORS: tuple[tuple[str, int | None], ...] = (
    ("rloo", None),
    ("group_mean", None),
    ("group_norm", None),
    ("batch_norm", None),
    ("max_at_k", 2),
    ("pass_at_k", 2),
    ("best_of_group", None),
)


@dataclass(frozen=True)
class Case:
    """The policy, its reference (slightly perturbed weights), and every sentence of the language."""

    trainer: Any
    task: Task
    sentences: list[Sample]
    rewards: list[float]
    length: int
    """Maximum number of tokens in a sentence, including its end token."""


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses groups of two instead of three."""
    size = 2 if quick else 3
    case = build()
    bar = progress.add_task("estimators", total=len(ESTIMATORS) + 1)
    true = true_gradient(case)
    rows: list[dict[str, Cell]] = []
    for name, k in ESTIMATORS:
        progress.update(bar, description=name)
        rows.append({"estimator": name + (f"({k})" if k else ""), **deviation(case, name, k, size, true)})
        progress.advance(bar)
    ignored = deviation(case, "rloo", None, size, true, forget=True)
    progress.advance(bar)
    entropy, kl = learner_entropy_and_kl(case), enumerated_entropy_and_kl(case)
    figures = (
        Figure("rloo: relative deviation of the expected update", float(rows[0]["relative deviation"]), "<=", 1e-6),
        Figure("entropy: |Δ| from the enumerated value", abs(entropy[0] - kl[0]), "<=", 1e-6, "nats"),
        Figure("KL: |Δ| from the enumerated value", abs(entropy[1] - kl[1]), "<=", 1e-6, "nats"),
        Figure("control: deviation without supports", float(ignored["relative deviation"]), ">=", 1e-2),
    )
    rows.append({"estimator": "rloo, without supports", **ignored})
    lengths = [len(sentence.completion_ids) for sentence in case.sentences]
    note = (
        f"{len(case.sentences)} sentences of {min(lengths)} to {max(lengths)} tokens, "
        f"{len(case.sentences) ** size} groups of {size}; sequence entropy {kl[0]:.4f} nats, KL {kl[1]:.4f} nats"
    )
    return Result("constraints-exact", figures, rows, note)


def build() -> Case:
    """Build the bracket language over single characters."""
    constraint = {"kind": "automaton", "source": BRACKETS, "options": {"depth": 2, "kinds": "()[]", "least": 2}}
    return build_case({"vocabulary": tuple("()[]ab"), "spaced": False}, "ab", constraint, LENGTH)


def build_case(vocabulary: Mapping[str, Any], prompt: str, constraint: Mapping[str, Any], length: int) -> Case:
    """Build a tiny float64 policy with large weights, so that all sentences differ in probability."""
    trainer = build_constrained_trainer(
        {"scratch": {**SHAPE, "width": 16, "layers": 1, **vocabulary}},
        [prompt],
        constraint,
        new_tokens=length,
        tables={
            "loss": {"aggregation": "constant", "kl": {"coefficient": 0.1, "estimator": "exact"}},
            "optimiser": {"minibatches": 1},
        },
    )
    sharpen(trainer.policy, 6.0)
    trainer.policy.model.double()
    reference = trainer.learner.reference._copy.model.double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for own, other in zip(trainer.policy.model.parameters(), reference.parameters(), strict=True):
            other.copy_(own + 0.1 * torch.randn(own.shape, generator=generator, dtype=own.dtype))
    task = trainer.parts.source.draw(0, 1)[0]
    sentences = list(every_sentence(trainer.policy, task, length))
    rewards = [len(one.text) % 3 + 0.5 * one.text.count("[") + 0.1 * place for place, one in enumerate(sentences)]
    return Case(trainer, task, sentences, rewards, length)


def every_sentence(policy: Any, task: Task, length: int) -> Iterator[Sample]:
    """Yield all sentences that fit, as the sampler would record them."""
    from steelyard.constraints.base import members
    from steelyard.constraints.support_tables import SupportTableWriter

    prompt = policy.encode(task.prompt)

    def extend(walk: Any, tokens: list[int], decided: list[tuple[int, Any]]) -> Iterator[Sample]:
        if tokens and tokens[-1] in policy.end_ids:
            trail = SupportTableWriter(policy.vocabulary)
            place_N = np.asarray([place for place, _ in decided], np.int32)
            number_N = np.asarray([trail.add(bits) for _, bits in decided], np.int32)
            decisions = Decisions(
                place_N + len(prompt),
                place_N,
                np.zeros(len(decided), np.float32),
                CutRule(TEMPERATURE),
                number_N,
                trail.table(),
            )
            ids = np.concatenate([prompt, np.asarray(tokens, np.int32)])
            yield Sample(SampleKey(0, 0, 0, 0), ids, len(prompt), policy.decode(tokens), "stop", decisions)
            return
        left = length - len(tokens)
        bits = walk.allowed(left)
        options = members(bits)
        for token in options.tolist():
            following = walk.copy()
            following.advance(token)
            chosen = [*decided, (len(tokens), bits)] if len(options) > 1 else decided
            yield from extend(following, [*tokens, token], chosen)

    yield from extend(policy.constraint.begin(task), [], [])


# --- computed from the list of sentences, without the learner ---------------------------------------------------------


def log_probability(case: Case, model: Any, sentence: Sample) -> Tensor:
    """Return a sentence's log-prob: at each position, a softmax over the tokens that continue some sentence."""
    ids = torch.tensor(sentence.token_ids, dtype=torch.int64)
    logits_TV = model(input_ids=ids[None]).logits[0] / TEMPERATURE
    total = logits_TV.new_zeros(())
    written = sentence.token_ids.tolist()
    for place in range(sentence.prompt_length, len(written)):
        options = sorted({other.token_ids[place] for other in case.sentences if _begins(other, written[:place])})
        logp_S = logits_TV[place - 1, torch.tensor(options)].log_softmax(0)
        total = total + logp_S[options.index(written[place])]
    return total


def true_gradient(case: Case) -> Tensor:
    """Return the gradient of the sum over sentences of probability times reward."""
    model = case.trainer.policy.model
    pairs = zip(case.sentences, case.rewards, strict=True)
    expected = torch.stack([log_probability(case, model, one).exp() * reward for one, reward in pairs]).sum()
    return _flat(torch.autograd.grad(expected, _parameters(case), allow_unused=True), _parameters(case))


@torch.no_grad()
def enumerated_entropy_and_kl(case: Case) -> tuple[float, float]:
    """Return the entropy of the distribution over sentences, and its KL to the reference's."""
    policy, reference = case.trainer.policy.model, case.trainer.learner.reference._copy.model
    own = torch.stack([log_probability(case, policy, sentence) for sentence in case.sentences])
    other = torch.stack([log_probability(case, reference, sentence) for sentence in case.sentences])
    if not math.isclose(float(own.exp().sum()), 1.0, abs_tol=1e-9):
        raise RuntimeError("the probabilities of the listed sentences do not sum to 1; list all sentences")
    return float(-(own.exp() * own).sum()), float((own.exp() * (own - other)).sum())


# --- computed by the learner ------------------------------------------------------------------------------------------


@torch.no_grad()
def learner_entropy_and_kl(case: Case) -> tuple[float, float]:
    """Return the expected sums over decisions of entropy and exact KL; by the chain rule they equal the enumeration."""
    learner, probability = case.trainer.learner, probabilities(case)
    totals = np.zeros(2)
    for sentence, weight in zip(case.sentences, probability, strict=True):
        scores = learner.policy.evaluate(learner.policy.collate([sentence]), learner.reference)
        totals += weight * np.asarray([float(scores.entropy_N.sum()), float(scores.kl_N.sum())])
    return float(totals[0]), float(totals[1])


@torch.no_grad()
def probabilities(case: Case) -> list[float]:
    model = case.trainer.policy.model
    return [float(log_probability(case, model, sentence).exp()) for sentence in case.sentences]


def deviation(
    case: Case, name: str, k: int | None, size: int, true: Tensor, *, forget: bool = False
) -> dict[str, Cell]:
    """Return how far an estimator's expected update is from the true gradient, in direction and in length."""
    expected = expected_update(case, name, k, size, forget=forget)
    scale = float(expected @ true / (expected @ expected))
    return {
        "relative deviation": float((expected - true).norm() / true.norm()),
        "cosine": float(expected @ true / (expected.norm() * true.norm())),
        "length": float(expected.norm() / true.norm()),
        "deviation at best scale": float((scale * expected - true).norm() / true.norm()),
    }


def expected_update(case: Case, name: str, k: int | None, size: int, *, forget: bool = False) -> Tensor:
    """Return the negative gradient of the loss, summed over all groups of this size and weighted by probability.

    The loss is linear in the advantages. Therefore the expected advantage of each sentence is computed first, with the
    real credit for every group, followed by one real loss per sentence.
    """
    from steelyard.algorithms.advantages import estimator
    from steelyard.training.credit import Credit
    from steelyard.training.learner_samples import LearnerSample

    learner = case.trainer.learner
    credit, probability = Credit(estimator(name, k)), probabilities(case)
    advantage_S = np.zeros(len(case.sentences))
    for members in itertools.product(range(len(case.sentences)), repeat=size):
        weight = math.prod(probability[index] for index in members)
        samples = tuple(_numbered(case.sentences[index], place) for place, index in enumerate(members))
        verdicts = tuple(_verdict(case.rewards[index], name) for index in members)
        for item in credit.assign([Group(case.task, samples, verdicts)]):
            advantage_S[members[item.sample.key.sample]] += weight * float(item.advantage_N[0]) / size
    total = torch.zeros_like(_flat(_parameters(case), _parameters(case)))
    for sentence, advantage in zip(case.sentences, advantage_S, strict=True):
        sample = without_supports(sentence) if forget else sentence
        item = LearnerSample(sample, np.full(len(sample.decisions), advantage, np.float64))  # type: ignore[arg-type]
        (weight_N,) = learner._weights([[item]])
        loss = _loss_of(learner, replace(learner.objective, kl=None), item, weight_N)
        total -= _flat(torch.autograd.grad(loss, _parameters(case), allow_unused=True), _parameters(case))
    return total * case.length  # ``constant`` aggregation divides by the maximum length


def _loss_of(learner: Any, objective: Any, item: Any, weight_N: Tensor) -> Tensor:
    before, learner.objective = learner.objective, objective
    try:
        return learner.loss([item], weight_N, 0).loss
    finally:
        learner.objective = before


def _verdict(reward: float, name: str) -> Verdict:
    return Verdict.scored(float(reward > 1.0) if name == "pass_at_k" else reward, success=reward > 1.0)


def _numbered(sample: Sample, place: int) -> Sample:
    return replace(sample, key=SampleKey(0, 0, 0, place))


def _begins(sample: Sample, tokens: Sequence[int]) -> bool:
    return len(sample.token_ids) > len(tokens) and sample.token_ids[: len(tokens)].tolist() == list(tokens)


def _parameters(case: Case) -> list[Tensor]:
    return [parameter for _, parameter in case.trainer.policy.trainable()]


def _flat(gradients: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    pairs = zip(gradients, like, strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).detach().flatten() for g, p in pairs])
