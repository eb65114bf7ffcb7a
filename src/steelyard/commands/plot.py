"""Plot the metrics of a run over its steps: reward, success, entropy, KL, clip fraction, length and time per step.

Several runs are plotted in one chart for comparison. A run may be unfinished or still training.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steelyard.commands.output.files import format_of, write_file
from steelyard.commands.output.screen import print_line, stderr
from steelyard.drawing import Scene, png, svg
from steelyard.errors import ConfigError, DataError, MissingExtraError
from steelyard.folders import run_at
from steelyard.tracking.charts import CHART, run_chart
from steelyard.tracking.jsonl import METRICS, read_metrics

FORMS = ("svg", "png")
SHARP = 2.0
"""PNG pixels per unit; with 2, labels stay readable when the image is scaled down."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run folder; pass several to compare them")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help=".svg or .png file to write (default: RUN/curves.svg and .png; for several runs, ./curves.…)",
    )


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if overrides:
        raise ConfigError(f"plot reads only {METRICS} and does not accept {overrides[0]}; remove it")
    folders = [_folder(name) for name in dict.fromkeys(arguments.runs)]
    scene = run_chart({name: _rows(folder) for name, folder in _names(folders).items()})
    for path in _paths(arguments.out, folders):
        _write(scene, path, required=arguments.out is not None)
    return 0


def _folder(name: str) -> Path:
    found = run_at(Path(name))
    if found is not None:
        return found[0]
    if (Path(name) / METRICS).is_file():
        return Path(name)
    raise ConfigError(f"{name}: no such run; pass a run folder, such as runs/sequences")


def _names(folders: Sequence[Path]) -> dict[str, Path]:
    """Label runs by folder name, or by full path if two share a name."""
    short = {folder.resolve().name: folder for folder in folders}
    return short if len(short) == len(folders) else {str(folder): folder for folder in folders}


def _rows(folder: Path) -> list[dict[str, Any]]:
    path = folder / METRICS
    rows = read_metrics(path) if path.is_file() else []
    if not rows:
        raise DataError(f"{folder} has no metrics yet: {METRICS} is written after the first step; start training first")
    return rows


def _paths(out: str | None, folders: Sequence[Path]) -> list[Path]:
    if out is not None:
        format_of(Path(out), FORMS, "--out")
        return [Path(out)]
    folder = folders[0] if len(folders) == 1 else Path()
    return [(folder / CHART).with_suffix(f".{form}") for form in FORMS]


def _write(scene: Scene, path: Path, *, required: bool) -> None:
    """Write the chart. PNG output needs Pillow; a missing Pillow is an error only if a PNG was requested."""
    try:
        content = svg(scene).encode() if path.suffix.lower() == ".svg" else png(scene, scale=SHARP)
    except MissingExtraError as error:
        if required:
            raise
        stderr().print(f"no {path.name}: {error}", style="yellow", markup=False, soft_wrap=True)
        return
    write_file(path, content)
    print_line(f"wrote {path}")
