"""Weighted sums of verifiers, each of which runs in its own pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from steelyard.errors import VerifierError
from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Cause, Item, Pool, Verifier


@dataclass(frozen=True)
class WeightedPart:
    """One verifier of a weighted sum. With ``decides``, the sum is a success only if this part is a success."""

    verifier: AnyVerifier
    weight: float = 1.0
    decides: bool = True
    name: str = ""
    """Name of the part in verdicts and metrics; the name of the verifier by default."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.verifier.name)


@dataclass(frozen=True, eq=False)
class WeightedVerifier:
    """Adds up the weighted rewards of several verifiers. The parts of its verdicts are the unweighted rewards.

    - A part that returns None is left out. If all parts return None, the sample is unscored ("no score").
    - If a part fails, the sample is unscored, because a sum without that part would mean something else.
    - If a part rejects the sample, the sample is rejected with ``floor``. The default floor is the weighted sum of the
      floors of the parts, provided that every part declares a floor and no weight is negative.
    - The sample is a success if every deciding part with a score succeeded, or, with ``success_at``, if the reward is
      at least ``success_at``.
    """

    parts: tuple[WeightedPart, ...]
    name: str = "weighted"
    floor: float | None = None
    success_at: float | None = None

    def __post_init__(self) -> None:
        if self.floor is None:
            object.__setattr__(self, "floor", _sum_of_floors(self.parts))
        names = [part.name for part in self.parts]
        if not names:
            raise VerifierError("a weighted verifier needs at least one part: pass a verifier")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise VerifierError(
                f"two parts are named {twice[0]!r}: give each part a unique name, which labels its metrics"
            )

    def combine(self, verdicts: Sequence[Verdict], text_length: int) -> Verdict:
        """Combine the verdicts of the parts, given in their order, into one verdict."""
        named = list(zip(self.parts, verdicts, strict=True))
        failed = [(part, v) for part, v in named if v.status == "unscored" and v.cause != Cause.NO_SCORE]
        if failed:
            part, verdict = failed[0]
            return replace(verdict, reason=f"{part.name}: {verdict.reason}")
        counted = [(part, verdict) for part, verdict in named if verdict.has_reward]
        if not counted:
            return Verdict.unscored(Cause.NO_SCORE, "every part returned None")
        raw = _raw_parts(counted)
        rejected = [(part, verdict) for part, verdict in counted if verdict.status == "rejected"]
        if rejected:
            part, verdict = rejected[0]
            reason = f"{part.name}: {verdict.reason}"
            return replace(verdict, parts=raw, success=False, reason=reason).with_floor(self.floor)
        reward = sum(part.weight * verdict.reward for part, verdict in counted)
        return Verdict.scored(
            reward, success=self._success(counted, reward), parts=raw, steps=_weighted_steps(counted, text_length)
        )

    def _success(self, counted: Sequence[tuple[WeightedPart, Verdict]], reward: float) -> bool:
        if self.success_at is not None:
            return reward >= self.success_at
        deciding = [verdict.success for part, verdict in counted if part.decides]
        return bool(deciding) and all(deciding)


AnyVerifier = Verifier | WeightedVerifier
"""A verifier, or a weighted sum of verifiers."""


def pool_for(verifier: AnyVerifier, build: Callable[[Verifier], Pool]) -> Pool:
    """Build a pool for a verifier, or a :class:`WeightedPool` with one pool per part."""
    if isinstance(verifier, Verifier):
        return build(verifier)
    with ExitStack() as opened:  # if one pool cannot be built, close the others
        pools = [opened.enter_context(closing(pool_for(part.verifier, build))) for part in verifier.parts]
        opened.pop_all()
    return WeightedPool(verifier, pools)


class WeightedPool(Pool):
    """Runs every part in its own pool and combines their verdicts.

    Each part keeps its own mode, isolation and cache.
    """

    def __init__(self, verifier: WeightedVerifier, pools: Sequence[Pool]) -> None:
        self.verifier, self.pools = verifier, list(pools)
        self._lengths: dict[SampleKey, int] = {}
        self._found: dict[SampleKey, dict[int, Verdict]] = {}

    def submit(self, items: Sequence[Item]) -> None:
        self._lengths.update((item.sample.key, len(item.sample.text)) for item in items)
        for pool in self.pools:
            pool.submit(items)

    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        for part, pool in enumerate(self.pools):
            for key, verdict in pool.completed(wait=wait):
                found = self._found.setdefault(key, {})
                found[part] = verdict
                if len(found) == len(self.pools):
                    del self._found[key]
                    verdicts = [found[index] for index in range(len(self.pools))]
                    yield key, self.verifier.combine(verdicts, self._lengths.pop(key))

    def metrics(self) -> dict[str, float]:
        """Return the sum of the metrics of all parts."""
        total: dict[str, float] = {}
        for name, value in (metric for pool in self.pools for metric in pool.metrics().items()):
            total[name] = total.get(name, 0.0) + value
        return total

    def close(self) -> None:
        self._lengths.clear()
        self._found.clear()
        for pool in self.pools:
            pool.close()


def _sum_of_floors(parts: Sequence[WeightedPart]) -> float | None:
    floors = [None if part.weight < 0 else part.verifier.floor for part in parts]
    declared = [part.weight * floor for part, floor in zip(parts, floors, strict=True) if floor is not None]
    return sum(declared) if len(declared) == len(floors) else None


def _raw_parts(counted: Sequence[tuple[WeightedPart, Verdict]]) -> dict[str, float]:
    """Return the rewards by part. A part that rejected the sample without a floor has no reward."""
    raw: dict[str, float] = {}
    for part, verdict in counted:
        if not verdict.open_floor:
            raw[part.name] = verdict.reward
        raw.update({f"{part.name}/{name}": value for name, value in verdict.parts.items()})
    return raw


def _weighted_steps(counted: Sequence[tuple[WeightedPart, Verdict]], text_length: int) -> tuple[tuple[int, float], ...]:
    """Add up step rewards by offset. The reward of a part without steps counts at the end of the text."""
    if not any(verdict.steps for _, verdict in counted):
        return ()
    by_end: dict[int, float] = {}
    for part, verdict in counted:
        for end, reward in verdict.steps or ((text_length, verdict.reward),):
            by_end[end] = by_end.get(end, 0.0) + part.weight * reward
    return tuple(sorted(by_end.items()))
