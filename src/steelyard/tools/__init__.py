"""Tools: typed Python functions that the policy calls between its turns.

``steelyard.train(..., tools=[my_function])``, or ``episode.tools = ["calculator", "module:function"]``. A function runs
in the verification workers, and its result becomes the next message. docs/tools.md describes the formats.
"""

from steelyard.tools.calculator import calculator
from steelyard.tools.environment import ToolEnvironment, ToolSessionEnvironment, tool_environment
from steelyard.tools.interpreter import Python
from steelyard.tools.registry import INCLUDED, load_tools, tool_path
from steelyard.tools.schema import Tool

__all__ = [
    "INCLUDED",
    "Python",
    "Tool",
    "ToolEnvironment",
    "ToolSessionEnvironment",
    "calculator",
    "load_tools",
    "tool_environment",
    "tool_path",
]
