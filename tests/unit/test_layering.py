"""The packages that verifier workers and the configuration need can be imported without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "peft"}:
            raise ImportError(f"blocked: {name}")

sys.meta_path.insert(0, Blocked())
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + "."):
    importlib.import_module(module.name)
"""


@pytest.mark.parametrize(
    "package", ["types", "errors", "config", "memory", "planning", "drawing", "domains", "tools", "verification"]
)
def test_every_module_imports_with_torch_blocked(package: str) -> None:
    command = [sys.executable, "-c", PROGRAM, f"steelyard.{package}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_import_block_works() -> None:
    command = [sys.executable, "-c", PROGRAM, "steelyard.algorithms"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "blocked: torch" in result.stderr
