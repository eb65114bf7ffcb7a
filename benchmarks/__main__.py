"""``python -m benchmarks NAME [--quick]``: run one benchmark; the exit code is 3 if a figure misses its bar."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.framework import catalogue, report
from benchmarks.framework.catalogue import Measure
from benchmarks.framework.process import stop_ignoring_signals
from benchmarks.framework.result import Result, record

BAR_MISSED = 3
"""Differs from 1, the exit code of a crash: the CI gate retries a missed bar, but not a crash."""
USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    options = _parser().parse_args(arguments)
    stop_ignoring_signals()
    console = Console()
    if options.list:
        _show_names(console)
        return 0
    if options.report:
        report.PAGE.parent.mkdir(exist_ok=True)
        report.PAGE.write_text(report.generate(), encoding="utf-8")
        for name, content in (report.pictures() | report.pages_with_results()).items():
            (report.PAGE.parent / name).write_text(content, encoding="utf-8")
        print(f"wrote {report.PAGE.relative_to(report.ROOT)}")
        return 0
    try:
        measure = catalogue.load(options.name)
    except LookupError as error:
        console.print(str(error), markup=False)
        return USAGE
    return run(measure, quick=options.quick, console=console)


def run(measure: Measure, *, quick: bool, console: Console, folder: Path = report.RESULTS) -> int:
    """Run a benchmark, store the result as JSON (never replacing a full one with a quick one) and print the verdict."""
    started = time.perf_counter()
    with _progress(console) as progress:
        result = measure(quick, progress)
    kept = record(result, quick=quick, seconds=time.perf_counter() - started)
    target = folder / "quick" if quick else folder
    target.mkdir(parents=True, exist_ok=True)
    (target / f"{result.name}.json").write_text(kept.to_json(), encoding="utf-8")
    _show_details(console, result)
    print(result.verdict_line(), flush=True)
    return 0 if result.ok else BAR_MISSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Run the benchmarks behind Steelyard's claims."
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("name", nargs="?", help="the benchmark to run")
    what.add_argument("--list", action="store_true", help="list the benchmarks and their claims")
    what.add_argument("--report", action="store_true", help="write docs/results.md from the stored results")
    parser.add_argument("--quick", action="store_true", help="run a smaller version; most finish within a minute")
    return parser


def _progress(console: Console) -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console)


def _show_names(console: Console) -> None:
    table = Table("name", "claim", box=None)
    for name in catalogue.names():
        table.add_row(name, catalogue.claim(name))
    console.print(table)


def _show_details(console: Console, result: Result) -> None:
    if not result.details:
        return
    table = Table(*result.details[0], box=None)
    for row in result.details:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row.values()))
    console.print(table)


if __name__ == "__main__":
    raise SystemExit(main())
