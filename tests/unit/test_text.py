"""Text from models, verifiers and datasets is printed safely and shortened if necessary."""

from __future__ import annotations

from steelyard.text import bounded, one_line, printable


def test_control_characters_and_lone_surrogates_are_made_visible() -> None:
    shown = printable("a\x1b[2J\x7f\ud800\tb\r\nc")
    assert shown == "a␛[2J␡\N{REPLACEMENT CHARACTER} b\nc"
    assert shown.encode()
    assert one_line("a\nb\x07") == "a b␇"


def test_a_long_text_keeps_its_start_and_its_end() -> None:
    assert bounded("x" * 4000) == "x" * 4000
    short = bounded("start" + "x" * 20_000_000 + "end")
    assert len(short) < 4100
    assert short.startswith("start")
    assert short.endswith("end")
    assert "19996008 characters left out" in short
