"""What many samples of a run come to: how many are really different, which are new, and what kinds there are.

Tasks are sampled and judged, or things are read from files, any number in each. A table is printed and a page written.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rich.table import Table
from rich.text import Text

from steelyard.commands.groups import sample_groups, temperature_note
from steelyard.commands.screen import positive, stdout, tell
from steelyard.commands.target import add_target, resolve
from steelyard.commands.things import WHERE, name_of, open_domain, read_thing, write_file
from steelyard.domains.base import Domain, Made, Split, Survey, Surveyed, describe
from steelyard.domains.registry import domain_paths, domains_with, make_domain
from steelyard.errors import ConfigError

MOST_ROWS = 40
"""Rows that a terminal shows; the page has all."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_target(parser, WHERE, "a run folder; or a domain, whose files follow")
    parser.add_argument("files", nargs="*", metavar="FILE", help="things as text, any number in each")
    parser.add_argument("--n", type=positive, default=64, metavar="N", help="of a run: samples a task (64)")
    parser.add_argument("--tasks", type=positive, default=16, metavar="N", help="of a run: how many tasks (16)")
    parser.add_argument("--split", choices=get_args(Split), default="held_out", help="of a run: which tasks (held_out)")
    parser.add_argument("--out", metavar="FILE", help="where the page goes (RUN/report.html, or report.html)")


def epilog() -> str:
    return reporting_domains()


def reporting_domains() -> str:
    return f"domains with reports: {', '.join(domains_with(Surveyed))}"


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if arguments.files:
        domain = _surveyed(open_domain(arguments.target, overrides, trust=arguments.trust))
        things = [Made(read_thing(file), name_of(file)) for file in arguments.files]
        return _tell(domain.survey(things, title=arguments.target), Path(arguments.out or "report.html"))
    if arguments.target in domain_paths():
        raise ConfigError(f"{arguments.target} is a domain: name files with its things, or a run by its folder")
    target = resolve(arguments, overrides)
    if target.config.domain is None:
        raise ConfigError(
            f"{target.config.run.name} has no domain, so no report ({reporting_domains()}); `steelyard eval RUN` shows "
            "reward and success"
        )
    domain = make_domain(target.config.domain.name, **target.config.domain.options)
    surveyed = _surveyed(domain)
    if arguments.out is None and target.run is None:
        raise ConfigError(f"{arguments.target} is no run: say with --out FILE where the page goes")
    opened, groups = sample_groups(target, arguments.n, split=arguments.split, count=arguments.tasks)
    things = [
        Made(sample.text, describe(domain, group.task), group.task.spec, verdict)
        for group in groups
        for sample, verdict in zip(group.samples, group.verdicts, strict=True)
    ]
    tell(temperature_note(target.config))
    out = Path(arguments.out) if arguments.out else Path(target.run or ".") / "report.html"
    return _tell(surveyed.survey(things, title=opened.label), out)


def _surveyed(domain: Domain) -> Surveyed:
    if not isinstance(domain, Surveyed):
        raise ConfigError(
            f"domain {domain.name} has no report ({reporting_domains()}); `steelyard eval RUN` shows reward and success"
        )
    return domain


def _tell(survey: Survey, out: Path) -> int:
    console = stdout()
    table = Table(*survey.columns)
    for row in survey.rows[:MOST_ROWS]:
        table.add_row(*(Text(cell) for cell in row.cells), style="bold" if row.good else "")
    if survey.rows:
        console.print(table)
    if len(survey.rows) > MOST_ROWS:
        console.print(Text(f"{len(survey.rows) - MOST_ROWS} more are on the page", style="dim"))
    for number, line in enumerate(survey.summary):
        console.print(Text(line, style="" if number else "bold"), soft_wrap=True)
    write_file(out, survey.page.encode())
    tell(f"wrote {out}")
    return 0
