"""Several verifiers at once: a weighted sum with named parts, each of which runs in a pool of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from steelyard.errors import VerifierError
from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Cause, Item, Pool, Verifier


@dataclass(frozen=True)
class Part:
    """One verifier of several. ``decides``: the whole is a success only if this part is one."""

    verifier: AnyVerifier
    weight: float = 1.0
    decides: bool = True
    name: str = ""
    """Labels the part in verdicts and metrics; empty: the verifier's own name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.verifier.name)


@dataclass(frozen=True, eq=False)
class WeightedVerifier:
    """reward = sum of weight times reward over the parts that gave one; ``parts`` holds the raw rewards by name.

    A part that returns None is left out; the sample is unscored ("no score") only if all are. A part that *fails*
    makes the sample unscored, since a sum that lacks it would mean something else. A part that rejects rejects, with
    the floor of the whole: unless another is given, the weighted sum of the parts' floors if that is a lower bound,
    so if every part declares one and no weight is negative, else none.
    Success: every deciding part that gave a score succeeded, or, with ``success_at``, reward >= ``success_at``.
    """

    parts: tuple[Part, ...]
    name: str = "weighted"
    floor: float | None = None
    success_at: float | None = None

    def __post_init__(self) -> None:
        if self.floor is None:
            object.__setattr__(self, "floor", _sum_of_floors(self.parts))
        names = [part.name for part in self.parts]
        if not names:
            raise VerifierError("a weighted verifier needs at least one part")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise VerifierError(
                f"two parts are named {twice[0]!r}: give each a name of its own, they label the metrics"
            )

    def combine(self, verdicts: Sequence[Verdict], text_length: int) -> Verdict:
        """One verdict from the parts' verdicts, given in the order of the parts."""
        named = list(zip(self.parts, verdicts, strict=True))
        failed = [(part, v) for part, v in named if v.status == "unscored" and v.cause != Cause.NO_SCORE]
        if failed:
            part, verdict = failed[0]
            return replace(verdict, reason=f"{part.name}: {verdict.reason}")
        given = [(part, verdict) for part, verdict in named if verdict.counts]
        if not given:
            return Verdict.unscored(Cause.NO_SCORE, "every part returned None")
        raw = _raw_parts(given)
        rejected = [(part, verdict) for part, verdict in given if verdict.status == "rejected"]
        if rejected:
            part, verdict = rejected[0]
            reason = f"{part.name}: {verdict.reason}"
            return replace(verdict, parts=raw, success=False, reason=reason).with_floor(self.floor)
        reward = sum(part.weight * verdict.reward for part, verdict in given)
        return Verdict.scored(
            reward, success=self._success(given, reward), parts=raw, steps=_weighted_steps(given, text_length)
        )

    def _success(self, given: Sequence[tuple[Part, Verdict]], reward: float) -> bool:
        if self.success_at is not None:
            return reward >= self.success_at
        deciding = [verdict.success for part, verdict in given if part.decides]
        return bool(deciding) and all(deciding)


AnyVerifier = Verifier | WeightedVerifier
"""What a run may check its samples with."""


def pool_for(verifier: AnyVerifier, build: Callable[[Verifier], Pool]) -> Pool:
    """The pool that ``build`` makes for a verifier, or a :class:`WeightedPool` of those of its parts."""
    if isinstance(verifier, Verifier):
        return build(verifier)
    with ExitStack() as opened:  # if one cannot be built, the others are closed
        pools = [opened.enter_context(closing(pool_for(part.verifier, build))) for part in verifier.parts]
        opened.pop_all()
    return WeightedPool(verifier, pools)


class WeightedPool(Pool):
    """Asks every part in a pool of its own and combines their verdicts when all are there.

    So each part is called in its own mode, runs where it should, and is cached by itself.
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
        """The sum over the parts."""
        total: dict[str, float] = {}
        for name, value in (figure for pool in self.pools for figure in pool.metrics().items()):
            total[name] = total.get(name, 0.0) + value
        return total

    def close(self) -> None:
        self._lengths.clear()
        self._found.clear()
        for pool in self.pools:
            pool.close()


def _sum_of_floors(parts: Sequence[Part]) -> float | None:
    floors = [None if part.weight < 0 else part.verifier.floor for part in parts]
    declared = [part.weight * floor for part, floor in zip(parts, floors, strict=True) if floor is not None]
    return sum(declared) if len(declared) == len(floors) else None


def _raw_parts(given: Sequence[tuple[Part, Verdict]]) -> dict[str, float]:
    """Rewards by name; a part that rejected without a floor of its own has none."""
    raw: dict[str, float] = {}
    for part, verdict in given:
        if not verdict.open_floor:
            raw[part.name] = verdict.reward
        raw.update({f"{part.name}/{name}": value for name, value in verdict.parts.items()})
    return raw


def _weighted_steps(given: Sequence[tuple[Part, Verdict]], text_length: int) -> tuple[tuple[int, float], ...]:
    """Step rewards summed by offset; a part without steps is paid at the end of the text. None if no part has steps."""
    if not any(verdict.steps for _, verdict in given):
        return ()
    by_end: dict[int, float] = {}
    for part, verdict in given:
        for end, reward in verdict.steps or ((text_length, verdict.reward),):
            by_end[end] = by_end.get(end, 0.0) + part.weight * reward
    return tuple(sorted(by_end.items()))
