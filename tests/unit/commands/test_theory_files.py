"""Theory files on the command line: reading, writing and rejected input."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.cli import main
from steelyard.domains.theories.grammar.starting_points import standard_model_text
from steelyard.domains.theories.grammar.text import with_line_breaks

SM = standard_model_text()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("sm.txt").write_text(with_line_breaks(SM), encoding="utf-8")
    Path("other.txt").write_text(SM.replace("yukawa F3 F4* S1 1e0", "yukawa F3 F4* S1 5e-1"), encoding="utf-8")
    return tmp_path


def test_a_second_sarah_model_does_not_overwrite_the_companions_of_the_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["export", "theories", "sm.txt", "--out", "models/sm.m"]) == 0
    first = Path("models/parameters.m").read_bytes()
    assert main(["export", "theories", "other.txt", "--out", "models/other.m"]) == 2
    assert "--out models/other/other.m" in capsys.readouterr().err
    assert Path("models/parameters.m").read_bytes() == first
    assert not Path("models/other.m").exists()
    assert main(["export", "theories", "other.txt", "--out", "models/other/other.m"]) == 0
    assert main(["export", "theories", "other.txt", "--out", "models/sm.m"]) == 0
    assert Path("models/parameters.m").read_bytes() == Path("models/other/parameters.m").read_bytes()
    assert main(["export", "theories", "sm.txt", "--out", "new/particles.m"]) == 2


def test_a_report_on_files_lists_every_theory(capsys: pytest.CaptureFixture[str]) -> None:
    twice = Path("twice.txt")
    twice.write_text(with_line_breaks(SM) + with_line_breaks(SM.replace("x3", "x2")), encoding="utf-8")
    assert main(["report", "theories", "sm.txt", "twice.txt"]) == 0
    assert "3 of 3 samples are consistent theories (3 readable); 2 distinct" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "expected"), [("GAUGE U(1)\nnonsense\n", "word 3 is 'nonsense'"), (" \n", "empty")])
def test_an_empty_report_explains_why(text: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("none.txt").write_text(text, encoding="utf-8")
    assert main(["report", "theories", "none.txt"]) == 2
    assert expected in capsys.readouterr().err
    assert not Path("report.html").exists()
