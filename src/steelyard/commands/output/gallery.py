"""Write a run's samples to one folder per task: a contact sheet and every artifact as text, best first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.commands.output.files import write_file
from steelyard.domains.artifacts import Artifact, ColourBy
from steelyard.domains.base import Domain, artifact_text
from steelyard.errors import MissingExtraError
from steelyard.types import Group, Verdict

FORMS = ("svg", "png")
_ARTIFACT = re.compile(r"\d+\.txt")
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class TaskGallery:
    """The files written for one task."""

    sheet: Path
    """The contact sheet: PNG if it could be written, otherwise SVG."""
    best: Path | None
    """Text file with the best artifact; None if no sample contained one."""
    verdict: Verdict
    """Verdict on the best artifact."""
    successes: int
    samples: int
    note: str = ""
    """Why a picture format could not be written; empty if all were written."""


def write_gallery(
    domain: Domain, group: Group, folder: Path, *, title: str, by: ColourBy = "part", scale: float = 1.0
) -> TaskGallery:
    """Write the contact sheet as SVG and, if possible, PNG, and the artifacts as ``01.txt``, ``02.txt``, ...

    Text files from an earlier call are removed.
    """
    artifacts, note = ranked(domain, group), ""
    for old in folder.glob("*.txt"):
        if _ARTIFACT.fullmatch(old.name):
            old.unlink()
    for artifact in artifacts:
        if artifact.text:
            write_file(folder / f"{artifact.title}.txt", artifact.text.encode())
    sheet = folder / f"sheet.{FORMS[0]}"
    for form in (form for form in FORMS if form in domain.picture_formats):
        try:
            write_file(folder / f"sheet.{form}", domain.render(artifacts, form, by=by, scale=scale, title=title))
        except MissingExtraError as error:
            if form == FORMS[0]:
                raise
            note = f"no .{form}: {error}"
        else:
            sheet = folder / f"sheet.{form}"
    verdicts = group.verdicts
    best = folder / f"{artifacts[0].title}.txt" if artifacts[0].text else None
    first = artifacts[0].verdict or verdicts[0]
    return TaskGallery(sheet, best, first, sum(verdict.success for verdict in verdicts), len(verdicts), note)


def ranked(domain: Domain, group: Group) -> list[Artifact]:
    """Sort the artifacts of a group by reward, best first; those without a reward come last. Titles are ranks."""
    by_reward = sorted(
        zip(group.samples, group.verdicts, strict=True),
        key=lambda pair: (not pair[1].has_reward, -pair[1].reward, pair[0].key),
    )
    return [
        Artifact(domain.to_text(artifact_text(domain, sample)), f"{rank:02d}", group.task.spec, verdict)
        for rank, (sample, verdict) in enumerate(by_reward, 1)
    ]


def folder_names(groups: Sequence[Group]) -> list[str]:
    """Return a unique folder name for each task, numbered in order."""
    return [f"{number:02d}-{_NOT_IN_NAMES.sub('-', group.task.id)}" for number, group in enumerate(groups, 1)]
