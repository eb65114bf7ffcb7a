"""The in-memory terminal shows what a real terminal would, and defects in a panel are detected."""

from __future__ import annotations

import sys

from benchmarks.experience.panel import PanelObservations, check_screen, panel_of
from benchmarks.experience.terminal import Screen, Terminal


def test_lines_are_erased_overwritten_and_wrapped() -> None:
    screen = Screen(10)
    screen.feed("one\r\ntwo\r\n\x1b[1A\x1b[2Kthree")
    assert screen.text() == ["one", "three", ""]
    screen.feed("\r\n\x1b[31mred\x1b[0m plain \x1b")
    screen.feed("[1mb")
    assert screen.text() == ["one", "three", "red plain", "b"]
    assert screen.wrapped == ["red plain"]


def test_a_picture_has_the_text_and_its_colours() -> None:
    screen = Screen(20)
    screen.feed("\x1b[31mred\x1b[0m\r\n")
    picture = screen.picture("a title")
    assert ">red<" in picture
    assert picture.count("fill: #cc555a") == 1


def test_a_program_draws_on_its_own_terminal() -> None:
    program = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns, 'ö')"
    terminal = Terminal([sys.executable, "-c", program], 47, {})
    try:
        while terminal.read(10.0):
            pass
    finally:
        terminal.close()
    assert terminal.screen.text()[0] == "True 47 ö"


def panel(*rows: str) -> list[str]:
    return ["something above", "╭─ steelyard ─╮", *(f"│ {row} │" for row in rows), "╰─────────────╯", ""]


def test_truncated_figures_and_lost_rows_are_detected() -> None:
    seen = PanelObservations()
    first, second = panel("now  sampling", "KL 0.0…"), panel("now  saving")
    assert panel_of(first) == first[1:-1]
    assert panel_of(first[:2]) == []
    check_screen(first, [], seen)
    check_screen(second, first, seen)
    check_screen(first, second, seen)
    check_screen(panel(), first, seen)
    assert seen.lost_rows == 1, "the last panel may be smaller"
    assert seen.truncated == {"│ KL 0.0… │"}
