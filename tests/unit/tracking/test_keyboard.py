"""Ctrl-C on a real terminal draws nothing into the panel, and the terminal is restored afterwards."""

from __future__ import annotations

import os
import sys
import termios
from pathlib import Path

import steelyard
from benchmarks.experience.terminal import Terminal
from steelyard.tracking.keyboard import hide_control_keys

PROGRAM = """
import signal, time
from steelyard.tracking import Activity, ConsoleTracker

pressed = []
signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
tracker = ConsoleTracker(10, title="copy")
tracker.log(1, {"reward/mean": 0.5})
tracker.progress(Activity("sample", 3, 8))
while not pressed:
    time.sleep(0.01)
time.sleep(0.6)  # the panel refreshes
tracker.close()
input("the end")
"""


def test_ctrl_c_draws_nothing_into_the_panel_and_the_terminal_is_restored() -> None:
    source = str(Path(steelyard.__file__).parents[1])
    terminal = Terminal([sys.executable, "-c", PROGRAM], 60, os.environ | {"PYTHONPATH": source})
    pressed = False
    try:
        before = termios.tcgetattr(terminal.keyboard)[3]
        while "the end" not in "".join(terminal.screen.text()) and terminal.read(60.0):
            if not pressed and "sampling 3/8" in "".join(terminal.screen.text()):
                pressed = True
                terminal.press("\x03")
        after = termios.tcgetattr(terminal.keyboard)[3]
    finally:
        terminal.close()
    screen = terminal.screen.text()
    assert pressed
    assert [row[:2] for row in screen if row] == ["╭─", "│ ", "│ ", "╰─", "th"], screen
    assert before & termios.ECHOCTL
    assert after == before


def test_output_that_is_not_a_terminal_is_left_unchanged() -> None:
    with open(os.devnull, "w") as file:  # noqa: PTH123
        hide_control_keys(file)()
    hide_control_keys(file)()
