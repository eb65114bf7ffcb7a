"""Runs classes written for TRL's ``environment_factory`` unchanged; TRL itself is not needed.

::

    class Counter:
        def reset(self, **columns): self.total = 0
        def add(self, number: int) -> str:
            '''Add a number.'''
            self.total += number
            return str(self.total)
        def get_reward(self): return float(self.total == 10)

    steelyard.train(..., tasks=rows, verifier=TRLEnvironment(Counter))

As in ``GRPOTrainer``, there is one instance per episode. ``reset`` receives the columns of the row, and any string it
returns is appended to the prompt. The public methods are the tools; an exception raised by a tool becomes its result. A
turn without a call ends the episode. ``get_reward`` and the reward functions score every episode, including those that
reach a limit.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from steelyard.environments.adapters.base import (
    SEED,
    PrivateRandom,
    SeededEnvironment,
    require_same_start,
    with_observation,
)
from steelyard.environments.adapters.tool_prompts import schema_of, with_tools
from steelyard.environments.base import Answer, Session
from steelyard.errors import ConfigError
from steelyard.tools.calls import Call, InvalidCall, read_calls
from steelyard.types import FinishReason, Prompt, Reply, Task, Verdict
from steelyard.verification.calling import call, parameters_of
from steelyard.verification.returns import as_number, as_scores

NOT_TOOLS = ("reset", "get_reward")
PROMPT = "prompt"
"""Column in which ``reset`` receives the prompt of the row."""


class TRLEnvironment(SeededEnvironment):
    """An environment built by a TRL ``environment_factory``: a class, or a function that returns an instance."""

    def __init__(
        self,
        factory: Callable[[], Any],
        *,
        reward_funcs: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
        instructions: str = "",
    ) -> None:
        """``reward_funcs``: TRL reward functions, called with ``prompts``, ``completions``, ``environments`` and the
        columns, each a list with one entry. Their rewards are added to that of ``get_reward``.
        """
        self.factory, self.instructions = factory, instructions
        self.reward_funcs = (reward_funcs,) if callable(reward_funcs) else tuple(reward_funcs)
        self.name = self.title
        kind = factory if isinstance(factory, type) else None
        if kind is not None and not callable(getattr(kind, "reset", None)):
            raise ConfigError(f"{self.title} has no reset method, which is needed to start an episode; define it")
        if kind is not None and not self.reward_funcs and not hasattr(kind, "get_reward"):
            raise ConfigError(f"{self.title} has no get_reward method; define it, or pass reward_funcs=")

    @property
    def title(self) -> str:
        return getattr(self.factory, "__name__", type(self.factory).__name__)

    def start(self, task: Task) -> Reply:
        instance, observation = self.begin(task)
        prompt = with_tools(task.prompt, [schema_of(tool) for tool in tools_of(instance).values()])
        prompt = prompt if observation is None else with_observation(prompt, observation, separator="")
        messages = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else prompt
        return Reply(messages, spec={PROMPT: _plain(task.prompt)})

    def open(self, task: Task, seed: int) -> Session:
        instance, observation = self.begin(task)
        if observation is not None:
            require_same_start(task, observation)
        return _TRLSession(self, instance, task, seed)

    def begin(self, task: Task) -> tuple[Any, str | None]:
        """Build an instance and reset it; the initial state depends only on the task."""
        with PrivateRandom(_seed(task)):
            instance = self.factory()
            observation = call(instance.reset, **_accepted(instance.reset, columns_of(task)))
        if observation is not None and not isinstance(observation, str):
            raise TypeError(f"{self.title}.reset returned {type(observation).__name__}; return a string or None")
        return instance, observation


class _TRLSession(Session):
    def __init__(self, environment: TRLEnvironment, instance: Any, task: Task, seed: int) -> None:
        self.environment, self.instance, self.task = environment, instance, task
        self.tools = tools_of(instance)
        self.completion: list[dict[str, Any]] = []
        self.random = PrivateRandom(seed)

    def reply(self, text: str) -> Answer:
        calls = read_calls(text)
        self.completion.append(_assistant(text, calls))
        with self.random:
            if not calls:
                return self._verdict()
            results = [self._result(each) for each in calls]
        self.completion += results
        return Reply(tuple({"role": "tool", "content": result["content"]} for result in results))

    def cut_off(self, text: str, limit: FinishReason) -> Answer:
        if text:
            self.completion.append(_assistant(text, []))
        with self.random:
            return self._verdict()

    def _result(self, called: Call | InvalidCall) -> dict[str, Any]:
        if isinstance(called, InvalidCall):
            return {"role": "tool", "content": f"error: {called.reason}"}
        try:
            if called.name not in self.tools:
                raise ValueError(f"Tool {called.name} not found.")
            result = call(self.tools[called.name], **called.arguments)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - as in TRL, the model reads it
            result = {"error": str(error)}
        return {"role": "tool", "name": called.name, "content": str(result)}

    def _verdict(self) -> Verdict | None:
        """Add up all rewards that are not ``None``; return ``None`` if there are none."""
        scores = {function.__name__: self._score(function) for function in self.environment.reward_funcs}
        if hasattr(type(self.instance), "get_reward"):
            scores[type(self.instance).__name__] = call(self.instance.get_reward)
        numbers = {name: as_number(score) for name, score in scores.items() if score is not None}
        parts = {name: float(number) for name, number in numbers.items() if number is not None}
        if len(parts) < len(numbers):
            raise TypeError(f"{self.environment.title}: the rewards {scores} must be numbers")
        if not parts:
            return None
        total, enough = sum(parts.values()), self.environment.success_at
        return Verdict.scored(total, success=enough is not None and total >= enough, parts=parts)

    def _score(self, function: Callable[..., Any]) -> object:
        columns = columns_of(self.task)
        offered = {name: [value] for name, value in columns.items() if name != PROMPT}
        offered |= {"prompts": [columns[PROMPT]], "completions": [self.completion], "environments": [self.instance]}
        return as_scores(call(function, **_accepted(function, offered)), 1)[0]


def tools_of(instance: Any) -> dict[str, Callable[..., Any]]:
    """Return the public methods of the class, which TRL treats as tools."""
    names = [name for name, _ in inspect.getmembers(type(instance), predicate=inspect.isfunction)]
    return {name: getattr(instance, name) for name in names if name not in NOT_TOOLS and not name.startswith("_")}


def columns_of(task: Task) -> dict[str, Any]:
    """Return the dataset row that the task was built from."""
    return {PROMPT: _plain(task.prompt), **task.spec}


def _accepted(function: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the function has parameters for."""
    parameters = parameters_of(function) or {}
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(offered)
    return {name: value for name, value in offered.items() if name in parameters}


def _plain(prompt: Prompt) -> object:
    return prompt if isinstance(prompt, str) else [dict(message) for message in prompt]


def _assistant(text: str, calls: Sequence[Call | InvalidCall]) -> dict[str, Any]:
    read = [each for each in calls if isinstance(each, Call)]
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if read:
        message["tool_calls"] = [{"type": "function", "function": each._asdict()} for each in read]
    return message


def _seed(task: Task) -> int:
    seed = task.spec.get(SEED)
    if isinstance(seed, int):
        return seed
    return int.from_bytes(hashlib.blake2b(task.id.encode(), digest_size=4).digest())
