"""The console shows every figure at any width, and a log contains no control characters."""

from __future__ import annotations

import io
import math
import threading

import pytest
from rich.console import Console

from steelyard.tracking import Activity, ConsoleTracker, Histogram, ShownSample
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
    "parts/form/mean": 0.5,
    "parts/form/histogram": Histogram.of([1.0]),
    "parts/order/mean": 1.0,
}


EVALUATED = {
    "eval/success": 0.71,
    "eval/reward": 0.8,
    "eval/best": 0.9,
    "eval/pass@1": 0.71,
    "eval/pass@4": 0.92,
    "eval/parts/form": 0.6,
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
        evaluated = EVALUATED if step == 100 else {}
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
        *("64.2%", "97.0% scored", "2.1% rejected", "0.9% unscored"),
        *("success 71.0% (step 100)  reward 0.800  best 0.900  pass@4 92.0%",),
        *("form 0.500 eval 0.600   order 1.000",),
        *("dead 12.5%", "refilled 2", "dropped 6.2%", "length 43", "cut 4.0%"),
        *("KL 0.012", "entropy 1.420", "clip 2.3%", "grad 0.420", "lr 1.00e-05"),
        *("tokens/s 812", "sampling tokens/s 1402", "s/step 3.210"),
        *("sample 60%", "verify 10%", "score 10%", "update 20%"),
    )
    assert [word for word in expected if word not in text] == []
    assert "…" not in text, "nothing is omitted"
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


@pytest.mark.parametrize("width", range(44, 80, 3))
def test_a_narrow_terminal_omits_figures_but_cuts_none(width: int) -> None:
    text = panel_text(width)
    assert all(len(line) <= width for line in text.splitlines())
    assert len(text.splitlines()) == len(panel_text(80).splitlines())
    rows = [line for line in text.splitlines() if "…" in line]
    assert rows
    assert [row for row in rows if " … " not in row] == [], "the ellipsis has spaces around it"


def test_only_evaluations_of_earlier_steps_name_their_step() -> None:
    tracker = ConsoleTracker(500, console=console(80), clock=Clock())
    tracker.log(0, EVALUATED)
    assert "eval      success 71.0%  reward 0.800" in "".join(drawn(tracker, 80))
    tracker.log(1, METRICS)
    assert "eval      success 71.0% (step 0)  reward 0.800" in "".join(drawn(tracker, 80))
    tracker.log(2, METRICS | EVALUATED)
    assert "eval      success 71.0%  reward 0.800" in "".join(drawn(tracker, 80))
    tracker.close()


def test_rows_without_metrics_are_omitted() -> None:
    screen = console(80)
    tracker = ConsoleTracker(10, console=screen, clock=Clock())
    tracker.log(1, {"reward/mean": 0.5, "success": 0.25, "lr": 1e-4})
    tracker.close()
    screen.export_text()
    screen.print(tracker._panel)
    text = screen.export_text()
    assert "reward" in text
    assert not [word for word in ("KL", "verdicts", "groups", "speed", "time", "entropy") if word in text]


def test_the_panel_says_that_it_waits_for_the_first_step() -> None:
    assert "waiting for the first step" in panel_text(80, steps=0)


def test_skipped_steps_add_up() -> None:
    assert "skipped" not in panel_text(80)
    assert "skipped 3" in panel_text(80, steps=3, skipped=1)


def test_failures_of_the_verifier_add_up_by_cause() -> None:
    assert "failures" not in panel_text(80)
    text = panel_text(80, steps=3, **{"unscored/timeout": 2, "rejected/timeout": 1, "unscored/lost worker": 1})
    assert "failures" in text
    assert "9 × timeout   3 × lost worker" in text


def test_the_time_left_of_a_resumed_run_counts_only_remaining_steps() -> None:
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


def test_without_a_terminal_there_are_a_few_plain_lines() -> None:
    clock, screen = Clock(), console(80, terminal=False)
    tracker = ConsoleTracker(20, console=screen, plain_seconds=2.0, clock=clock)
    tracker.rewind(-1)
    for step in range(1, 21):
        clock.now += 0.5
        tracker.log(step, {**METRICS, **({"eval/success": 0.5, "eval/reward": 0.25} if step == 7 else {})})
    tracker.samples(20, SHOWN)
    tracker.close()
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    lines = [line for line in text.splitlines() if line.startswith("step ")]
    assert [line.split()[1] for line in lines] == ["1/20", "5/20", "7/20", "11/20", "15/20", "19/20", "20/20"]
    assert "reward 0.731  std 0.212  success 64.2%  kl 0.012  entropy 1.420  clip 2.3%  dead 12.5%" in lines[0]
    assert "eval 50.0%  eval reward 0.250  kl" in lines[2]
    assert "eval 50.0% (step 7)  eval reward 0.250 (step 7)  kl" in lines[3], "from an earlier step"
    assert "\x1b" not in text
    assert "\r" not in text


def test_the_live_panel_stays_on_the_terminal_after_the_run() -> None:
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


# --- inside a step ---------------------------------------------------------------------------------------------------


def drawn(tracker: ConsoleTracker, width: int) -> list[str]:
    screen = console(width)
    screen.print(tracker._panel)
    return screen.export_text().splitlines()


def row_now(tracker: ConsoleTracker, width: int = 80) -> str:
    return next(line.strip("│ ") for line in drawn(tracker, width) if line.startswith("│ now"))


