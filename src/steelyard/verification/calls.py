"""Group items into calls, and decide which verdicts are final and which calls to retry.

All pools use this module, so failures of a verifier have the same consequences in every pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import BatchMode, Cause, GroupMode, Item, Mode, SingleMode
from steelyard.verification.blame import RETRYABLE, Blame, Failures

Settled = list[tuple[SampleKey, Verdict]]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The items of one call to the verifier, with the earlier failures of each item."""

    items: tuple[Item, ...]
    before: tuple[Failures, ...]
    avoid_worker: object = None
    """The worker on which the call failed before. Another worker takes the retry if there is one."""

    @staticmethod
    def of(items: Sequence[Item]) -> Call:
        """Create a call without earlier failures."""
        ordered = sorted(items, key=lambda item: item.sample.key)
        return Call(tuple(ordered), ((),) * len(ordered))

    def one_by_one(self) -> list[Call]:
        """Split the call into one call per item."""
        return [Call((item,), (before,)) for item, before in zip(self.items, self.before, strict=True)]


def settle(
    call: Call, verdicts: Sequence[Verdict], mode: Mode, blame: Blame, floor: float | None
) -> tuple[Settled, list[Call]]:
    """Return the final verdicts of a call and the calls to retry.

    A batch that failed as a whole is retried item by item. This does not count as a try, because any item may have
    caused the failure. An item that failed alone is retried alone, and a group is retried as a whole. If all samples of
    a group fail in the same way, the failure cannot be attributed to one of them, so all are unscored.
    """
    if isinstance(mode, BatchMode) and len(call.items) > 1 and _failed_as_a_whole(verdicts):
        return [], call.one_by_one()
    histories = [
        (*before, verdict) if not verdict.has_reward else ()
        for before, verdict in zip(call.before, verdicts, strict=True)
    ]
    if isinstance(mode, GroupMode):
        if any(failures and blame.retries(failures) for failures in histories):
            merged = tuple(failures or before for failures, before in zip(histories, call.before, strict=True))
            return [], [Call(call.items, merged)]
        if len(call.items) > 1 and all(histories) and len({verdict.cause for verdict in verdicts}) == 1:
            blame = Blame(blame.tries, dict.fromkeys(Cause, "unscored"))
    settled: Settled = []
    retries: list[Call] = []
    for item, before, verdict, failures in zip(call.items, call.before, verdicts, histories, strict=True):
        if not failures:
            counted = replace(verdict, tries=len(before) + 1) if before else verdict
            settled.append((item.sample.key, counted))
        elif blame.retries(failures):
            retries.append(Call((item,), (failures,)))
        else:
            settled.append((item.sample.key, blame.final(failures, floor)))
    return settled, retries


def _failed_as_a_whole(verdicts: Sequence[Verdict]) -> bool:
    """Return whether the call itself failed, rather than single items."""
    first = verdicts[0]
    return first.cause in RETRYABLE and not first.has_reward and all(verdict == first for verdict in verdicts)


class Batcher:
    """Collects items into calls: single items immediately, batches when full and groups when complete."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self._held: dict[tuple[int, ...], list[Item]] = {}

    def add(self, items: Sequence[Item]) -> Iterator[Call]:
        """Add items and yield the calls that are now complete."""
        for item in items:
            if isinstance(self.mode, SingleMode):
                yield Call.of([item])
                continue
            key = () if isinstance(self.mode, BatchMode) else item.sample.key[:3]  # the group key
            held = self._held.setdefault(key, [])
            held.append(item)
            if len(held) >= (self.mode.size if isinstance(self.mode, BatchMode) else item.group_size):
                yield Call.of(self._held.pop(key))

    def flush(self) -> Iterator[Call]:
        """Yield the incomplete batches and groups as calls."""
        while self._held:
            yield Call.of(self._held.pop(next(iter(self._held))))

    def clear(self) -> None:
        self._held.clear()
