"""Group items into calls, and decide which verdicts are final and which calls to retry.

All pools use this module, so failures of a verifier have the same consequences in every pool.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import BatchMode, Cause, GroupMode, Item, Mode, SingleMode
from steelyard.verification.blame import RETRYABLE, Blame, Failures

Settled = list[tuple[SampleKey, Verdict]]
MAX_HOMES = 2**18
"""Maximum number of sessions whose worker is remembered; any other session is replayed."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The items of one call to the verifier, with the earlier failures of each item."""

    items: tuple[Item, ...]
    before: tuple[Failures, ...]
    avoid_worker: object = None
    """The worker on which the call failed before. Another worker takes the retry if there is one."""
    replies: int = 1
    """Maximum number of replies per item, because the worker may have to replay a session. The time limit applies to
    each."""

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

    A batch that failed as a whole is retried item by item. The failed batch does not count as a try, because any item
    may have caused the failure. An item that failed alone is retried alone, and a group is retried as a whole. If all
    samples of a group fail in the same way, the failure cannot be attributed to one of them, so all are unscored.
    """
    if isinstance(mode, BatchMode) and len(call.items) > 1 and _failed_as_a_whole(verdicts):
        return [], call.one_by_one()
    histories = [
        (*before, verdict) if verdict.status == "unscored" else ()
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


class CallQueue:
    """Calls that wait for a worker.

    If the verifier keeps sessions, a call waits for the worker that holds its session, even if other workers are idle,
    because replaying the session elsewhere is slow. Once that worker has ended, any worker may take the call.
    """

    def __init__(self, sessions: bool = False) -> None:
        self.sessions = sessions
        self._calls: deque[Call] = deque()
        """Calls for any worker."""
        self._own: dict[object, deque[Call]] = {}
        """Calls for the worker that holds their session."""
        self._home: dict[SampleKey, object] = {}
        """The worker that holds each session, the most recently used last."""
        self._held: Counter[object] = Counter()

    def __len__(self) -> int:
        return len(self._calls) + sum(len(calls) for calls in self._own.values())

    def held_by(self, worker: object) -> int:
        """Return how many sessions a worker holds."""
        return self._held[worker]

    def add(self, calls: Iterable[Call]) -> None:
        for call in calls:
            home = self._home.get(call.items[0].sample.key)
            (self._calls if home is None else self._own.setdefault(home, deque())).append(call)

    def put_back(self, calls: Sequence[Call]) -> None:
        """Put calls at the front, in this order. Any worker may take these calls."""
        for call in calls:
            self._forget_key(call.items[0].sample.key)
        self._calls.extendleft(reversed(calls))

    def take(self, worker: object, *, avoid: bool) -> Call | None:
        """Remove and return the next call for a worker; with ``avoid``, none that has already failed on it."""
        if own := self._own.get(worker):
            return own.popleft()
        for number, call in enumerate(self._calls):
            if not avoid or call.avoid_worker is not worker:
                del self._calls[number]
                return replace(call, replies=_policy_turns(call)) if self.sessions else call
        return None

    def settled(self, worker: object, settled: Settled) -> None:
        """Remember which worker holds the sessions of episodes that continue."""
        for key, verdict in settled if self.sessions else ():
            self._forget_key(key)
            if verdict.status == "continues":
                self._home[key] = worker
                self._held[worker] += 1
        while len(self._home) > MAX_HOMES:
            self._forget_key(next(iter(self._home)))

    def worker_ended(self, worker: object) -> None:
        """Let any worker take the calls that wait for a worker whose sessions are lost."""
        if self._held.pop(worker, 0):
            self._home = {key: home for key, home in self._home.items() if home is not worker}
        self._calls.extendleft(reversed(self._own.pop(worker, ())))

    def _forget_key(self, key: SampleKey) -> None:
        home = self._home.pop(key, None)
        if home is not None:
            self._held[home] -= 1


def _policy_turns(call: Call) -> int:
    """Return the number of policy turns so far, which is the number of replies in a replay."""
    return max(1, *(sum(turn.role == "assistant" for turn in item.sample.turns) for item in call.items))
