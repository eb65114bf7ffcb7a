"""Render theories as HTML: tables, Lagrangian and spectrum chart."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.rendering import plain_text, spectrum_chart, symbols
from steelyard.domains.theories.rendering.data_sheet import DataSheet, data_sheet

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c1c1c; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 1.6rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: left; border-bottom: 1px solid #e2e2e2; white-space: nowrap; }
th { font-weight: 600; border-bottom-color: #9a9a9a; }
.bar { text-decoration: overline; } .bad { color: #b3261e; font-weight: 600; } .scroll { overflow-x: auto; }
"""
OVERLINE = "\N{COMBINING OVERLINE}"


def page(theories: Sequence[tuple[str, Theory]], *, title: str = "") -> str:
    """Return a complete page with one section per theory."""
    body = "\n".join(section(theory, title=name) for name, theory in theories)
    return full_page(body, title=title or (theories[0][0] if theories else ""))


def full_page(body: str, *, title: str) -> str:
    """Wrap a body in a complete HTML page."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def section(theory: Theory, *, title: str = "") -> str:
    """Return the HTML section for one theory."""
    sheet = data_sheet(theory)
    blocks = [
        f"<h1>{escape(title)}</h1>" if title else "",
        f"<p>{escape(symbols.gauge_text(theory.gauge))}; {escape(sheet.verdict)}.</p>",
        "<h2>Fields</h2>",
        table(plain_text.field_rows(sheet)),
        "<h2>Lagrangian</h2>" + table([["term", "parameter"], *plain_text.term_rows(sheet)]) if sheet.terms else "",
        _vacuum(sheet),
        "<h2>Anomalies</h2>",
        table(plain_text.anomaly_rows(sheet)),
        "<h2>Spectrum</h2>",
        table(plain_text.state_rows(sheet)),
        f'<div class="scroll">{spectrum_chart.svg(sheet.spectrum, title=title)}</div>',
    ]
    return "\n".join(block for block in blocks if block)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format a table; the first row is the header."""
    head = "".join(f"<th>{_cell(cell)}</th>" for cell in rows[0])
    body = "".join(f"<tr>{''.join(map(_data, row))}</tr>" for row in rows[1:])
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _data(cell: str) -> str:
    kind = ' class="bad"' if cell in ("✗", "exotic") else ""
    return f"<td{kind}>{_cell(cell)}</td>"


def _cell(cell: str) -> str:
    if OVERLINE in cell:
        return f'<span class="bar">{escape(cell.replace(OVERLINE, ""))}</span>'
    return escape(cell)


def _vacuum(sheet: DataSheet) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in plain_text.vacuum_lines(sheet))
    return f"<h2>Vacuum</h2><ul>{lines}</ul>" if lines else ""
