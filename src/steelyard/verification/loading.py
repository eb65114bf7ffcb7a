"""Finding a user's function by its import path, with errors that say what is wrong with the path."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from steelyard.errors import VerifierError
from steelyard.import_paths import is_import_path, make_importable


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


def _import(module_name: str, path: str) -> ModuleType:
    make_importable(module_name)
    try:
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
