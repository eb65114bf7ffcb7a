"""No episode is lost, duplicated or changed when replies misbehave or when workers and runs are killed.

A tiny policy plays 10,000 episodes with sessions in worker processes. One reply in twenty misbehaves, in one of the
ways that the ``faults`` benchmark tests, while workers are killed at random. Then a run with sessions is killed with
SIGKILL 100 times, sometimes between two turns of an episode, and compared with an undisturbed run.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.episodes.unruly_sessions import SHARE, WORDS, UnrulySessions
from benchmarks.framework.orphans import parent_of, pool_processes, wait_for_pool_processes
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.robustness import resume
from benchmarks.verification.misbehaving import LIMITS, MISBEHAVING, Expected
from steelyard.environments import EnvironmentVerifier, Session, SessionEnvironment
from steelyard.environments.running import sample_seed
from steelyard.types import Reply, Sample, SampleKey, Task, Verdict
from steelyard.verification import Cause, ProcessPool, WorkerLimits

EPISODES, QUICK_EPISODES = 10_000, 300
OPEN = 1000
"""Number of episodes open at the same time."""
WORKERS = 4
"""More workers than cores, because a hanging reply blocks its worker until the time limit."""
KILL_SECONDS = 2.0
"""Mean number of seconds between kills of a worker."""
BLAMED = 0.001
"""Largest accepted fraction of well-behaved episodes that are not scored because kills hit the same reply twice."""
KILLS, QUICK_KILLS = 100, 3
STEPS, QUICK_STEPS = 250, 16
TURNS = 4


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version plays 300 episodes and kills the run three times."""
    rows: list[dict[str, Cell]] = []
    figures = [
        *faults(QUICK_EPISODES if quick else EPISODES, progress, rows),
        *resumed(QUICK_KILLS if quick else KILLS, QUICK_STEPS if quick else STEPS, progress),
    ]
    return Result("episodes-faults", tuple(figures), rows)


# --- misbehaving replies and killed workers ------------------------------------------------------------------------


def faults(
    count: int,
    progress: Progress,
    rows: list[dict[str, Cell]],
    *,
    limits: WorkerLimits = LIMITS,
    share: float = SHARE,
    kinds: Sequence[str] = MISBEHAVING,
) -> list[Figure]:
    """Play episodes while workers are killed, and check the outcome and the replies of each episode."""
    task = progress.add_task("misbehaving replies", total=count)
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "opened"
        environment = UnrulySessions(log, share, kinds)
        pool = ProcessPool(EnvironmentVerifier(environment), workers=WORKERS, limits=limits)
        found: Counter[SampleKey] = Counter()
        outcomes: Counter[tuple[Expected, Expected, bool]] = Counter()
        try:
            with killed_workers() as killed:
                for sample, verdict in play(pool, count):
                    found[sample.key] += 1
                    wanted, same = environment.expected_end(sample_seed(0, sample.key), sample)
                    outcomes[wanted, Expected(verdict.status, verdict.cause, verdict.detail), same] += 1
                    progress.advance(task)
        finally:
            pool.close()
        opened = log.stat().st_size
    rows += [
        {"expected": " ".join(filter(None, wanted)), "outcome": " ".join(filter(None, got)), "episodes": number}
        for (wanted, got, _), number in sorted(outcomes.items())
    ]
    return [
        Figure("episodes lost", count - len(found), "<=", 0),
        Figure("episodes counted twice", found.total() - len(found), "<=", 0),
        Figure("episodes without a typed outcome", _number(outcomes, lambda _, got, __: not typed(got)), "<=", 0),
        Figure("episodes with a wrong outcome", _number(outcomes, lambda wanted, got, _: wrong(wanted, got)), "<=", 0),
        Figure(
            "well-behaved episodes not scored after two kills",
            _number(outcomes, lambda wanted, got, _: wanted.status == "scored" and got != wanted),
            "<=",
            max(1.0, BLAMED * count),
        ),
        Figure("episodes with a changed reply", _number(outcomes, lambda _, __, same: not same), "<=", 0),
        Figure("workers killed", killed.total(), ">=", 2),
        Figure("sessions replayed", opened - len(found), ">=", 1),
        Figure("processes left after closing", wait_for_pool_processes(0), "<=", 0),
    ]


def _number(outcomes: Counter[tuple[Expected, Expected, bool]], fits: Any) -> int:
    return sum(number for key, number in outcomes.items() if fits(*key))


def typed(outcome: Expected) -> bool:
    """Return whether the outcome is final and, if it is an environment failure, has a known cause."""
    causes = {"", *(cause.value for cause in Cause if cause != Cause.NOT_REPRODUCIBLE)}
    return outcome.status in ("scored", "rejected", "unscored") and outcome.cause in causes


def wrong(wanted: Expected, got: Expected) -> bool:
    """Return whether the outcome is neither the expected one nor due to a kill.

    An episode that fails differently on each attempt because of a kill is unscored; two kills of the same reply reject
    it.
    """
    return got != wanted and got.status != "unscored" and got.detail != signal.SIGKILL.name


