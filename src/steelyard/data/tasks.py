"""Tasks from plain data: one row, many rows, and the split into training and held-out."""

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
PLAIN = (str, int, float, bool)
"""Types that a checksum takes as they are."""


def as_tasks(rows: object, *, prompt_column: str = PROMPT_COLUMN, template: str | None = None) -> list[Task]:
    """Tasks from an iterable of tasks, dicts (as rows of a data set) or strings (prompts); ids count from 0."""
    if hasattr(rows, "iterrows"):
        raise DataError('a data frame iterates over its column names: give frame.to_dict("records")')
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise DataError(
            f"tasks must be an iterable of Task, dict or str, got {type(rows).__name__}; "
            f"a file or hub data set is read by steelyard.data.load_tasks"
        )
    tasks = [_as_task(row, f"task {index}", str(index), prompt_column, template) for index, row in enumerate(rows)]
    return require_distinct_ids(tasks, "tasks")


def _as_task(row: object, where: str, default_id: str, prompt_column: str, template: str | None) -> Task:
    if isinstance(row, Task):
        if too_deep(row.spec):
            raise DataError(TOO_DEEP.format(where=where))
        columns = {prompt_column: row.prompt, **row.spec}
        return row if template is None else replace(row, prompt=filled(template, columns, where))
    if isinstance(row, str) and template is None:
        return Task(default_id, prompt_of(row, where))
    if isinstance(row, str):
        row = {prompt_column: row}
    if isinstance(row, Mapping):
        return task_of(row, where=where, default_id=default_id, prompt_column=prompt_column, template=template)
    raise DataError(f"{where}: expected a Task, a dict or a prompt, got {type(row).__name__}")


def task_of(
    row: Mapping[str, Any],
    *,
    where: str,
    default_id: str,
    prompt_column: str = PROMPT_COLUMN,
    template: str | None = None,
) -> Task:
    """A row as a task: the prompt, an ``id`` and a ``difficulty`` if there; all other columns go into the spec. With a
    ``template`` the prompt is built from columns, and all of them stay in the spec.
    """
    if template is None and prompt_column not in row:
        near = closest(prompt_column, map(str, row))
        hint = f"did you mean prompt_column={near!r}?" if near else "name it by prompt_column"
        raise DataError(f"{where}: no column {prompt_column!r} among {sorted(map(str, row))}; {hint}")
    given_id, difficulty = row.get("id"), row.get("difficulty")
    if difficulty is not None and (isinstance(difficulty, bool) or not isinstance(difficulty, int | float)):
        raise DataError(f"{where}: difficulty must be a number, got {difficulty!r}")
    apart = ("id", "difficulty") if template is not None else (prompt_column, "id", "difficulty")
    spec = {intern(str(name)): row[name] for name in row if name not in apart}
    if too_deep(spec):
        raise DataError(TOO_DEEP.format(where=where))
    return Task(
        id=default_id if given_id is None else str(given_id),
        prompt=prompt_of(row[prompt_column], where) if template is None else filled(template, row, where),
        spec=spec,
        difficulty=None if difficulty is None else float(difficulty),
    )


def filled(template: str, row: Mapping[str, Any], where: str) -> str:
    """The prompt that a template gives for a row."""
    for name in columns_of(template):
        value = row.get(name)
        if value is None:
            near = None if name in row else closest(name, map(str, row))
            hint = f"; did you mean {{{near}}}?" if near else ""
            raise DataError(
                f"{where}: tasks.template = {shown(template, 120)} names the column {name!r}, which "
                f"{'is empty' if name in row else 'is missing'} there; the task has the columns "
                f"{', '.join(map(str, row)) or '(none)'}{hint}"
            )
        if isinstance(value, list | tuple) and value and all(isinstance(one, Mapping) for one in value):
            raise DataError(
                f"{where}: the column {name!r} holds chat messages, which tasks.template cannot put into one text; "
                "remove tasks.template, and give a system message by tasks.system"
            )
    return _encodable(fill(template, row.__getitem__), where)


def prompt_of(value: object, where: str) -> Prompt:
    """A prompt as it is, or a list of chat messages as a tuple of them."""
    if isinstance(value, str):
        if not value:
            raise DataError(f"{where}: the prompt is empty")
        return _encodable(value, where)
    if isinstance(value, Sequence) and not isinstance(value, bytes) and value:
        return tuple(_message(message, f"{where}, message {index}") for index, message in enumerate(value))
    raise DataError(
        f"{where}: a prompt is a string or a list of chat messages, got {type(value).__name__} {shown(value, 60)}"
    )


