"""The atlas as a report: what many samples come to, as lines, a table and a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape

from steelyard.domains.base import Made, Row, Survey
from steelyard.domains.theories.anomalies import is_free
from steelyard.domains.theories.atlas import LEVELS, Atlas, Entry, atlas, content, group_name
from steelyard.domains.theories.invariance import flaws
from steelyard.domains.theories.look import html
from steelyard.domains.theories.theory import Theory
from steelyard.domains.theories.words import GAUGE
from steelyard.errors import DataError

COLUMNS = ("gauge group", "fields", "terms", "times", "fermions | scalars", "novelty")
BEGIN = re.compile(rf"(?=(?<!\S){GAUGE}(?!\S))")
SHOWN = 40
"""Theories that a page shows in full."""


def survey(things: Sequence[Made], read: Callable[[str], Theory], *, title: str = "") -> Survey:
    """Of all that succeeded, or of things that nobody judged, all that are well formed and free of anomalies.

    What nobody judged is the text of a file: any number of theories, each from its ``GAUGE`` on.
    """
    things = [one for thing in things for one in ([thing] if thing.verdict else _within(thing))]
    theories = [_read(thing, read) for thing in things]
    readable = [theory for theory in theories if theory is not None]
    if not readable and not any(thing.verdict for thing in things):
        raise DataError(_reason(things, read))
    good = [
        theory
        for thing, theory in zip(things, theories, strict=True)
        if theory is not None and (_consistent(theory) if thing.verdict is None else thing.verdict.success)
    ]
    found = atlas(good)
    summary = _summary(len(things), len(readable), len(good), found)
    rows = tuple(Row(_cells(entry), good=entry.kinship != "is") for entry in found.entries)
    return Survey(summary, COLUMNS, rows, _page(found, summary, title))


def _read(thing: Made, read: Callable[[str], Theory]) -> Theory | None:
    try:
        return read(thing.text)
    except DataError:
        return None


def _within(file: Made) -> list[Made]:
    return [replace(file, text=text) for text in BEGIN.split(file.text) if text.strip()]


def _reason(things: Sequence[Made], read: Callable[[str], Theory]) -> str:
    """Why the first cannot be read."""
    for thing in things:
        try:
            read(thing.text)
        except DataError as error:
            return f"{thing.title}: there is no theory to report on: {error}"
    return "there is no theory to report on: the files are empty"


def _consistent(theory: Theory) -> bool:
    return not flaws(theory) and is_free(theory)


def _summary(things: int, readable: int, good: int, found: Atlas) -> tuple[str, ...]:
    lines = [
        f"{len(found.entries)} distinct theories among {good} consistent ones ({things} samples, {readable} readable)",
        f"{found.chiral} if vector-like fermions do not count",
    ]
    counts = found.kinships
    known = [f"{counts[relation]} {relation} a known model" for relation, _ in LEVELS if counts[relation]]
    return (*lines, "; ".join([*known, f"{counts['new']} new"]))


def _cells(entry: Entry) -> tuple[str, ...]:
    theory = entry.theory
    return (
        group_name(entry.form),
        str(len(theory.fields)),
        str(len(theory.terms)),
        str(entry.count),
        content(theory),
        entry.novelty,
    )


def _page(found: Atlas, summary: tuple[str, ...], title: str) -> str:
    groups = [["gauge group", "distinct", "new"]]
    for name, entries in found.by_group.items():
        groups.append([name, str(len(entries)), str(sum(entry.kinship == "new" for entry in entries))])
    shown = found.entries[:SHOWN]
    sections = [
        html.section(entry.theory, title=f"{number}. {group_name(entry.form)}: {entry.novelty}")
        for number, entry in enumerate(shown, 1)
    ]
    left_out = len(found.entries) - len(shown)
    body = [
        f"<h1>{escape(title or 'Atlas of theories')}</h1>",
        *(f"<p>{escape(line)}</p>" for line in summary),
        html.table(groups),
        "<h2>All of them</h2>",
        html.table([list(COLUMNS), *(list(_cells(entry)) for entry in found.entries)]),
        *sections,
        f"<p>{left_out} more are in the table only.</p>" if left_out else "",
    ]
    return html.whole_page("\n".join(part for part in body if part), title=title or "Atlas of theories")
