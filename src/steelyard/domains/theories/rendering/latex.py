"""Render a theory as LaTeX: a complete document or its parts. The output requires the amsmath and booktabs packages."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.rendering import symbols
from steelyard.domains.theories.rendering.data_sheet import DataSheet, data_sheet, representations_of

SPECIAL = str.maketrans({"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"})


def document(theory: Theory, *, title: str = "") -> str:
    """Return a complete document."""
    return "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage[utf8]{inputenc}",
            r"\usepackage{amsmath,booktabs}",
            r"\begin{document}",
            body(theory, title=title),
            r"\end{document}",
            "",
        ]
    )


def body(theory: Theory, *, title: str = "") -> str:
    """Return the fields, Lagrangian, anomalies and spectrum, without the surrounding document."""
    sheet = data_sheet(theory)
    parts = [
        rf"\section*{{{escaped(title)}}}" if title else "",
        rf"\[ {symbols.gauge_latex(theory.gauge)} \]" if theory.gauge.names else "",
        fields(sheet),
        lagrangian(sheet) if sheet.terms else "",
        anomalies(sheet),
        states(sheet),
    ]
    return "\n\n".join(part for part in parts if part)


def fields(sheet: DataSheet) -> str:
    """Return the table of fields."""
    gauge = sheet.theory.gauge
    every = [f"${symbols.factor_latex(factor)}$" for factor in symbols.factors(gauge)]
    groups = [*every[len(gauge.abelian) :], *every[: len(gauge.abelian)]]
    rows = [
        [
            f"${symbols.name_latex(row.name)}$",
            row.kind,
            *(f"${symbols.representation_latex(irrep)}$" for irrep in row.representations),
            *(f"${symbols.number_latex(charge)}$" for charge in row.charges),
            str(row.generations),
        ]
        for row in sheet.fields
    ]
    return _tabular(["field", "", *groups, "generations"], rows)


def lagrangian(sheet: DataSheet) -> str:
    """Return the potential, mass and Yukawa terms as -L, with their parameters below."""
    lines = [rf"  &{'' if i == 0 else '+ '}{symbols.term_latex(row)} \\" for i, row in enumerate(sheet.terms)]
    lines[-1] = lines[-1].removesuffix(r" \\")
    values = r" \quad ".join(
        f"{symbols.coupling_latex(row)} = {symbols.parameter_latex(row.parameter)}" for row in sheet.terms
    )
    return "\n".join(
        [
            r"\begin{align*}",
            r"  -\mathcal{L} \supset",
            *lines,
            r"\end{align*}",
            rf"Parameters (GeV where they have a unit): \( {values} \).",
        ]
    )


def anomalies(sheet: DataSheet) -> str:
    """Return the anomaly sums with the contribution of each field."""
    rows = [
        [
            f"${symbols.condition_latex(row.name)}$",
            *(f"${symbols.number_latex(value)}$" if value else "" for value in row.by_field),
            f"${symbols.number_latex(row.total)}$",
        ]
        for row in sheet.anomalies
    ]
    return _tabular(["", *(f"${symbols.name_latex(name)}$" for name in sheet.fermions), "sum"], rows)


def states(sheet: DataSheet) -> str:
    """Return the table of states."""
    rows = [
        [
            symbols.mass_latex(state.mass),
            symbols.state_text(state),
            f"${symbols.number_latex(state.charge)}$",
            " ".join(f"${symbols.representation_latex(irrep)}$" for irrep in representations_of(state)),
            str(state.count),
            " ".join(f"${symbols.name_latex(name)}$" for name in state.fields),
            " ".join(f"${symbols.coupling_latex(sheet.terms[number])}$" for number in state.terms),
            "exotic" if state.exotic else "",
        ]
        for state in sheet.spectrum.states
    ]
    return _tabular(["mass", "", "$Q$", "unbroken $SU(k)$", "count", "fields", "terms", ""], rows)


def escaped(text: str) -> str:
    """Escape LaTeX special characters."""
    return text.translate(SPECIAL)


def _tabular(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [" & ".join(row) + r" \\" for row in rows]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{'l' * len(head)}}}",
            r"\toprule",
            " & ".join(head) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )
