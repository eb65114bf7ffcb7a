"""Python objects by name, as ``module:name``: the only loader of what a configuration, a command or a package names."""

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
    """Whether a text is ``module:name``, both of them dotted identifiers. Nothing else is ever imported by name."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def load_own(path: str, *, raises: type[SteelyardError] = ConfigError, what: str = "") -> Any:
    """What ``module:name`` names among the user's own code: the working folder is importable."""
    module = path.partition(":")[0]
    if is_import_path(path):
        make_importable(module)
    return load_object(path, raises=raises, what=what)


def load_object(path: str, *, raises: type[SteelyardError] = ConfigError, what: str = "") -> Any:
    """What ``module:name`` names (``package.module:Class.method`` too), found where Python looks by itself.

    Errors are of the class ``raises`` and say what is wrong with the path; ``what`` is what it stands for, such as
    ``"advantage estimator"``.
    """
    shown = f"{what} {path!r}".strip()
    module_name, colon, attribute = path.partition(":")
    if not (module_name and colon and attribute):
        raise raises(f"{shown} is not an import path; write it as 'module:function', for instance 'verifier:score'")
    if module_name.endswith(".py") or os.sep in module_name:
        suggestion = module_name.removesuffix(".py").replace(os.sep, ".").strip(".")
        raise raises(f"{shown}: name the module and not its file, '{suggestion}:{attribute}'")
    if not is_import_path(path):
        raise raises(f"{shown} is not an import path; write module.name:function, each part a Python name")
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
                f"{shown}: no module {error.name!r}; looked in {Path.cwd()} and where Python packages are installed"
            ) from None
        raise raises(f"{shown}: {module_name} was found but imports {error.name!r}, which is missing") from error
    except Exception as error:
        raise raises(f"{shown}: importing {module_name} raised {type(error).__name__}: {error}") from error


def _nearest(name: str, owner: object) -> str:
    names = [other for other in dir(owner) if not other.startswith("_") and callable(getattr(owner, other, None))]
    match = closest(name, names)
    return f"did you mean {match!r}?" if match else f"it has {', '.join(names[:12]) or 'nothing to call'}"


def make_importable(module: str) -> None:
    """Put the working folder first on the search path if the module is there. For any other module it stays out:
    whatever is imported later would be looked for there first, and the folder may be somebody else's.
    """
    folder, top = str(Path.cwd()), module.partition(".")[0]
    if folder in sys.path or "" in sys.path:
        return
    here = PathFinder.find_spec(top, [folder])
    if here is not None and (here.origin is not None or not _found(top)):  # without origin: a plain folder
        sys.path.insert(0, folder)


@contextmanager
def importing(module: str) -> Iterator[None]:
    """While a module is imported for what it defines: nothing in it may start a run."""
    token = _IMPORTED.set(module)
    try:
        yield
    finally:
        _IMPORTED.reset(token)


def imported_now() -> str | None:
    """The module that is being imported for what it defines."""
    return _IMPORTED.get()


def _found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
