"""Tools of other packages in a prompt: their schemas, and instructions for calling them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, TypeAdapter, create_model

from steelyard.tools.calls import listing, with_system
from steelyard.types import Prompt


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Describe a function in the format of chat templates; parameters without a type accept any value."""
    hints = typing.get_type_hints(function)
    fields: dict[str, Any] = {
        name: (hints.get(name, Any), ... if parameter.default is inspect.Parameter.empty else parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    model = create_model("Arguments", __config__=ConfigDict(arbitrary_types_allowed=True), **fields)
    parameters = TypeAdapter(model).json_schema()
    parameters.pop("title", None)
    for entry in parameters.get("properties", {}).values():
        entry.pop("title", None)
    inner = {"name": function.__name__, "description": inspect.getdoc(function) or "", "parameters": parameters}
    return {"type": "function", "function": inner}


def with_tools(prompt: Prompt, schemas: Sequence[Mapping[str, Any]]) -> Prompt:
    """Describe the tools at the start of the prompt, in its system message if it consists of messages."""
    if not schemas:
        return prompt
    about = f"{listing(schemas)} A turn without a call is your final answer."
    if isinstance(prompt, str):
        return f"{about}\n\n{prompt}" if prompt else about
    return with_system(prompt, about)
