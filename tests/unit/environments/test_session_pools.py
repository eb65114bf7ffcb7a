"""Sessions in worker processes: they stay on their worker, are replayed elsewhere, and end with their episode."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.framework.orphans import alive, wait_for_pool_processes
from steelyard.environments import EnvironmentVerifier, Session, SessionEnvironment
from steelyard.environments.running import sample_seed
from steelyard.types import NO_DECISIONS, Sample, SampleKey, Task, Turn, Verdict
from steelyard.verification import Cause, InlinePool, Item, Pool, ProcessPool, Recycling, WorkerLimits
from steelyard.verification.calls import Call, CallQueue

PATIENT = WorkerLimits(seconds=60)
"""Limits that only a hanging session reaches, even on a busy machine."""


def item(folder: Path, number: int, texts: Sequence[str], finish: Any = "stop") -> Item:
    """Build an episode of alternating turns; the policy writes the first one."""
    roles = ["assistant", "user"] * len(texts)
    turns = tuple(Turn(role, text, 0, 0) for role, text in zip(roles, texts, strict=False))
    sample = Sample(
        SampleKey(0, number, 0, 0), np.zeros(0, np.int32), 0, "".join(texts), finish, NO_DECISIONS, turns=turns
    )
    return Item(Task("t", "p", {"folder": str(folder)}), sample, 1)


class Logging(SessionEnvironment):
    """Replies with all texts received so far, and logs its sessions' events in the task's folder."""

    def open(self, task: Task, seed: int) -> Session:
        return Logged(Path(task.spec["folder"]), seed)


class Logged(Session):
    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.heard = folder, seed, ""
        self.child: subprocess.Popen[bytes] | None = None
        self.log("open")

    def log(self, what: str) -> None:
        with (self.folder / "log").open("a") as file:
            file.write(f"{what} {os.getpid()} {self.seed}\n")

    def reply(self, text: str) -> Any:
        self.heard += text
        self.log("reply")
        if text == "end":
            return float(len(self.heard))
        if text == "hang":
            time.sleep(100_000)
        if text == "start":
            self.child = subprocess.Popen(["sleep", "1000"])
            return "started"
        if text == "child":
            return f"{self.child.pid} {self.child.poll()}" if self.child else "none"
        return self.heard

    def close(self) -> None:
        self.log("close")


class Keeping(Logging):
    keeps_processes = True


@contextmanager
def pool_of(environment: SessionEnvironment, **settings: Any) -> Iterator[ProcessPool]:
    pool = ProcessPool(EnvironmentVerifier(environment), **{"workers": 2, "limits": PATIENT, **settings})
    try:
        yield pool
    finally:
        pool.close()
    assert wait_for_pool_processes(0) == 0, "a process was left behind"


class Player:
    """Plays episodes with given turns, and adds the environment's replies to them."""

    def __init__(self, pool: Pool, folder: Path, count: int) -> None:
        self.pool, self.folder = pool, folder
        self.texts: list[list[str]] = [[] for _ in range(count)]

    def say(self, text: str, *numbers: int, finish: Any = "stop") -> list[Verdict]:
        """Write a turn in the given episodes (default: all), and return the answers in the same order."""
        chosen = numbers or tuple(range(len(self.texts)))
        for number in chosen:
            self.texts[number].append(text)
        self.pool.submit([item(self.folder, number, self.texts[number], finish) for number in chosen])
        found = {key.slot: verdict for key, verdict in self.pool.completed(wait=True)}
        for number in chosen:
            if (reply := found[number].reply) is not None:
                self.texts[number].append(reply.messages[0]["content"])
        return [found[number] for number in chosen]

    def log(self, what: str) -> list[tuple[str, str]]:
        """Return (process, session) of every event of this kind."""
        lines = [line.split() for line in (self.folder / "log").read_text().splitlines()]
        return [(line[1], line[2]) for line in lines if line[0] == what]


def spread(player: Player) -> int:
    """Start episodes one by one until both workers have the same number; the second worker may start late."""
    for number in range(len(player.texts)):
        player.say("x", number)
        opened = [process for process, _ in player.log("open")]
        counts = [opened.count(process) for process in set(opened)]
        if number >= 7 and counts == [(number + 1) / 2] * 2:
            return number + 1
        time.sleep(0.01 * (len(counts) == 1))
    raise AssertionError("sessions are not spread evenly over the workers")


def test_sessions_are_spread_stay_on_their_worker_and_are_closed_with_the_final_verdict(tmp_path: Path) -> None:
    with pool_of(Logging()) as pool:
        player = Player(pool, tmp_path, 500)
        count = spread(player)
        for _ in range(3):
            player.say("x", *reversed(range(count)))
        assert len(player.log("open")) == count, "no session was opened twice"
        assert [verdict.reward for verdict in player.say("end", *range(count))] == [7.0] * count
        assert sorted(player.log("close")) == sorted(player.log("open"))