def _encodable(text: str, where: str) -> str:
    """The text, unless it has half a character (a lone surrogate), which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: the prompt has half a character (a lone surrogate, {text[error.start]!a}) at {error.start}; "
            "remove it"
        ) from None
    return text


def _message(value: object, where: str) -> Message:
    if not isinstance(value, Mapping) or not {"role", "content"} <= set(value):
        raise DataError(f"{where}: a chat message has a 'role' and a 'content', got {shown(value)}")
    if not isinstance(value["role"], str) or not isinstance(value["content"], str):
        raise DataError(f"{where}: role and content must be strings, got {shown(value)}")
    return {str(key): str(text) for key, text in value.items() if text is not None}


def require_distinct_ids(tasks: list[Task], where: str) -> list[Task]:
    """The tasks themselves; an id given twice is refused, since ids name tasks in reports and curricula."""
    if len({task.id for task in tasks}) == len(tasks):
        return tasks
    seen: dict[str, int] = {}
    for index, task in enumerate(tasks):
        if task.id in seen:
            raise DataError(
                f"{where}: the id {task.id!r} is given twice (rows {seen[task.id]} and {index}, counted from 0); "
                f"make ids distinct or leave the id column out"
            )
        seen[task.id] = index
    return tasks


def checksum(tasks: Iterable[Task]) -> int:
    """Of all that the tasks say, the same in every process. Of a value in a spec that is no plain data and no array it
    is the type alone: what such a value prints may differ from process to process.
    """
    found = 0
    encode = json.JSONEncoder(check_circular=False).encode  # plain data was copied, so it has an end
    for task in tasks:
        content = [plain(task.id), plain(task.prompt), plain(task.spec), plain(task.difficulty)]
        found = zlib.crc32(encode(content).encode(), found)
    return found


def plain(value: Any) -> Any:
    """The value as lists, numbers and strings, in an order that does not depend on the process."""
    if type(value) in SCALARS or isinstance(value, PLAIN):
        return value
    if isinstance(value, bytes):
        return ["bytes", zlib.crc32(value)]
    if isinstance(value, Mapping):
        if (names := _plain_names(tuple(value))) is not None:
            return ["{}", *[[name, plain(value[key])] for key, name in names]]
        return ["{}", *sorted(([repr(plain(key)), plain(item)] for key, item in value.items()), key=repr)]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    tolist = getattr(value, "tolist", None)
    return [type(value).__qualname__, tolist() if callable(tolist) else None]


@lru_cache(maxsize=256)
def _plain_names(keys: tuple[Any, ...]) -> list[tuple[str, str]] | None:
    """Names without quotes or escapes, each with its repr, in the order of the pairs; most tasks share theirs."""
    if all(isinstance(key, str) and key.isascii() and key.isidentifier() for key in keys):
        return [(key, str.__repr__(key)) for key in sorted(keys)]
    return None


def split(tasks: Sequence[Task], held_out: float, *, seed: int = 0) -> tuple[list[Task], list[Task]]:
    """(training, held-out): disjoint by prompt, so a task asked twice is never on both sides.

    ``held_out`` is a share below 1 or a number of tasks; tasks of one prompt stay together, so the number held out may
    be a little larger. Both lists keep the order of ``tasks``.
    """
    wanted = round(held_out * len(tasks)) if isinstance(held_out, float) else held_out
    if not 0 < wanted < len(tasks):
        raise DataError(
            f"tasks.held_out = {held_out} of {len(tasks)} tasks leaves one side empty; give a number of tasks below "
            f"{len(tasks)}, or 0 to hold none out"
        )
    by_prompt: dict[str, list[int]] = {}
    for index, task in enumerate(tasks):
        by_prompt.setdefault(_prompt_key(task.prompt), []).append(index)
    chosen = set(_until(wanted, list(by_prompt.values()), seed))
    if len(chosen) == len(tasks):
        raise DataError(f"held_out={held_out}: only {len(by_prompt)} distinct prompts, too few to split")
    training = [task for index, task in enumerate(tasks) if index not in chosen]
    return training, [task for index, task in enumerate(tasks) if index in chosen]


def _until(wanted: int, clusters: list[list[int]], seed: int) -> Iterator[int]:
    count = 0
    for position in np.random.default_rng([seed]).permutation(len(clusters)):
        if count >= wanted:
            return
        yield from clusters[position]
        count += len(clusters[position])


def _prompt_key(prompt: Prompt) -> str:
    return json.dumps(prompt if isinstance(prompt, str) else [dict(message) for message in prompt], sort_keys=True)
