"""Verifiers loaded by import path, and the errors for invalid paths."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from steelyard.errors import VerifierError
from steelyard.verification import (
    BatchMode,
    FunctionVerifier,
    TRLVerifier,
    as_verifier,
    load_function,
    load_verifier,
    safe_verify,
)

MODULE = """
from steelyard.verification import verifier

def score(task, text):
    return len(text)

def trl(completions, **kwargs):
    return [0.0] * len(completions)

@verifier(mode="batch", size=2, floor=-1.0)
def declared(tasks, texts):
    return [1.0] * len(texts)

class Longer:
    def __init__(self, than=0):
        self.than = than

    def __call__(self, task, text):
        return len(text) > self.than

    @staticmethod
    def fixed(task, text):
        return 0.5

class Bystander:
    def __init__(self):
        raise AssertionError("it was built")

limit = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the module ``my_checks``, which cannot be imported from elsewhere."""
    (tmp_path / "my_checks.py").write_text(MODULE)
    (tmp_path / "needs_more.py").write_text("import not_there_at_all\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


@pytest.mark.usefixtures("here")
def test_functions_in_the_working_directory_are_found(item) -> None:
    found = load_verifier("my_checks:score", floor=-1.0)
    assert safe_verify(found, [item("abc")])[0].reward == 3.0
    assert found.floor == -1.0
    assert isinstance(as_verifier("my_checks:trl"), TRLVerifier)
    declared = load_verifier("my_checks:declared")
    assert isinstance(declared, FunctionVerifier)
    assert (declared.mode, declared.floor) == (BatchMode(2), -1.0)


@pytest.mark.usefixtures("here")
def test_a_class_is_instantiated_with_its_arguments(item) -> None:
    found = load_verifier("my_checks:Longer", {"than": 2}, name="longer")
    assert [verdict.reward for verdict in safe_verify(found, [item("ab"), item("abc")])] == [0.0, 1.0]
    assert found.name == "longer"
    assert load_function("my_checks:Longer.fixed")(None, "") == 0.5
    with pytest.raises(VerifierError, match=r"is not a class.*remove than"):
        load_verifier("my_checks:score", {"than": 2})


def test_the_working_directory_is_added_only_if_it_has_the_module(here: Path) -> None:
    """Otherwise later imports would search the working directory first."""
    (here / "email").mkdir()
    load_function("email:message_from_string")
    load_function("json:loads")
    assert str(here) not in sys.path
    (here / "folder").mkdir()
    (here / "folder" / "checks.py").write_text(MODULE)
    load_function("folder.checks:score")
    assert sys.path[0] == str(here)


@pytest.mark.usefixtures("here")
def test_a_class_that_is_not_a_verifier_is_not_instantiated() -> None:
    with pytest.raises(VerifierError, match="'my_checks:Bystander' is a class without verify"):
        load_verifier("my_checks:Bystander")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("my_checks", "is not an import path.*module:function"),
        ("my_checks:", "is not an import path"),
        (":score", "is not an import path"),
        ("my-checks:score", "is not an import path"),
        (" my_checks:score", "is not an import path"),
        ("my_checks:score()", "is not an import path"),
        ("my_checks.py:score", "'my_checks:score'"),
        ("sub/my_checks.py:score", "'sub.my_checks:score'"),
        ("your_checks:score", "no module 'your_checks'; searched"),
        ("my_checks.deeper:score", "no module|not a package"),
        ("needs_more:score", "imports 'not_there_at_all', which is not installed"),
        ("broken:score", "importing broken raised ZeroDivisionError: division by zero"),
        ("my_checks:scores", "no 'scores'; did you mean 'score'"),
        ("my_checks:zzz", "no 'zzz'; it has .*declared"),
        ("my_checks:Longer.fix", "did you mean 'fixed'"),
        ("my_checks:limit", "has type int, which is not callable"),
    ],
)
def test_errors_for_wrong_paths(path: str, message: str) -> None:
    with pytest.raises(VerifierError, match=message):
        load_function(path)
