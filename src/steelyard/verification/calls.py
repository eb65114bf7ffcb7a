"""Items gathered into calls, and what becomes of a call's verdicts: settled, or asked again.

Every pool works with these, so a verifier's accidents mean the same wherever it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Batch, Cause, Item, Mode, One, WholeGroup
from steelyard.verification.blame import WORTH_ANOTHER_TRY, Accidents, Blame

Settled = list[tuple[SampleKey, Verdict]]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """What the verifier is asked at once: items, and for each of them the accidents it had before."""

    items: tuple[Item, ...]
    before: tuple[Accidents, ...]
    avoid: object = None
    """The worker on which the call failed before; another one takes it, if there is one."""

    @staticmethod
    def of(items: Sequence[Item]) -> Call:
        ordered = sorted(items, key=lambda item: item.sample.key)
        return Call(tuple(ordered), ((),) * len(ordered))

    def one_by_one(self) -> list[Call]:
        return [Call((item,), (before,)) for item, before in zip(self.items, self.before, strict=True)]


def settle(
    call: Call, verdicts: Sequence[Verdict], mode: Mode, blame: Blame, floor: float | None
) -> tuple[Settled, list[Call]]:
    """What is settled by a call's verdicts, and the calls that are to be made again.

    A batch that failed as one is asked again item by item, which counts as no try, since any of them may be the guilty
    one. An item with an accident of its own is asked again by itself, a group only as a whole. When all of a group fail
    in the same way, none of its samples can be singled out, and all stay unscored.
    """
    if isinstance(mode, Batch) and len(call.items) > 1 and _failed_as_one(verdicts):
        return [], call.one_by_one()
    histories = [
        (*before, verdict) if not verdict.counts else () for before, verdict in zip(call.before, verdicts, strict=True)
    ]
    if isinstance(mode, WholeGroup):
        if any(accidents and blame.again(accidents) for accidents in histories):
            kept = tuple(accidents or before for accidents, before in zip(histories, call.before, strict=True))
            return [], [Call(call.items, kept)]
        if len(call.items) > 1 and all(histories) and len({verdict.cause for verdict in verdicts}) == 1:
            blame = Blame(blame.tries, dict.fromkeys(Cause, "unscored"))
    settled: Settled = []
    again: list[Call] = []
    for item, before, verdict, accidents in zip(call.items, call.before, verdicts, histories, strict=True):
        if not accidents:
            tried = replace(verdict, tries=len(before) + 1) if before else verdict
            settled.append((item.sample.key, tried))
        elif blame.again(accidents):
            again.append(Call((item,), (accidents,)))
        else:
            settled.append((item.sample.key, blame.final(accidents, floor)))
    return settled, again


def _failed_as_one(verdicts: Sequence[Verdict]) -> bool:
    """Whether it is the call that failed, and not one item or the other."""
    first = verdicts[0]
    return first.cause in WORTH_ANOTHER_TRY and not first.counts and all(verdict == first for verdict in verdicts)


class Batcher:
    """Gathers items into calls: single items at once, batches when full, groups when all of their samples are there."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self._held: dict[tuple[int, ...], list[Item]] = {}

    def add(self, items: Sequence[Item]) -> Iterator[Call]:
        """The calls that these items complete."""
        for item in items:
            if isinstance(self.mode, One):
                yield Call.of([item])
                continue
            key = () if isinstance(self.mode, Batch) else item.sample.key[:3]  # step, slot and attempt: the group
            held = self._held.setdefault(key, [])
            held.append(item)
            if len(held) >= (self.mode.size if isinstance(self.mode, Batch) else item.group_size):
                yield Call.of(self._held.pop(key))

    def flush(self) -> Iterator[Call]:
        """What was held back for a fuller batch or group, as it is."""
        while self._held:
            yield Call.of(self._held.pop(next(iter(self._held))))

    def clear(self) -> None:
        self._held.clear()
