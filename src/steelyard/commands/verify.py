"""Verify an artifact from a file: print the result part by part, and draw a picture of any failures.

The exit code is 0 if the artifact passes (bricks: the structure stands and, with --brief, succeeds), otherwise 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from steelyard.commands import FAILED
from steelyard.commands.inputs.artifact_files import (
    STDIN,
    WHERE,
    WHERE_HELP,
    artifact_name,
    json_object,
    known_domains,
    open_domain,
    read_artifact,
)
from steelyard.commands.inputs.target import add_trust
from steelyard.commands.output.files import format_of, write_file
from steelyard.commands.output.screen import print_line, stdout
from steelyard.domains.artifacts import Artifact, Report
from steelyard.text import printable


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar=WHERE, help=WHERE_HELP)
    add_trust(parser)
    parser.add_argument(
        "file", metavar="FILE", help="the artifact as text (bricks: hxw (x,y,z), one per line); - reads stdin"
    )
    parser.add_argument(
        "--brief", "--spec", metavar="JSON", help="requirements to meet, in the format of a task's spec"
    )
    parser.add_argument("--method", metavar="NAME", help="verification method (bricks: highs, gurobi or connectivity)")
    parser.add_argument(
        "--picture", metavar="FILE", help="picture to write: .svg or .png (default: FILE with suffix .svg)"
    )
    parser.add_argument("--no-picture", action="store_true", help="do not write a picture")


def epilog() -> str:
    return known_domains()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    spec = None if arguments.brief is None else json_object(arguments.brief, "--brief")
    domain = open_domain(arguments.target, overrides, trust=arguments.trust)
    if arguments.method is not None:
        domain = domain.with_method(arguments.method)
    picture = _picture_path(arguments)
    form = "" if picture is None else format_of(picture, domain.picture_formats, "--picture")
    text = read_artifact(arguments.file)
    report = domain.report(text, spec)
    console = stdout()
    _show(console, report)
    if picture is not None and report.rows:
        artifact = Artifact(text, artifact_name(arguments.file), spec)
        write_file(picture, domain.render([artifact], form, by="stress"))
        print_line(f"picture: {picture}")
    return 0 if report.good else FAILED


def _picture_path(arguments: argparse.Namespace) -> Path | None:
    """Return --picture, or an .svg path next to the file; input from stdin is drawn only with --picture."""
    if arguments.no_picture:
        return None
    if arguments.picture is not None:
        return Path(arguments.picture)
    return None if arguments.file == STDIN else Path(arguments.file).with_suffix(".svg")


def _show(console: Console, report: Report) -> None:
    if report.rows:
        table = Table(*report.columns)
        for row in report.rows:
            table.add_row(*(Text(cell) for cell in row.cells), style="" if row.good else "red")
        console.print(table)
    for flaw in report.flaws:
        console.print(Text(printable(flaw), style="red"), soft_wrap=True)
    for number, line in enumerate(report.summary):
        style = "" if number else f"bold {'green' if report.good else 'red'}"
        console.print(Text(line, style=style), soft_wrap=True)
