"""Format groups, charges, terms and states as Unicode text and LaTeX."""

from __future__ import annotations

import re
from fractions import Fraction

from steelyard.domains.theories.groups.representation import Representation
from steelyard.domains.theories.model.theory import GaugeGroup, Leg
from steelyard.domains.theories.physics.mass_spectrum import State
from steelyard.domains.theories.rendering.data_sheet import SUPERSCRIPT, TermRow, mass_parts

MINUS = "−"
MATHS = {"³": "^3", "²": "^2", "·": r"\,", "μ": r"\mu ", "τ": r"\tau "}
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
COUPLINGS = {
    "phi2": ("m²", "m^2"),
    "phi3": ("μ", r"\mu"),
    "phi4": ("λ", r"\lambda"),
    "mass": ("M", "M"),
    "yukawa": ("y", "y"),
}
"""Parameter symbol for each kind of term, as text and LaTeX."""
NATURES = {"dirac": "Dirac", "majorana": "Majorana", "weyl": "Weyl", "complex": "complex", "real": "real"}


def gauge_text(gauge: GaugeGroup) -> str:
    """Format a gauge group, for example ``U(1)_Y × SU(2)_L × SU(3)_c``."""
    return " × ".join(f"{kind}_{own}" if own else kind for kind, own in factors(gauge)) or "no gauge group"


def gauge_latex(gauge: GaugeGroup) -> str:
    return r" \times ".join(map(factor_latex, factors(gauge)))


def factor_latex(factor: tuple[str, str]) -> str:
    kind, own = factor
    return rf"{kind}_{{{own}}}" if own else kind


def factors(gauge: GaugeGroup) -> list[tuple[str, str]]:
    """Return each factor with its name, minus any redundant prefix: ``SU2`` is empty and ``SU2a`` becomes ``a``."""
    found = [("U(1)", name.removeprefix("U1")) for name in gauge.abelian]
    return found + [(f"SU({n})", name.removeprefix(f"SU{n}")) for name, n in gauge.special]


def number(value: Fraction) -> str:
    """Format a fraction with a typographic minus sign."""
    return str(value).replace("-", MINUS)


def number_latex(value: Fraction) -> str:
    sign, size = ("-" if value < 0 else ""), abs(value)
    return f"{sign}{size}" if size.denominator == 1 else rf"{sign}\tfrac{{{size.numerator}}}{{{size.denominator}}}"


def representation_latex(irrep: Representation) -> str:
    digits = rf"\mathbf{{{irrep.dimension}}}"
    return (rf"\overline{{{digits}}}" if irrep.is_barred else digits) + "'" * irrep.primes


def leg_text(leg: Leg) -> str:
    return leg.field + "†" * leg.conjugate


def leg_latex(leg: Leg) -> str:
    return name_latex(leg.field) + (r"^\dagger" if leg.conjugate else "")


def name_latex(name: str) -> str:
    r"""Format a name as LaTeX: ``L2`` as ``L_{2}``, longer words upright."""
    letters = re.fullmatch(r"([^\W\d_]+)_?(\w*)", name)
    base, index = letters.groups() if letters else (name, "")
    base = base if len(base) == 1 else rf"\mathrm{{{base}}}"
    return f"{base}_{{{index}}}" if index else base


def power(value: float) -> tuple[str, int]:
    """Split a parameter into digits and power of ten."""
    digits, _, exponent = f"{value:.3e}".partition("e")
    return f"{float(digits):g}", int(exponent)


def parameter_text(value: float) -> str:
    """Format a parameter, for example ``0.02``, ``1000`` or ``5·10⁻⁹``."""
    digits, exponent = power(value)
    if -3 <= exponent <= 4:
        return f"{value:g}".replace("-", MINUS)
    return f"{digits}·10{str(exponent).translate(SUPERSCRIPT)}".replace("-", MINUS)


def parameter_latex(value: float) -> str:
    digits, exponent = power(value)
    return f"{value:g}" if -3 <= exponent <= 4 else rf"{digits}\cdot 10^{{{exponent}}}"


def coupling_text(row: TermRow) -> str:
    """Format the coupling of a term, for example ``y₂``."""
    return COUPLINGS.get(row.kind or "", ("c", "c"))[0] + (str(row.number).translate(SUBSCRIPT) if row.number else "")


def coupling_latex(row: TermRow) -> str:
    letter = COUPLINGS.get(row.kind or "", ("c", "c"))[1]
    base, caret, exponent = letter.partition("^")
    return base + (f"_{{{row.number}}}" if row.number else "") + caret + exponent


def term_text(row: TermRow) -> str:
    """Format a term, for example ``y Q u† H + h.c.``."""
    legs = " ".join(map(leg_text, row.legs))
    return f"{coupling_text(row)} {legs}{' + h.c.' if row.with_conjugate else ''}"


def term_latex(row: TermRow) -> str:
    legs = r"\, ".join(map(leg_latex, row.legs))
    return rf"{coupling_latex(row)}\, {legs}" + (r" + \text{h.c.}" if row.with_conjugate else "")


def unit_text(row: TermRow) -> str:
    """Return the unit of a term's parameter."""
    return {"phi2": " GeV²", "phi3": " GeV", "mass": " GeV"}.get(row.kind or "", "")


def condition_latex(name: str) -> str:
    """Format the name of an anomaly condition such as ``SU2²·Y`` as LaTeX."""
    if name.startswith("Witten "):
        return rf"\text{{Witten }}{name.removeprefix('Witten ')}"
    text = name.replace("gravity", r"\text{gravity}")
    for sign, maths in MATHS.items():
        text = text.replace(sign, maths)
    return text


def state_text(state: State) -> str:
    """Describe a state, for example ``Dirac fermion`` or ``real scalar``."""
    return f"{NATURES[state.nature]} {state.kind}" + (", tachyonic" if state.mass < 0 else "")


def mass_latex(mass: float) -> str:
    r"""Format a mass as LaTeX, for example ``$2\cdot 10^{6}$ GeV``."""
    digits, exponent, unit = mass_parts(mass)
    power = rf"\cdot 10^{{{exponent}}}" if exponent else ""
    return f"${digits}{power}$ {unit}".strip()
