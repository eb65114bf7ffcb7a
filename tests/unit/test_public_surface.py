"""The public names. Adding or removing a public name requires a change to this file and a changelog entry."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SURFACE = {
    "steelyard": [
        "Environment",
        "Group",
        "Invalid",
        "Reply",
        "Sample",
        "Session",
        "SessionEnvironment",
        "SteelyardError",
        "Task",
        "Verdict",
        "open_run",
        "train",
        "verifier",
    ],
    "steelyard.domains": [
        "Artifact",
        "Domain",
        "Report",
        "Row",
        "Split",
        "Summary",
        "TextSpan",
        "domain_names",
        "make_domain",
        "register",
    ],
    "steelyard.errors": [
        "CheckpointError",
        "ConstraintError",
        "ConfigError",
        "DataError",
        "Invalid",
        "LostLearnerError",
        "MissingExtraError",
        "PolicyError",
        "SandboxError",
        "SteelyardError",
        "StoppedError",
        "TrainingError",
        "TrustError",
        "VerifierError",
    ],
}


@pytest.mark.parametrize("module", SURFACE)
def test_public_names(module: str) -> None:
    loaded = importlib.import_module(module)
    classes = [name for name, value in vars(loaded).items() if isinstance(value, type)]
    assert sorted(getattr(loaded, "__all__", classes)) == sorted(SURFACE[module])
    assert all(hasattr(loaded, name) for name in SURFACE[module])


def test_importing_the_package_does_not_load_torch() -> None:
    program = "import steelyard, sys; sys.exit(sorted({'torch', 'transformers', 'peft'} & set(sys.modules)) or 0)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_all_errors_share_a_base_class() -> None:
    errors = importlib.import_module("steelyard.errors")
    ours = [getattr(errors, name) for name in SURFACE["steelyard.errors"] if name != "Invalid"]
    assert all(issubclass(error, errors.SteelyardError) for error in ours)


def test_the_console_script_exists() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["steelyard"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))
