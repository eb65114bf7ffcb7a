"""Render a theory as plain text for the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.rendering import symbols
from steelyard.domains.theories.rendering.data_sheet import DataSheet, data_sheet, mass_text, representations_of

GAP = "  "


def text(theory: Theory, *, title: str = "") -> str:
    """Return the fields, Lagrangian, anomalies and spectrum as text."""
    sheet = data_sheet(theory)
    blocks = [
        _head(sheet, title),
        columns(field_rows(sheet)),
        _section("Lagrangian", columns(term_rows(sheet))) if sheet.terms else "",
        _section("Vacuum", "\n".join(vacuum_lines(sheet))) if theory.vevs else "",
        _section("Anomalies", columns(anomaly_rows(sheet))),
        _section("Spectrum", columns(state_rows(sheet))),
        sheet.verdict,
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def field_rows(sheet: DataSheet) -> list[list[str]]:
    """Return the table of fields, header first."""
    gauge = sheet.theory.gauge
    head = ["field", "", *(name for name, _ in gauge.special), *gauge.abelian, "gen.", "Q"]
    rows = [
        [
            row.name,
            row.kind,
            *(irrep.name for irrep in row.representations),
            *map(symbols.number, row.charges),
            str(row.generations),
            ", ".join(map(symbols.number, row.electric)),
        ]
        for row in sheet.fields
    ]
    return [head, *rows]


def term_rows(sheet: DataSheet) -> list[list[str]]:
    """Return each term with its parameter."""
    return [
        [
            symbols.term_text(row),
            f"{symbols.coupling_text(row)} = {symbols.parameter_text(row.parameter)}{symbols.unit_text(row)}",
        ]
        for row in sheet.terms
    ]


def vacuum_lines(sheet: DataSheet) -> Iterator[str]:
    for vev in sheet.theory.vevs:
        yield f"⟨{vev.field}⟩ component {vev.component + 1}: {mass_text(vev.value)} / √2"


def anomaly_rows(sheet: DataSheet) -> list[list[str]]:
    """Return the anomaly table: one row per condition, one column per fermion, and the sum."""
    rows = [["", *sheet.fermions, "sum", ""]]
    for row in sheet.anomalies:
        each = [symbols.number(value) if value else "·" for value in row.by_field]
        rows.append([row.name, *each, symbols.number(row.total), "✗" if row.total else "✓"])
    return rows


def state_rows(sheet: DataSheet) -> list[list[str]]:
    """Return the table of states, lightest first."""
    residual = sheet.spectrum.unbroken
    groups = [f"SU({len(block.indices)})" for block in residual.blocks]
    if residual.colour:
        groups[0] = "colour"
    rows = [
        [
            mass_text(state.mass),
            symbols.state_text(state),
            symbols.number(state.charge),
            *(irrep.name for irrep in representations_of(state)),
            str(state.count),
            " ".join(state.fields),
            " ".join(symbols.coupling_text(sheet.terms[number]) for number in state.terms),
            "exotic" if state.exotic else "",
        ]
        for state in sheet.spectrum.states
    ]
    return [["mass", "", "Q", *groups, "count", "fields", "terms", ""], *rows]


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Align rows in columns. Combining characters have no width."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    lines = (
        GAP.join(cell + " " * (room - width(cell)) for cell, room in zip(row, widths, strict=True)) for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def width(cell: str) -> int:
    """Return the width of a string in a terminal."""
    return sum(not unicodedata.combining(letter) for letter in cell)


def _head(sheet: DataSheet, title: str) -> str:
    return "\n".join(filter(None, (title, symbols.gauge_text(sheet.theory.gauge))))


def _section(name: str, body: str) -> str:
    return f"{name}\n{body}"
