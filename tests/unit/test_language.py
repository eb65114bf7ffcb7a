"""The text people read avoids patterns that sound translated; ``tests/prose.py`` collects the text."""

from __future__ import annotations

import re

import pytest

from tests.prose import Sentence, markdown_sentences, python_sentences, sentences

PATTERNS = {
    "is no X": r"(?<![Tt]here )\b(is|are|was|were) no\b(?! (longer|more|less|better|worse|larger|slower))",
    "are none": r"(?<![Tt]here )\b(is|are|was|were) none\b",
    "so many": r"\bso many\b(?! (that|times))",
    "comes to": r"\b(what|that) (it|they|this) comes? to\b",
    "told": r"\b(is|are|was|be|not) told\b|\btells? (apart|of)\b",
    "taken for": r"\btake[ns]? for\b",
    "asked for": r"\basked for\b",
    "the thing": r"\b(the|made) things?\b",
    "goes on": r"\bgo(es)? on\b",
    "begins anew": r"\banew\b",
    "in vain": r"\bin vain\b",
    "beside": r"\bbeside\b",
    "the way out": r"\bway out\b",
    "tokens that must come": r"\b(what|that) must come\b(?! first)",
    "whose fault": r"\bwhose fault\b",
    "one a row": r"\b(?<!which )(?<!each )(one|two|figures?|rows?|samples|tokens|tasks|groups|seconds|minutes|bytes)"
    r" an? (row|core|step|task|group|sample|token|seed|second|worker|rank|node|kind|line|turn|file|run|phase|section)"
    r"\b(?! of)",
}


@pytest.fixture(scope="module")
def everything() -> list[Sentence]:
    return sentences()


@pytest.mark.slow
@pytest.mark.parametrize("name", PATTERNS)
def test_pattern_is_gone(name: str, everything: list[Sentence]) -> None:
    found = [str(each) for each in everything if re.search(PATTERNS[name], each.text)]
    assert not found, f"{name!r} reads as translated; see CONTRIBUTING.md:\n" + "\n".join(found)


def test_every_kind_of_text_is_collected() -> None:
    code = '''"""Module docstring has four words."""
LIMIT = 3
"""Attribute docstrings are collected as well."""
# A comment of two lines
# is a single sentence.
raise ValueError(f"the value {LIMIT + 1} is too large; lower it")
parser.add_argument("--n", help="number of samples per task")
'''
    assert [(each.kind, each.line, each.text) for each in python_sentences(code, "module.py")] == [
        ("docstring", 1, "Module docstring has four words."),
        ("docstring", 3, "Attribute docstrings are collected as well."),
        ("comment", 4, "A comment of two lines is a single sentence."),
        ("error", 6, "the value {LIMIT + 1} is too large; lower it"),
        ("help", 7, "number of samples per task"),
    ]


def test_markdown_without_code() -> None:
    page = (
        "# A title of four words\n\nFirst sentence of this.\nSecond one follows here.\n\n```\nthis is some code\n```\n"
    )
    assert [each.text for each in markdown_sentences(page, "page.md")] == [
        "A title of four words",
        "First sentence of this.",
        "Second one follows here.",
    ]
