"""The calculator: exact results, and nothing but arithmetic."""

from __future__ import annotations

import pytest

from steelyard.tools import Tool, calculator
from steelyard.tools.schema import ArgumentError


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("123456789 * 987654321", "121932631112635269"),
        (" -(2 + 3) ** 2 ", "-25"),
        ("7 // 2 + 7 % 4", "6"),
        ("6 / 3", "2"),
        ("7 / 2", "3.5"),
        ("2 ** -1", "0.5"),
        ("0.1 + 0.2", "0.3"),
    ],
)
def test_values(expression: str, result: str) -> None:
    assert calculator(expression) == result


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("9**9**9", OverflowError),
        ("2**4000 * 2**4000", OverflowError),
        ("9" * 90 + "**99", OverflowError),
        ("1/0", ZeroDivisionError),
        ("1+", ValueError),
        ("(-8)**0.5", ValueError),
        ("()", ValueError),
        ("open('x')", ValueError),
        ("a.b", ValueError),
        ("[1][0]", ValueError),
    ],
)
def test_everything_else_is_an_error(expression: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        calculator(expression)


def test_the_schema_allows_the_characters_of_arithmetic_only() -> None:
    with pytest.raises(ArgumentError, match="expression"):
        Tool(calculator).run(calculator, {"expression": "print(1)"})
