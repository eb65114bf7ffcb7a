"""Constraints and policies shared by the constraint benchmarks."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from steelyard.types import CutRule, Sample

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "colours": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3},
    },
    "required": ["name", "age", "colours"],
    "additionalProperties": False,
}
PATTERN = r"[A-Z][a-z]{1,8}( [a-z]{1,6}){0,4}\."
GRAMMAR = """start: expr
expr: NUMBER | "(" expr OP expr ")"
OP: "+" | "-" | "*"
NUMBER: /[1-9][0-9]{0,2}/
"""
CHOICES = ("yes", "no", "perhaps", "not yet", "never")
BRACKETS = "steelyard.constraints.examples.brackets:Brackets"
BOXES = "steelyard.constraints.examples.boxes:Boxes"

CONSTRAINTS: dict[str, dict[str, Any]] = {
    "automaton": {"kind": "automaton", "source": BRACKETS, "options": {"depth": 4, "kinds": "()[]", "least": 4}},
    "JSON schema": {"kind": "json_schema", "source": SCHEMA},
    "regex": {"kind": "regex", "source": PATTERN},
    "Lark": {"kind": "lark", "source": GRAMMAR},
    "choices": {"kind": "choices", "source": list(CHOICES)},
}

CHARACTERS = tuple(chr(code) for code in range(32, 127))
"""A closed vocabulary of characters in which all constraints above can be written."""

SHAPE = {"layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "max_length": 256}


def build_constrained_trainer(
    model: Mapping[str, Any],
    prompts: Sequence[Any],
    constraint: Mapping[str, Any] | None,
    *,
    new_tokens: int,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """Build a trainer with the constraint. Two minibatches per step make the learner compute old log-probs."""
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer

    data: dict[str, Any] = {
        "run": {"folder": tempfile.gettempdir(), "supplied": ["tasks", "verifier"]},
        "model": {**model, "device": "cpu"},
        "sampling": {"tasks_per_step": len(prompts), "max_new_tokens": new_tokens},
        "optimiser": {"minibatches": 2},
        "tracking": {"console": False},
    }
    if constraint is not None:
        data["constraint"] = dict(constraint)
    for name, table in (tables or {}).items():
        data[name] = {**data.get(name, {}), **table}
    rows = [prompt if isinstance(prompt, dict) else {"prompt": prompt} for prompt in prompts]
    return build_trainer(configs.build(data, source="benchmark"), Supplied(tasks=rows, verifier=_any_reward))


def characters_model() -> dict[str, Any]:
    """Return the model settings of a small policy over single characters."""
    return {"scratch": {**SHAPE, "vocabulary": CHARACTERS, "spaced": False}}


def sharpen(policy: Any, factor: float) -> None:
    """Scale up random weights so that the distributions are far from uniform."""
    import torch

    with torch.no_grad():
        for parameter in policy.model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(factor)


def without_supports(sample: Sample) -> Sample:
    """Return the sample with its temperature, but without its constraint and truncation (top-k, top-p, min-p)."""
    rule = CutRule(sample.decisions.rule.temperature)
    return replace(sample, decisions=replace(sample.decisions, rule=rule, support_N=None, supports=None))


def _any_reward(task: Any, text: str) -> float:  # noqa: ARG001
    return float(len(text))
