"""Draw the curves of a run: reward, success, entropy, KL, clip share, length and time per step, over its steps.

Several runs share one chart, to compare them. A run may be unfinished, or training right now.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steelyard.commands.output.files import form_of, write_file
from steelyard.commands.output.screen import stderr, tell
from steelyard.drawing import Scene, png, svg
from steelyard.errors import ConfigError, DataError, MissingExtraError
from steelyard.folders import run_at
from steelyard.tracking.charts import CHART, run_chart
from steelyard.tracking.jsonl import METRICS, read_metrics

FORMS = ("svg", "png")
SHARP = 2.0
"""Pixels of a PNG per unit: labels stay readable when it is scaled down."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run folder, or several to compare")
    parser.add_argument(
        "--out", metavar="FILE", help="a .svg or .png file (RUN/curves.svg and .png; of several runs: ./curves.…)"
    )


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if overrides:
        raise ConfigError(f"{overrides[0]}: plot takes no keys of the configuration; it reads {METRICS} only")
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
    raise ConfigError(f"{name}: no such run; name a run folder, such as runs/sequences")


def _names(folders: Sequence[Path]) -> dict[str, Path]:
    """Folders by their names, or by their whole paths where names are not enough to tell them apart."""
    short = {folder.resolve().name: folder for folder in folders}
    return short if len(short) == len(folders) else {str(folder): folder for folder in folders}


def _rows(folder: Path) -> list[dict[str, Any]]:
    path = folder / METRICS
    rows = read_metrics(path) if path.is_file() else []
    if not rows:
        raise DataError(f"{folder} has no metrics yet: {METRICS} is written from the first step on; train it first")
    return rows


def _paths(out: str | None, folders: Sequence[Path]) -> list[Path]:
    if out is not None:
        form_of(Path(out), FORMS, "--out")
        return [Path(out)]
    folder = folders[0] if len(folders) == 1 else Path()
    return [(folder / CHART).with_suffix(f".{form}") for form in FORMS]


def _write(scene: Scene, path: Path, *, required: bool) -> None:
    """Without Pillow there is no PNG; that is an error only where one was requested."""
    try:
        content = svg(scene).encode() if path.suffix.lower() == ".svg" else png(scene, scale=SHARP)
    except MissingExtraError as error:
        if required:
            raise
        stderr().print(f"no {path.name}: {error}", style="yellow", markup=False, soft_wrap=True)
        return
    write_file(path, content)
    tell(f"wrote {path}")
