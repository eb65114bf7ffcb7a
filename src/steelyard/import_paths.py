"""Load Python objects by import path, ``module:name``. All imports by name go through this module."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from steelyard.errors import ConfigError, SteelyardError
from steelyard.suggest import closest

_IMPORTED: ContextVar[str | None] = ContextVar("_IMPORTED", default=None)


def is_import_path(text: str) -> bool:
    """Whether a string has the form ``module:name`` with dotted identifiers. Nothing else is ever imported by name."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def load_user_object(path: str, *, raises: type[SteelyardError] = ConfigError, what: str = "") -> Any:
    """Load an object from the user's own code; modules in the working directory can be imported."""
    module = path.partition(":")[0]
    if is_import_path(path):
        make_importable(module)
    return load_object(path, raises=raises, what=what)


def load_object(path: str, *, raises: type[SteelyardError] = ConfigError, what: str = "") -> Any:
    """Load the object at ``module:name`` (or ``package.module:Class.method``) from Python's regular search path.

    Errors are of class ``raises`` and explain what is wrong with the path. ``what`` describes the object in messages,
    for example ``"advantage estimator"``.
    """
    shown = f"{what} {path!r}".strip()
    module_name, colon, attribute = path.partition(":")
    if not (module_name and colon and attribute):
        raise raises(f"{shown} is not an import path; write it as 'module:function', for instance 'verifier:score'")
    if module_name.endswith(".py") or os.sep in module_name:
        suggestion = module_name.removesuffix(".py").replace(os.sep, ".").strip(".")
        raise raises(f"{shown}: name the module, not its file: '{suggestion}:{attribute}'")
    if not is_import_path(path):
        raise raises(f"{shown} is not an import path; write it as package.module:function, with Python identifiers")
    found: Any = _import(module_name, shown, raises)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise raises(f"{shown}: {module_name} has no {name!r}; {_nearest(name, found)}")
        found = getattr(found, name)
    return found


def _import(module_name: str, shown: str, raises: type[SteelyardError]) -> ModuleType:
    try:
        with importing(module_name):
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise raises(
                f"{shown}: no module {error.name!r}; searched {Path.cwd()} and the installed Python packages"
            ) from None
        raise raises(f"{shown}: {module_name} imports {error.name!r}, which is not installed") from error
    except Exception as error:
        raise raises(f"{shown}: importing {module_name} raised {type(error).__name__}: {error}") from error


def _nearest(name: str, owner: object) -> str:
    names = [other for other in dir(owner) if not other.startswith("_") and callable(getattr(owner, other, None))]
    match = closest(name, names)
    return f"did you mean {match!r}?" if match else f"it has {', '.join(names[:12]) or 'nothing to call'}"


def make_importable(module: str) -> None:
    """Put the working directory first on the search path if it contains the module.

    For other modules, the search path stays unchanged; otherwise later imports would look in the working directory
    first, which may be untrusted.
    """
    folder, top = str(Path.cwd()), module.partition(".")[0]
    if folder in sys.path or "" in sys.path:
        return
    here = PathFinder.find_spec(top, [folder])
    if here is not None and (here.origin is not None or not _found(top)):  # no origin: a namespace package
        sys.path.insert(0, folder)


@contextmanager
def importing(module: str) -> Iterator[None]:
    """Mark a module as being imported for its definitions, so that it cannot start a run."""
    token = _IMPORTED.set(module)
    try:
        yield
    finally:
        _IMPORTED.reset(token)


def module_being_imported() -> str | None:
    """Return the module being imported for its definitions, if any."""
    return _IMPORTED.get()


def _found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
