"""Render, export and report on theories.

The input is a theory text, a PyR@TE model file or a SARAH model file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.domains.artifacts import Artifact, Report, Row
from steelyard.domains.defaults import require_format
from steelyard.domains.theories import rendering
from steelyard.domains.theories.interchange import pyrate_reader, pyrate_writer, sarah_reader, sarah_writer
from steelyard.domains.theories.interchange.parameter_values import MISSING_VALUES
from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.physics.invariance import flaws
from steelyard.domains.theories.physics.mass_spectrum import spectrum
from steelyard.domains.theories.rendering.data_sheet import DataSheet, data_sheet, mass_text
from steelyard.domains.theories.rendering.spectrum_chart import side_by_side
from steelyard.domains.theories.rendering.symbols import gauge_text, number
from steelyard.errors import ConfigError, DataError, Invalid
from steelyard.types import Verdict

PYRATE = re.compile(r"^Groups\s*:", re.MULTILINE)
SARAH = re.compile(r"\bGauge\[\[1\]\]")
PICTURES = ("svg", "html", "tex", "txt")
SINGLE_THEORY_FORMATS = ("tex", "txt")
EXPORTS = ("model", "m", "tex", "html", "txt")
Scorer = Callable[[str, Mapping[str, Any]], Verdict]


@dataclass(frozen=True)
class TheoryArtifacts:
    """Renders, exports and reports on theories. ``read`` parses theory texts; ``score`` scores them against a task's
    spec.
    """

    read: Callable[[str], Theory]
    score: Scorer | None = None

    def to_text(self, text: str) -> str:
        """Return the text unchanged if it can be parsed, otherwise an empty string."""
        try:
            self.theory(text)
        except DataError:
            return ""
        return text.strip() + "\n"

    def theory(self, text: str) -> Theory:
        """Read a theory in any of the three formats."""
        return self._read(text)[0]

    def _read(self, text: str) -> tuple[Theory, list[str]]:
        """Return the theory and the names of parameters without a value."""
        if PYRATE.search(text):
            return pyrate_reader.read_with_missing(text)
        return sarah_reader.read_with_missing(text) if SARAH.search(text) else (self.read(text), [])

    def render(self, artifacts: Sequence[Artifact], form: str, *, scale: float = 1.0, title: str = "") -> bytes:
        """Render theories as spectra (``svg``) or full tables (``html``); ``tex`` and ``txt`` render a single theory.

        Invalid samples are skipped. An invalid file raises ``DataError``.
        """
        require_format("picture", "theories", form, PICTURES)
        if form in SINGLE_THEORY_FORMATS and len(artifacts) > 1:
            raise ConfigError(
                f".{form} can show one theory, not {len(artifacts)}; use .html or .svg, or render one file at a time"
            )
        named = [(artifact, self._valid_theory(artifact)) for artifact in artifacts]
        readable = [(artifact, theory) for artifact, theory in named if theory is not None]
        if not readable:
            raise DataError("no valid theory to render; pass at least one")
        if form == "svg":
            pictures = [(_caption(artifact), spectrum(theory)) for artifact, theory in readable]
            return side_by_side(pictures, scale=scale, title=title).encode()
        if form == "html":
            return rendering.page([(_caption(artifact), theory) for artifact, theory in readable], title=title).encode()
        artifact, theory = readable[0]
        return (rendering.document if form == "tex" else rendering.text)(theory, title=title or artifact.title).encode()

    def export(self, text: str, form: str, *, name: str = "theory") -> dict[str, bytes]:
        """Export a theory: ``model`` for PyR@TE, ``m`` for SARAH (three files), other formats as in :meth:`render`."""
        require_format("export", "theories", form, EXPORTS)
        if form not in ("model", "m"):
            return {f"{name}.{form}": self.render([Artifact(text, name)], form)}
        theory = self.theory(text)
        if problems := flaws(theory):
            raise DataError(f"{name}: {problems[0]}; run `steelyard verify` to list all problems")
        if form == "model":
            return {f"{name}.model": pyrate_writer.write(theory, name=name).encode()}
        model, *others = sarah_writer.write(theory, name=name).items()
        return {f"{name}.m": model[1].encode()} | {file: content.encode() for file, content in others}

    def report(self, text: str, spec: Mapping[str, Any] | None = None) -> Report:
        """Report one row per anomaly condition, with the contribution of each fermion."""
        try:
            theory, missing = self._read(text)
        except DataError as error:
            return Report(("condition",), (), (str(error),), ("not a theory",), good=False)
        problems = tuple(flaws(theory))
        if problems:
            return Report(("condition",), (), problems, ("the theory is malformed or not gauge-invariant",), good=False)
        sheet = data_sheet(theory)
        free = not any(row.total for row in sheet.anomalies)
        scored = self._score_lines(text, spec)
        lines = [*_missing_values(missing), *_exotics(sheet), *(line for line, _ in scored)]
        return Report(
            ("condition", *sheet.fermions, "sum", "result"),
            tuple(_rows(sheet)),
            (),
            (sheet.verdict, gauge_text(theory.gauge), *lines),
            good=free and all(success for _, success in scored),
        )

    def _score_lines(self, text: str, spec: Mapping[str, Any] | None) -> list[tuple[str, bool]]:
        """Return one line that states the reward and whether the theory is a success. Only theory texts are scored."""
        if self.score is None or PYRATE.search(text) or SARAH.search(text):
            return []
        try:
            verdict = self.score(text, spec or {})
        except Invalid as error:
            return [(f"rejected: {error}", False)]
        parts = " · ".join(f"{name} {value:.3g}" for name, value in verdict.parts.items())
        lines = "success" if verdict.success else "failed"
        return [(f"{lines}: reward {verdict.reward:.4g}: {parts}", verdict.success)]

    def _valid_theory(self, artifact: Artifact) -> Theory | None:
        """Return the theory, or ``None`` for an invalid sample. Files have no verdict and must be valid."""
        try:
            theory = self.theory(artifact.text)
            problems = flaws(theory)
        except DataError as error:
            theory, problems = None, [str(error)]
        if problems and artifact.verdict is None:
            raise DataError(f"{artifact.title or 'theory'}: {problems[0]}; run `steelyard verify` to list all problems")
        return None if problems else theory


def _rows(sheet: DataSheet) -> list[Row]:
    return [
        Row(
            (
                row.name,
                *(number(value) if value else "·" for value in row.by_field),
                number(row.total),
                "cancels" if not row.total else "fails",
            ),
            good=not row.total,
        )
        for row in sheet.anomalies
    ]


def _missing_values(missing: Sequence[str]) -> list[str]:
    return [f"no values for {', '.join(missing)}: {MISSING_VALUES}"] if missing else []


def _exotics(sheet: DataSheet) -> list[str]:
    exotic = [state for state in sheet.spectrum.states if state.exotic]
    return [
        f"exotic: {state.count}× {' '.join(state.fields)}, charge {number(state.charge)}, colour {state.colour}, "
        f"{mass_text(state.mass)}"
        for state in exotic
    ]


def _caption(artifact: Artifact) -> str:
    title, verdict = artifact.title, artifact.verdict
    if verdict is None:
        return title
    if not verdict.has_reward:
        return f"{title} · unscored"
    result = "success" if verdict.success else "rejected" if verdict.status == "rejected" else "failed"
    return f"{title} · reward {verdict.reward:.3f}, {result}"
