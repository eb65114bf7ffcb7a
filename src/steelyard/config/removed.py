"""Keys and values of earlier versions.

A recipe that uses a removed key or value is rejected with an error that names the replacement. The configuration of an
older run folder is translated to the new names.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

RENAMED_KEYS = {
    "constraint.canonical_runs": "constraint.canonical_tokens",
    "constraint.over": "constraint.symbols",
    "reference.carrier": "reference.storage",
}
"""Dotted key -> its new name in the same table."""

RENAMED_VALUES: dict[tuple[str, Any], Any] = {
    ("sampling.supports", "replayed"): "recomputed",
    ("verify.when_unscored", "go on"): "continue",
}
"""(dotted key, value) -> the new value."""

RENAMED_OPTIONS: dict[str, dict[str, str]] = {
    "bricks": {
        "easiest": "min_difficulty",
        "hardest": "max_difficulty",
        "most": "max_bricks",
        "most_captions": "max_captions",
        "reward.long": "reward.full_length",
        "reward.steps": "reward.step_rewards",
    },
    "infill": {"longest": "max_length", "most": "max_holes", "run": "mean_span", "shortest": "min_length"},
    "theories": {
        "containing": "required_factors",
        "longest_example": "max_example_words",
        "reward.long": "reward.max_words",
        "reward.many": "reward.max_parameters",
        "rising": "curriculum_tasks",
    },
}
"""Domain -> option below ``domain.options`` -> its new name."""

REMOVED_KEYS = {
    "model.scratch.architecture": "was removed: model.kind selects it (causal: Llama, masked: ModernBERT); "
    "remove the key",
} | {old: f"was renamed: use {new}" for old, new in RENAMED_KEYS.items()}
"""Dotted key, without list indices -> message."""

REMOVED_VALUES: dict[tuple[str, Any], str] = {
    ("sampling.fill_order", "confidence"): "was removed: the order would depend on the model, so the choice of holes "
    "would be a decision without a known log-prob; use random or left_to_right",
} | {old: f"was renamed: use {new!r}" for old, new in RENAMED_VALUES.items()}
"""(dotted key, value) -> message."""


def with_new_names(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the tables of an older run's configuration to the current keys, values and domain options."""
    result = deepcopy(dict(tables))
    for old, new in RENAMED_KEYS.items():
        _rename(result, old, new)
    for (key, old_value), new_value in RENAMED_VALUES.items():
        table, name = _table_of(result, key)
        if table is not None and table.get(name) == old_value:
            table[name] = new_value
    domain, _ = _table_of(result, "domain.name")
    for old, new in RENAMED_OPTIONS.get(domain.get("name", "") if domain else "", {}).items():
        _rename(result, f"domain.options.{old}", f"domain.options.{new}")
    return result


def renamed_option(domain: str, option: str) -> str | None:
    """Return the new name of a domain's option, or None if it was not renamed."""
    return RENAMED_OPTIONS.get(domain, {}).get(option)


def _rename(tables: dict[str, Any], old: str, new: str) -> None:
    table, name = _table_of(tables, old)
    if table is not None and name in table:
        table.setdefault(new.rpartition(".")[2], table.pop(name))


def _table_of(tables: dict[str, Any], key: str) -> tuple[dict[str, Any] | None, str]:
    """Return the table that holds a dotted key, if there is one, and the last part of the key."""
    *path, name = key.split(".")
    table: dict[str, Any] | None = tables
    for part in path:
        inner: Any = {} if table is None else table.get(part)
        table = cast("dict[str, Any]", inner) if isinstance(inner, dict) else None
    return table, name