@pytest.mark.parametrize("width", [80, 140])
def test_the_panel_shows_the_current_phase(width: int) -> None:
    clock = Clock()
    tracker = ConsoleTracker(500, console=console(width), clock=clock)
    tracker.rewind(-1)
    tracker.progress(Activity("sample", 0, 256, "0 verified"))
    assert "sampling   0/256 samples, 0 verified" in row_now(tracker, width)
    assert row_now(tracker, width).endswith("─  0:00"), "no estimate yet"
    clock.now = 30.0
    tracker.progress(Activity("sample", 64, 256, "40 verified"))
    row = row_now(tracker, width)
    assert "sampling  64/256 samples, 40 verified" in row
    assert row.endswith("0:30 · 1:30 left")
    assert row.count("━") * 3 == pytest.approx(row.count("─"), abs=3)
    tracker.progress(Activity("verify", 40, 256))
    clock.now = 40.0
    tracker.progress(Activity("verify", 148, 256))
    assert row_now(tracker, width).endswith("0:10 · 0:10 left"), "only progress in this phase counts"
    tracker.close()


def test_a_phase_without_a_count_is_estimated_from_its_last_duration() -> None:
    clock = Clock()
    tracker = ConsoleTracker(500, console=console(80), clock=clock)
    tracker.progress(Activity("save"))
    assert row_now(tracker) == "now       saving  0:00"
    clock.now = 20.0
    tracker.progress(Activity("sample", 0, 8))
    tracker.progress(Activity("save"))
    clock.now = 25.0
    assert row_now(tracker) == "now       saving  0:05 · 0:15 left"
    clock.now = 45.0
    assert row_now(tracker) == "now       saving  0:25", "no estimate once it takes longer than last time"
    tracker.close()


def test_a_finished_panel_shows_no_phase() -> None:
    tracker = ConsoleTracker(2, console=console(80), clock=Clock())
    tracker.log(1, METRICS)
    tracker.progress(Activity("save"))
    tracker.close()
    assert "now" not in "".join(drawn(tracker, 80))


def test_a_run_without_metrics_leaves_no_panel() -> None:
    screen = console(80)
    tracker = ConsoleTracker(2, console=screen, clock=Clock())
    tracker.progress(Activity("restore"))
    tracker.close()
    written = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "restoring the checkpoint" in written
    assert written.endswith("\x1b[2K"), "its lines are erased"


def test_without_a_terminal_a_long_phase_gets_a_line() -> None:
    clock, screen = Clock(), console(80, terminal=False)
    tracker = ConsoleTracker(20, console=screen, clock=clock)
    tracker._heartbeat.stop()  # stops the thread; the test calls check itself
    tracker.rewind(-1)
    for second in range(300):
        clock.now = float(second)
        tracker.progress(Activity("sample", second, 400, "0 verified"))
        tracker._heartbeat.check()
    for second in range(300, 340):
        clock.now = float(second)
        tracker.progress(Activity("score"))
        tracker._heartbeat.check()
    tracker.close()
    assert screen.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "step 0/20  sampling 30/400 samples, 0 verified  0:30 elapsed  about 6:10 left",
        "step 0/20  sampling 60/400 samples, 0 verified  1:00 elapsed  about 5:40 left",
        "step 0/20  sampling 120/400 samples, 0 verified  2:00 elapsed  about 4:40 left",
        "step 0/20  sampling 240/400 samples, 0 verified  4:00 elapsed  about 2:40 left",
        "step 0/20  computing log-probs  0:30 elapsed",
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_only_a_log_needs_a_heartbeat_thread(terminal: bool) -> None:
    tracker = ConsoleTracker(20, console=console(80, terminal=terminal))
    tracker.progress(Activity("score"))
    assert ("heartbeat" in [thread.name for thread in threading.enumerate()]) is not terminal
    tracker.close()
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]


SHOWN = [
    ShownSample(
        "best", "sort-1", "Sort 3 1 2", "1 2 3", Verdict.scored(1.0, success=True, parts={"form": 1.0, "order": 0.5})
    ),
    ShownSample("median", "sort-2", "Sort", "\n".join(f"line {n}" for n in range(30)), Verdict.scored(0.5)),
    ShownSample("worst", "sort-3", "[red]x[/red]", "\x1b[2J" + "日" * 200, Verdict.rejected("no\nnumbers", floor=-1.0)),
]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_samples_are_clipped_and_their_control_characters_removed(width: int) -> None:
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
    assert "[red]x[/red]" in text, "markup in a sample is plain text"
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


def test_a_limited_output_encoding_does_not_stop_the_run() -> None:
    buffer = io.BytesIO()
    screen = Console(file=io.TextIOWrapper(buffer, encoding="cp1252"), _environ={})
    tracker = ConsoleTracker(3, console=screen)
    tracker.samples(1, SHOWN)
    tracker.log(1, METRICS)
    screen.file.flush()
    assert b"samples at step 1" in buffer.getvalue()


def test_number_formats() -> None:
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


def test_the_trend_is_level_in_noise_and_follows_a_slope() -> None:
    noise = [0.5 + 0.1 * (-1) ** n for n in range(40)]
    assert trend(noise) == "→"
    assert trend([0.5] * 10) == "→"
    assert trend([0.01 * n + value for n, value in enumerate(noise)]) == "↗"
    assert trend([-0.01 * n + value for n, value in enumerate(noise)]) == "↘"
    assert trend([1.0, 2.0]) == ""
