"""Tasks from plain data, and the split into training and held-out tasks."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from sys import intern
from typing import Any

import numpy as np

from steelyard.config.nesting import DEEPEST, SCALARS, too_deep
from steelyard.config.prompt_template import columns_of, fill
from steelyard.defaults import PROMPT_COLUMN
from steelyard.errors import DataError
from steelyard.suggest import closest
from steelyard.text import shown
from steelyard.types import Message, Prompt, Task

TOO_DEEP = f"{{where}}: nested more than {DEEPEST} levels deep; flatten it"
SIMPLE_TYPES = (str, int, float, bool)
"""Types that are included in a checksum unchanged."""


def as_tasks(rows: object, *, prompt_column: str = PROMPT_COLUMN, template: str | None = None) -> list[Task]:
    """Convert an iterable of tasks, dicts (rows of a dataset) or strings (prompts); default ids count from 0."""
    if hasattr(rows, "iterrows"):
        raise DataError('tasks cannot be a DataFrame, which iterates over its columns; pass frame.to_dict("records")')
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise DataError(
            f"tasks must be an iterable of Task, dict or str, got {type(rows).__name__}; "
            "to read a file or hub dataset, use steelyard.data.load_tasks"
        )
    tasks = [_as_task(row, f"task {index}", str(index), prompt_column, template) for index, row in enumerate(rows)]
    return require_distinct_ids(tasks, "tasks")


def _as_task(row: object, where: str, default_id: str, prompt_column: str, template: str | None) -> Task:
    if isinstance(row, Task):
        if too_deep(row.spec):
            raise DataError(TOO_DEEP.format(where=where))
        columns = {prompt_column: row.prompt, **row.spec}
        return row if template is None else replace(row, prompt=fill_template(template, columns, where))
    if isinstance(row, str) and template is None:
        return Task(default_id, parse_prompt(row, where))
    if isinstance(row, str):
        row = {prompt_column: row}
    if isinstance(row, Mapping):
        return task_from_row(row, where=where, default_id=default_id, prompt_column=prompt_column, template=template)
    raise DataError(f"{where}: expected a Task, a dict or a prompt, got {type(row).__name__}")


def task_from_row(
    row: Mapping[str, Any],
    *,
    where: str,
    default_id: str,
    prompt_column: str = PROMPT_COLUMN,
    template: str | None = None,
) -> Task:
    """Convert a row into a task: prompt, optional ``id`` and ``difficulty``, and all other columns as its spec.

    With a ``template``, the prompt is built from columns, which stay in the spec.
    """
    if template is None and prompt_column not in row:
        near = closest(prompt_column, map(str, row))
        hint = (
            f"did you mean prompt_column={near!r}?" if near else "set prompt_column to the name of the prompt's column"
        )
        raise DataError(f"{where}: no column {prompt_column!r} among {sorted(map(str, row))}; {hint}")
    given_id, difficulty = row.get("id"), row.get("difficulty")
    if difficulty is not None and (isinstance(difficulty, bool) or not isinstance(difficulty, int | float)):
        raise DataError(f"{where}: difficulty must be a number, got {difficulty!r}")
    reserved = ("id", "difficulty") if template is not None else (prompt_column, "id", "difficulty")
    spec = {intern(str(name)): row[name] for name in row if name not in reserved}
    if too_deep(spec):
        raise DataError(TOO_DEEP.format(where=where))
    return Task(
        id=default_id if given_id is None else str(given_id),
        prompt=parse_prompt(row[prompt_column], where) if template is None else fill_template(template, row, where),
        spec=spec,
        difficulty=None if difficulty is None else float(difficulty),
    )


def fill_template(template: str, row: Mapping[str, Any], where: str) -> str:
    """Fill a prompt template with the columns of a row."""
    for name in columns_of(template):
        value = row.get(name)
        if value is None:
            near = None if name in row else closest(name, map(str, row))
            hint = f"; did you mean {{{near}}}?" if near else ""
            raise DataError(
                f"{where}: tasks.template = {shown(template, 120)} uses the column {name!r}, which "
                f"{'is empty' if name in row else 'is missing'}; the task has the columns "
                f"{', '.join(map(str, row)) or '(none)'}{hint}"
            )
        if isinstance(value, list | tuple) and value and all(isinstance(one, Mapping) for one in value):
            raise DataError(
                f"{where}: the column {name!r} holds chat messages, which tasks.template cannot turn into text; "
                "remove tasks.template, and set a system message with tasks.system"
            )
    return _encodable(fill(template, row.__getitem__), where)


def parse_prompt(value: object, where: str) -> Prompt:
    """Return a prompt string unchanged, or a list of chat messages as a tuple."""
    if isinstance(value, str):
        if not value:
            raise DataError(f"{where}: the prompt is empty; add text, or remove the task")
        return _encodable(value, where)
    if isinstance(value, Sequence) and not isinstance(value, bytes) and value:
        return tuple(_message(message, f"{where}, message {index}") for index, message in enumerate(value))
    raise DataError(
        f"{where}: the prompt must be a string or a list of chat messages, got {type(value).__name__} "
        f"{shown(value, 60)}"
    )


def _encodable(text: str, where: str) -> str:
    """Return the text; raise an error if it contains a lone surrogate, which no tokenizer accepts."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: the prompt contains a lone surrogate ({text[error.start]!a}) at index {error.start}, which is "
            "not a valid character; remove it"
        ) from None
    return text


