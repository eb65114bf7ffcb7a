"""Rendering theories: every output format is well formed and complete."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.theories.theory_cases import random_theory, with_terms
from steelyard.domains.theories import rendering
from steelyard.domains.theories.model.known_models import MODELS, models, standard_model
from steelyard.domains.theories.model.notation import left, scalar, theory
from steelyard.domains.theories.model.theory import GaugeGroup, SpecialUnitary, Theory
from steelyard.domains.theories.physics.mass_spectrum import spectrum
from steelyard.domains.theories.rendering.data_sheet import mass_text
from steelyard.domains.theories.rendering.plain_text import columns, width
from steelyard.domains.theories.rendering.symbols import gauge_text, name_latex, parameter_text

STANDARD_MODEL = """\
Standard Model
U(1)_Y × SU(2)_L × SU(3)_c

field                L  c  Y     gen.  Q
H      scalar        2  1  1/2   1     1, 0
L      left-handed   2  1  −1/2  3     0, −1
e      right-handed  1  1  −1    3     −1
Q      left-handed   2  3  1/6   3     2/3, −1/3
u      right-handed  1  3  2/3   3     2/3
d      right-handed  1  3  −1/3  3     −1/3

Lagrangian
m² H† H            m² = 10000 GeV²
λ H† H H† H        λ = 0.1
y₁ L e† H† + h.c.  y₁ = 0.01
y₂ Q u† H + h.c.   y₂ = 1
y₃ Q d† H† + h.c.  y₃ = 0.02

Vacuum
⟨H⟩ component 2: 246 GeV / √2

Anomalies
            L     e  Q     u     d    sum
c³          ·     ·  6     −3    −3   0    ✓
L²·Y        −3/4  ·  3/4   ·     ·    0    ✓
c²·Y        ·     ·  1/2   −1    1/2  0    ✓
gravity²·Y  −3    3  3     −6    3    0    ✓
Y³          −3/4  3  1/12  −8/3  1/3  0    ✓
Witten L    3     ·  9     ·     ·    0    ✓

Spectrum
mass                      Q     colour  count  fields  terms
0          Weyl fermion   0     1       3      L
1.739 GeV  Dirac fermion  −1    1       3      L e  y₁
3.479 GeV  Dirac fermion  −1/3  3       3      Q d  y₃
110 GeV    real scalar    0     1       1      H    λ
173.9 GeV  Dirac fermion  2/3   3       3      Q u  y₂

free of anomalies
"""


class Tags(HTMLParser):
    """Checks that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "line", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag == "line" and self.open[-1] != "line":
            return
        assert self.open.pop() == tag


def test_the_standard_model_in_a_terminal() -> None:
    text = rendering.text(standard_model(), title="Standard Model")
    assert [line.split() for line in text.splitlines()] == [line.split() for line in STANDARD_MODEL.splitlines()]


@pytest.mark.parametrize("name", MODELS)
def test_all_formats_of_known_models(name: str) -> None:
    assert_well_formed(models()[name], name)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_all_formats_of_random_theories(seed: int) -> None:
    rng = random.Random(seed)
    assert_well_formed(with_terms(random_theory(rng), rng), "random <&> 50%")


def assert_well_formed(made: Theory, title: str) -> None:
    text = rendering.text(made, title=title)
    latex = rendering.document(made, title=title)
    picture = ET.fromstring(rendering.svg(spectrum(made), title=title))
    page = Tags()
    page.feed(rendering.page([(title, made)]))
    assert page.open == []
    assert title in text
    assert picture.tag.endswith("svg")
    assert latex.count("{") - latex.count(r"\{") == latex.count("}") - latex.count(r"\}")
    assert sorted(re.findall(r"\\begin\{(\w+\*?)\}", latex)) == sorted(re.findall(r"\\end\{(\w+\*?)\}", latex))
    for table in re.findall(r"\\begin\{tabular\}\{(l+)\}(.*?)\\end\{tabular\}", latex, flags=re.DOTALL):
        rows = [row for row in table[1].split(r"\\")[:-1] if "&" in row]
        assert {row.count("&") - row.count(r"\&") for row in rows} == {len(table[0]) - 1}


def test_anomalies_and_exotic_states_are_marked() -> None:
    text = rendering.text(standard_model(left("h", "1/2 2 1")))
    assert re.search(r"Witten L .* 1 +✗", text)
    assert "4 of 6 conditions fail; 1 exotic states, the lightest 0" in text
    page = rendering.page([("", standard_model(left("h", "1/2 2 1")))])
    assert '<td class="bad">✗</td>' in page
    assert '<td class="bad">exotic</td>' in page


def test_broken_forces_are_listed() -> None:
    broken = standard_model(scalar("S", "1 1 1"), vevs=(("S", 0, 1e3),))
    assert "free of anomalies; electromagnetism broken" in rendering.text(broken)


def test_combining_overlines_have_no_width() -> None:
    assert width("1\N{COMBINING OVERLINE}0\N{COMBINING OVERLINE}") == 2
    made = theory("c:3", (left("q", "-6"), scalar("s", "3")))
    assert "6\N{COMBINING OVERLINE}" in rendering.text(made)
    assert '<span class="bar">6</span>' in rendering.page([("", made)])
    assert r"\overline{\mathbf{6}}" in rendering.document(made)
    assert columns([["a", "b"], ["10", "1"]]) == "a   b\n10  1"


def test_tachyons_are_dashed() -> None:
    made = theory("X", (scalar("a", "1"), scalar("b", "2")), vevs=[("b", 0, 100.0)], terms=("a a b†: 500", "a† a: 100"))
    assert "tachyonic" in rendering.text(made)
    assert "stroke-dasharray" in rendering.svg(spectrum(made))


@pytest.mark.parametrize(
    ("mass", "text"),
    [
        (0.0, "0"),
        (246.0, "246 GeV"),
        (2e6, "2·10⁶ GeV"),
        (5.11e-4, "511 keV"),
        (5e-11, "5·10⁻¹¹ GeV"),
        (-2.0, "-2 GeV"),
    ],
)
def test_masses(mass: float, text: str) -> None:
    assert mass_text(mass) == text


def test_symbols() -> None:
    assert (
        gauge_text(GaugeGroup(("U1",), (SpecialUnitary("SU2a", 2), SpecialUnitary("c", 3))))
        == "U(1) × SU(2)_a × SU(3)_c"
    )
    assert gauge_text(GaugeGroup()) == "no gauge group"
    assert [name_latex(name) for name in ("H", "L2", "hu", "F1")] == ["H", "L_{2}", r"\mathrm{hu}", "F_{1}"]
    assert [parameter_text(value) for value in (0.02, 1e4, 5e-9, -10)] == ["0.02", "10000", "5·10⁻⁹", "−10"]
