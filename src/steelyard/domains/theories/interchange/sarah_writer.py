"""Write SARAH model files (Staub 1309.7223).

The conventions are those of SARAH's Standard Model: right-handed fields are conjugated, quantum numbers follow the
order of the gauge groups, and ⟨H⁰⟩ = v/√2. SARAH chooses one contraction per term; other contractions must be added by
hand. Components under broken groups are written out for fundamentals and SU(2) triplets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from steelyard.domains.theories.groups.representation import Label, cached
from steelyard.domains.theories.interchange.sarah_names import Component, broken_factors, components, groups, to_symbol
from steelyard.domains.theories.interchange.sarah_sectors import gauge_sector, gauge_spinors, matter_sector
from steelyard.domains.theories.model.theory import Field, Leg, Term, Theory, Vev, term_kind
from steelyard.domains.theories.physics.breaking import unbroken
from steelyard.errors import DataError

COMPANIONS = ("particles", "parameters")
LETTERS = {"phi2": "m2", "phi3": "kap", "phi4": "lam", "mass": "M", "yukawa": "Y"}


def write(theory: Theory, *, name: str = "Theory") -> dict[str, str]:
    """Return the files of a model by name: the model file, ``particles.m`` and ``parameters.m``."""
    if to_symbol(name) in COMPANIONS:
        raise DataError(f"{name}.m is the name of another file in a SARAH model; choose a different name")
    return {
        f"{to_symbol(name)}.m": _model(theory, to_symbol(name)),
        "particles.m": _particles(theory),
        "parameters.m": _parameters(theory),
    }


def couplings(theory: Theory) -> list[str]:
    """Return the coupling name of each term: ``Yu``, after the right-handed field, if unambiguous, else numbered."""
    taken = {to_symbol(field.name) for field in theory.fields} | {group.coupling for group in groups(theory)}
    taken |= {part.name for parts in components(theory).values() for part in parts} | set(vev_names(theory))
    preferred = [_coupling(theory, term) for term in theory.terms]
    found: list[str] = []
    for number, (own, term) in enumerate(zip(preferred, theory.terms, strict=True), 1):
        numbered = f"{LETTERS[term_kind(theory, term) or 'phi2']}{number}"
        name = own if preferred.count(own) == 1 and own not in taken else numbered
        found.append(f"{name}x" if name in taken else name)
    return found


def vev_names(theory: Theory) -> list[str]:
    return ["v"] if len(theory.vevs) == 1 else [f"v{number}" for number in range(1, len(theory.vevs) + 1)]


def _model(theory: Theory, name: str) -> str:
    parts = components(theory)
    gauge = [
        f"Gauge[[{i}]]={{{g.boson}, {g.kind}, {g.name}, {g.coupling}, {g.expanded}}};"
        for i, g in enumerate(groups(theory), 1)
    ]
    fermions = [f"FermionFields[[{i}]] = {_row(theory, f, parts[f.name])};" for i, f in enumerate(theory.fermions, 1)]
    scalars = [f"ScalarFields[[{i}]] = {_row(theory, f, parts[f.name])};" for i, f in enumerate(theory.scalars, 1)]
    blocks = [
        "\n".join(["Off[General::spell]", "", *(f'Model`{key} = "{value}";' for key, value in _about(name))]),
        "\n".join(["(* Gauge Groups *)", *gauge]),
        "\n".join(["(* Matter Fields *)", *fermions, "", *scalars]),
        "NameOfStates={GaugeES, EWSB};",
        "DEFINITION[GaugeES][LagrangianInput]= {\n\t{LagHC, {AddHC->True}},\n\t{LagNoHC,{AddHC->False}}\n};",
        _lagrangian(theory),
        "\n".join(f"(* value {own} = {value!r} *)" for own, value in _values(theory)),
        *_broken(theory, parts),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _about(name: str) -> tuple[tuple[str, str], ...]:
    return ("Name", name), ("NameLaTeX", name), ("Authors", "Steelyard"), ("Date", "2026-01-01")


def _row(theory: Theory, field: Field, parts: tuple[Component, ...]) -> str:
    acts = field.left_handed if field.fermion else field.acts
    numbers = [str(charge) for charge in acts.charges]
    numbers += [representation(n, label) for (_, n), label in zip(theory.gauge.special, acts.labels, strict=True)]
    written = _arranged(theory, field, parts)
    return f"{{{to_symbol(field.name)}, {field.generations}, {written}, {', '.join(numbers)}}}"


def representation(n: int, label: Label) -> str:
    """Format a representation as ``3`` or ``-3``, or with its Dynkin label if ambiguous: ``{15, {2, 1}}``."""
    irrep = cached(n, label)
    if n == 2 or not any(label) or irrep.dimension == n:
        return str(-n if n > 2 and label[-1] and irrep.dimension == n else irrep.dimension)
    return f"{{{irrep.dimension}, {{{', '.join(map(str, label))}}}}}"


def _arranged(theory: Theory, field: Field, parts: tuple[Component, ...]) -> str:
    """Format the components nested by broken group, SU(2) triplets as matrices."""
    broken = broken_factors(theory, unbroken(theory))
    names = {part.place: f"conj[{part.name}]" if field.kind == "right" else part.name for part in parts}
    return _nested(theory, field, broken, names, ())


def _nested(
    theory: Theory, field: Field, broken: list[int], names: Mapping[tuple[int, ...], str], place: tuple[int, ...]
) -> str:
    if len(place) == len(broken):
        return names[place]
    factor = broken[len(place)]
    n, label = theory.gauge.special[factor].n, field.labels[factor]
    inner = [_nested(theory, field, broken, names, (*place, i)) for i in range(cached(n, label).dimension)]
    if not any(label):
        return inner[0]
    if n == 2 and label == (2,):
        up, zero, down = inner
        return f"{{{{{zero}/Sqrt[2], {up}}}, {{{down}, -{zero}/Sqrt[2]}}}}"
    return "{" + ", ".join(inner) + "}"


def _lagrangian(theory: Theory) -> str:
    with_conjugate: list[str] = []
    real: list[str] = []
    for coupling, term in zip(couplings(theory), theory.terms, strict=True):
        legs = ".".join(_leg(theory, leg) for leg in term.legs)
        half = "1/2 " if term_kind(theory, term) == "mass" and term.legs[0] == term.legs[1] else ""
        mirrored = sorted(Leg(leg.field, not leg.conjugate) for leg in term.legs)
        (real if mirrored == sorted(term.legs) else with_conjugate).append(f"{half}{coupling} {legs}")
    return f"LagNoHC = {_minus(real)};\nLagHC = {_minus(with_conjugate)};"


def _leg(theory: Theory, leg: Leg) -> str:
    own = to_symbol(leg.field)
    turned = leg.conjugate != (theory.by_name[leg.field].kind == "right")
    return f"conj[{own}]" if turned else own


def _minus(terms: list[str]) -> str:
    return f"-({' + '.join(terms)})" if terms else "0"


def _coupling(theory: Theory, term: Term) -> str:
    kind = term_kind(theory, term) or "phi2"
    right = [leg.field for leg in term.legs if theory.by_name[leg.field].kind == "right"]
    if kind == "yukawa" and len(right) == 1:
        return f"Y{to_symbol(right[0])}"
    return f"m2{to_symbol(term.legs[0].field)}" if kind == "phi2" else LETTERS[kind]


def _broken(theory: Theory, parts: Mapping[str, tuple[Component, ...]]) -> Iterator[str]:
    """Yield the definitions after symmetry breaking."""
    if not theory.vevs:
        return
    names = vev_names(theory)
    if sector := gauge_sector(theory):
        yield f"DEFINITION[EWSB][GaugeSector] = {sector};"
    rows: list[str] = []
    for number, (vev, name) in enumerate(zip(theory.vevs, names, strict=True), 1):
        index = "" if len(names) == 1 else str(number)
        shape = f"{{{name}, 1/Sqrt[2]}}, {{Ah{index}, \\[ImaginaryI]/Sqrt[2]}}, {{hh{index}, 1/Sqrt[2]}}"
        rows.append(f"{{{component_of(theory, parts, vev).name}, {shape}}}")
    yield "DEFINITION[EWSB][VEVs]=\n{    " + ",\n     ".join(rows) + "};"
    matter, spinors = matter_sector(theory, parts)
    if len(names) > 1:
        matter += [
            f"{{{{{', '.join(f'hh{i}' for i in range(1, len(names) + 1))}}}, {{hh, ZH}}}}",
            f"{{{{{', '.join(f'Ah{i}' for i in range(1, len(names) + 1))}}}, {{Ah, ZA}}}}",
        ]
    if matter:
        yield "DEFINITION[EWSB][MatterSector]=\n    {" + ",\n     ".join(matter) + "};"
    yield "DEFINITION[EWSB][DiracSpinors]={\n " + ",\n ".join(spinors) + "};"
    yield "DEFINITION[GaugeES][DiracSpinors]={\n " + ",\n ".join(gauge_spinors(theory, parts)) + "};"


def component_of(theory: Theory, parts: Mapping[str, tuple[Component, ...]], vev: Vev) -> Component:
    """Return the component that has a vacuum expectation value."""
    field = theory.by_name[vev.field]
    broken = broken_factors(theory, unbroken(theory))
    left, place = vev.component, dict[int, int]()
    for factor in reversed(range(len(field.labels))):
        left, place[factor] = divmod(left, cached(theory.gauge.special[factor].n, field.labels[factor]).dimension)
    return next(own for own in parts[vev.field] if own.place == tuple(place[a] for a in broken))


def _particles(theory: Theory) -> str:
    parts = components(theory)
    rows = [
        f'  {{{part.name}, {{LaTeX -> "{part.name}", OutputName -> "{part.name}"}}}}'
        for field in theory.fields
        for part in parts[field.name]
    ]
    fields = [
        f'  {{{to_symbol(field.name)}, {{LaTeX -> "{to_symbol(field.name)}", OutputName -> ""}}}}'
        for field in theory.fields
    ]
    return (
        "ParticleDefinitions[GaugeES] = {\n" + ",\n".join(rows) + "\n};\n\n"
        "WeylFermionAndIndermediate = {\n" + ",\n".join(fields) + "\n};\n"
    )


def _parameters(theory: Theory) -> str:
    """Format the gauge couplings, and all other parameters with their values."""
    rows = [
        f'  {{{group.coupling}, {{LaTeX -> "{group.coupling}", OutputName -> {group.coupling}}}}}'
        for group in groups(theory)
    ]
    for name, value in _values(theory):
        number = repr(value).replace("e", "*^")
        rows.append(f'  {{{name}, {{LaTeX -> "{name}", Value -> {number}, OutputName -> {name}}}}}')
    return "ParameterDefinitions = {\n" + ",\n".join(rows) + "\n};\n"


def _values(theory: Theory) -> list[tuple[str, float]]:
    """Return the name and value of each coupling and vacuum expectation value."""
    values = [(name, term.parameter) for name, term in zip(couplings(theory), theory.terms, strict=True)]
    return values + [(name, vev.value) for name, vev in zip(vev_names(theory), theory.vevs, strict=True)]
