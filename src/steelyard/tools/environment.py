"""Episodes with tools: a turn with tool calls is answered with their results; a turn without calls is the final answer.

The run's verifier scores the final answer: it receives the text of the last turn only, and ``task.spec["turns"]`` holds
all messages after the prompt. If a call cannot be run (invalid JSON, unknown tool, wrong arguments) or the tool raises
an exception, the policy receives the error as text. If a tool crashes, hangs or runs out of memory, verification of the
episode fails with that cause, as it does for any verifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from steelyard.environments import Answer, Environment, Session, SessionEnvironment, Turns
from steelyard.errors import ConfigError, Invalid, SteelyardError
from steelyard.text import bounded
from steelyard.tools.calls import InvalidCall, read_calls
from steelyard.tools.schema import ArgumentError, Tool
from steelyard.types import NO_DECISIONS, Reply, Sample, SampleKey, Task, Turn, Verdict
from steelyard.verification import AnyVerifier, Item, Verifier, WeightedVerifier
from steelyard.verification.base import GroupMode
from steelyard.verification.trl import TRLVerifier

TURNS = "turns"
"""Key in ``task.spec`` under which a verifier finds the messages of the episode."""
MAX_ERROR_CHARACTERS = 500
Opened = Mapping[str, Callable[..., Any]]
"""The callables of one episode, by tool name."""


class ToolEnvironment(Environment):
    """Stateless tools. Turns are answered independently of each other, by any worker."""

    def __init__(self, tools: Sequence[Tool], verifier: AnyVerifier) -> None:
        require_single(verifier)
        self.tools = {tool.name: tool for tool in tools}
        if len(self.tools) < len(tools):
            raise ConfigError(f"two tools have the same name ({', '.join(tool.name for tool in tools)}); rename one")
        self.verifier, self.name, self.floor = verifier, verifier.name, verifier.floor
        self.blame = verifier.blame if isinstance(verifier, Verifier) else {}

    def reply(self, task: Task, turns: Turns) -> Answer:
        return self.answer(task, turns, {name: tool.open(0) for name, tool in self.tools.items()})

    def answer(self, task: Task, turns: Turns, opened: Opened) -> Answer:
        """Run the calls in the last turn, or return the verdict on the final answer if there are none."""
        calls = read_calls(turns[-1]["content"])
        if not calls:
            return final_verdict(self.verifier, task, turns)
        results = [
            f"error: {call.reason}" if isinstance(call, InvalidCall) else self._result(opened, *call) for call in calls
        ]
        return Reply(tuple({"role": "tool", "content": result} for result in results))

    def _result(self, opened: Opened, name: str, arguments: Mapping[str, Any]) -> str:
        """Return the result of a call, or a description of the error."""
        if name not in self.tools:
            return f"error: there is no tool {bounded(name, 100)!r}; the tools are: {', '.join(self.tools)}"
        try:
            return self.tools[name].run(opened[name], arguments)
        except ArgumentError as error:
            return bounded(f"error: wrong arguments for {name}: {error}", MAX_ERROR_CHARACTERS)
        except (MemoryError, Invalid, SteelyardError):
            raise
        except Exception as error:  # noqa: BLE001 - a tool may raise anything
            return bounded(f"error: {type(error).__name__}: {error}", MAX_ERROR_CHARACTERS)


class ToolSessionEnvironment(SessionEnvironment):
    """Tools of which at least one is stateful: each episode has its own instances, which persist between turns."""

    keeps_processes = True

    def __init__(self, tools: Sequence[Tool], verifier: AnyVerifier) -> None:
        self.inner = ToolEnvironment(tools, verifier)
        self.name, self.floor, self.blame = self.inner.name, self.inner.floor, self.inner.blame

    def open(self, task: Task, seed: int) -> Session:
        return _ToolSession(self.inner, task, seed)


class _ToolSession(Session):
    def __init__(self, environment: ToolEnvironment, task: Task, seed: int) -> None:
        self.environment, self.task = environment, task
        self.turns: Turns = ()
        self.opened = {name: tool.open(seed) for name, tool in environment.tools.items()}

    def reply(self, text: str) -> Answer:
        self.turns = (*self.turns, {"role": "assistant", "content": text})
        answer = self.environment.answer(self.task, self.turns, self.opened)
        if isinstance(answer, Reply):
            self.turns = (*self.turns, *answer.messages)
        return answer

    def close(self) -> None:
        for name, opened in self.opened.items():
            if self.environment.tools[name].has_state and hasattr(opened, "close"):
                with suppress(Exception):
                    opened.close()  # pyright: ignore[reportFunctionMemberAccess]


def tool_environment(tools: Sequence[Tool], verifier: AnyVerifier) -> Environment:
    """Return an environment in which the policy calls the tools and ``verifier`` scores its final answer."""
    kind = ToolSessionEnvironment if any(tool.has_state for tool in tools) else ToolEnvironment
    return kind(tools, verifier)


def require_single(verifier: AnyVerifier) -> None:
    """Reject a verifier that compares the samples of a group, because episodes are scored one at a time."""
    if isinstance(verifier, WeightedVerifier):
        for part in verifier.parts:
            require_single(part.verifier)
    elif isinstance(verifier.mode, GroupMode) and not isinstance(verifier, TRLVerifier):
        raise ConfigError(
            f"{verifier.name} compares the samples of a group, but episodes with tools are scored one at a time; use a "
            "verifier with mode = 'one' or 'batch'"
        )


def final_verdict(verifier: AnyVerifier, task: Task, turns: Turns) -> Verdict:
    """Score the last turn with a verifier for single texts; the whole conversation is in ``task.spec["turns"]``."""
    text = turns[-1]["content"]
    task = replace(task, spec={**task.spec, TURNS: [dict(turn) for turn in turns]})
    messages = tuple(Turn(turn["role"], turn["content"], 0, 0) for turn in turns)
    sample = Sample(SampleKey(0, 0, 0, 0), np.zeros(0, np.int32), 0, text, "stop", NO_DECISIONS, turns=messages)
    verdict = _verdict(verifier, Item(task, sample, 1))
    before = sum(len(turn["content"]) for turn in turns[:-1])
    return replace(verdict, steps=tuple((before + end, reward) for end, reward in verdict.steps))


def _verdict(verifier: AnyVerifier, item: Item) -> Verdict:
    if isinstance(verifier, WeightedVerifier):
        verdicts = [_verdict(part.verifier, item) for part in verifier.parts]
        return verifier.combine(verdicts, len(item.sample.text))
    return verifier.verify([item])[0]
