"""For multi-turn episodes, the expected update equals the policy gradient to 1e-6, with credit per episode or per turn.

The environment replies at random, the policy decides when to stop, and some episodes fork into several rows. Every
group goes through the real credit, the real weights and the real loss, weighted by its probability. The sum is compared
with a gradient that plain torch computes from a list of all episodes. The controls use baselines that are common but
biased; a wrong scale alone does not count as an error, because the learning rate absorbs it. The real sampler and pool
play the same game, and the episode frequencies are compared with the listed probabilities.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress
from torch import Tensor

from benchmarks.episodes.coin_game import TASK, Case, build, history, play
from benchmarks.framework.result import Cell, Figure, Result
from steelyard.types import Group, Sample

GAMMA = 0.6
CHUNK = 500
"""Number of groups per credit call."""

Array = NDArray[np.float64]
Returns = list[list[float]]
"""The return from each turn onwards, for each episode in a group."""


@dataclass(frozen=True)
class Scheme:
    """A way to assign credit: for groups of episodes, one advantage per decision of each row."""

    name: str
    advantages: Callable[[Sequence[Group]], list[Any]]
    gamma: float = 1.0
    rows_are_samples: bool = False


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses groups of two instead of three, and fewer draws."""
    size, draws = (2, 500) if quick else (3, 5000)
    bar = progress.add_task("episodes", total=len(SCHEMES) + 2)
    case = build()
    progress.advance(bar)
    rows: list[dict[str, Cell]] = []
    for scheme in SCHEMES:
        progress.update(bar, description=scheme.name)
        rows.append(deviation(case, scheme, size))
        progress.advance(bar)
    sampled = frequencies(case, draws)
    off = {str(row["credit"]): float(row["relative deviation"]) for row in rows}
    scaled = {str(row["credit"]): float(row["at best scale"]) for row in rows}
    figures = (
        Figure("per episode: relative deviation of the expected update", off[PER_EPISODE.name], "<=", 1e-6),
        Figure("per turn: relative deviation", off[PER_TURN.name], "<=", 1e-6),
        Figure(f"per turn, gamma {GAMMA}: relative deviation from Σ E[∇log π · G]", off[DISCOUNTED.name], "<=", 1e-6),
        Figure(
            "gamma 1 against one group's real update: largest relative deviation", update_gap(case, size), "<=", 1e-6
        ),
        *(Figure(f"control, at best scale: {one.name}", scaled[one.name], ">=", 1e-2) for one in CONTROLS),
        Figure("sampled episodes: p-value of their frequencies", sampled["p-value"], ">=", 1e-3),
        Figure("sampled episodes: largest |Δ log-prob|", sampled["log-prob"], "<=", 1e-5, "nats"),
    )
    forked = sum(len(sample.rows) > 1 for sample in case.samples)
    discount = discount_gaps(case)
    note = (
        f"{len(case.episodes)} episodes of 1 to 3 turns, {forked} of them forked; "
        f"{math.comb(len(case.episodes) + size - 1, size)} groups of {size} up to order; {draws} sampled episodes. "
        f"Σ E[∇log π · G] with gamma {GAMMA} is {discount[0]:.1%} away from the gradient of the undiscounted return "
        f"and {discount[1]:.1%} from that of the discounted return (at best scale {discount[2]:.1%} and "
        f"{discount[3]:.1%})."
    )
    return Result("episodes-exact", figures, rows, note)


# --- schemes ----------------------------------------------------------------------------------------------------------


def real(per: Any, gamma: float = 1.0, estimator: str = "rloo") -> Callable[[Sequence[Group]], list[Any]]:
    """Return the credit function of the library itself."""
    from steelyard.algorithms.advantages import estimator as named
    from steelyard.training.credit import Credit

    return Credit(named(estimator), gamma=gamma, per=per).assign


def spread(advantages_of: Callable[[Returns], Returns]) -> Callable[[Sequence[Group]], list[Any]]:
    """Return a credit function that computes advantages per turn from the returns-to-go of one group at a time."""
    from steelyard.training.credit import CreditedSample

    def assign(groups: Sequence[Group]) -> list[Any]:
        found: list[Any] = []
        for number, group in enumerate(groups):
            returns = [
                returns_of(sample, verdict) for sample, verdict in zip(group.samples, group.verdicts, strict=True)
            ]
            for place, (sample, advantage) in enumerate(zip(group.samples, advantages_of(returns), strict=True)):
                for row, turn_N in zip(sample.rows, turns_of_rows(sample), strict=True):
                    credited = np.asarray(advantage)[turn_N]
                    found.append(CreditedSample(row, credited, number * len(group.samples) + place))
        return found

    return assign


