"""List the configuration keys with their types, defaults and help texts."""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from steelyard.config.base import ScheduleConfig, Section
from steelyard.config.root import Config
from steelyard.suggest import closest


class Key(NamedTuple):
    """A configuration key, for ``--help`` and for suggestions."""

    key: str
    type: str
    default: str
    help: str


@cache
def describe() -> tuple[Key, ...]:
    """Return every dotted key in section order; keys of list entries contain ``[]``."""
    return tuple(_keys(Config, ""))


@cache
def known_keys() -> frozenset[str]:
    """Return every dotted key and table, without list indices."""
    return frozenset(key.key.replace("[]", "") for key in describe()) | frozenset(_tables(Config, ""))


def keys_named(name: str) -> list[str]:
    """Find dotted keys (``run.steps``) with this name or a similar one.

    Sections that every run has take precedence over optional ones. For the name of a section, the result is an empty
    list.
    """
    if name in Config.model_fields or "." in name:
        return []
    sections = {
        section: field.default is None
        for section, field in Config.model_fields.items()
        if _section_of(field.annotation)[0] is not None
    }
    keys = [key for key in (key.key for key in describe()) if key.count(".") == 1]
    match = closest(name, {key.rpartition(".")[2] for key in keys})
    found = [key for key in keys if key.rpartition(".")[2] == match]
    return [key for key in found if not sections[key.partition(".")[0]]] or found


def takes_only_text(key: str) -> bool:
    """Whether a key accepts only strings, so that ``--run.name 7`` names the run "7"."""
    field = _field(key.split("."))
    return field is not None and _plain_types(field.annotation) == {str}


def _keys(section: type[Section], prefix: str) -> Iterator[Key]:
    for name, field in section.model_fields.items():
        inner, many = _section_of(field.annotation)
        if inner is None or inner is ScheduleConfig:
            yield Key(prefix + name, _type_name(field), _default(field), field.description or "")
        if inner is not None:
            yield from _keys(inner, f"{prefix}{name}{'[]' if many else ''}.")


def _tables(section: type[Section], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        inner, _ = _section_of(field.annotation)
        if inner is not None:
            yield prefix + name
            yield from _tables(inner, f"{prefix}{name}.")


def _field(path: list[str]) -> FieldInfo | None:
    section: type[Section] | None = Config
    field: FieldInfo | None = None
    for part in path:
        if part.isdigit():
            continue
        field = section.model_fields.get(part) if section is not None else None
        section = _section_of(field.annotation)[0] if field is not None else None
    return field


def _members(annotation: Any) -> list[Any]:
    """Return the alternatives of an annotation, without ``None`` and with ``Annotated`` unwrapped."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [member for part in get_args(annotation) for member in _members(part)]
    return [] if annotation is type(None) else [annotation]


def _section_of(annotation: Any) -> tuple[type[Section] | None, bool]:
    """Return the section type in an annotation, and whether the annotation is a list of sections."""
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, Section):
            return member, False
        if get_origin(member) is tuple and (inner := _section_of(get_args(member)[0])[0]):
            return inner, True
    return None, False


def _plain_types(annotation: Any) -> set[Any]:
    return {str if get_origin(m) is Literal and isinstance(get_args(m)[0], str) else m for m in _members(annotation)}


def _type_name(field: FieldInfo) -> str:
    return " or ".join(_member_name(member) for member in _members(field.annotation))


def _member_name(member: Any) -> str:
    if get_origin(member) is Literal:
        return "|".join(str(choice) for choice in get_args(member))
    if get_origin(member) is tuple:
        return f"list of {_member_name(_members(get_args(member)[0])[0])}"
    if member is ScheduleConfig:
        return "number or table"
    names = {str: "text", int: "int", float: "float", bool: "bool"}
    return names.get(member, "table")


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, ScheduleConfig):
        value = value.model_dump()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        value = list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return "" if value is None else str(value)  # pyright: ignore[reportUnknownArgumentType]
