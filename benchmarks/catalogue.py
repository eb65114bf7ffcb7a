"""The benchmarks by name.

Each is a module with ``measure(quick, progress) -> Result``; the first line of its docstring says what it claims.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

from rich.progress import Progress

from benchmarks.result import Result

Measure = Callable[[bool, Progress], Result]
FOLDER = Path(__file__).resolve().parent


@cache
def names() -> tuple[str, ...]:
    """Every module that defines ``measure``, found without importing any; ``vs_trl.py`` is called ``vs-trl``."""
    return tuple(sorted(path.stem.replace("_", "-") for path in FOLDER.glob("*.py") if _defines_measure(path)))


def claim(name: str) -> str:
    """The first line of the benchmark's docstring."""
    text = ast.get_docstring(ast.parse(_path(name).read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def load(name: str) -> Measure:
    """The ``measure`` function of a benchmark; an unknown name is refused with the nearest known one."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names())}"
        raise LookupError(f"no benchmark is called {name!r}; {hint}")
    return import_module(f"benchmarks.{name.replace('-', '_')}").measure


def _path(name: str) -> Path:
    return FOLDER / f"{name.replace('-', '_')}.py"


def _defines_measure(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == "measure" for node in tree.body)
