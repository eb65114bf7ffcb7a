"""What a run made, in a folder: for each task a sheet with all of it, and every thing as text, the best first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.commands.things import write_file
from steelyard.domains.base import ColourBy, Made, Workshop
from steelyard.errors import MissingExtraError
from steelyard.types import Group, Verdict

FORMS = ("svg", "png")
_THING = re.compile(r"\d+\.txt")
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class Shelf:
    """The folder of one task."""

    sheet: Path
    """The sheet in the best form that could be written."""
    best: Path | None
    """The text of the best thing, if any sample was one."""
    verdict: Verdict
    """What was said of it."""
    successes: int
    samples: int
    note: str = ""
    """Why a form is missing."""


def write_shelf(
    workshop: Workshop, group: Group, folder: Path, *, title: str, by: ColourBy = "part", scale: float = 1.0
) -> Shelf:
    """Sheets as SVG and, where that can be drawn, PNG; texts as ``01.txt`` and on. Those of an earlier look go."""
    things, note = ranked(workshop, group), ""
    for old in folder.glob("*.txt"):
        if _THING.fullmatch(old.name):
            old.unlink()
    for thing in things:
        if thing.text:
            write_file(folder / f"{thing.title}.txt", thing.text.encode())
    sheet = folder / f"sheet.{FORMS[0]}"
    for form in (form for form in FORMS if form in workshop.pictures):
        try:
            write_file(folder / f"sheet.{form}", workshop.look(things, form, by=by, scale=scale, title=title))
        except MissingExtraError as error:
            if form == FORMS[0]:
                raise
            note = f"no .{form}: {error}"
        else:
            sheet = folder / f"sheet.{form}"
    verdicts = group.verdicts
    best = folder / f"{things[0].title}.txt" if things[0].text else None
    first = things[0].verdict or verdicts[0]
    return Shelf(sheet, best, first, sum(verdict.success for verdict in verdicts), len(verdicts), note)


def ranked(workshop: Workshop, group: Group) -> list[Made]:
    """The things of a group, the best first; those without a reward come last. Titles are their ranks."""
    judged = sorted(
        zip(group.samples, group.verdicts, strict=True),
        key=lambda pair: (not pair[1].counts, -pair[1].reward, pair[0].key),
    )
    return [
        Made(workshop.plain(sample.text), f"{rank:02d}", group.task.spec, verdict)
        for rank, (sample, verdict) in enumerate(judged, 1)
    ]


def folder_names(groups: Sequence[Group]) -> list[str]:
    """A folder name for each task, in order and all different."""
    return [f"{number:02d}-{_NOT_IN_NAMES.sub('-', group.task.id)}" for number, group in enumerate(groups, 1)]
