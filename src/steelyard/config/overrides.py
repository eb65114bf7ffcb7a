"""Dotted overrides from the command line (``--loss.kl.coefficient 0.05``, ``--key=value``, ``--flag``) or Python."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

from steelyard.config.nesting import DEEPEST, too_deep
from steelyard.config.schema import known_keys, takes_only_text
from steelyard.errors import ConfigError


def parse_overrides(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse command-line words into dotted keys and values.

    Values use TOML syntax (``0.05``, ``true``, ``[1, 4]``, ``{kind = "linear", …}``). A bare word is a string, ``none``
    restores the default of a key or table, and a key without a value is ``true``.
    """
    overrides: dict[str, Any] = {}
    position = 0
    while position < len(arguments):
        word = arguments[position]
        position += 1
        key, equals, text = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not key:
            raise ConfigError(f"cannot parse {word!r}: overrides look like --section.key value")
        if not equals and position < len(arguments) and not arguments[position].startswith("--"):
            text, equals = arguments[position], "="
            position += 1
        overrides[key] = parse_value(key, text) if equals else True
    return overrides


def parse_value(key: str, text: str) -> Any:
    """Parse one value for a key; see ``parse_overrides``."""
    if text.lower() == "none":
        return None
    if takes_only_text(key) and not text.startswith(('"', "'")):
        return text
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except RecursionError:
        parsed = None
    if parsed is None or too_deep(parsed):
        raise ConfigError(f"{key}: the value is nested more than {DEEPEST} levels deep; flatten it")
    return parsed["value"] if set(parsed) == {"value"} else text


def apply_overrides(data: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of nested tables with every dotted key set; missing tables are created.

    A value of ``None`` removes the key, so that its default applies.
    """
    result = deepcopy(dict(data))
    for key, value in overrides.items():
        *tables, name = key.split(".")
        target: Any = result
        for depth, table in enumerate(tables):
            target = _enter(target, table, ".".join(tables[: depth + 1]), key)
        _assign(target, name, value, key)
    return result


def _enter(container: Any, name: str, path: str, key: str) -> Any:
    if isinstance(container, list):
        entries = cast("list[Any]", container)
        return entries[_index(entries, name, key)]
    inner = container.get(name)
    if inner is None:
        inner = container[name] = {}
    if path.endswith(".coefficient") and isinstance(inner, int | float):
        inner = container[name] = {"start": inner}  # a bare number is shorthand for this table
    if not isinstance(inner, dict | list):
        raise ConfigError(f"{key}: {path} is {inner!r}, not a table")
    return cast("dict[str, Any] | list[Any]", inner)


def _assign(container: Any, name: str, value: Any, key: str) -> None:
    if isinstance(container, list):
        entries = cast("list[Any]", container)
        entries[_index(entries, name, key)] = value
    elif value is None and (name in container or _is_known(key)):
        container.pop(name, None)
    else:
        container[name] = value


def _is_known(key: str) -> bool:
    """Whether a key is known. Unknown keys are set to ``None`` rather than ignored, so that validation rejects them."""
    return ".".join(part for part in key.split(".") if not part.isdigit()) in known_keys()


def _index(container: list[Any], name: str, key: str) -> int:
    if not name.isdigit() or int(name) >= len(container):
        raise ConfigError(
            f"{key}: {name!r} is not a valid index for a list of {len(container)} entries; indices start at 0"
        )
    return int(name)
