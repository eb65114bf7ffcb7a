"""A tool: a typed Python function with the JSON schema of its arguments."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, NotRequired

import cloudpickle
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict  # pydantic requires this TypedDict before Python 3.12

from steelyard.errors import ConfigError
from steelyard.text import bounded
from steelyard.verification.calling import call, name_of
from steelyard.verification.transport import importable

MAX_RESULT_CHARACTERS = 4000
"""Maximum length of a result in characters; the middle of a longer result is omitted."""


class ArgumentError(Exception):
    """Arguments that do not match the schema of a tool."""


class Tool:
    """A function that the policy can call, or a class with ``__call__`` if the tool has state.

    A class is instantiated once per episode, with the sample's ``seed`` if its constructor has such a parameter, and
    its ``close`` method, if any, is called at the end.
    """

    def __init__(self, function: Callable[..., Any], hints: Mapping[str, Any] | None = None) -> None:
        """``hints``: the resolved type annotations, if the function's module cannot be imported here."""
        self.function = function
        self.has_state = isinstance(function, type)
        self._called = _call_method(function) if isinstance(function, type) else function
        self.name = str(getattr(function, "tool_name", "") or name_of(function))
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name) is None:
            raise ConfigError(
                f"tool {self.name!r} must have a valid function name, so that a model can call it; define it with def"
            )
        self.hints = _hints(self._called, self.name) if hints is None else dict(hints)
        self.description, self._about = read_docstring(inspect.getdoc(self._called) or inspect.getdoc(function) or "")
        self._arguments  # noqa: B018 - reports a missing type now
        self.parameters  # noqa: B018

    def __reduce__(self) -> tuple[Callable[..., Tool], tuple[Any, ...]]:
        """Pickle the resolved types with a function that is sent by value, because its module's names are not sent."""
        if importable(self.function):
            return Tool, (self.function,)
        return _rebuilt, (self.function, cloudpickle.dumps(self.hints))

    @property
    def schema(self) -> dict[str, Any]:
        """The tool's description in the format that chat templates expect."""
        inner = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": inner}

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        schema = self._arguments.json_schema(schema_generator=_Untitled)
        schema.pop("title", None)
        return {**schema, "additionalProperties": False}

    @cached_property
    def _arguments(self) -> TypeAdapter[Any]:
        """Validator for the arguments of a call; arguments with a default may be omitted."""
        fields: dict[str, Any] = {}
        for name, parameter in _parameters(self._called, self.name, skip_self=self.has_state).items():
            if name not in self.hints:
                raise ConfigError(
                    f"tool {self.name}: parameter {name!r} has no type; annotate it, as in `{name}: int`, because the "
                    "schema that the model reads needs it"
                )
            about = Field(description=self._about[name]) if name in self._about else Field()
            typed = Annotated[self.hints[name], about]
            fields[name] = typed if parameter.default is inspect.Parameter.empty else NotRequired[typed]
        table = TypedDict("Arguments", fields)  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
        table.__pydantic_config__ = ConfigDict(extra="forbid")  # pyright: ignore[reportAttributeAccessIssue]
        try:
            return TypeAdapter(table)
        except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
            raise ConfigError(
                f"tool {self.name}: its parameters have no JSON schema ({str(error).partition(chr(10))[0]}); use types "
                "that JSON can represent, such as int, str, list[float] or a pydantic model"
            ) from None

    def open(self, seed: int) -> Callable[..., Any]:
        """Return the callable for one episode: the function, or a new instance of the class."""
        if not self.has_state:
            return self.function
        return self.function(seed=seed) if "seed" in inspect.signature(self.function).parameters else self.function()

    def run(self, opened: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
        """Check the arguments, call the tool and return its result as text. The tool's exceptions are not caught."""
        try:
            checked = self._arguments.validate_python(dict(arguments))
        except ValidationError as error:
            raise ArgumentError("; ".join(map(_problem, error.errors()))) from None
        return bounded(_as_text(call(opened, **checked)), MAX_RESULT_CHARACTERS)


def _rebuilt(function: Callable[..., Any], hints: bytes) -> Tool:
    return Tool(function, cloudpickle.loads(hints))


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles that pydantic derives from names; they only make prompts longer."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _call_method(kind: type[Any]) -> Callable[..., Any]:
    found = next((vars(owner)["__call__"] for owner in kind.__mro__ if "__call__" in vars(owner)), None)
    if found is None:
        raise ConfigError(f"tool {kind.__name__}: the class has no __call__ method; define one with typed parameters")
    return found


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigError(f"tool {name}: its type annotations cannot be read: {error}; correct them") from None


def _parameters(function: Callable[..., Any], name: str, *, skip_self: bool) -> dict[str, inspect.Parameter]:
    try:
        found = list(inspect.signature(function).parameters.items())
    except (TypeError, ValueError) as error:
        raise ConfigError(f"tool {name} has no signature ({error}); wrap it in a typed function") from None
    for parameter, kind in ((key, value.kind) for key, value in found):
        if kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise ConfigError(f"tool {name}: {parameter!r} cannot be passed by name; replace it with named parameters")
    return dict(found[1:] if skip_self else found)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the description of a function, and that of each parameter in its ``Args:`` section."""
    before, _, section = text.partition("Args:\n")
    section = re.split(r"\n(?=\S)", section)[0]
    entries = re.findall(r"^[ ]*(\w+)(?: *\([^)\n]*\))?: *(.+(?:\n {6,}\S.*)*)", section, re.MULTILINE)
    before = re.split(r"\n(?:Returns|Raises|Yields|Examples?):", before)[0]
    return " ".join(before.split()), {name: " ".join(about.split()) for name, about in entries}


def _problem(error: Any) -> str:
    place = ".".join(map(str, error["loc"]))
    return f"{place}: {error['msg']}" if place else str(error["msg"])


def _as_text(result: object) -> str:
    if isinstance(result, str):
        return result
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(result)
