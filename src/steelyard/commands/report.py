"""Summarise many samples from a run: how many are distinct and, if the domain can tell, which are new.

Draws and verifies samples for tasks, or reads artifacts from files. Prints a table and writes an HTML page.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from steelyard.commands.inputs.artifact_files import (
    WHERE,
    artifact_name,
    domain_of_run,
    known_domains,
    open_domain,
    read_artifact,
)
from steelyard.commands.inputs.groups import add_split, sample_groups, tasks_note, temperature_note
from steelyard.commands.inputs.target import add_target, resolve
from steelyard.commands.output.files import write_file
from steelyard.commands.output.screen import positive, print_line, stdout
from steelyard.domains.artifacts import Artifact, Summary
from steelyard.domains.base import artifact_text, title_of
from steelyard.domains.registry import is_domain
from steelyard.errors import ConfigError

MAX_TABLE_ROWS = 40
"""Maximum number of rows printed to the terminal; the page contains all rows."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_target(parser, WHERE, "a run folder; or a domain, followed by files")
    parser.add_argument("files", nargs="*", metavar="FILE", help="artifacts as text")
    parser.add_argument("--n", type=positive, default=64, metavar="N", help="for a run: samples per task (default: 64)")
    parser.add_argument(
        "--tasks", type=positive, default=16, metavar="N", help="for a run: number of tasks (default: 16)"
    )
    add_split(parser, "for a run: ")
    parser.add_argument("--out", metavar="FILE", help="HTML file to write (default: RUN/report.html or report.html)")


def epilog() -> str:
    return known_domains()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if arguments.files:
        domain = open_domain(arguments.target, overrides, trust=arguments.trust)
        artifacts = [Artifact(read_artifact(file), artifact_name(file)) for file in arguments.files]
        return _show(domain.summary(artifacts, title=arguments.target), Path(arguments.out or "report.html"))
    if is_domain(arguments.target):
        raise ConfigError(
            f"{arguments.target} is a domain: also pass files containing its artifacts, or pass a run folder instead"
        )
    target = resolve(arguments, overrides)
    domain = domain_of_run(target.config)
    if arguments.out is None and target.run is None:
        raise ConfigError(f"{arguments.target} is not a run, so --out FILE is required")
    opened, groups = sample_groups(target, arguments.n, split=arguments.split, count=arguments.tasks, domain=domain)
    artifacts = [
        Artifact(artifact_text(domain, sample), title_of(domain, group.task), group.task.spec, verdict)
        for group in groups
        for sample, verdict in zip(group.samples, group.verdicts, strict=True)
    ]
    tasks = tasks_note(len(groups), target.config, arguments.split, domain)
    print_line(f"{tasks}, {temperature_note(target.config)}")
    out = Path(arguments.out) if arguments.out else Path(target.run or ".") / "report.html"
    return _show(domain.summary(artifacts, title=opened.label), out)


def _show(summary: Summary, out: Path) -> int:
    console = stdout()
    table = Table(*summary.columns)
    for row in summary.rows[:MAX_TABLE_ROWS]:
        table.add_row(*(Text(cell) for cell in row.cells), style="bold" if row.good else "")
    if summary.rows:
        console.print(table)
    if len(summary.rows) > MAX_TABLE_ROWS:
        console.print(Text(f"{len(summary.rows) - MAX_TABLE_ROWS} more rows are on the page", style="dim"))
    for number, line in enumerate(summary.lines):
        console.print(Text(line, style="" if number else "bold"), soft_wrap=True)
    write_file(out, summary.page.encode())
    print_line(f"wrote {out}")
    return 0