def returns_of(sample: Sample, verdict: Any) -> list[float]:
    turns = sum(turn.role == "assistant" for turn in sample.turns)
    rewards = verdict.turn_rewards or (*[0.0] * (turns - 1), verdict.reward)
    return [math.fsum(rewards[turn:]) for turn in range(turns)]


def turns_of_rows(sample: Sample) -> list[NDArray[np.int64]]:
    """Return the turn number of each decision, row by row."""
    written = [turn for turn in sample.turns if turn.role == "assistant"]
    return [
        np.asarray(
            [
                next(i for i, turn in enumerate(written) if turn.row == number and turn.start <= place < turn.end)
                for place in row.decisions.position_N.tolist()
            ],
            np.int64,
        )
        for number, row in enumerate(sample.rows)
    ]


def _others(returns: Returns, ended: Callable[[list[float]], float | None]) -> Returns:
    """Subtract the mean over the other episodes; ``ended`` returns the value of a finished one, or None to skip it."""
    found: Returns = []
    for number, own in enumerate(returns):
        advantage: list[float] = []
        for turn, value in enumerate(own):
            values = [r[turn] if turn < len(r) else ended(r) for i, r in enumerate(returns) if i != number]
            compared = [other for other in values if other is not None]
            advantage.append(value - (sum(compared) / len(compared) if compared else 0.0))
        found.append(advantage)
    return found


def survivors_with_itself(returns: Returns) -> Returns:
    """Subtract the mean over all episodes that reach the turn, including the episode itself."""
    alive = [[r[turn] for r in returns if turn < len(r)] for turn in range(max(map(len, returns)))]
    return [[value - sum(alive[t]) / len(alive[t]) for t, value in enumerate(own)] for own in returns]


def last_turn_only(groups: Sequence[Group]) -> list[Any]:
    """Assign the episode's advantage to its last turn; earlier turns get 0."""
    credited = real("episode")(groups)
    samples = iter([sample for group in groups for sample in group.samples])
    found: list[Any] = []
    for _, rows in itertools.groupby(credited, key=lambda item: item.number):
        turns = turns_of_rows(next(samples))
        last = max(int(turn_N.max()) for turn_N in turns)
        for item, turn_N in zip(rows, turns, strict=True):
            found.append(replace(item, advantage_N=item.advantage_N * (turn_N == last)))
    return found


def one_span_without_turn_rewards(groups: Sequence[Group]) -> list[Any]:
    """Treat an episode as one span if it was rejected or its replies had no rewards, so spans depend on the outcome."""
    whole, turns = real("episode")(groups), real("turn")(groups)
    verdicts = [verdict for group in groups for verdict in group.verdicts]
    plain = [verdict.status == "rejected" or not verdict.turn_rewards for verdict in verdicts]
    return [one if plain[one.number] else other for one, other in zip(whole, turns, strict=True)]


PER_EPISODE = Scheme("per episode", real("episode"))
PER_TURN = Scheme("per turn", real("turn"))
DISCOUNTED = Scheme(f"per turn, gamma {GAMMA}", real("turn", GAMMA), GAMMA)
CONTROLS = (
    Scheme("mean over survivors, the sample included", spread(survivors_with_itself)),
    Scheme("credit on the last turn only", last_turn_only),
    Scheme("rows counted as samples", real("turn"), rows_are_samples=True),
    Scheme("one span where there are no turn rewards", one_span_without_turn_rewards),
)
SCHEMES = (
    PER_EPISODE,
    PER_TURN,
    DISCOUNTED,
    Scheme("per turn, others that ended count 0", spread(lambda returns: _others(returns, lambda _: 0.0))),
    Scheme("per turn, other survivors only", spread(lambda returns: _others(returns, lambda _: None))),
    Scheme("per turn, group_norm", real("turn", estimator="group_norm")),
    *CONTROLS,
)


# --- computed from the list of episodes, without the learner ----------------------------------------------------------


def gradient(case: Case, value: Tensor) -> Tensor:
    """Return the gradient of a value as one flat vector."""
    found = torch.autograd.grad(value, case.parameters, allow_unused=True, retain_graph=True)
    pairs = zip(found, case.parameters, strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).detach().flatten() for g, p in pairs])


def expected_return(case: Case, gamma: float = 1.0) -> Tensor:
    """Return the expected discounted return of an episode; its gradient is exact."""
    terms = [
        episode.coins * sum(turns[1:], turns[0]).exp() * episode.returns(gamma)[0]
        for episode, turns in zip(case.episodes, case.log_probs(), strict=True)
    ]
    return torch.stack(terms).sum()


def true_update(case: Case, gamma: float) -> Tensor:
    """Return the gradient of the expected return or, with a discount, ``Σ E[∇log π · G]``."""
    if gamma == 1.0:
        return gradient(case, expected_return(case))
    terms = [
        episode.coins * sum(turns[1:], turns[0]).detach().exp() * logp * value
        for episode, turns in zip(case.episodes, case.log_probs(), strict=True)
        for logp, value in zip(turns, episode.returns(gamma), strict=True)
    ]
    return gradient(case, torch.stack(terms).sum())


