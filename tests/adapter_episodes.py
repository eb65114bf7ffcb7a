"""Play an environment's episodes with a scripted policy in a process pool while workers are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.framework.orphans import pool_processes
from steelyard.environments import Environment, EnvironmentVerifier
from steelyard.types import NO_DECISIONS, Sample, SampleKey, Task, Turn, Verdict
from steelyard.verification import InlinePool, Item, Pool, ProcessPool

Script = Callable[[Task, list[str]], str]
"""The text of the next turn, given the task and the texts of all turns so far."""
Transcript = list[Any]
"""The prompt, every reply, and the verdict."""


def answer(pool: Pool, task: Task, turns: Sequence[Turn], sample: int = 0, finish: Any = "stop") -> Verdict:
    text = "".join(turn.text for turn in turns)
    key = SampleKey(0, 0, 0, sample)
    episode = Sample(key, np.zeros(0, np.int32), 0, text, finish, NO_DECISIONS, turns=tuple(turns))
    pool.submit([Item(task, episode, 1)])
    ((_, verdict),) = pool.completed(wait=True)
    return replace(verdict, tries=1)


def started(pool: Pool, task: Task) -> Task:
    """Return the task with the initial observation as its prompt."""
    verdict = answer(pool, task, ())
    assert verdict.reply is not None, verdict
    messages = verdict.reply.messages
    prompt = messages[0]["content"] if len(messages) == 1 else messages
    return replace(task, prompt=prompt, spec={**task.spec, **verdict.reply.spec})


def play(
    pool: Pool,
    task: Task,
    script: Script,
    *,
    sample: int = 0,
    max_turns: int = 60,
    after: Callable[[], None] | None = None,
) -> Transcript:
    """Play one episode. ``after`` is called after every reply."""
    task, turns = started(pool, task), list[Turn]()
    seen: Transcript = [task.prompt]
    for number in range(max_turns + 1):
        if number == max_turns:
            verdict = answer(pool, task, turns, sample, "turns")
        else:
            turns.append(Turn("assistant", script(task, [turn.text for turn in turns]), 0, 0))
            verdict = answer(pool, task, turns, sample)
        if verdict.reply is None:
            return [*seen, verdict]
        turns += [Turn(message["role"], message["content"], 0, 0) for message in verdict.reply.messages]
        seen.append(verdict.reply)
        if after is not None:
            after()
    raise AssertionError("a verdict is missing")


def play_inline(environment: Environment, task: Task, script: Script, **options: Any) -> Transcript:
    return play(InlinePool(EnvironmentVerifier(environment)), task, script, **options)


def play_with_kills(
    environment: Environment, tasks: Sequence[Task], script: Script, **options: Any
) -> list[Transcript]:
    """Play every task undisturbed and with the worker killed after each reply; assert equal transcripts."""
    pool = ProcessPool(EnvironmentVerifier(environment), workers=1)
    try:
        undisturbed = [play(pool, task, script, **options) for task in tasks]
        disturbed = [play(pool, task, script, after=kill_workers, **options) for task in tasks]
    finally:
        pool.close()
    assert disturbed == undisturbed
    return undisturbed


def kill_workers() -> None:
    _, *workers = sorted(pool_processes())  # the first process started the others
    assert workers, "no worker holds the session"
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
