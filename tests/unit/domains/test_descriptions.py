"""Task titles for pictures."""

from __future__ import annotations

import pytest

from steelyard.domains import make_domain
from steelyard.domains.base import title_of
from steelyard.types import Prompt, Task


def test_bricks_describe_their_tasks() -> None:
    bricks = make_domain("bricks", kinds=["tower"])
    task = bricks.task("held_out", 0)
    assert title_of(bricks, task).startswith("tower ")
    assert task.id not in title_of(bricks, task)


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("nothing", "a theory of any gauge group"),
        ("groups", "a theory of "),
        ("sector", "a theory with the Standard Model's gauge group and Higgs doublet"),
        ("partial", "the Standard Model completed from "),
        ("model", "an extension of the Standard Model"),
    ],
)
def test_theories_describe_their_tasks(kind: str, title: str) -> None:
    domain = make_domain("theories", kinds=[kind])
    task = domain.task("held_out", 0)
    found = title_of(domain, task)
    assert found.startswith(title)
    if kind == "groups":
        assert found.removeprefix(title).split(" × ") == str(task.spec["given"]).split()[1:-1]
    if kind == "partial":
        words = str(task.spec["given"]).split()
        assert found == f"{title}{words.count('left') + words.count('right')} of its 5 fermions"


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("sort 3 1 2 =", "sort 3 1 2 ="),
        ("two\nlines", "two lines"),
        (({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Add 1 and 2."}), "Add 1 and 2."),
        (({"role": "system", "content": "Be brief."},), "t1"),
        ("", "t1"),
    ],
)
def test_the_default_title_is_the_prompt(prompt: Prompt, title: str) -> None:
    assert title_of(make_domain("sequences"), Task("t1", prompt)) == title


def test_a_long_prompt_is_shortened_between_words() -> None:
    title = title_of(make_domain("sequences"), Task("t1", "word " * 100))
    assert len(title) <= 120
    assert title.endswith("word …")
