"""Build prompts from a task's columns with templates such as ``"What is {a} plus {b}?"``."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from string import Formatter

Part = tuple[str, str | None]
"""A piece of literal text and the name of the column that follows it."""


@lru_cache(maxsize=64)
def parts_of(template: str) -> tuple[Part, ...]:
    """Parse a template in Python's format syntax; raise ``ValueError`` unless all fields are plain column names."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{error}; write a column as {{name}}, and double a literal brace: {{{{ or }}}}") from None
    for _, name, form, conversion in parsed:
        if name is not None and (not name.strip() or form or conversion or set(name) & set(".[]")):
            raise ValueError(f"braces must contain a plain column name, such as {{question}}, not {{{name}…}}")
    if all(name is None for _, name, _, _ in parsed):
        raise ValueError("contains no column, so every task would get the same prompt; add one, such as {question}")
    return tuple((text, name) for text, name, _, _ in parsed)


def columns_of(template: str) -> list[str]:
    """Return the columns that a template uses, without duplicates."""
    return list(dict.fromkeys(name for _, name in parts_of(template) if name is not None))


def fill(template: str, value: Callable[[str], object]) -> str:
    """Build the prompt by replacing each column with ``str(value(column))``."""
    return "".join(text + ("" if name is None else str(value(name))) for text, name in parts_of(template))
