"""Python objects by name, as ``module:name``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

_IMPORTED: ContextVar[str | None] = ContextVar("_IMPORTED", default=None)


def is_import_path(text: str) -> bool:
    """Whether a text is ``module:name``, both of them dotted identifiers. Nothing else is ever imported by name."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


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
