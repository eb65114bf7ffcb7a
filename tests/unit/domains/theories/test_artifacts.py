"""Rendering, exporting and reporting theories from every supported input format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from steelyard.domains.artifacts import Artifact
from steelyard.domains.theories.artifacts import EXPORTS, TheoryArtifacts
from steelyard.domains.theories.comparison.canonical_form import canonical
from steelyard.domains.theories.domain import Theories
from steelyard.domains.theories.grammar.text import write
from steelyard.domains.theories.interchange import pyrate_reader, pyrate_writer, sarah_writer
from steelyard.domains.theories.model.known_models import models, standard_model
from steelyard.domains.theories.model.notation import left
from steelyard.domains.theories.model.theory import Theory
from steelyard.errors import ConfigError, DataError, Invalid
from steelyard.types import Verdict


def read(text: str) -> Theory:
    """Read the name of a known model instead of a theory text."""
    if text.strip() not in models():
        raise DataError(f"word 1: {text!r}")
    return models()[text.strip()]


THEORIES = TheoryArtifacts(read)
BROKEN = pyrate_writer.write(standard_model(left("h", "1/2 2 1")))


@pytest.mark.parametrize("form", EXPORTS)
def test_every_export(form: str) -> None:
    files = THEORIES.export("Standard Model", form, name="sm")
    assert next(iter(files)) == f"sm.{form}"
    assert all(files.values())


def test_exports_can_be_read_back() -> None:
    model = THEORIES.export("Pati-Salam", "model", name="ps")["ps.model"].decode()
    assert canonical(THEORIES.theory(model)) == canonical(models()["Pati-Salam"])
    files = THEORIES.export("type II seesaw", "m", name="two")
    assert list(files) == ["two.m", "particles.m", "parameters.m"]
    assert canonical(THEORIES.theory(files["two.m"].decode())) == canonical(models()["type II seesaw"])


def test_render_one_and_several() -> None:
    one = ET.fromstring(THEORIES.render([Artifact("Standard Model", "sm")], "svg"))
    several = [Artifact(name, name, verdict=Verdict.scored(0.5, success=False)) for name in list(models())[:5]]
    rejected = Artifact("nonsense", verdict=Verdict.rejected("no theory"))
    sheet = ET.fromstring(THEORIES.render([*several, rejected], "svg", scale=0.5, title="a run"))
    assert sum(part.tag.endswith("svg") for part in one) == 1
    assert {"fermion", "scalar", "exotic", "mass, GeV"} <= {str(part.text) for part in one.iter()}
    assert sum(part.tag.endswith("svg") for part in sheet) == 5
    assert float(sheet.attrib["width"]) * 2 == float(sheet.attrib["viewBox"].split()[2])
    assert b"reward 0.500, failed" in THEORIES.render(several, "html")
    assert b"free of anomalies" in THEORIES.render([Artifact("Standard Model")], "txt")
    assert rb"\begin{tabular}" in THEORIES.render([Artifact("Standard Model")], "tex")


def test_a_report_names_the_failing_conditions() -> None:
    good = THEORIES.report("Standard Model")
    assert good.good
    assert good.summary[0] == "free of anomalies"
    bad = THEORIES.report(BROKEN)
    assert not bad.good
    assert [row.cells[0] for row in bad.rows if not row.good] == ["L²·Y", "gravity²·Y", "Y³", "Witten L"]
    assert bad.columns == ("condition", "L", "e", "Q", "u", "d", "h", "sum", "result")
    assert any(line.startswith("exotic: 1× h, charge 1") for line in bad.summary)


def test_a_report_includes_the_score() -> None:
    def score(text: str, spec: Mapping[str, Any]) -> Verdict:
        if spec.get("given") == "another":
            raise Invalid("wrong start")
        return Verdict.scored(-1.0, success=bool(spec), parts={"length": -1.0})

    scored = TheoryArtifacts(read, score)
    assert scored.report("Standard Model").summary[-1] == "failed: reward -1: length -1"
    assert not scored.report("Standard Model").good
    assert scored.report("Standard Model", {"given": ""}).good
    assert scored.report("Standard Model", {"given": "another"}).summary[-1] == "rejected: wrong start"
    assert scored.report(pyrate_writer.write(standard_model())).good


def test_the_domain_reports_and_summarises() -> None:
    domain = Theories()
    text = write(in_vocabulary(standard_model()))
    report = domain.report(text, {"given": "GAUGE U(1) SU(2) SU(3)"})
    assert report.good
    assert report.summary[-1].startswith("success: reward")
    assert "does not start with" in domain.report(text, {"given": "GAUGE SU(5)"}).summary[-1]
    found = domain.summary([Artifact(text), Artifact(text + " nonsense")], title="two")
    assert found.lines[0] == "1 of 2 samples are consistent theories (1 readable); 1 distinct"
    assert found.rows[0].cells[-1] == "is Standard Model"


def in_vocabulary(theory: Theory) -> Theory:
    """Replace the vacuum expectation value with a number from the vocabulary."""
    return replace(theory, vevs=tuple(replace(vev, value=200.0) for vev in theory.vevs))


def test_invalid_input() -> None:
    assert THEORIES.to_text("nonsense") == ""
    assert THEORIES.to_text(" Standard Model ") == "Standard Model\n"
    unread = THEORIES.report("nonsense")
    assert (unread.good, unread.flaws) == (False, ("word 1: 'nonsense'",))
    charged = pyrate_writer.write(standard_model()).replace("U1Y: 2/3", "U1Y: 5/3")
    assert canonical(pyrate_reader.read(charged)) != canonical(standard_model())
    flawed = THEORIES.report(charged)
    assert "Q u† H" in flawed.flaws[0]
    with pytest.raises(DataError, match="not gauge-invariant"):
        THEORIES.export(charged, "model")
    with pytest.raises(DataError, match="no valid theory"):
        THEORIES.render([Artifact("nonsense", verdict=Verdict.rejected("no theory"))], "svg")
    for form in ("svg", "html"):
        with pytest.raises(DataError, match="second: word 1: 'nonsense'"):
            THEORIES.render([Artifact("Standard Model", "first"), Artifact("nonsense", "second")], form)
    with pytest.raises(DataError, match=r"second: .*not gauge-invariant"):
        THEORIES.render([Artifact("Standard Model", "first"), Artifact(charged, "second")], "svg")
    for form in ("tex", "txt"):
        with pytest.raises(ConfigError, match="one theory, not 2"):
            THEORIES.render([Artifact("Standard Model"), Artifact("Pati-Salam")], form)
    with pytest.raises(ConfigError, match="svg, html, tex, txt"):
        THEORIES.render([Artifact("Standard Model")], "png")
    with pytest.raises(ConfigError, match=r"--method highs: theories .* omit --method"):
        Theories().with_method("highs")


def test_a_sarah_file_can_be_reported() -> None:
    text = sarah_writer.write(standard_model())["Theory.m"]
    assert THEORIES.report(text).good
    assert not any("no value" in line for line in THEORIES.report(text).summary)


def test_a_sarah_model_file_contains_its_values() -> None:
    made = standard_model(left("x", "1 1 1"), left("y", "-1 1 1"), terms=("x y: 2e-5",))
    made = replace(made, vevs=tuple(replace(vev, value=200.0) for vev in made.vevs))
    found = THEORIES.theory(sarah_writer.write(made)["Theory.m"])
    assert found.vevs == made.vevs
    assert sorted(term.parameter for term in found.terms) == sorted(term.parameter for term in made.terms)


def test_a_report_lists_missing_values() -> None:
    bare = {
        "SARAH": re.sub(r"\(\* value .*? \*\)", "", sarah_writer.write(standard_model())["Theory.m"]),
        "PyR@TE": re.sub(r"# v.*", "", pyrate_writer.write(standard_model())),
    }
    for form, text in bare.items():
        (line,) = [line for line in THEORIES.report(text).summary if "no value" in line]
        assert "couplings count as 1" in line, form
        assert line.count(",") == 6, line
