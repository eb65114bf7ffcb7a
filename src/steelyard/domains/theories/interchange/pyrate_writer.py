"""Write PyR@TE 3 model files (Sartore, Schienbein 2007.12700), in the format of PyR@TE's ``models`` folder.

Names of right-handed fermions end in R. PyR@TE has no syntax for the values of couplings, so they are written as
comments, which ``pyrate_reader`` understands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from steelyard.domains.theories.groups.representation import Label, cached
from steelyard.domains.theories.model.theory import Field, GaugeGroup, Leg, Term, Theory, Vev, term_kind
from steelyard.domains.theories.physics.contractions import Contraction, FactorContraction, contractions, is_delta
from steelyard.domains.theories.physics.couplings import dimensions
from steelyard.domains.theories.physics.invariance import invariants, swap_trace

SECTIONS = {
    "yukawa": ("Yukawas", "Y"),
    "phi4": ("QuarticTerms", "lam"),
    "phi3": ("TrilinearTerms", "tri"),
    "phi2": ("ScalarMasses", "msq"),
    "mass": ("FermionMasses", "M"),
}
"""Section and coupling prefix of each kind of term."""
BAR, RIGHT, LEFT = "bar", "R", "L"
INDICES = ("i", "j", "k", "l", "m", "n", "a", "b", "c", "d")


def write(theory: Theory, *, name: str = "theory") -> str:
    """Return the text of a model file."""
    names = {field.name: exported_name(field) for field in theory.fields}
    fermions = [
        f"    {names[f.name]}: {{Gen: {f.generations}, Qnb: {_numbers(theory.gauge, f)}}}" for f in theory.fermions
    ]
    scalars = [
        f"    {names[f.name]}: {{RealFields: [{', '.join(real_fields(names[f.name]))}], Norm: 1/sqrt(2), "
        f"Qnb: {_numbers(theory.gauge, f)}}}"
        for f in theory.scalars
    ]
    definitions, sections, values = _potential(theory, names)
    potential = [_braces("Definitions", definitions)] if definitions else []
    potential += [_braces(section, lines) for section, lines in sections.items()]
    vevs, comments = _vevs(theory, names)
    groups = ", ".join(
        f"{key}: {kind}" for key, kind in zip(group_names(theory.gauge), _kinds(theory.gauge), strict=True)
    )
    blocks = [
        f"# YAML 1.1\n---\nAuthor: Steelyard\nDate: 01.01.2026\nName: {name}\nGroups: {{{groups}}}",
        _braces("Fermions", fermions),
        "RealScalars: {\n}",
        _braces("ComplexScalars", scalars),
        "Potential: {\n" + ",\n".join(potential) + "\n}",
        _braces("Vevs", vevs) if vevs else "",
        "\n".join([*values, *comments]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def exported_name(field: Field) -> str:
    """Return the name used in a model file, with suffix R if right-handed, or L if a left-handed name ends in R."""
    if field.kind == "right":
        return field.name + RIGHT
    return field.name + LEFT if re.search(f"{RIGHT}{LEFT}*$", field.name) and field.fermion else field.name


def group_names(gauge: GaugeGroup) -> list[str]:
    """Return group names such as ``U1Y`` and ``SU2L``, without repeating an existing prefix."""
    found = [name if name.startswith("U1") else f"U1{name}" for name in gauge.abelian]
    return found + [name if name.startswith(f"SU{n}") else f"SU{n}{name}" for name, n in gauge.special]


def real_fields(name: str) -> tuple[str, str]:
    """Return the names of the real and imaginary parts of a complex scalar."""
    return f"{name}Re", f"{name}Im"


def _kinds(gauge: GaugeGroup) -> list[str]:
    return ["U1"] * len(gauge.abelian) + [f"SU{n}" for _, n in gauge.special]


def _numbers(gauge: GaugeGroup, field: Field) -> str:
    values = [str(charge) for charge in field.charges]
    values += [_representation(n, label) for (_, n), label in zip(gauge.special, field.labels, strict=True)]
    pairs = zip(group_names(gauge), values, strict=True)
    return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"


def _representation(n: int, label: Label) -> str:
    """Format a representation by dimension if that is unambiguous, otherwise by Dynkin label."""
    irrep = cached(n, label)
    if n == 2 or not any(label):
        return str(irrep.dimension)
    if sum(label) == 1 and (label[0] or label[-1]):
        return str(n if label[0] else -n)
    return "[" + ",".join(map(str, label)) + "]"


def _potential(theory: Theory, names: Mapping[str, str]) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Return the definitions, the lines of each section, and the coupling values as comments."""
    definitions: list[str] = []
    sections: dict[str, list[str]] = {}
    values: list[str] = []
    for number, term in enumerate(theory.terms, 1):
        kind = term_kind(theory, term)
        if kind is None:
            continue
        section, letter = SECTIONS[kind]
        shown = _as_published(theory, term)
        symmetric = _is_symmetric(theory, shown)
        for way, contraction in enumerate(contractions(theory, shown), 1):
            coupling = f"{letter}{number}" + (f"_{way}" if way > 1 else "")
            tensors, formula = _formula(theory, shown, contraction, names, f"C{number}x{way}")
            definitions += tensors
            assumed = f"{{{formula}, symmetric}}" if symmetric else formula
            sections.setdefault(section, []).append(f"    {coupling} : {assumed}")
        values.append(f"# value {letter}{number} = {term.parameter!r}")
    return definitions, sections, values


