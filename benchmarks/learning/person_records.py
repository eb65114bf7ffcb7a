"""Tasks for a small instruct model: read a sentence about a person and answer with JSON.

The verifier requires one JSON object that is valid under the schema (checked by jsonschema) and holds the values from
the sentence. Held-out tasks use names and sentence patterns that never occur in training.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np

from steelyard import Task, Verdict

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}},
    "required": ["name", "age", "city"],
    "additionalProperties": False,
}
NAMES = (
    *("Anna", "Boris", "Clara", "David", "Elena", "Felix", "Greta", "Hugo", "Irene", "Jonas", "Karin", "Louis"),
    *("Maria", "Nils", "Olga", "Peter", "Rosa", "Simon", "Tessa", "Victor", "Wanda", "Xavier", "Yara", "Zeno"),
)
CITIES = ("Paris", "Rome", "Oslo", "Madrid", "Vienna", "Prague", "Lisbon", "Dublin", "Athens", "Warsaw")
FORMS = (
    "{name} lives in {city} and is {age} years old.",
    "{name} from {city} turned {age} last week.",
    "At {age}, {name} still works in {city}.",
    "{city} is the home of {name}, aged {age}.",
    "{name}, {age}, moved to {city}.",
    "Our neighbour {name} is {age} and was born in {city}.",
)
HELD_OUT_NAMES, HELD_OUT_FORMS = 6, 2
QUESTION = 'Write the person in this sentence as JSON with the keys "name", "age" and "city".\n{sentence}'


def tasks(split: str, count: int) -> list[Task]:
    """Return tasks of ``train`` or ``held_out``; the two share neither names nor sentence patterns."""
    held_out = split == "held_out"
    names = NAMES[-HELD_OUT_NAMES:] if held_out else NAMES[:-HELD_OUT_NAMES]
    forms = FORMS[-HELD_OUT_FORMS:] if held_out else FORMS[:-HELD_OUT_FORMS]
    rng = np.random.default_rng([held_out, 7])
    found: dict[str, Task] = {}
    while len(found) < count:
        person = {"name": str(rng.choice(names)), "age": int(rng.integers(18, 90)), "city": str(rng.choice(CITIES))}
        sentence = str(rng.choice(forms)).format(**person)
        prompt = ({"role": "user", "content": QUESTION.format(sentence=sentence)},)
        found.setdefault(sentence, Task(f"{split}-{len(found)}", prompt, spec=person))
    return list(found.values())


def check(task: Task, text: str) -> Verdict:
    """Award a quarter of the reward for valid JSON, a quarter for the schema, and the rest for correct values."""
    try:
        answer = json.loads(text)
    except json.JSONDecodeError:
        return Verdict.scored(0.0, parts={"json": 0.0, "schema": 0.0, "right": 0.0})
    if not jsonschema.Draft202012Validator(SCHEMA).is_valid(answer):
        return Verdict.scored(0.25, parts={"json": 1.0, "schema": 0.0, "right": 0.0})
    right = sum(answer[key] == value for key, value in task.spec.items()) / len(task.spec)
    return Verdict.scored(0.5 + 0.5 * right, success=right == 1.0, parts={"json": 1.0, "schema": 1.0, "right": right})
