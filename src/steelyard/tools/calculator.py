"""A calculator: exact integers, floating-point numbers, and no way to run anything else."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

MAX_CHARACTERS = 100
MAX_BITS = 4096
"""Size of the largest integer; without a limit, ``9**9**9`` would run for hours."""
Number = int | float

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def calculator(expression: Annotated[str, Field(pattern=rf"^[0-9+\-*/%.() ]{{1,{MAX_CHARACTERS}}}$")]) -> str:
    """Evaluate an arithmetic expression.

    Args:
        expression: Numbers, + - * / // % ** and parentheses.

    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        raise ValueError(f"{expression!r} is not an arithmetic expression") from None
    value = _value(tree.body)
    return str(value) if isinstance(value, int) else format(value, ".12g")


def _value(node: ast.expr) -> Number:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _limited(node.value)  # pyright: ignore[reportArgumentType]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow):
            return _limited(_power(left, right))
        if isinstance(node.op, ast.Div):
            exact = isinstance(left, int) and isinstance(right, int) and right != 0 and left % right == 0
            return left // right if exact else left / right
        if type(node.op) in _OPERATORS:
            return _limited(_OPERATORS[type(node.op)](left, right))
    raise ValueError("use only numbers, + - * / // % ** and parentheses")


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * max(exponent, 0) > MAX_BITS:
        raise OverflowError("the number is too large")
    power = base**exponent
    if isinstance(power, complex):
        raise ValueError(f"{base} has no real power {exponent}")
    return power


def _limited(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise OverflowError("the number is too large")
    return value
