"""Summarise many samples of a run: how many are different and, if the domain knows, which are new.

Tasks are sampled and verified, or artifacts are read from files. A table is printed and a page written.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rich.table import Table
from rich.text import Text

from steelyard.commands.inputs.artifact_files import (
    WHERE,
    domain_of_run,
    known_domains,
    name_of,
    open_domain,
    read_artifact,
)
from steelyard.commands.inputs.groups import sample_groups, temperature_note
from steelyard.commands.inputs.target import add_target, resolve
from steelyard.commands.output.files import write_file
from steelyard.commands.output.screen import positive, stdout, tell
from steelyard.domains.artifacts import Artifact, Summary
from steelyard.domains.base import Split, title_of
from steelyard.domains.registry import is_domain
from steelyard.errors import ConfigError

MOST_ROWS = 40
"""Rows that a terminal shows; the page has all."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_target(parser, WHERE, "a run folder; or a domain, whose files follow")
    parser.add_argument("files", nargs="*", metavar="FILE", help="artifacts as text")
    parser.add_argument("--n", type=positive, default=64, metavar="N", help="of a run: samples a task (64)")
    parser.add_argument("--tasks", type=positive, default=16, metavar="N", help="of a run: how many tasks (16)")
    parser.add_argument("--split", choices=get_args(Split), default="held_out", help="of a run: which tasks (held_out)")
    parser.add_argument("--out", metavar="FILE", help="where the page goes (RUN/report.html, or report.html)")


def epilog() -> str:
    return known_domains()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if arguments.files:
        domain = open_domain(arguments.target, overrides, trust=arguments.trust)
        artifacts = [Artifact(read_artifact(file), name_of(file)) for file in arguments.files]
        return _tell(domain.summary(artifacts, title=arguments.target), Path(arguments.out or "report.html"))
    if is_domain(arguments.target):
        raise ConfigError(f"{arguments.target} is a domain: name files with its artifacts, or a run by its folder")
    target = resolve(arguments, overrides)
    domain = domain_of_run(target.config)
    if arguments.out is None and target.run is None:
        raise ConfigError(f"{arguments.target} is no run: say with --out FILE where the page goes")
    opened, groups = sample_groups(target, arguments.n, split=arguments.split, count=arguments.tasks, domain=domain)
    artifacts = [
        Artifact(sample.text, title_of(domain, group.task), group.task.spec, verdict)
        for group in groups
        for sample, verdict in zip(group.samples, group.verdicts, strict=True)
    ]
    tell(temperature_note(target.config))
    out = Path(arguments.out) if arguments.out else Path(target.run or ".") / "report.html"
    return _tell(domain.summary(artifacts, title=opened.label), out)


def _tell(summary: Summary, out: Path) -> int:
    console = stdout()
    table = Table(*summary.columns)
    for row in summary.rows[:MOST_ROWS]:
        table.add_row(*(Text(cell) for cell in row.cells), style="bold" if row.good else "")
    if summary.rows:
        console.print(table)
    if len(summary.rows) > MOST_ROWS:
        console.print(Text(f"{len(summary.rows) - MOST_ROWS} more are on the page", style="dim"))
    for number, line in enumerate(summary.lines):
        console.print(Text(line, style="" if number else "bold"), soft_wrap=True)
    write_file(out, summary.page.encode())
    tell(f"wrote {out}")
    return 0