def _message(value: object, where: str) -> Message:
    if not isinstance(value, Mapping) or not {"role", "content"} <= set(value):
        raise DataError(f"{where}: a chat message needs 'role' and 'content', got {shown(value)}")
    if not isinstance(value["role"], str) or not isinstance(value["content"], str):
        raise DataError(f"{where}: role and content must be strings, got {shown(value)}")
    return {str(key): str(text) for key, text in value.items() if text is not None}


def require_distinct_ids(tasks: list[Task], where: str) -> list[Task]:
    """Return the tasks; duplicate ids are an error, because reports and curricula identify tasks by id."""
    if len({task.id for task in tasks}) == len(tasks):
        return tasks
    seen: dict[str, int] = {}
    for index, task in enumerate(tasks):
        if task.id in seen:
            raise DataError(
                f"{where}: duplicate id {task.id!r} in rows {seen[task.id]} and {index} (counted from 0); "
                "make ids unique or remove the id column"
            )
        seen[task.id] = index
    return tasks


def checksum(tasks: Iterable[Task]) -> int:
    """Compute a checksum of all fields of the tasks that is the same in every process.

    A spec value that is neither plain data nor an array contributes only its type, because its ``repr`` may differ
    between processes.
    """
    found = 0
    encode = json.JSONEncoder(check_circular=False).encode  # canonical() returns a copy without cycles
    for task in tasks:
        content = [canonical(task.id), canonical(task.prompt), canonical(task.spec), canonical(task.difficulty)]
        found = zlib.crc32(encode(content).encode(), found)
    return found


def canonical(value: Any) -> Any:
    """Convert a value to lists, numbers and strings, in an order that does not depend on the process."""
    if type(value) in SCALARS or isinstance(value, SIMPLE_TYPES):
        return value
    if isinstance(value, bytes):
        return ["bytes", zlib.crc32(value)]
    if isinstance(value, Mapping):
        if (names := _simple_names(tuple(value))) is not None:
            return ["{}", *[[name, canonical(value[key])] for key, name in names]]
        return ["{}", *sorted(([repr(canonical(key)), canonical(item)] for key, item in value.items()), key=repr)]
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    tolist = getattr(value, "tolist", None)
    return [type(value).__qualname__, tolist() if callable(tolist) else None]


@lru_cache(maxsize=256)
def _simple_names(keys: tuple[Any, ...]) -> list[tuple[str, str]] | None:
    """Return sorted keys with their ``repr`` if all are ASCII identifiers, else None. Most tasks share their keys."""
    if all(isinstance(key, str) and key.isascii() and key.isidentifier() for key in keys):
        return [(key, str.__repr__(key)) for key in sorted(keys)]
    return None


def split(tasks: Sequence[Task], held_out: float, *, seed: int = 0) -> tuple[list[Task], list[Task]]:
    """Split tasks into (training, held-out) so that no prompt occurs in both.

    ``held_out`` is a fraction below 1 or a number of tasks. Tasks with the same prompt stay together, so slightly more
    may be held out. Both lists keep the order of ``tasks``.
    """
    wanted = round(held_out * len(tasks)) if isinstance(held_out, float) else held_out
    if not 0 < wanted < len(tasks):
        raise DataError(
            f"tasks.held_out = {held_out} of {len(tasks)} tasks leaves one split empty; use a number between 1 and "
            f"{len(tasks) - 1}, or 0 to hold out no tasks"
        )
    by_prompt: dict[str, list[int]] = {}
    for index, task in enumerate(tasks):
        by_prompt.setdefault(_prompt_key(task.prompt), []).append(index)
    chosen = set(_choose(wanted, list(by_prompt.values()), seed))
    if len(chosen) == len(tasks):
        raise DataError(
            f"tasks.held_out = {held_out} needs more than the {len(by_prompt)} distinct prompts; hold out fewer tasks, "
            "or list the tasks for evaluation yourself (tasks.eval_file; in Python: eval_tasks)"
        )
    training = [task for index, task in enumerate(tasks) if index not in chosen]
    return training, [task for index, task in enumerate(tasks) if index in chosen]


def _choose(wanted: int, clusters: list[list[int]], seed: int) -> Iterator[int]:
    """Yield the indices of whole clusters in random order until there are at least ``wanted``."""
    count = 0
    for position in np.random.default_rng([seed]).permutation(len(clusters)):
        if count >= wanted:
            return
        yield from clusters[position]
        count += len(clusters[position])


def _prompt_key(prompt: Prompt) -> str:
    return json.dumps(prompt if isinstance(prompt, str) else [dict(message) for message in prompt], sort_keys=True)
