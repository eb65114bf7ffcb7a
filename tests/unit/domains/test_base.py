"""A domain with only tasks and a verifier: default methods, and lookup by name or import path."""

from __future__ import annotations

import itertools
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.compose.pictures import sheet
from steelyard.domains import Artifact, Domain, TextSpan, make_domain, register, registry
from steelyard.domains.base import artifact_text, examples_of
from steelyard.drawing import Label, Scene, framed
from steelyard.environments import Session, SessionEnvironment
from steelyard.errors import ConfigError, DataError, Invalid
from steelyard.tracking.shown import ShownSample
from steelyard.tracking.transcript import shown_turns
from steelyard.types import NO_DECISIONS, Sample, SampleKey, Task, Turn, Verdict


def score(task: Task, text: str) -> Verdict:
    if not text.strip().isdigit():
        raise Invalid(f"{text!r} is not a number")
    right = int(text) == task.spec["number"]
    return Verdict.scored(float(right), success=right, parts={"length": len(text)})


class Numbers(Domain):
    def size(self, split: str) -> int:
        return 3

    def task(self, split: str, index: int) -> Task:
        return Task(str(index), f"write {index}", {"number": index})

    def verifier(self) -> Any:
        return score


class Shown(Numbers):
    def examples(self, *, seed: int) -> Iterator[tuple[Task, str]]:
        return ((self.task("train", index), str(index)) for index in range(2))


NUMBERS = Numbers()


@pytest.fixture
def registered() -> Iterator[None]:
    yield
    registry._registered.clear()


def labels(picture: bytes) -> list[str]:
    return [str(element.text) for element in ET.fromstring(picture) if element.tag.endswith("text")]


def test_tasks_and_verifier_are_required() -> None:
    assert Domain.__abstractmethods__ == {"size", "task", "verifier"}
    assert (NUMBERS.name, NUMBERS.vocabulary(), NUMBERS.automaton()) == ("numbers", None, None)
    assert NUMBERS.describe(NUMBERS.task("train", 2)) == "write 2"
    assert (NUMBERS.to_text("a"), NUMBERS.highlights(NUMBERS.task("train", 0), "a")) == ("a", [TextSpan("a", "plain")])


def test_texts_are_drawn_by_default() -> None:
    assert labels(NUMBERS.render([Artifact("one\ntwo <&\x1b")])) == ["one", "two <&␛"]
    assert labels(NUMBERS.render([Artifact("", "a title")])) == ["a title", "(empty)"]
    long = labels(NUMBERS.render([Artifact("word " * 2000)]))
    assert len(long) == 24
    assert long[-1] == "…"
    verdict = Verdict.rejected("no number", floor=-1.0)
    sheet = labels(NUMBERS.render([Artifact("7", "best", verdict=Verdict.scored(1.0)), Artifact("x", verdict=verdict)]))
    assert sheet == ["7", "best", "reward 1.000 · failed", "x", "reward -1.000 · rejected", "no number"]


class Drawn(Numbers):
    def draw(self, artifact: Artifact) -> Scene:
        if not artifact.text.isdigit():
            raise Invalid(f"{artifact.text!r} is not a number")
        return framed([Label((0, 0), f"number {artifact.text}", 12, (0, 0, 0))], 2)


def test_a_domain_can_draw_its_own_pictures() -> None:
    assert labels(Drawn().render([Artifact("7", "seven")])) == ["seven", "number 7"]
    samples = [Artifact(text, verdict=Verdict.scored(0.0)) for text in ("7", "x")]
    assert labels(Drawn().render(samples))[::2] == ["number 7", "x"], "an invalid sample is shown as text"
    with pytest.raises(DataError, match="mine cannot be drawn: 'x' is not a number"):
        Drawn().render([Artifact("x", "mine")])


def test_pictures_can_be_png_and_scaled() -> None:
    pytest.importorskip("PIL")
    assert NUMBERS.render([Artifact("7")], "png").startswith(b"\x89PNG")
    widths = [ET.fromstring(NUMBERS.render([Artifact("7")], scale=scale)).get("width") for scale in (1.0, 2.0)]
    assert float(widths[1] or 0) == pytest.approx(2 * float(widths[0] or 0), abs=1)
    for form, artifacts, error in (("gif", [Artifact("7")], ConfigError), ("svg", [], DataError)):
        with pytest.raises(error):
            NUMBERS.render(artifacts, form)
    with pytest.raises(ConfigError, match="scale"):
        NUMBERS.render([Artifact("7")], "png", scale=1000.0)


def test_a_report_shows_the_verdict() -> None:
    good = NUMBERS.report("2", {"number": 2})
    assert (good.good, good.summary) == (True, ("success: reward 1",))
    assert [row.cells for row in good.rows] == [("length", "1")]
    assert NUMBERS.report("3", {"number": 2}).summary == ("failed: reward 0",)
    rejected = NUMBERS.report("x", {"number": 2})
    assert (rejected.good, rejected.summary[0][:8], rejected.flaws) == (False, "rejected", ("'x' is not a number",))
    with pytest.raises(DataError, match=r"KeyError: 'number'(.|\n)*--spec"):
        NUMBERS.report("3")
    with pytest.raises(ConfigError, match="--method exact"):
        NUMBERS.with_method("exact")


