"""Multi-turn episodes cost little more than single turns: no token is prefilled twice, and replies overlap sampling.

Part (a) compares the time of 8-turn episodes with that of single turns with the same number of sampled and context
tokens; the model must process the same number of tokens in both. Part (b) compares episodes whose replies take 200 ms
each in worker processes with the same episodes with immediate replies. Both parts alternate between the two sides.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from steelyard.constraints.automaton import Automaton
from steelyard.environments import Environment
from steelyard.types import Reply, Task

WORDS = tuple(f"w{number}" for number in range(200))
TURNS, WRITTEN, REPLIED, PROMPT = 8, 16, 16, 16
"""Number of turns in part (a), and words per turn, reply and prompt; each turn also has an end token."""
DELAYED_TURNS, SHORTEST, LONGEST = 8, 4, 40
"""Number of turns in part (b), and the range of their lengths in words."""
DELAY = 0.2
COST_BAR, DELAY_BAR, CHAIN_BAR = 1.2, 1.25, 3.0


@dataclass(frozen=True)
class Size:
    """The sizes of the model and of both parts."""

    width: int
    episodes: int
    delayed: int
    """Number of episodes in part (b)."""
    max_rows: int
    workers: int
    repetitions: int


FULL = Size(width=512, episodes=32, delayed=80, max_rows=64, workers=32, repetitions=5)
QUICK = Size(width=256, episodes=8, delayed=20, max_rows=16, workers=8, repetitions=2)


class Exactly(Automaton[int]):
    """Writes exactly ``task.spec["length"]`` words."""

    def alphabet(self) -> tuple[str, ...]:
        return WORDS

    def start(self, task: Task) -> int:
        return task.spec["length"]

    def moves(self, state: int) -> Mapping[str, int]:
        return dict.fromkeys(WORDS, state - 1) if state else {}

    def may_end(self, state: int) -> bool:
        return state == 0

    def shortest_end(self, state: int) -> int:
        return state


class Pages(Environment):
    """Replies with a page of words after ``seconds``; ``lengths`` holds the number of words in each turn."""

    def reply(self, task: Task, turns: Any) -> Any:
        time.sleep(task.spec["seconds"])
        written, lengths = sum(turn["role"] == "assistant" for turn in turns), task.spec["lengths"]
        if written == len(lengths):
            return 1.0
        return Reply.text(" ".join(WORDS[: task.spec["replied"]]), spec={"length": lengths[written]})

    def cut_off(self, task: Task, turns: Any, limit: Any) -> Any:
        return 0.0


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses a smaller model, fewer episodes and two repetitions."""
    size = QUICK if quick else FULL
    bar = progress.add_task("8 turns", total=2 * size.repetitions)
    details: list[dict[str, Cell]] = []
    for part, pool, rows in (("8 turns", "inline", _cost_tasks), ("200 ms replies", "processes", _delay_tasks)):
        progress.update(bar, description=part)
        tasks, reference = rows(size)
        with _built(size, pool) as trainer:
            _played(trainer, reference[: size.workers], step=1)  # starts the workers
            for _ in range(size.repetitions):
                details.append(_row(part, _played(trainer, tasks), _played(trainer, reference)))
                progress.advance(bar)
    cost = [row for row in details if row["part"] == "8 turns"]
    delay = [row for row in details if row["part"] == "200 ms replies"]
    extra = max(abs(float(row["tokens run"]) - float(row["tokens run, reference"])) for row in cost)
    figures = (
        _ratio("time of 8 turns / of a single turn with the same tokens", cost, COST_BAR),
        Figure("tokens run through the model, difference", extra, "<=", 0.0),
        _ratio("time with replies of 200 ms / of sampling alone", delay, DELAY_BAR),
        Figure("sampling alone / chain of replies", min(_chains(delay)), ">=", CHAIN_BAR),
    )
    note = f"Replies of 200 ms come from {size.workers} worker processes; {size.max_rows} episodes are open at a time."
    return Result("episodes-cost", figures, details, note)


def _ratio(name: str, rows: Sequence[Mapping[str, Cell]], bar: float) -> Figure:
    ratios = [float(row["ratio"]) for row in rows]
    return Figure(name, statistics.median(ratios), "<=", bar, spread=max(ratios) - min(ratios))


