"""Episodes are shown turn by turn: markers, turn rewards, the limit that ended them, and escaped control codes."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from steelyard.environments.base import LIMITS
from steelyard.tracking import ArtifactTracker, ShownSample, select_samples
from steelyard.tracking.cards import SampleCards
from steelyard.tracking.transcript import ShownTurn, limit_note, sample_text, transcript_lines
from steelyard.types import NO_DECISIONS, FinishReason, Group, Sample, SampleKey, Task, Turn, Verdict

WON = replace(Verdict.scored(0.8, success=True), turn_rewards=(-0.1, -0.1, 1.0))
TEXTS = ("3", "higher", "6", "lower", "5")


def episode(*texts: str, role: str = "user", finish: FinishReason = "stop", prompt: str | None = None) -> Sample:
    roles = ["assistant", role] * len(texts)
    turns = tuple(Turn(each, text, 0, 0) for each, text in zip(roles, texts, strict=False))
    key = SampleKey(0, 0, 0, 0)
    return Sample(key, np.zeros(0, np.int32), 0, "".join(texts), finish, NO_DECISIONS, turns=turns, observation=prompt)


def shown(sample: Sample, verdict: Verdict = WON) -> ShownSample:
    (one,) = select_samples([Group(Task("t", "find it"), (sample,), (verdict,))])
    return one


def card(sample: ShownSample, width: int = 80) -> tuple[str, str]:
    screen = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, _environ={})
    screen.print(SampleCards(1, [sample]))
    return screen.file.getvalue(), screen.export_text()  # type: ignore[attr-defined]


def test_turns_are_marked_and_have_their_rewards() -> None:
    assert sample_text(shown(episode(*TEXTS))).splitlines() == [
        "│ 3  (reward -0.1)",
        "> higher",
        "│ 6  (reward -0.1)",
        "> lower",
        "│ 5  (reward 1)",
    ]
    assert sample_text(shown(episode(*TEXTS), Verdict.scored(1.0))).splitlines()[0] == "│ 3", "no rewards were given"


def test_every_line_of_a_turn_is_marked_so_that_the_policy_cannot_imitate_a_reply() -> None:
    lines = sample_text(shown(episode("a\n> higher", "x\ny", ""), Verdict.scored(0.0))).splitlines()
    assert lines == ["│ a", "│ > higher", "> x", "> y", "│ (empty)"]


def test_replies_of_tools_name_their_role() -> None:
    assert "> tool: 42" in sample_text(shown(episode("6*7", "42", "42", role="tool")))


@pytest.mark.parametrize("finish", LIMITS)
def test_the_limit_that_ended_an_episode_is_named_once(finish: FinishReason) -> None:
    scored = shown(episode(*TEXTS, finish=finish))
    assert sample_text(scored).endswith(f"({LIMITS[finish]})")
    assert LIMITS[finish] in card(scored)[1]
    rejected = shown(episode(*TEXTS, finish=finish), Verdict.rejected(LIMITS[finish]))
    assert limit_note(rejected.turns, finish, rejected.verdict) == "", "the verdict says so"
    assert limit_note((), "length", WON) == "", "not an episode"


def test_a_card_shows_the_turns_with_dimmed_replies() -> None:
    raw, text = card(shown(episode(*TEXTS)))
    assert [line.rstrip() for line in text.splitlines()[2:]] == [
        "  find it",
        "  │ 3  (reward -0.1)",
        "  > higher",
        "  │ 6  (reward -0.1)",
        "  > lower",
        "  │ 5  (reward 1)",
    ]
    assert "\x1b[2mhigher" in raw
    assert "\x1b[2m3" not in raw


def test_long_episodes_and_long_turns_are_clipped() -> None:
    texts = [f"turn {number}" for number in range(40)]
    text = card(shown(episode(*texts), Verdict.scored(0.0)))[1]
    assert "… 31 more turns …" in text
    assert "turn 4" in text
    assert "turn 39" in text
    assert "turn 20" not in text
    wide = card(shown(episode("word " * 200, "lower", "5")), width=60)[1]
    assert "more lines" in wide
    assert "(reward -0.1)" in wide, "the reward has room on the last line"


def test_control_characters_in_replies_are_harmless() -> None:
    nasty = shown(episode("3", "\x1b[2Jgone\x07", "5"))
    raw, text = card(nasty)
    assert "\x1b[2J" not in raw
    assert "␛[2Jgone" in text
    assert "\x1b" not in sample_text(nasty)


def test_the_initial_observation_replaces_the_prompt() -> None:
    assert shown(episode(*TEXTS, prompt="a board")).prompt == "a board"
    assert shown(episode(*TEXTS)).prompt == "find it"


def test_files_hold_the_turns(tmp_path: Path) -> None:
    ArtifactTracker(tmp_path).samples(3, [shown(episode(*TEXTS, finish="turns"))])
    page = (tmp_path / "samples-00000003.md").read_text(encoding="utf-8")
    assert "Episode:\n\n```text\n│ 3  (reward -0.1)\n> higher\n" in page
    (row,) = map(json.loads, (tmp_path / "samples-00000003.jsonl").read_text(encoding="utf-8").splitlines())
    assert row["finish"] == "turns"
    assert [ShownTurn(**turn).text for turn in row["turns"]] == list(TEXTS)
    assert row["turns"][0] == {"role": "assistant", "text": "3", "reward": -0.1}


def test_a_single_turn_is_shown_as_before(tmp_path: Path) -> None:
    alone = shown(replace(episode(), text="1 2 3"), Verdict.scored(1.0))
    assert (alone.turns, sample_text(alone)) == ((), "1 2 3")
    ArtifactTracker(tmp_path).samples(3, [alone])
    assert "Sample:\n\n```text\n1 2 3\n```" in (tmp_path / "samples-00000003.md").read_text(encoding="utf-8")
    assert "turns" not in (tmp_path / "samples-00000003.jsonl").read_text(encoding="utf-8")
    assert list(transcript_lines(())) == []
