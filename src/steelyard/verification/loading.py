"""Load a user function by its import path."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from steelyard.errors import VerifierError
from steelyard.import_paths import is_import_path, load_user_object
from steelyard.verification.calling import UserFunction


def load_function(path: str) -> Callable[..., Any]:
    """Load ``"module:name"`` or ``"package.module:Class.method"``. Modules in the working directory can be imported."""
    found = load_user_object(path, raises=VerifierError)
    if not callable(found):
        raise VerifierError(f"{path!r} has type {type(found).__name__}, which is not callable: use a function")
    return found


def import_path_of(obj: object) -> str | None:
    """Return the path from which :func:`load_function` can load this function, class or verifier in another process.

    Returns None for lambdas, closures, instances and objects defined in a notebook. An object defined in the main
    script is loaded from the script's file if that file is in the working directory.
    """
    function = obj.function if isinstance(obj, UserFunction) else obj
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<nameless>")
    found = sys.modules.get(module or "")
    if found is None or "<" in name:
        return None
    try:
        if operator.attrgetter(name)(found) is not obj:
            return None
    except AttributeError:
        return None
    module = importable_name(found) if module == "__main__" else module
    path = f"{module}:{name}"
    return path if module is not None and is_import_path(path) else None


def importable_name(module: ModuleType) -> str | None:
    """Return the name under which another process can import a module; None for a main script that it cannot import."""
    return _script_module(module) if module.__name__ == "__main__" else module.__name__


def _script_module(main: ModuleType) -> str | None:
    """Return the name under which the main script can be imported."""
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:  # python -m package.module
        return spec.name
    if file is None or not Path(file).stem.isidentifier():
        return None
    found = PathFinder.find_spec(Path(file).stem, [str(Path.cwd())])
    same = found is not None and found.origin is not None and Path(found.origin).resolve() == Path(file).resolve()
    return Path(file).stem if same else None
