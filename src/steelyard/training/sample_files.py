"""Store samples and groups in files, as JSON and safetensors without pickle.

Training on a group that was stored and loaded gives a result bitwise identical to training on the original.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from steelyard.errors import DataError
from steelyard.types import (
    CutRule,
    Decisions,
    Group,
    Sample,
    SampleKey,
    SupportRecipe,
    SupportTable,
    Task,
    Turn,
    Verdict,
)

Row = dict[str, Any]
Arrays = dict[str, np.ndarray]
EARLIER = "earlier"
"""Prefix of the arrays of an episode's earlier rows."""
SUPPORT_ARRAYS = ("support_form", "support_start", "support_data")


def pack_sample(sample: Sample) -> tuple[Row, Arrays]:
    """Split a sample, including all rows of an episode, into JSON data and arrays."""
    decisions, rule = sample.decisions, sample.decisions.rule
    arrays: dict[str, np.ndarray | None] = {
        "token_ids": sample.token_ids,
        "position": decisions.position_N,
        "forward": decisions.forward_N,
        "logp": decisions.logp_N,
        "start": decisions.text_start_N,
        "support": decisions.support_N,
        **{name: getattr(decisions.supports, name.removeprefix("support_"), None) for name in SUPPORT_ARRAYS},
    }
    row: Row = {
        "key": list(sample.key),
        "prompt_length": sample.prompt_length,
        "text": sample.text,
        "finish": sample.finish,
        "policy_version": sample.policy_version,
        "rule": [rule.temperature, rule.top_k, rule.top_p, rule.min_p],
        "vocabulary": None if decisions.supports is None else decisions.supports.vocabulary,
        "left_out": decisions.supports_omitted,
    }
    if sample.turns:
        row["turns"] = [list(turn) for turn in sample.turns]
    if (recipe := decisions.support_recipe) is not None:
        row["replay"] = {"task": pack_task(recipe.task), "budget": recipe.budget}
    earlier = [pack_sample(part) for part in sample.earlier_rows]
    if earlier:
        row["earlier_rows"] = [part for part, _ in earlier]
    own = {name: array for name, array in arrays.items() if array is not None}
    return row, own | {
        f"{EARLIER}.{number}.{name}": array for number, (_, part) in enumerate(earlier) for name, array in part.items()
    }


def unpack_sample(row: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Sample:
    """Rebuild a sample from the result of ``pack_sample``."""
    vocabulary, recipe = row["vocabulary"], row.get("replay")
    decisions = Decisions(
        arrays["position"],
        arrays["forward"],
        arrays["logp"],
        CutRule(*row["rule"]),
        arrays.get("support"),
        None
        if vocabulary is None
        else SupportTable(vocabulary, *(arrays[f"support_{n}"] for n in ("form", "start", "data"))),
        row.get("left_out", False),
        None if recipe is None else SupportRecipe(unpack_task(recipe["task"]), recipe["budget"]),
        arrays.get("start"),
    )
    plain = {name: row[name] for name in ("prompt_length", "text", "finish", "policy_version")}
    return Sample(
        key=SampleKey(*row["key"]),
        token_ids=arrays["token_ids"],
        decisions=decisions,
        turns=tuple(Turn(*turn) for turn in row.get("turns", ())),
        earlier_rows=tuple(
            unpack_sample(part, _arrays_of(arrays, number)) for number, part in enumerate(row.get("earlier_rows", ()))
        ),
        **plain,
    )


def _arrays_of(arrays: Mapping[str, np.ndarray], number: int) -> Arrays:
    """Return the arrays of one earlier row under their own names."""
    prefix = f"{EARLIER}.{number}."
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def pack_task(task: Task) -> Row:
    return {"id": task.id, "prompt": task.prompt, "spec": dict(task.spec), "difficulty": task.difficulty}


def unpack_task(row: Mapping[str, Any]) -> Task:
    return Task(**row)


def write_rows(folder: Path, name: str, table: Mapping[str, Any], packed: Sequence[Arrays]) -> None:
    """Write the table to ``name.json``, and the arrays of each row to ``name.safetensors``."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {f"{number}.{key}": np.ascontiguousarray(a) for number, row in enumerate(packed) for key, a in row.items()}
    save_file(arrays, folder / f"{name}.safetensors")
    (folder / f"{name}.json").write_text(json.dumps(table, indent=1), encoding="utf-8")


def read_rows(folder: Path, name: str) -> tuple[dict[str, Any], list[Arrays]]:
    """Read files written by ``write_rows``."""
    table = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    packed: list[Arrays] = [{} for _ in table["samples"]]
    for key, array in load_file(folder / f"{name}.safetensors").items():
        number, _, array_name = key.partition(".")
        packed[int(number)][array_name] = array
    return table, packed


def save_groups(folder: Path, groups: Sequence[Group]) -> None:
    """Write groups with all samples and verdicts. The specs of their tasks must be JSON data."""
    packed = [pack_sample(sample) for group in groups for sample in group.samples]
    table = {
        "groups": [
            {"task": pack_task(group.task), "verdicts": [verdict.to_json() for verdict in group.verdicts]}
            for group in groups
        ],
        "samples": [row for row, _ in packed],
    }
    try:
        write_rows(folder, "groups", table, [arrays for _, arrays in packed])
    except TypeError as error:
        raise DataError(
            f"cannot store groups in {folder}: {error}; Task.spec may hold only numbers, strings, lists and dicts"
        ) from error


def load_groups(folder: Path) -> list[Group]:
    """Read groups written by ``save_groups``."""
    table, packed = read_rows(folder, "groups")
    samples = iter(unpack_sample(row, arrays) for row, arrays in zip(table["samples"], packed, strict=True))
    groups: list[Group] = []
    for row in table["groups"]:
        verdicts = tuple(Verdict.from_json(verdict) for verdict in row["verdicts"])
        groups.append(Group(unpack_task(row["task"]), tuple(next(samples) for _ in verdicts), verdicts))
    return groups
