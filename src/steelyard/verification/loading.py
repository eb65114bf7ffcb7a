"""Finding a user's function by its import path, with errors that say what is wrong with the path."""

from __future__ import annotations

import difflib
import importlib
import operator
import os
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from steelyard.errors import VerifierError
from steelyard.import_paths import importing, is_import_path, make_importable
from steelyard.verification.calling import UserFunction


def load_function(path: str) -> Callable[..., Any]:
    """What ``"module:name"`` names (``"package.module:Class.method"`` too); the working folder is importable."""
    module_name, colon, attribute = path.partition(":")
    if not (module_name and colon and attribute):
        raise VerifierError(
            f"{path!r} is not an import path; write it as 'module:function', for instance 'verifier:score'"
        )
    if module_name.endswith(".py") or os.sep in module_name:
        suggestion = module_name.removesuffix(".py").replace(os.sep, ".").strip(".")
        raise VerifierError(f"{path!r}: name the module and not its file, '{suggestion}:{attribute}'")
    if not is_import_path(path):
        raise VerifierError(f"{path!r} is not an import path; write module.name:function, each part a Python name")
    found: Any = _import(module_name, path)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise VerifierError(f"{path!r}: {module_name} has no {name!r}{_did_you_mean(name, found)}")
        found = getattr(found, name)
    if not callable(found):
        raise VerifierError(f"{path!r} is a {type(found).__name__} and cannot be called; name a function")
    return found


def import_path_of(thing: object) -> str | None:
    """The path under which :func:`load_function` finds this function, class or verifier in another process. None for a
    lambda, a closure, an instance, and what a notebook defines. What the started script defines is found in the module
    of its file, if that is in the working folder.
    """
    function = thing.function if isinstance(thing, UserFunction) else thing
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<nameless>")
    found = sys.modules.get(module or "")
    if found is None or "<" in name:
        return None
    try:
        if operator.attrgetter(name)(found) is not thing:
            return None
    except AttributeError:
        return None
    module = _script_module(found) if module == "__main__" else module
    path = f"{module}:{name}"
    return path if is_import_path(path) else None


def _script_module(main: ModuleType) -> str | None:
    """The module that a script would be if it were imported."""
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:  # python -m package.module
        return spec.name
    if file is None or not Path(file).stem.isidentifier():
        return None
    found = PathFinder.find_spec(Path(file).stem, [str(Path.cwd())])
    same = found is not None and found.origin is not None and Path(found.origin).resolve() == Path(file).resolve()
    return Path(file).stem if same else None


def _import(module_name: str, path: str) -> ModuleType:
    make_importable(module_name)
    try:
        with importing(module_name):
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise VerifierError(
                f"{path!r}: no module {error.name!r}; looked in {Path.cwd()} and where Python packages are installed"
            ) from None
        raise VerifierError(
            f"{path!r}: {module_name} was found but imports {error.name!r}, which is missing"
        ) from error
    except Exception as error:
        raise VerifierError(f"{path!r}: importing {module_name} raised {type(error).__name__}: {error}") from error


def _did_you_mean(name: str, owner: object) -> str:
    names = [other for other in dir(owner) if not other.startswith("_") and callable(getattr(owner, other, None))]
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(names[:12]) or 'nothing to call'}"
