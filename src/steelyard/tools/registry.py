"""Find tools: built-in ones by name, others as Python objects or by import path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from steelyard.errors import ConfigError
from steelyard.import_paths import is_import_path
from steelyard.suggest import did_you_mean
from steelyard.text import shown
from steelyard.tools.calculator import calculator
from steelyard.tools.interpreter import Python
from steelyard.tools.schema import Tool
from steelyard.verification import import_path_of, load_function

INCLUDED: Mapping[str, Any] = MappingProxyType({"calculator": calculator, "python": Python})
"""The built-in tools, under the names in ``config.sampling.TOOLS``."""


def load_tools(candidates: Sequence[Any]) -> list[Tool]:
    """Return the tools given as functions, classes, names or import paths."""
    return [_tool(candidate) for candidate in candidates]


def tool_path(candidate: Any) -> str | None:
    """Return a tool's name or import path for the configuration, or ``None`` if it has neither."""
    if isinstance(candidate, str):
        return candidate
    return next((name for name, tool in INCLUDED.items() if tool is candidate), None) or import_path_of(candidate)


def _tool(candidate: Any) -> Tool:
    if isinstance(candidate, Tool):
        return candidate
    if isinstance(candidate, str) and candidate in INCLUDED:
        return Tool(INCLUDED[candidate])
    if isinstance(candidate, str) and is_import_path(candidate):
        return Tool(load_function(candidate))
    if isinstance(candidate, str):
        raise ConfigError(
            f"episode.tools: {candidate!r} is not a tool; use {', '.join(INCLUDED)}, or your own as module:function"
            + did_you_mean(candidate, INCLUDED)
        )
    if not callable(candidate):
        raise ConfigError(f"tools: {shown(candidate)} is not a tool; pass typed functions, or their import paths")
    return Tool(candidate)
