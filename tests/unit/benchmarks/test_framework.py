"""The benchmark runner: figures are compared with bars, a missed bar exits non-zero, quick runs keep full results."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks.framework import catalogue
from benchmarks.framework.result import Figure, Record, Result, machine, record, versions

ROOT = Path(__file__).resolve().parents[3]


def result(value: float, *, bar: float = 0.5) -> Result:
    return Result("parity", (Figure("gap", value, "<=", bar, "nat", spread=0.1),), ({"row": "a", "gap": value},))


def run(value: float, folder: Path, *, quick: bool = False) -> int:
    return command.run(lambda _quick, _progress: result(value), quick=quick, console=Console(), folder=folder)


@pytest.mark.parametrize(
    ("comparison", "value", "ok"),
    [("<=", 0.5, True), ("<=", 0.51, False), (">=", 0.5, True), (">=", 0.49, False), ("<=", math.nan, False)],
)
def test_a_figure_is_compared_with_its_bar(comparison, value, ok):
    assert Figure("x", value, comparison, 0.5).ok is ok


def test_one_missed_bar_makes_the_result_short():
    good, bad = Figure("a", 1, "<=", 2), Figure("b", 3, "<=", 2)
    assert Result("x", (good,)).ok
    assert not Result("x", (good, bad)).ok
    assert not Result("x", ()).ok


def test_a_missed_bar_exits_non_zero_and_is_printed_last(tmp_path, capsys):
    assert run(0.7, tmp_path) == command.BAR_MISSED
    assert capsys.readouterr().out.splitlines()[-1] == "parity: gap 0.7 nat (bar <= 0.5) short"


def test_a_reached_bar_exits_zero_and_is_printed_last(tmp_path, capsys):
    assert run(0.25, tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "parity: gap 0.25 nat (bar <= 0.5) ok"


def test_a_quick_run_never_replaces_a_full_one(tmp_path):
    run(0.25, tmp_path)
    run(0.7, tmp_path, quick=True)
    stored = Record.from_json((tmp_path / "parity.json").read_text())
    assert stored.result.figures[0].value == 0.25
    assert not stored.quick
    assert Record.from_json((tmp_path / "quick" / "parity.json").read_text()).quick


def test_the_json_has_everything_needed_to_interpret_and_repeat():
    stored = json.loads(record(result(0.25), quick=False, seconds=1.23).to_json())
    assert stored["ok"] is True
    assert stored["command"] == "python -m benchmarks parity"
    assert stored["seconds"] == 1.2
    figure = {"name": "gap", "value": 0.25, "comparison": "<=", "bar": 0.5, "unit": "nat", "spread": 0.1}
    assert stored["result"]["figures"] == [figure]
    assert {"python", "torch", "transformers"} <= stored["versions"].keys()
    assert {"cpu", "cores", "memory_gib"} <= stored["machine"].keys()


def test_the_json_names_no_host_and_no_path():
    text = json.dumps([versions(), machine()])
    assert str(Path.home()) not in text
    assert not re.search(r"/(home|work|root|tmp)\b", text)


def test_a_record_survives_json():
    kept = record(result(0.25), quick=True, seconds=2.0)
    again = Record.from_json(kept.to_json())
    assert again.to_json() == kept.to_json()
    assert again.result.figures == kept.result.figures


def test_nan_is_null_in_json_and_misses_the_bar_when_read_again():
    nothing = replace(result(math.nan), details=[{"step": 0, "entropy": math.nan}, {"step": 1, "entropy": math.inf}])
    kept = record(nothing, quick=True, seconds=2.0)
    assert "NaN" not in kept.to_json()
    assert "Infinity" not in kept.to_json()
    again = Record.from_json(kept.to_json()).result
    assert not again.ok
    assert [row["step"] for row in again.details] == [0, 1]
    assert all(math.isnan(float(row["entropy"])) for row in again.details)


def test_the_catalogue_lists_the_modules_with_a_measure_function():
    assert "vs-trl" in catalogue.names()
    assert "report" not in catalogue.names()
    assert all(catalogue.claim(name).endswith(".") for name in catalogue.names())


def test_an_unknown_name_is_rejected_with_a_suggestion(capsys):
    assert command.main(["vs-tlr"]) == command.USAGE
    assert "did you mean 'vs-trl'" in capsys.readouterr().out


def test_listing_does_not_import_torch():
    code = "import sys; from benchmarks.__main__ import main; main(['--list']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)