def play(pool: ProcessPool, count: int) -> Iterator[tuple[Sample, Verdict]]:
    """Play ``count`` episodes with a tiny policy, and yield them as they end."""
    from steelyard.policies.loading import PolicyOptions, from_scratch_policy
    from steelyard.policies.scratch import Architecture
    from steelyard.policies.tokens.conversation import Conversations
    from steelyard.sampling.base import Decoding, SampleRequest
    from steelyard.sampling.local import LocalSampler
    from steelyard.training.episodes import EpisodeLimits, Episodes

    shape = Architecture(layers=1, width=16, heads=2, kv_heads=1, max_length=96)
    policy: Any = from_scratch_policy(shape, WORDS, PolicyOptions(device="cpu", seed=0))
    sampler = LocalSampler(policy, seed=0, max_rows=OPEN)
    episodes = Episodes(sampler, pool, Conversations(policy.codec), EpisodeLimits(8, max_row=shape.max_length))
    group = min(50, count)
    requests = [SampleRequest(Task(str(slot), "red"), 0, slot, group) for slot in range(count // group)]
    for sample in episodes.sample(requests, Decoding(max_new_tokens=10)):
        episodes.verdicts.submit([pool_item(sample)])
        ((_, verdict),) = episodes.verdicts.completed(wait=True)
        yield sample, verdict


def pool_item(sample: Sample) -> Any:
    from steelyard.verification import Item

    return Item(Task("", ""), sample, 1)


@contextmanager
def killed_workers() -> Iterator[Counter[int]]:
    """Kill random workers in this process's pool at random intervals; yield the number of kills per process id."""
    victims: Counter[int] = Counter()
    done, chance = threading.Event(), random.Random(0)

    def kill() -> None:
        while not done.wait(chance.uniform(0.0, 2 * KILL_SECONDS)):
            supervisors = [pid for pid in pool_processes() if parent_of(pid) == os.getpid()]
            workers = [pid for pid in pool_processes() if parent_of(pid) in supervisors]
            with suppress(ProcessLookupError, IndexError):
                victim = chance.choice(workers)
                os.kill(victim, signal.SIGKILL)
                victims[victim] += 1

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield victims
    finally:
        done.set()
        thread.join()


# --- killed runs ----------------------------------------------------------------------------------------------------


def resumed(kills: int, steps: int, progress: Progress) -> list[Figure]:
    """Kill a run ``kills`` times; at the end its checkpoint and metrics must equal those of an undisturbed run."""
    task = progress.add_task("killed runs", total=kills)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(resume.PRELOAD)
    with tempfile.TemporaryDirectory() as scratch:
        outcome = resume.disturb(
            context,
            "episodes",
            Path(scratch),
            kills,
            steps,
            0,
            lambda: progress.advance(task),
            tables=tables,
            moments=("turn", "start", "step", "turn", "write"),
        )
    for difference in outcome.differences[:5]:
        progress.console.print(f"differs: {difference}")
    return [
        Figure("kills of the run", outcome.kills, ">=", kills),
        Figure("kills between two turns of an episode", outcome.in_turns, ">=", kills // 3),
        Figure("files that differ from the undisturbed run", len(outcome.differences), "<=", 0),
    ]


def tables(_mode: str, scratch: Path, name: str, steps: int) -> dict[str, Any]:
    """Return the settings of a run with sessions in worker processes; each reply updates a file."""
    path = scratch / "tasks.jsonl"
    tasks = [{"prompt": word, "turns_file": str(scratch / resume.TURNS_FILE)} for word in WORDS]
    path.write_text("".join(json.dumps(row) + "\n" for row in tasks), encoding="utf-8")
    return {
        "run": {"folder": str(scratch), "name": name, "steps": steps},
        "model": {
            "scratch": {
                "layers": 1,
                "width": 32,
                "heads": 2,
                "kv_heads": 1,
                "max_length": 64,
                "vocabulary": [*WORDS, "warm", "cold"],
            },
            "device": "cpu",
            "threads": 1,
        },
        "tasks": {"file": str(path)},
        "verify": {"verifier": "benchmarks.episodes.episodes_faults:Temperature", "workers": 2},
        "episode": {"max_turns": TURNS},
        "sampling": {"tasks_per_step": 4, "group_size": 4, "max_new_tokens": 4},
        "loss": {"kl": {"coefficient": 0.05}},
        "optimiser": {"lr": 3e-3, "minibatches": 2},
        "checkpoint": {"every": resume.SAVE_EVERY},
        "tracking": {"console": False, "samples_every": 7},
    }


class Temperature(SessionEnvironment):
    """Replies whether a text has more words of the hidden colour than before; the seed determines the colour."""

    def open(self, task: Task, seed: int) -> Session:
        return TemperatureSession(task.spec["turns_file"], WORDS[seed % len(WORDS)])


class TemperatureSession(Session):
    def __init__(self, turns_file: str, hidden: str) -> None:
        self.turns_file, self.hidden, self.best, self.turns = Path(turns_file), hidden, 0, 0

    def reply(self, text: str) -> Any:
        self.turns += 1
        if self.turns > 1 and self.turns_file.parent.is_dir():
            self.turns_file.write_bytes(os.urandom(8))
        count = text.split().count(self.hidden)
        if count >= 2:
            return 1.0
        warmer, self.best = count > self.best, max(count, self.best)
        return Reply.text("warm" if warmer else "cold", reward=0.1 if warmer else 0.0)

    def cut_off(self, text: str, limit: Any) -> Any:
        return 0.0
