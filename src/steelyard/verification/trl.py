"""TRL-style reward functions, unchanged.

Such a function is called with keywords: ``prompts``, ``completions`` (strings, or lists of one assistant message when
the prompt is chat messages), ``completion_ids``, every column of the data set as a list, ``trainer_state``,
``log_extra`` and ``log_metric``. It returns one number or None a completion. It may be a coroutine.
See https://huggingface.co/docs/trl/grpo_trainer#using-a-custom-reward-function.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.errors import VerifierError
from steelyard.types import Task, Verdict
from steelyard.verification.base import Item, Mode, WholeGroup
from steelyard.verification.calling import AnyFunction, UserFunction, call, parameters_of
from steelyard.verification.returns import as_number, as_scores, verdict_of

NOT_COLUMNS = frozenset(
    ("prompt", "completion", "prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
)
"""Names in a task's spec that are not passed as columns, since the call itself uses them."""


@dataclass(frozen=True)
class TrainerState:
    """What reward functions read to change with training progress."""

    global_step: int
    max_steps: int = 0
    epoch: float = 0.0
    log_history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    is_world_process_zero: bool = True


@dataclass(frozen=True)
class Notes:
    """What a function logged in one call; numbers become parts of the verdicts, so they reach the metrics."""

    columns: dict[str, list[object]] = field(default_factory=dict[str, list[object]])
    metrics: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def log_extra(self, column: str, values: Sequence[object]) -> None:
        self.columns.setdefault(column, []).extend(values)

    def log_metric(self, name: str, value: float) -> None:
        self.metrics.setdefault(name, []).append(float(value))

    def parts(self, index: int, count: int) -> dict[str, float]:
        """The numbers noted for item ``index``; a metric of the call is the same for all its items."""
        noted = {name: sum(values) / len(values) for name, values in self.metrics.items()}
        for column, values in self.columns.items():
            value = as_number(values[index]) if len(values) == count else None
            if value is not None:
                noted[column] = float(value)
        return noted


@dataclass(frozen=True, eq=False)
class TRLVerifier(UserFunction):
    """A TRL-style reward function as a verifier; by default it sees a whole group, as it may compare completions."""

    mode: Mode = field(default_factory=WholeGroup)
    max_steps: int = 0
    """Shown to the function as ``trainer_state.max_steps``."""

    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        notes = Notes()
        raw = call(self.function, **self._arguments(items, notes))
        verdicts: list[Verdict] = []
        for index, (score, item) in enumerate(zip(as_scores(raw, len(items)), items, strict=True)):
            verdict = verdict_of(score, item.sample.text, floor=self.floor, success_at=self.success_at)
            parts = {**notes.parts(index, len(items)), **verdict.parts}
            verdicts.append(replace(verdict, parts=parts) if verdict.counts else verdict)
        return verdicts

    def _arguments(self, items: Sequence[Item], notes: Notes) -> dict[str, object]:
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
    """Whether a function asks to be called as TRL does: it has a parameter named ``completions``."""
    return "completions" in (parameters_of(function) or {})


def columns(items: Sequence[Item]) -> dict[str, list[object]]:
    """Every key of the tasks' specs as a list over the items; None where a task lacks it, as in a data set."""
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
                f"{name} needs {parameter.name!r}, which is no column of the tasks; they have {sorted(offered)}"
            )
