"""Typed functions become tools: their JSON schema, argument validation, and results as text."""

from __future__ import annotations

import pickle
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from steelyard.errors import ConfigError
from steelyard.tools import Tool, calculator
from steelyard.tools.schema import MAX_RESULT_CHARACTERS, ArgumentError
from steelyard.verification.transport import pack, unpack


def weather(city: str, days: Annotated[int, Field(ge=1)] = 1, unit: Literal["C", "F"] = "C") -> dict[str, Any]:
    """Look up the weather
    of a city.

    Args:
        city: Name of the city,
            in English.
        days (int): Days ahead.
        unit: Unit of temperature.

    Returns:
        A table.

    """
    return {"city": city, "days": days, "unit": unit}


def test_signature_and_docstring_become_a_schema() -> None:
    assert Tool(weather).schema == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Look up the weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name of the city, in English."},
                    "days": {"type": "integer", "minimum": 1, "description": "Days ahead."},
                    "unit": {"type": "string", "enum": ["C", "F"], "description": "Unit of temperature."},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }


def test_arguments_are_checked_before_the_call() -> None:
    tool = Tool(weather)
    assert tool.run(weather, {"city": "Ulm"}) == '{"city": "Ulm", "days": 1, "unit": "C"}'
    for arguments, wrong in [({}, "city"), ({"city": "Ulm", "days": 0}, "days"), ({"city": "Ulm", "x": 1}, "x")]:
        with pytest.raises(ArgumentError, match=wrong):
            tool.run(weather, arguments)


def test_a_long_result_is_shortened() -> None:
    def repeat(text: str, times: int) -> str:
        return text * times

    found = Tool(repeat).run(repeat, {"text": "a", "times": 10**6})
    assert len(found) < MAX_RESULT_CHARACTERS + 100
    assert "left out" in found


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x, "define it with def"),
        (print, "cannot be passed by name"),
        (type("Empty", (), {}), "__call__"),
    ],
)
def test_functions_that_cannot_be_tools_are_rejected(function: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Tool(function)


def test_a_parameter_without_a_type_is_rejected() -> None:
    def untyped(number):  # type: ignore[no-untyped-def]
        return number

    with pytest.raises(ConfigError, match=r"untyped: parameter 'number' has no type"):
        Tool(untyped)


def test_a_tool_travels_to_a_worker_by_name_or_by_value() -> None:
    assert pickle.loads(pickle.dumps(Tool(calculator))).schema == Tool(calculator).schema
    local = {"Field": Field, "Annotated": Annotated}
    source = "def halve(number: 'Annotated[int, Field(ge=2)]') -> int:\n    return number // 2\n"
    exec(source, local)  # a function defined in a notebook: its module cannot be imported, and its types are strings
    halve: Any = local["halve"]
    halve.__module__ = "__main__"
    sent: Any = unpack(pack(Named(Tool(halve))))
    assert sent.tool.run(sent.tool.open(0), {"number": 8}) == "4"
    assert sent.tool.schema == Tool(halve).schema


class Named:
    """A named object that ``pack`` can serialise."""

    name = "named"

    def __init__(self, tool: Tool) -> None:
        self.tool = tool


class Counter:
    """Counts its calls."""

    def __init__(self, seed: int) -> None:
        self.seed, self.calls = seed, 0

    def __call__(self, by: int = 1) -> int:
        """Add to the count."""
        self.calls += by
        return self.calls + self.seed


def test_a_class_is_a_tool_with_state() -> None:
    tool = Tool(Counter)
    assert (tool.name, tool.description, tool.has_state) == ("Counter", "Add to the count.", True)
    assert list(tool.parameters["properties"]) == ["by"]
    opened = tool.open(10)
    assert [tool.run(opened, {}), tool.run(opened, {"by": 2}), tool.run(tool.open(0), {})] == ["11", "13", "1"]
