"""Benchmarks by name.

Each benchmark is a module with ``measure(quick, progress) -> Result``. The first line of its docstring is its claim.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

from rich.progress import Progress

from benchmarks.framework.result import Result

Measure = Callable[[bool, Progress], Result]
FOLDER = Path(__file__).resolve().parents[1]


def names() -> tuple[str, ...]:
    """Return the names of all benchmarks, sorted."""
    return tuple(_paths())


def claim(name: str) -> str:
    """Return the first line of the benchmark's docstring."""
    text = ast.get_docstring(ast.parse(_paths()[name].read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def load(name: str) -> Measure:
    """Import a benchmark and return its ``measure``; raise LookupError with a suggestion for an unknown name."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names())}"
        raise LookupError(f"no benchmark is called {name!r}; {hint}")
    path = _paths()[name]
    return import_module(f"benchmarks.{path.parent.name}.{path.stem}").measure


@cache
def _paths() -> dict[str, Path]:
    """Map names to files: every ``benchmarks/SUBJECT/*.py`` that defines ``measure``. ``vs_trl.py`` becomes ``vs-trl``.

    The files are parsed, not imported.
    """
    found = {path.stem.replace("_", "-"): path for path in FOLDER.glob("*/*.py") if _defines_measure(path)}
    return dict(sorted(found.items()))


def _defines_measure(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == "measure" for node in tree.body)