def discount_gaps(case: Case) -> tuple[float, float, float, float]:
    """Return how far the discounted update is from the gradients of two returns, unscaled and at the best scale."""
    update = true_update(case, GAMMA)
    returns = [gradient(case, expected_return(case, gamma)) for gamma in (1.0, GAMMA)]
    plain = [_relative(update, one) for one in returns]
    scaled = [_relative(update * float(update @ one / (update @ update)), one) for one in returns]
    return plain[0], plain[1], scaled[0], scaled[1]


def turn_scores(case: Case) -> list[Array]:
    """Return the gradients of the turns' log-probs, by episode."""
    flat: dict[int, Array] = {}
    found: list[Array] = []
    for turns in case.log_probs():
        for logp in turns:
            if id(logp) not in flat:
                flat[id(logp)] = gradient(case, logp).numpy()
        found.append(np.stack([flat[id(logp)] for logp in turns]))
    return found


# --- computed by credit and learner -----------------------------------------------------------------------------------


def deviation(case: Case, scheme: Scheme, size: int) -> dict[str, Cell]:
    """Return how far a scheme's expected update is from the true gradient, and the variance of one group's update."""
    true = true_update(case, scheme.gamma)
    update, squared = expected_update(case, scheme, size)
    scale = float(update @ true / (update @ update))
    return {
        "credit": scheme.name,
        "relative deviation": _relative(update, true),
        "at best scale": _relative(scale * update, true),
        "cosine": float(update @ true / (update.norm() * true.norm())),
        "variance": (squared - float(update @ update)) / float(true @ true),
    }


def expected_update(case: Case, scheme: Scheme, size: int) -> tuple[Tensor, float]:
    """Return the expected update over all groups of this size, and its expected squared norm.

    The loss is linear in advantages and weights. Therefore their expected product is computed first, with the real
    credit and weights of every group, followed by one real loss over all rows.
    """
    coefficients = [[np.zeros(len(row.decisions)) for row in sample.rows] for sample in case.samples]
    score_TP = np.concatenate(turn_scores(case))
    similarity_TT, first = score_TP @ score_TP.T, [_first_decisions(sample) for sample in case.samples]
    starts = np.cumsum([0, *(len(own) for own in first)])
    weights, squared = _Weights(case.trainer.learner), 0.0
    for members, chance, items in credited_groups(case, scheme, size):
        products = iter(weights.products(items))
        at, values = list[int](), list[float]()
        for index in members:
            rows = [next(products) for _ in coefficients[index]]
            for total, product in zip(coefficients[index], rows, strict=True):
                np.add(total, chance * product, out=total)
            at += range(starts[index], starts[index + 1])
            values += [float(rows[row][place]) for row, place in first[index]]
        value_T = np.asarray(values)
        squared += float(chance) * float(value_T @ similarity_TT[np.ix_(at, at)] @ value_T)
    return gradient_of(case, coefficients), float(squared * case.length**2)


def gradient_of(case: Case, coefficients: Sequence[Sequence[Array]]) -> Tensor:
    """Return the negative gradient of the real loss with the given coefficient for each decision."""
    from steelyard.training.learner_samples import LearnerSample

    rows = [row for sample in case.samples for row in sample.rows]
    values: list[Any] = [value_N for own in coefficients for value_N in own]
    items = [LearnerSample(row, value_N) for row, value_N in zip(rows, values, strict=True)]
    ones = torch.ones(sum(len(item.advantage_N) for item in items), dtype=torch.float64)
    return -gradient(case, case.trainer.learner.loss(items, ones, 0).loss) * case.length


