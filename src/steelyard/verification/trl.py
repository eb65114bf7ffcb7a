"""Use TRL-style reward functions without changes.

The function is called with the keyword arguments ``prompts``, ``completions`` (strings, or lists of one assistant
message if the prompt consists of chat messages), ``completion_ids``, ``trainer_state``, ``log_extra`` and
``log_metric``, and with every column of the dataset as a list. The function returns a number or None per completion and
may be a coroutine. See https://huggingface.co/docs/trl/grpo_trainer#using-a-custom-reward-function.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.errors import VerifierError
from steelyard.types import Task, Verdict
from steelyard.verification.base import GroupMode, Item, Mode
from steelyard.verification.calling import AnyFunction, UserFunction, call, parameters_of
from steelyard.verification.returns import as_number, as_scores, verdict_of

NOT_COLUMNS = frozenset(
    ("prompt", "completion", "prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
)
"""Names in the spec of a task that are not passed as columns, because the call itself uses them."""


@dataclass(frozen=True)
class TrainerState:
    """The training progress, for reward functions that depend on it."""

    global_step: int
    max_steps: int = 0
    epoch: float = 0.0
    log_history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    is_world_process_zero: bool = True


@dataclass(frozen=True)
class CallLog:
    """The values that a function logged in one call. Numbers become reward parts, so they appear in the metrics."""

    columns: dict[str, list[object]] = field(default_factory=dict[str, list[object]])
    metrics: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def log_extra(self, column: str, values: Sequence[object]) -> None:
        self.columns.setdefault(column, []).extend(values)

    def log_metric(self, name: str, value: float) -> None:
        self.metrics.setdefault(name, []).append(float(value))

    def parts(self, index: int, count: int) -> dict[str, float]:
        """Return the numbers logged for item ``index``. A metric of the call applies to all its items."""
        parts = {name: sum(values) / len(values) for name, values in self.metrics.items()}
        for column, values in self.columns.items():
            value = as_number(values[index]) if len(values) == count else None
            if value is not None:
                parts[column] = float(value)
        return parts


@dataclass(frozen=True, eq=False)
class TRLVerifier(UserFunction):
    """A verifier that calls a TRL-style reward function, by default with a whole group of completions."""

    mode: Mode = field(default_factory=GroupMode)
    max_steps: int = 0
    """Passed to the function as ``trainer_state.max_steps``."""

    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        notes = CallLog()
        raw = call(self.function, **self._arguments(items, notes))
        verdicts: list[Verdict] = []
        for index, (score, item) in enumerate(zip(as_scores(raw, len(items)), items, strict=True)):
            verdict = verdict_of(score, item.sample.text, floor=self.floor, success_at=self.success_at)
            parts = {**notes.parts(index, len(items)), **verdict.parts}
            verdicts.append(replace(verdict, parts=parts) if verdict.has_reward else verdict)
        return verdicts

    def _arguments(self, items: Sequence[Item], notes: CallLog) -> dict[str, object]:
        offered: dict[str, object] = {
            "prompts": [_prompt(item.task) for item in items],
            "completions": [_completion(item) for item in items],
            "completion_ids": [item.sample.completion_ids.tolist() for item in items],
            **columns(items),
            "trainer_state": TrainerState(items[0].sample.key.step, self.max_steps),
            "log_extra": notes.log_extra,
            "log_metric": notes.log_metric,
        }
        parameters = parameters_of(self.function)
        if parameters is None:
            return offered
        _require(parameters, offered, self.name)
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
            return offered
        return {name: value for name, value in offered.items() if name in parameters}


def is_trl_style(function: AnyFunction) -> bool:
    """Return whether a function is a TRL-style reward function: it has a parameter named ``completions``."""
    return "completions" in (parameters_of(function) or {})


def columns(items: Sequence[Item]) -> dict[str, list[object]]:
    """Return each key of the task specs as a list over the items, with None for tasks that lack it."""
    names = dict.fromkeys(name for item in items for name in item.task.spec if name not in NOT_COLUMNS)
    return {name: [item.task.spec.get(name) for item in items] for name in names}


def _prompt(task: Task) -> object:
    return task.prompt if isinstance(task.prompt, str) else [dict(message) for message in task.prompt]


def _completion(item: Item) -> object:
    text = item.sample.text
    return text if isinstance(item.task.prompt, str) else [{"role": "assistant", "content": text}]


def _require(parameters: Mapping[str, inspect.Parameter], offered: Mapping[str, object], name: str) -> None:
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    for parameter in parameters.values():
        needed = parameter.default is inspect.Parameter.empty and parameter.kind not in variadic
        if needed and parameter.name not in offered:
            raise VerifierError(
                f"{name} needs {parameter.name!r}, which is not a column of the tasks: "
                f"it must be one of {sorted(offered)}"
            )
