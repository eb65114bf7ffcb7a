"""The numbers a person must see are on the screen, at any width, and no control characters in a log."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from steelyard.tracking import ConsoleTracker, Histogram, ShownSample
from steelyard.tracking.cards import SampleCards, clip
from steelyard.tracking.figures import count, duration, number, percent, shares, sparkline, trend
from steelyard.types import Verdict

METRICS = {
    "reward/mean": 0.731,
    "reward/std": 0.212,
    "reward/best": 0.95,
    "success": 0.642,
    "share/scored": 0.97,
    "share/rejected": 0.021,
    "share/unscored": 0.009,
    "groups/dead": 0.125,
    "groups/refilled": 2,
    "groups/dropped": 0.0625,
    "length/mean": 43.2,
    "length/truncated": 0.04,
    "kl": 0.0123,
    "entropy": 1.42,
    "clip/share": 0.023,
    "gradient/norm": 0.42,
    "lr": 1e-5,
    "skipped": 0,
    "time/sample": 1.8,
    "time/verify": 0.3,
    "time/score": 0.3,
    "time/update": 0.6,
    "time/step": 3.21,
    "time/tokens_per_second": 812.0,
    "time/sample_tokens_per_second": 1402.0,
    "parts/a/histogram": Histogram.of([1.0]),
}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def console(width: int, *, terminal: bool = True) -> Console:
    return Console(record=True, width=width, force_terminal=terminal, file=io.StringIO(), _environ={})


def panel_text(width: int, steps: int = 120, **changed: float) -> str:
    clock, screen = Clock(), console(width)
    tracker = ConsoleTracker(500, title="copy-sort", console=screen, clock=clock)
    tracker.rewind(-1)
    for step in range(1, steps + 1):
        clock.now += 2.0
        rising = {"reward/mean": 0.731 * step / steps}
        evaluated = {"eval/success": 0.71} if step == 100 else {}
        tracker.log(step, {**METRICS, **rising, **evaluated, **changed})
    tracker.close()
    screen.export_text()
    screen.print(tracker._panel)
    return screen.export_text()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_every_figure_is_visible(width: int) -> None:
    text = panel_text(width)
    expected = (
        *("copy-sort", "step 120/500", "24%", "4:00", "12:40 left", "0.731", "↗", "std 0.212", "best 0.950"),
        *("64.2%", "eval 71.0% at step 100", "97.0% scored", "2.1% rejected", "0.9% unscored"),
        *("dead 12.5%", "refilled 2", "dropped 6.2%", "length 43", "cut 4.0%"),
        *("KL 0.012", "entropy 1.420", "clip 2.3%", "grad 0.420", "lr 1.00e-05"),
        *("tokens/s 812", "sampling tokens/s 1402", "s/step 3.210"),
        *("sample 60%", "verify 10%", "score 10%", "update 20%"),
    )
    assert [word for word in expected if word not in text] == []
    assert "…" not in text, "nothing is cut off"
    assert all(len(line) <= min(width, 120) for line in text.splitlines())


def test_only_labels_are_dim() -> None:
    screen = console(80)
    tracker = ConsoleTracker(10, console=screen, clock=Clock())
    tracker.log(1, METRICS)
    tracker.close()
    segments = [segment for line in screen.render_lines(tracker._panel) for segment in line]
    dim = "".join(segment.text for segment in segments if segment.style and segment.style.dim)
    assert [word for word in ("reward", "entropy", "scored", "tokens/s") if word not in dim] == []
    assert [word for word in ("0.731", "1.420", "97.0%", "812", "60%") if word in dim] == []


def test_a_narrow_terminal_cuts_lines_and_does_not_wrap() -> None:
    text = panel_text(50)
    assert all(len(line) <= 50 for line in text.splitlines())
    assert len(text.splitlines()) == len(panel_text(80).splitlines())


def test_rows_without_metrics_are_left_out() -> None:
    screen = console(80)
    tracker = ConsoleTracker(10, console=screen, clock=Clock())
    tracker.log(1, {"reward/mean": 0.5, "success": 0.25, "lr": 1e-4})
    tracker.close()
    screen.export_text()
    screen.print(tracker._panel)
    text = screen.export_text()
    assert "reward" in text
    assert not [word for word in ("KL", "verdicts", "groups", "speed", "time", "entropy") if word in text]


def test_before_the_first_step_it_says_so() -> None:
    assert "waiting for the first step" in panel_text(80, steps=0)


def test_skipped_steps_add_up() -> None:
    assert "skipped" not in panel_text(80)
    assert "skipped 3" in panel_text(80, steps=3, skipped=1)


def test_accidents_of_the_checker_add_up_by_cause() -> None:
    assert "accidents" not in panel_text(80)
    text = panel_text(80, steps=3, **{"unscored/timeout": 2, "rejected/timeout": 1, "unscored/lost worker": 1})
    assert "accidents" in text
    assert "9 × timeout   3 × lost worker" in text


def test_a_resumed_run_counts_only_what_is_left() -> None:
    clock, screen = Clock(), console(80)
    tracker = ConsoleTracker(100, console=screen, clock=clock)
    tracker.rewind(90)
    clock.now = 10.0
    tracker.log(91, {"reward/mean": 1.0})
    tracker.close()
    screen.export_text()
    screen.print(tracker._panel)
    text = screen.export_text()
    assert "step 91/100" in text
    assert "0:10 · 1:30 left" in text


def test_no_terminal_gets_plain_lines_and_not_too_many() -> None:
    clock, screen = Clock(), console(80, terminal=False)
    tracker = ConsoleTracker(20, console=screen, plain_seconds=2.0, clock=clock)
    tracker.rewind(-1)
    for step in range(1, 21):
        clock.now += 0.5
        tracker.log(step, {**METRICS, **({"eval/success": 0.5} if step == 7 else {})})
    tracker.samples(20, SHOWN)
    tracker.close()
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    lines = [line for line in text.splitlines() if line.startswith("step ")]
    assert [line.split()[1] for line in lines] == ["1/20", "5/20", "7/20", "11/20", "15/20", "19/20", "20/20"]
    assert "reward 0.731  std 0.212  success 64.2%  kl 0.012  entropy 1.420  clip 2.3%  dead 12.5%" in lines[0]
    assert "eval 50.0%" in lines[2]
    assert "\x1b" not in text
    assert "\r" not in text


def test_a_terminal_gets_a_live_panel_that_is_left_standing() -> None:
    screen = console(80)
    tracker = ConsoleTracker(2, console=screen, clock=Clock())
    tracker.rewind(-1)
    tracker.log(1, METRICS)
    tracker.samples(1, SHOWN)
    tracker.log(2, METRICS)
    tracker.close()
    tracker.close()
    written = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[?25l" in written, "the cursor is hidden while live"
    assert written.rstrip().endswith("\x1b[?25h"), "and shown again"
    assert written.index("samples at step 1") < written.rindex("2/2")


SHOWN = [
    ShownSample(
        "best", "sort-1", "Sort 3 1 2", "1 2 3", Verdict.scored(1.0, success=True, parts={"form": 1.0, "order": 0.5})
    ),
    ShownSample("median", "sort-2", "Sort", "\n".join(f"line {n}" for n in range(30)), Verdict.scored(0.5)),
    ShownSample("worst", "sort-3", "[red]x[/red]", "\x1b[2J" + "日" * 200, Verdict.rejected("no\nnumbers", floor=-1.0)),
]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_samples_are_clipped_and_harmless(width: int) -> None:
    screen = console(width)
    screen.print(SampleCards(40, SHOWN))
    raw = screen.file.getvalue()  # type: ignore[attr-defined]
    text = screen.export_text()
    assert "\x1b[2J" not in raw
    for word in (
        "samples at step 40",
        "1.000 ✓",
        "form 1.000",
        "order 0.500",
        "task sort-1",
        "0.500 ✗",
        "rejected: no numbers",
    ):
        assert word in text
    assert "[red]x[/red]" in text, "markup of a model is text"
    assert "line 0" in text
    assert "line 29" in text
    assert "… 25 more lines …" in text
    assert "line 15" not in text
    assert len(text.splitlines()) <= 1 + 3 * 8


def test_clip_keeps_both_ends() -> None:
    assert clip("a\nb\nc", 10, head=1, tail=1) == ["a", "b", "c"]
    assert clip("a\nb\nc\nd", 10, head=1, tail=1) == ["a", "… 2 more lines …", "d"]
    assert clip("abcdef", 4, head=2, tail=1) == ["abcd", "ef"]
    assert clip("\n\n", 4, head=1, tail=1) == []


def test_an_old_code_page_does_not_end_the_run() -> None:
    buffer = io.BytesIO()
    screen = Console(file=io.TextIOWrapper(buffer, encoding="cp1252"), _environ={})
    tracker = ConsoleTracker(3, console=screen)
    tracker.samples(1, SHOWN)
    tracker.log(1, METRICS)
    screen.file.flush()
    assert b"samples at step 1" in buffer.getvalue()


def test_figures() -> None:
    assert sparkline([0.0, 1.0, 2.0, math.nan, 7.0], 10) == "▁▂▃ █"
    assert sparkline([5.0, 0.0, 1.0], 2) == "▁█"
    assert sparkline([1.0, 1.0], 5) == "▄▄"
    assert sparkline([math.nan], 5) == " "
    assert [duration(s) for s in (0, 42.4, 725, 11231, 187800)] == ["0:00", "0:42", "12:05", "3:07:11", "2d 04:10"]
    assert [number(x) for x in (0.0, 0.5, 123.45, 1.2e-5, 1e6, math.nan)] == [
        *("0.000", "0.500", "123.5", "1.20e-05", "1.00e+06", "nan")
    ]
    assert [count(x) for x in (0, 2, 2.5, 812.4, 9999, 12345, 4.5e6)] == [
        "0",
        "2",
        "2.5",
        "812",
        "9999",
        "12.3k",
        "4.5M",
    ]
    assert (percent(0.1234), percent(math.inf)) == ("12.3%", "inf")


def test_shares_fill_the_bar() -> None:
    assert shares([0.97, 0.021, 0.009], 8) == [8, 0, 0]
    assert shares([1, 1, 1], 10) == [4, 3, 3]
    assert shares([0, 0], 5) == [0, 0]


def test_trend_is_level_in_noise_and_points_where_it_goes() -> None:
    noise = [0.5 + 0.1 * (-1) ** n for n in range(40)]
    assert trend(noise) == "→"
    assert trend([0.5] * 10) == "→"
    assert trend([0.01 * n + value for n, value in enumerate(noise)]) == "↗"
    assert trend([-0.01 * n + value for n, value in enumerate(noise)]) == "↘"
    assert trend([1.0, 2.0]) == ""
