"""Prompts built from the columns of a task: ``"What is {a} plus {b}?"``."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from string import Formatter

Part = tuple[str, str | None]
"""Text, and the name of the column that follows it."""


@lru_cache(maxsize=64)
def parts_of(template: str) -> tuple[Part, ...]:
    """The parts of a template in Python's format syntax, restricted to plain column names; ``ValueError`` otherwise."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{error}; write a column as {{name}}, and a brace of the text twice: {{{{ or }}}}") from None
    for _, name, form, conversion in parsed:
        if name is not None and (not name.strip() or form or conversion or set(name) & set(".[]")):
            raise ValueError(f"only plain column names can stand in braces, such as {{question}}, not {{{name}…}}")
    if all(name is None for _, name, _, _ in parsed):
        raise ValueError("it names no column, so every task would get the same prompt; add one, such as {question}")
    return tuple((text, name) for text, name, _, _ in parsed)


def columns_of(template: str) -> list[str]:
    """The columns that a template names, each once."""
    return list(dict.fromkeys(name for _, name in parts_of(template) if name is not None))


def fill(template: str, value: Callable[[str], object]) -> str:
    """The prompt, with ``value(column)`` as text in the place of each column."""
    return "".join(text + ("" if name is None else str(value(name))) for text, name in parts_of(template))
