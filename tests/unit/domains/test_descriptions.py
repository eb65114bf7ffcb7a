"""What a task asks for, in the words that stand next to pictures."""

from __future__ import annotations

import pytest

from steelyard.domains import make_domain
from steelyard.domains.base import title_of
from steelyard.types import Prompt, Task


def test_domains_say_it_in_their_own_words() -> None:
    bricks = make_domain("bricks", kinds=["tower"])
    task = bricks.task("held_out", 0)
    assert title_of(bricks, task).startswith("tower ")
    assert task.id not in title_of(bricks, task)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("nothing", "a theory of any gauge group"),
        ("groups", "a theory of "),
        ("sector", "a theory with the Standard Model's gauge group and Higgs doublet"),
        ("partial", "the Standard Model completed from "),
        ("model", "an extension of the Standard Model"),
    ],
)
def test_theories(kind: str, said: str) -> None:
    domain = make_domain("theories", kinds=[kind])
    task = domain.task("held_out", 0)
    found = title_of(domain, task)
    assert found.startswith(said)
    if kind == "groups":
        assert found.removeprefix(said).split(" × ") == str(task.spec["given"]).split()[1:-1]
    if kind == "partial":
        words = str(task.spec["given"]).split()
        assert found == f"{said}{words.count('left') + words.count('right')} of its 5 fermions"


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("sort 3 1 2 =", "sort 3 1 2 ="),
        ("two\nlines", "two lines"),
        (({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Add 1 and 2."}), "Add 1 and 2."),
        (({"role": "system", "content": "Be brief."},), "t1"),
        ("", "t1"),
    ],
)
def test_else_it_is_the_prompt(prompt: Prompt, said: str) -> None:
    assert title_of(make_domain("sequences"), Task("t1", prompt)) == said


def test_a_long_prompt_is_cut_between_words() -> None:
    said = title_of(make_domain("sequences"), Task("t1", "word " * 100))
    assert len(said) <= 120
    assert said.endswith("word …")