def test_a_summary_counts_distinct_texts() -> None:
    scored = [
        Artifact(text, verdict=Verdict.scored(float(text == "7"), success=text == "7")) for text in ("7", "8", "7")
    ]
    found = NUMBERS.summary([*scored, Artifact("<x>", verdict=Verdict.unscored("timeout"))], title="a <run>")
    assert found.lines == ("3 distinct texts among 4", "2 of 3 succeed, mean reward 0.6667")
    assert [row.cells for row in found.rows] == [("7", "2", "1"), ("8", "1", "0"), ("<x>", "1", "")]
    assert "<h1>a &lt;run&gt;</h1>" in found.page
    assert "&lt;x&gt;" in found.page
    assert NUMBERS.summary([Artifact("7")]).lines == ("1 distinct text among 1",)


def test_a_summary_counts_the_samples_of_each_task() -> None:
    rewards = {"even": 0.0, "odd": 1.0}
    samples = [Artifact("7", title, verdict=Verdict.scored(rewards[title])) for title in ("odd", "even", "odd")]
    found = NUMBERS.summary(samples)
    assert found.columns == ("task", "text", "times", "reward")
    assert [row.cells for row in found.rows] == [("odd", "7", "2", "1"), ("even", "7", "1", "0")]
    assert found.lines[0] == "1 distinct text among 3"
    files = NUMBERS.summary([Artifact("7", "a.txt"), Artifact("7", "b.txt")])
    assert [row.cells for row in files.rows] == [("7", "2", "")]


def test_the_default_export_is_the_text() -> None:
    assert NUMBERS.export("7\n", "txt", name="seven") == {"seven.txt": b"7\n"}
    with pytest.raises(ConfigError, match="'obj' is not supported; choose one of txt"):
        NUMBERS.export("7", "obj", name="seven")


def test_missing_examples_name_the_method_to_define() -> None:
    with pytest.raises(
        ConfigError, match=r"warmstart: the domain 'numbers' .*define Numbers\.examples\(self, \*, seed\)"
    ):
        examples_of(NUMBERS, "warmstart", seed=0)
    with pytest.raises(ConfigError, match=r"judge: .*without a domain"):
        examples_of(None, "judge", seed=0)
    texts = [text for _, text in itertools.islice(examples_of(Shown(), "warmstart", seed=0), 5)]
    assert texts == ["0", "1", "0", "1", "0"], "examples are repeated"


def test_a_domain_is_found_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    body = "    def size(self, split):\n        return 1\n"
    (tmp_path / "half_a_domain.py").write_text(
        f"from steelyard.domains import Domain\nclass Half(Domain):\n{body}\nclass Other:\n{body}", encoding="utf-8"
    )
    for path, message in (
        ("half_a_domain:Half", "abstract methods? .?task"),
        ("half_a_domain:Other", r"not a subclass of steelyard\.domains\.Domain"),
        ("half_a_domain:Hlaf", "did you mean 'Half'"),
        ("not_there_at_all:Domain", "no module 'not_there_at_all'"),
    ):
        with pytest.raises(ConfigError, match=f"domain '{path}'.*{message}"):
            make_domain(path)


def test_a_domain_is_found_by_its_registered_name(registered: None) -> None:
    register("mine", Numbers)
    assert isinstance(make_domain("mine"), Numbers)
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        make_domain("mien")
    for name in ("bricks", "module:Class"):
        with pytest.raises(ConfigError, match="choose another"):
            register(name, Numbers)
    with pytest.raises(ConfigError, match="not a subclass"):
        register("text", str)  # pyright: ignore[reportArgumentType]


class Warmer(SessionEnvironment):
    """Replies once, then ends the episode."""

    closed = 0

    def open(self, task: Task, seed: int) -> Session:
        return WarmerSession(task.spec["number"])


class WarmerSession(Session):
    def __init__(self, number: int) -> None:
        self.number = number

    def reply(self, text: str) -> Any:
        return True if int(text) == self.number else "warmer\ntry again"

    def close(self) -> None:
        Warmer.closed += 1


@pytest.mark.parametrize("given", [Warmer, Warmer()])
def test_an_environment_gets_a_file_as_the_first_turn_of_an_episode(given: Any) -> None:
    class Played(Numbers):
        def verifier(self) -> Any:
            return given

    Warmer.closed = 0
    won = Played().report("2\n", {"number": 2})
    assert (won.good, won.summary) == (True, ("success: reward 1",))
    unfinished = Played().report("1\n", {"number": 2})
    assert (unfinished.good, unfinished.flaws) == (False, ("> warmer", "> try again"))
    assert "first turn of an episode" in unfinished.summary[0]
    assert "steelyard sample" in unfinished.summary[0]
    assert Warmer.closed == 2, "no session stays open"
    with pytest.raises(DataError, match="--spec"):
        Played().report("2\n")


def test_the_artifact_of_an_episode_is_the_last_turn_of_the_policy() -> None:
    turns = tuple(Turn(role, text, 0, 0) for role, text in (("assistant", "3"), ("user", "lower"), ("assistant", "2")))
    played = Sample(SampleKey(0, 0, 0, 0), np.zeros(0, np.int32), 0, "3lower2", "stop", NO_DECISIONS, turns=turns)
    assert artifact_text(NUMBERS, played) == "2"
    assert artifact_text(NUMBERS, replace(played, turns=turns[:2])) == "3", "cut off after a reply"
    assert artifact_text(NUMBERS, replace(played, turns=())) == "3lower2"
    shown = ShownSample(
        "best", "t", "p", "3lower2", Verdict.scored(1.0), turns=shown_turns(played, Verdict.scored(1.0))
    )
    assert labels(sheet(NUMBERS, [shown]))[0] == "2"