def credited_groups(case: Case, scheme: Scheme, size: int) -> Iterator[tuple[tuple[int, ...], float, list[Any]]]:
    """Yield every group, ignoring order: its episodes, its probability over all orders, and its credited rows."""
    from steelyard.training.learner_samples import LearnerSample

    probability = case.probabilities()
    if not math.isclose(probability.sum(), 1.0, abs_tol=1e-9):
        raise RuntimeError(f"the listed episodes have total probability {probability.sum()}, not 1; list all of them")
    everything = itertools.combinations_with_replacement(range(len(case.samples)), size)
    while chunk := list(itertools.islice(everything, CHUNK)):
        groups = [group_of(case, members) for members in chunk]
        rows: list[list[Any]] = [[] for _ in chunk]
        for item in scheme.advantages(groups):
            number = None if scheme.rows_are_samples else item.number
            rows[item.number // size].append(LearnerSample(item.sample, item.advantage_N, number=number))
        for members, items in zip(chunk, rows, strict=True):
            repeats = Counter(members).values()
            orders = math.factorial(size) // math.prod(math.factorial(count) for count in repeats)
            yield members, orders * math.prod(probability[index] for index in members), items


def group_of(case: Case, members: Sequence[int]) -> Group:
    return Group(
        TASK, tuple(case.samples[index] for index in members), tuple(case.verdicts[index] for index in members)
    )


class _Weights:
    """The learner's weights, which depend only on the numbers of samples and decisions; computed once per shape."""

    def __init__(self, learner: Any) -> None:
        self.learner, self.known = learner, dict[tuple[Any, ...], list[Array]]()

    def products(self, items: Sequence[Any]) -> list[Array]:
        """Return the advantage times the weight of each decision, row by row."""
        places = {number: place for place, number in enumerate(dict.fromkeys(item.number for item in items))}
        shape = tuple((item.number is None or places[item.number], len(item.advantage_N)) for item in items)
        if shape not in self.known:
            (weight_N,) = self.learner._weights([list(items)])
            ends = np.cumsum([len(item.advantage_N) for item in items])
            self.known[shape] = np.split(weight_N.double().numpy(), ends[:-1])
        return [item.advantage_N * weight_N for item, weight_N in zip(items, self.known[shape], strict=True)]


def _first_decisions(sample: Sample) -> list[tuple[int, int]]:
    """Return the row and index of the first decision of each turn; the decisions of a turn share their advantage."""
    found: dict[int, tuple[int, int]] = {}
    for row, turn_N in enumerate(turns_of_rows(sample)):
        for place, turn in enumerate(turn_N.tolist()):
            found.setdefault(turn, (row, place))
    return [found[turn] for turn in sorted(found)]


def update_gap(case: Case, size: int, groups: int = 10) -> float:
    """Return the largest relative deviation of a group's assembled update from the learner's own update."""
    rng, largest = np.random.default_rng(0), 0.0
    for _ in range(groups):
        members = rng.choice(len(case.samples), size, p=case.probabilities()).tolist()
        group = group_of(case, members)
        coefficients = [[np.zeros(len(row.decisions)) for row in sample.rows] for sample in case.samples]
        products = iter(_Weights(case.trainer.learner).products(learner_samples(case, group)))
        for index in members:
            for total in coefficients[index]:
                np.add(total, next(products), out=total)
        largest = max(largest, _relative(gradient_of(case, coefficients), learner_update(case, group)))
    return largest


def learner_samples(case: Case, group: Group) -> list[Any]:
    """Return the learner samples that the training loop would pass to its learner."""
    from steelyard.training.learner import SampleLogps

    rows = [row for sample in group.samples for row in sample.rows]
    return case.trainer.assign_credit([group], rows, SampleLogps(None, None))


def learner_update(case: Case, group: Group) -> Tensor:
    """Return the negative gradient of a real update, captured in place of the optimiser's step."""
    learner, found = case.trainer.learner, list[Tensor]()

    def catch(*_: Any, **__: Any) -> None:
        found.append(-torch.cat([p.grad.flatten() for p in case.parameters]) * case.length)  # type: ignore[union-attr]

    step, learner.optimiser.step = learner.optimiser.step, catch
    try:
        learner.update(learner_samples(case, group), 0)
    finally:
        learner.optimiser.step = step
    return found[0]


# --- drawn by the sampler ---------------------------------------------------------------------------------------------


def frequencies(case: Case, draws: int) -> dict[str, float]:
    """Compare sampled episodes with the list: a chi-squared test of their counts, and their log-probs.

    Episodes with fewer than five expected occurrences are pooled.
    """
    (group,) = play(case.trainer, draws, step=10_000)
    listed = {(one.texts, one.replies): place for place, one in enumerate(case.episodes)}
    with torch.no_grad():
        logp = [float(sum(turns)) for turns in case.log_probs()]
    count, largest = np.zeros(len(listed)), 0.0
    for sample in group.samples:
        place = listed[history(sample)]
        count[place] += 1
        recorded = math.fsum(float(one) for row in sample.rows for one in row.decisions.logp_N)
        largest = max(largest, abs(recorded - logp[place]))
    expected = case.probabilities() * draws
    rare = expected < 5
    seen = np.append(count[~rare], count[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    statistic = float(((seen - wanted) ** 2 / np.maximum(wanted, 1e-12)).sum())
    freedom = torch.tensor((len(wanted) - 1) / 2, dtype=torch.float64)
    p_value = torch.special.gammaincc(freedom, torch.tensor(statistic / 2, dtype=torch.float64))
    return {"p-value": float(p_value), "log-prob": largest}


def _relative(found: Tensor, true: Tensor) -> float:
    return float((found - true).norm() / true.norm())
