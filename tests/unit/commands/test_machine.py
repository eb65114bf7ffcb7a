"""Inspection of the machine, and the table of extras compared with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from steelyard.commands.inputs.machine import CORE, EXTRAS, available_memory, missing


def test_the_table_of_extras_matches_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"dev"}
    for name, extra in EXTRAS.items():
        named = {requirement.partition(">")[0].partition("=")[0] for requirement in extras[name]}
        assert set(extra.packages) == {package for package in named if not package.startswith("steelyard[")}
    assert {requirement.partition(">")[0] for requirement in project["dependencies"]} == set(CORE) - {"steelyard"}


MODULES = {"pillow": "PIL", "tensorboard": "torch.utils.tensorboard"}
"""Import name of packages for which it differs from the package name."""
INDIRECT = {"accelerate": "from trl", "gguf": "gguf_file="}
"""Packages that only another library imports, with the code that requests them."""


def test_every_extra_is_used() -> None:
    root = Path(__file__).parents[3]
    code = "\n".join(
        path.read_text(encoding="utf-8") for folder in ("src", "benchmarks") for path in (root / folder).rglob("*.py")
    )

    def imported(package: str) -> bool:
        if package in INDIRECT:
            return INDIRECT[package] in code
        module = re.escape(MODULES.get(package, package.replace("-", "_")))
        return re.search(rf"^\s*(import|from) {module}\b", code, re.MULTILINE) is not None

    assert [package for extra in EXTRAS.values() for package in extra.packages if not imported(package)] == []


def test_available_memory_is_measured() -> None:
    memory = available_memory()
    assert memory is None or memory > 0
    assert missing(EXTRAS["data"].__class__(("no-such-package",), "")) == ["no-such-package"]
