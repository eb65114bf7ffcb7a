"""No module imports itself through others, counting ``if TYPE_CHECKING`` imports and imports inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "src" / "steelyard", ROOT / "benchmarks")

Graph = dict[str, set[str]]


def test_no_import_cycles() -> None:
    sources = {name: text for package in PACKAGES for name, text in read_sources(package).items()}
    cycles = find_cycles(import_graph(sources))
    assert not cycles, "import cycles:\n" + "\n".join(" -> ".join(cycle) for cycle in cycles)


def test_a_cycle_is_found_whatever_kind_of_import_closes_it() -> None:
    sources = {
        "pkg": "from pkg.base import Base",
        "pkg.base": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg import user",
        "pkg.user": "def use():\n    from . import helper",
        "pkg.helper": "from .base import Base",
        "pkg.outside": "import pkg.base\nfrom pkg import Base",
    }
    assert find_cycles(import_graph(sources)) == [["pkg.base", "pkg.user", "pkg.helper", "pkg.base"]]


def test_importing_a_name_of_the_own_package_imports_its_init() -> None:
    sources = {"pkg": "from pkg.base import Base", "pkg.base": "from pkg import Other"}
    assert find_cycles(import_graph(sources)) == [["pkg", "pkg.base", "pkg"]]


def test_a_submodule_does_not_import_its_init() -> None:
    sources = {"pkg": "from pkg.user import use", "pkg.user": "from pkg.base import Base", "pkg.base": ""}
    assert find_cycles(import_graph(sources)) == []


def read_sources(package: Path) -> dict[str, str]:
    """Source text by dotted module name; a package's ``__init__`` has the package's name."""
    found: dict[str, str] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def import_graph(sources: Mapping[str, str]) -> Graph:
    """The modules in ``sources`` that each module imports."""
    packages = {name.rpartition(".")[0] for name in sources}
    return {name: set(_imports(name, text, sources, packages)) - {name} for name, text in sources.items()}


def _imports(module: str, text: str, known: Mapping[str, str], packages: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                parents = module.split(".") if module in packages else module.split(".")[:-1]
                base = parents[: len(parents) - node.level + 1]
                origin = ".".join([*base, *origin.split(".")] if origin else base)
            for alias in node.names:
                submodule = f"{origin}.{alias.name}"
                if submodule in known:
                    yield submodule
                elif origin in known:
                    yield origin


def find_cycles(graph: Graph) -> list[list[str]]:
    """A shortest cycle through the first module of each strongly connected component."""
    reach = {module: _reachable(graph, module) for module in graph}
    cycles: list[list[str]] = []
    seen: set[str] = set()
    for module in sorted(graph):
        if module in reach[module] and module not in seen:
            seen |= {other for other in reach[module] if module in reach[other]}
            cycles.append(_shortest_cycle(graph, module))
    return cycles


def _reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting.extend(graph[module])
    return found


def _shortest_cycle(graph: Graph, start: str) -> list[str]:
    paths = [[start]]
    visited: set[str] = set()
    for path in paths:  # grows during iteration: breadth-first search
        for module in sorted(graph[path[-1]]):
            if module == start:
                return [*path, start]
            if module not in visited:
                visited.add(module)
                paths.append([*path, module])
    raise AssertionError(f"{start} is not on a cycle")