def _chains(rows: Sequence[Mapping[str, Cell]]) -> list[float]:
    return [float(row["reference s"]) / (DELAYED_TURNS * DELAY) for row in rows]


def _cost_tasks(size: Size) -> tuple[list[Task], list[Task]]:
    """Return tasks for episodes, and tasks for single turns whose prompt is as long as all replies together."""
    sampled, context = TURNS * (WRITTEN + 1), PROMPT + (TURNS - 1) * REPLIED
    episodes = [_task(number, PROMPT, [WRITTEN] * TURNS, REPLIED) for number in range(size.episodes)]
    return episodes, [_task(number, context, [sampled - 1], 0) for number in range(size.episodes)]


def _delay_tasks(size: Size) -> tuple[list[Task], list[Task]]:
    """Return the same episodes with slow and with immediate replies."""
    rng = np.random.default_rng(0)
    lengths = list(enumerate(rng.integers(SHORTEST, LONGEST + 1, (size.delayed, DELAYED_TURNS)).tolist()))
    slow = [_task(number, PROMPT, own, REPLIED, DELAY) for number, own in lengths]
    return slow, [_task(number, PROMPT, own, REPLIED) for number, own in lengths]


def _task(number: int, prompt: int, lengths: Sequence[int], replied: int, seconds: float = 0.0) -> Task:
    words = [WORDS[(7 * number + place) % len(WORDS)] for place in range(prompt)]
    spec = {"lengths": list(lengths), "length": lengths[0], "replied": replied, "seconds": seconds}
    return Task(str(number), " ".join(words), spec)


def _row(part: str, measured: tuple[float, int], reference: tuple[float, int]) -> dict[str, Cell]:
    return {
        "part": part,
        "seconds": measured[0],
        "reference s": reference[0],
        "ratio": measured[0] / reference[0],
        "tokens run": measured[1],
        "tokens run, reference": reference[1],
    }


def _played(trainer: Any, tasks: Sequence[Task], step: int = 0) -> tuple[float, int]:
    """Play one episode per task; return the seconds taken and the number of tokens processed by the model."""
    from steelyard.training.phases import requests_for, sample

    with _counted(trainer.policy) as tokens:
        started = time.perf_counter()
        episodes = sample(trainer.parts.sampler, requests_for(list(tasks), step, 1), trainer.parts.decoding)
        seconds = time.perf_counter() - started
    if any(one.finish != "stop" for one in episodes):
        raise RuntimeError("some episodes reached a limit, so the two sides differ in work; raise max_new_tokens")
    return seconds, sum(tokens)


@contextmanager
def _counted(policy: Any) -> Iterator[list[int]]:
    """Collect the number of tokens in every forward pass, including padding."""
    tokens: list[int] = []

    def note(_: Any, __: Any, kwargs: dict[str, Any]) -> None:
        tokens.append(kwargs["input_ids"].numel())

    handle = policy.body.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield tokens
    finally:
        handle.remove()


@contextmanager
def _built(size: Size, pool: str) -> Iterator[Any]:
    """Build a trainer; only its sampler and pool are used."""
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer

    shape = {"layers": 4, "width": size.width, "heads": 8, "kv_heads": 2, "max_length": 512, "vocabulary": WORDS}
    tables: dict[str, Any] = {
        "run": {"folder": tempfile.gettempdir(), "supplied": ["tasks", "verifier"]},
        "model": {"scratch": shape, "device": "cpu"},
        "sampling": {"tasks_per_step": 1, "max_new_tokens": TURNS * (WRITTEN + 1), "max_rows": size.max_rows},
        "constraint": {"kind": "automaton", "source": "benchmarks.episodes.episodes_cost:Exactly"},
        "episode": {"max_turns": TURNS},
        "verify": {"pool": pool, **({} if pool == "inline" else {"workers": size.workers})},
        "tracking": {"console": False},
    }
    row = {"prompt": WORDS[0], "length": 1, "lengths": [1], "replied": 0, "seconds": 0.0}
    trainer = build_trainer(configs.build(tables, source="episodes-cost"), Supplied(tasks=[row], verifier=Pages()))
    try:
        yield trainer
    finally:
        trainer.close()
