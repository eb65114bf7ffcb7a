"""Summarise many theories as a catalogue: text lines, a table and an HTML page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape

from steelyard.domains.artifacts import Artifact, Row, Summary
from steelyard.domains.theories.comparison.catalogue import (
    RELATIONS,
    Catalogue,
    CatalogueEntry,
    catalogue,
    field_content,
    group_name,
)
from steelyard.domains.theories.grammar.vocabulary import GAUGE
from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.physics.anomalies import is_anomaly_free
from steelyard.domains.theories.physics.invariance import flaws
from steelyard.domains.theories.rendering import html
from steelyard.errors import DataError
from steelyard.text import with_unit

COLUMNS = ("gauge group", "fields", "terms", "count", "fermions | scalars", "novelty")
THEORY_START = re.compile(rf"(?=(?<!\S){GAUGE}(?!\S))")
MAX_SECTIONS = 40
"""Number of theories shown in full on the page."""


def summarise(artifacts: Sequence[Artifact], read: Callable[[str], Theory], *, title: str = "") -> Summary:
    """Catalogue the successes among samples, and the well-formed anomaly-free theories in files.

    Artifacts without a verdict are files. A file may hold any number of theories, each starting with ``GAUGE``.
    """
    artifacts = [one for artifact in artifacts for one in ([artifact] if artifact.verdict else _split_file(artifact))]
    theories = [_read(artifact, read) for artifact in artifacts]
    readable = [theory for theory in theories if theory is not None]
    if not readable and not any(artifact.verdict for artifact in artifacts):
        raise DataError(_reason(artifacts, read))
    good = [
        theory
        for artifact, theory in zip(artifacts, theories, strict=True)
        if theory is not None and (_consistent(theory) if artifact.verdict is None else artifact.verdict.success)
    ]
    found = catalogue(good)
    summary = _summary(len(artifacts), len(readable), len(good), found)
    rows = tuple(Row(_cells(entry), good=entry.relation != "is") for entry in found.entries)
    return Summary(summary, COLUMNS, rows, _page(found, summary, title))


def _read(artifact: Artifact, read: Callable[[str], Theory]) -> Theory | None:
    try:
        return read(artifact.text)
    except DataError:
        return None


def _split_file(file: Artifact) -> list[Artifact]:
    return [replace(file, text=text) for text in THEORY_START.split(file.text) if text.strip()]


def _reason(artifacts: Sequence[Artifact], read: Callable[[str], Theory]) -> str:
    """Explain why the first artifact cannot be read."""
    for artifact in artifacts:
        try:
            read(artifact.text)
        except DataError as error:
            return f"{artifact.title}: no readable theory: {error}"
    return "the files are empty; pass at least one theory"


def _consistent(theory: Theory) -> bool:
    return not flaws(theory) and is_anomaly_free(theory)


def _summary(samples: int, readable: int, good: int, found: Catalogue) -> tuple[str, ...]:
    consistent = f"{good} of {with_unit(samples, 'sample')} are consistent theories ({readable} readable)"
    lines = [
        f"{consistent}; {len(found.entries)} distinct",
        f"{found.chiral} when vector-like fermions are ignored",
    ]
    counts = found.relation_counts
    known = [f"{counts[relation]} {relation} a known model" for relation, _ in RELATIONS if counts[relation]]
    return (*lines, "; ".join([*known, f"{counts['new']} new"]))


def _cells(entry: CatalogueEntry) -> tuple[str, ...]:
    theory = entry.theory
    return (
        group_name(entry.form),
        str(len(theory.fields)),
        str(len(theory.terms)),
        str(entry.count),
        field_content(theory),
        entry.novelty,
    )


def _page(found: Catalogue, summary: tuple[str, ...], title: str) -> str:
    groups = [["gauge group", "distinct", "new"]]
    for name, entries in found.by_group.items():
        groups.append([name, str(len(entries)), str(sum(entry.relation == "new" for entry in entries))])
    shown = found.entries[:MAX_SECTIONS]
    sections = [
        html.section(entry.theory, title=f"{number}. {group_name(entry.form)}: {entry.novelty}")
        for number, entry in enumerate(shown, 1)
    ]
    left_out = len(found.entries) - len(shown)
    body = [
        f"<h1>{escape(title or 'Catalogue of theories')}</h1>",
        *(f"<p>{escape(line)}</p>" for line in summary),
        html.table(groups),
        "<h2>All theories</h2>",
        html.table([list(COLUMNS), *(list(_cells(entry)) for entry in found.entries)]),
        *sections,
        f"<p>{left_out} more theories appear only in the table.</p>" if left_out else "",
    ]
    return html.full_page("\n".join(part for part in body if part), title=title or "Catalogue of theories")