def test_sessions_are_closed_at_a_limit_and_when_the_pool_closes(tmp_path: Path) -> None:
    with pool_of(Logging()) as pool:
        player = Player(pool, tmp_path, 4)
        player.say("x")
        player.say("cut", 1, finish="length")
        assert len(player.log("close")) == 1
    assert sorted(player.log("close")) == sorted(player.log("open"))


def test_an_inline_pool_closes_its_sessions(tmp_path: Path) -> None:
    pool = InlinePool(EnvironmentVerifier(Logging()))
    player = Player(pool, tmp_path, 2)
    player.say("x")
    pool.close()
    assert sorted(player.log("close")) == sorted(player.log("open"))


def test_sessions_of_a_recycled_worker_are_closed_and_replayed(tmp_path: Path) -> None:
    with pool_of(Logging(), recycling=Recycling(items=3)) as pool:
        player = Player(pool, tmp_path, 4)
        for count in range(1, 6):
            verdicts = player.say("x")
            assert [verdict.reply and verdict.reply.messages[0]["content"] for verdict in verdicts] == ["x" * count] * 4
        assert len(player.log("open")) > 4
        assert pool.metrics() == {}, "no worker was lost"
        assert [verdict.reward for verdict in player.say("end")] == [8.0] * 4
    assert sorted(player.log("close")) == sorted(player.log("open"))


def test_sessions_of_a_killed_worker_are_replayed_identically(tmp_path: Path) -> None:
    with pool_of(Logging()) as pool:
        player = Player(pool, tmp_path, 4)
        player.say("x")
        opened = [process for process, _ in player.log("open")]
        victim = int(opened[0])
        os.kill(victim, signal.SIGKILL)
        while alive(victim):
            time.sleep(0.01)
        verdicts = player.say("y")
        assert [verdict.reply and verdict.reply.messages[0]["content"] for verdict in verdicts] == ["xy"] * 4
        assert len(player.log("open")) == 4 + opened.count(str(victim))
        seeds = [seed for _, seed in player.log("open")]
        assert len(set(seeds)) == 4, "a replayed session gets the seed of its sample"


def test_a_reply_that_hangs_times_out_is_replayed_and_blamed_as_configured(tmp_path: Path) -> None:
    environment = Logging()
    environment.blame = {"timeout": "unscored"}
    with pool_of(environment, limits=WorkerLimits(seconds=1)) as pool:
        player = Player(pool, tmp_path, 2)
        player.say("x")
        player.say("y")
        (verdict,) = player.say("hang", 0)
        assert (verdict.status, verdict.cause, verdict.tries) == ("unscored", Cause.TIMEOUT, 2)
        assert "3 s" in verdict.reason, "the replay of three turns has three times the limit"
        own = [process for process, seed in player.log("open") if int(seed) == sample_seed(0, SampleKey(0, 0, 0, 0))]
        assert len(set(own)) >= 2, "the retry ran in another process"
        assert player.say("z", 1)[0].reply is not None, "the other episode continues"


def test_processes_of_a_session_live_until_it_ends(tmp_path: Path) -> None:
    with pool_of(Keeping(), workers=1) as pool:
        player = Player(pool, tmp_path, 2)
        player.say("start")
        pids: list[int] = []
        for verdict in player.say("child"):
            assert verdict.reply is not None
            pid, state = verdict.reply.messages[0]["content"].split()
            assert state == "None", "the process runs"
            pids.append(int(pid))
        player.say("end", 0)
        assert [alive(pid) for pid in pids] == [False, True]
        pool.close()
        assert not alive(pids[1])


def test_processes_end_with_the_reply_unless_the_environment_keeps_them(tmp_path: Path) -> None:
    with pool_of(Logging(), workers=1) as pool:
        player = Player(pool, tmp_path, 1)
        player.say("start")
        (verdict,) = player.say("child")
    assert verdict.reply is not None
    assert not verdict.reply.messages[0]["content"].endswith("None")


def test_a_call_waits_for_the_worker_that_holds_its_session() -> None:
    queue, first, second = CallQueue(sessions=True), object(), object()
    calls = [Call.of([item(Path(), number, ["x", "x", "x"])]) for number in range(3)]
    keys = [call.items[0].sample.key for call in calls]
    reply = Verdict("continues")
    queue.settled(first, [(keys[0], reply), (keys[1], reply)])
    queue.add(calls)
    taken = queue.take(second, avoid=False)
    assert taken is not None
    assert (taken.items, taken.replies) == (calls[2].items, 2), "it may have to replay two turns"
    assert queue.take(second, avoid=False) is None
    own = queue.take(first, avoid=False)
    assert own is not None
    assert (own.items, own.replies, queue.held_by(first)) == (calls[0].items, 1, 2)
    queue.worker_ended(first)
    released = queue.take(second, avoid=False)
    assert released is not None
    assert (released.items, len(queue), queue.held_by(first)) == (calls[1].items, 0, 0)


def test_the_number_of_remembered_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.verification.calls.MAX_HOMES", 2)
    queue, worker = CallQueue(sessions=True), object()
    queue.settled(worker, [(SampleKey(0, number, 0, 0), Verdict("continues")) for number in range(5)])
    assert queue.held_by(worker) == 2