def _is_symmetric(theory: Theory, term: Term) -> bool:
    """Return whether two identical fermions contract symmetrically, which makes the coupling matrix symmetric."""
    spinors = [place for place, leg in enumerate(term.legs) if theory.by_name[leg.field].fermion]
    if len(spinors) != 2 or term.legs[spinors[0]] != term.legs[spinors[1]]:
        return False
    legs = [theory.leg_quantum_numbers(leg) for leg in term.legs]
    return invariants(theory.gauge, legs) == swap_trace(theory.gauge, legs, spinors[0], spinors[1])


def _as_published(theory: Theory, term: Term) -> Term:
    """Return the term with unconjugated right-handed fields: Q̄ H̃ u instead of its conjugate Q u† H."""
    if not any(theory.by_name[leg.field].kind == "right" for leg in term.legs):
        return term
    return Term(tuple(Leg(leg.field, not leg.conjugate) for leg in term.legs), term.parameter)


def _formula(
    theory: Theory, term: Term, contraction: Contraction, names: Mapping[str, str], tensor: str
) -> tuple[list[str], str]:
    """Return the tensor definitions that a term needs, and the term with its indices."""
    letters = _letters(names)
    index: dict[tuple[int, int], str] = {}
    front: list[str] = []
    definitions: list[str] = []
    for part in contraction.parts:
        for pair in part.pairs:
            if is_delta(theory, term, part, pair):
                index[part.factor, pair[0]] = index[part.factor, pair[1]] = next(letters)
            else:
                index[part.factor, pair[0]], index[part.factor, pair[1]] = next(letters), next(letters)
                front.append(f"Eps[{index[part.factor, pair[0]]},{index[part.factor, pair[1]]}]")
        if not part.pairs:
            for leg in part.legs:
                index[part.factor, leg] = next(letters)
            own = ",".join(index[part.factor, leg] for leg in part.legs)
            called = "Eps" if part.epsilon else f"{tensor}{'abcdefgh'[part.factor]}"
            front.append(f"{called}[{own}]")
            if not part.epsilon:
                definitions.append(f"    {called} : {_invariant(theory, term, part, names)}")
    fields: list[str] = []
    for place, leg in enumerate(term.legs):
        own = [index[key] for key in sorted(index) if key[1] == place]
        fields.append(_leg(leg, names) + (f"[{','.join(own)}]" if own else ""))
    return definitions, "*".join([*front, *fields])


def _invariant(theory: Theory, term: Term, part: FactorContraction, names: Mapping[str, str]) -> str:
    group = group_names(theory.gauge)[len(theory.gauge.abelian) + part.factor]
    fields = [_leg(term.legs[leg], names) for leg in part.legs]
    number = [str(part.number)] if part.count > 1 else []
    return f"cgc({', '.join([group, *fields, *number])})"


def _leg(leg: Leg, names: Mapping[str, str]) -> str:
    return names[leg.field] + BAR * leg.conjugate


def _letters(names: Mapping[str, str]) -> Iterator[str]:
    """Yield index names that differ from all field names, because PyR@TE substitutes names everywhere."""
    free = [letter for letter in INDICES if letter not in names.values()]
    yield from free
    yield from (f"{letter}{number}" for number in range(1, 99) for letter in free)


def _vevs(theory: Theory, names: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the vacuum expectation values as lines and comments.

    PyR@TE counts components from 1 for each index. The bases match only for fundamental representations.
    """
    lines: list[str] = []
    comments: list[str] = []
    for number, vev in enumerate(theory.vevs, 1):
        place = _place(theory, vev)
        if place is not None:
            real = real_fields(names[vev.field])[0]
            lines.append(f"    v{number}: {real}" + (f"[{','.join(map(str, place))}]" if place else ""))
        comments.append(f"# vev v{number} = {names[vev.field]} {vev.component} {vev.value!r}")
    return lines, comments


def _place(theory: Theory, vev: Vev) -> tuple[int, ...] | None:
    labels = theory.by_name[vev.field].labels
    sizes = dimensions(theory.gauge, labels)
    left, found = vev.component, []
    for factor, label in enumerate(labels):
        rest = prod(sizes[factor + 1 :])
        own, left = divmod(left, rest)
        if sum(label) == 1 and (label[0] or label[-1]):
            found.append(own + 1 if label[0] else sizes[factor] - own)
        elif any(label):
            return None
    return tuple(found)


def _braces(name: str, lines: list[str]) -> str:
    return f"{name}: {{\n" + ",\n".join(lines) + ("\n" if lines else "") + "}"
