"""Read theories from PyR@TE 3 model files: groups, fields, terms and vacuum expectation values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from steelyard.domains.theories.groups.representation import Label, representation
from steelyard.domains.theories.interchange.parameter_values import ParameterValues, decimal, fraction, integer
from steelyard.domains.theories.interchange.pyrate_syntax import block, entries, items, names, without_comments
from steelyard.domains.theories.interchange.pyrate_writer import BAR, LEFT, RIGHT, SECTIONS
from steelyard.domains.theories.model.theory import (
    Field,
    GaugeGroup,
    Kind,
    Leg,
    SpecialUnitary,
    Term,
    Theory,
    Vev,
    term_kind,
)
from steelyard.domains.theories.physics.couplings import dimensions
from steelyard.errors import DataError

TENSORS = ("Eps", "kd", "KD", "t", "cgc", "sqrt", "Sqrt")
VALUE_COMMENT = re.compile(r"^# value (\w+) = (\S+)$", re.MULTILINE)
VEV_COMMENT = re.compile(r"^# vev (\w+) = (\w+) (\d+) (\S+)$", re.MULTILINE)


def read(text: str) -> Theory:
    """Read a model file. Missing couplings default to 1 and missing vacuum expectation values to 246 GeV.

    Only the fields of a term are read, not its contraction: a theory includes every contraction with one parameter.
    """
    return read_with_missing(text)[0]


def read_with_missing(text: str) -> tuple[Theory, list[str]]:
    """Read a model file and return the theory and the names of parameters without a value."""
    file = entries(without_comments(text))
    if "Groups" not in file:
        raise DataError("model file: the section Groups is missing; add it")
    gauge, keys = _gauge(block(file["Groups"]))
    if block(file.get("RealScalars", "")):
        raise DataError("model file: RealScalars is not supported; move its fields to ComplexScalars")
    scalars = block(file.get("ComplexScalars", file.get("CplxScalars", "")))
    fermions = block(file.get("Fermions", ""))
    fields = {name: _field(name, entry, keys) for name, entry in fermions.items()}
    fields |= {name: _field(name, entry, keys, scalar=True) for name, entry in scalars.items()}
    fields = _without_suffixes(fields)
    bare = Theory(gauge, tuple(fields.values()))
    potential = block(file.get("Potential", ""))
    noted = VALUE_COMMENT.findall(text)
    values = ParameterValues({name: decimal(value, f"model file: value of {name}") for name, value in noted})
    terms = tuple(_terms(bare, fields, potential, values))
    vevs = tuple(_vevs(bare, fields, text, block(file.get("Vevs", "")), scalars, values))
    return Theory(gauge, bare.fields, vevs, terms), values.missing


def _gauge(groups: Mapping[str, str]) -> tuple[GaugeGroup, dict[str, str]]:
    """Return the gauge group, and the kind of each factor by key."""
    abelian: list[str] = []
    special: list[SpecialUnitary] = []
    for key, kind in groups.items():
        name = key.removeprefix(kind) or key
        if kind == "U1":
            abelian.append(name)
        elif re.fullmatch(r"SU\d+", kind):
            special.append(SpecialUnitary(name, int(kind[2:])))
        else:
            raise DataError(f"model file: group {key} = {kind} is not supported; use U1 or SUn")
    return GaugeGroup(tuple(abelian), tuple(special)), dict(groups)


def _field(name: str, entry: str, keys: Mapping[str, str], *, scalar: bool = False) -> Field:
    if entry.startswith("{"):
        details = block(entry)
        numbers = block(details.get("Qnb", "{}"))
        generations = integer(details.get("Gen", "1"), f"model file: Gen of {name}")
    else:
        values = items(entry)
        generations = 1 if scalar else integer(values[0], f"model file: generations of {name}")
        details = values[3 if scalar else 1 :]
        if len(details) != len(keys):
            raise DataError(
                f"model file: {name} = {entry} has {len(details)} quantum numbers; list one per group ({len(keys)})"
            )
        numbers = dict(zip(keys, details, strict=True))
    unknown = [key for key in numbers if key not in keys]
    if unknown:
        raise DataError(
            f"model file: {name} has a quantum number for {unknown[0]}, which is not in Groups; add it there"
        )
    where = {key: f"model file: {key} of {name}" for key in keys}
    charges = tuple(fraction(numbers.get(key, "0"), where[key]) for key, kind in keys.items() if kind == "U1")
    labels = tuple(
        _label(int(kind[2:]), numbers.get(key, "1"), where[key]) for key, kind in keys.items() if kind != "U1"
    )
    kind: Kind = "scalar" if scalar else "right" if name.endswith(RIGHT) else "left"
    return Field(name, kind, labels, charges, generations)


def _label(n: int, entry: str, where: str) -> Label:
    if entry.startswith(("[", "(")):
        label = tuple(integer(value, where) for value in entry[1:-1].split(","))
        if len(label) != n - 1:
            raise DataError(f"{where} = {entry} is not a Dynkin label of SU{n}; use {n - 1} integers")
        return label
    dimension = integer(entry, where)
    try:
        found = representation(n, abs(dimension), bar=dimension < 0)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None
    return found.label


def _without_suffixes(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Strip the suffix R of right-handed fields, and the L that protects left-handed names, unless names collide."""
    short: dict[str, str] = {}
    for name, field in fields.items():
        if field.kind == "right":
            short[name] = name.removesuffix(RIGHT)
        else:
            short[name] = name.removesuffix(LEFT) if re.search(f"{RIGHT}{LEFT}+$", name) and field.fermion else name
    taken = list(short.values())
    renamed: dict[str, Field] = {}
    for name, field in fields.items():
        new_name = short[name] if short[name] and taken.count(short[name]) == 1 else name
        renamed[name] = Field(new_name, field.kind, field.labels, field.charges, field.generations)
    return renamed


def _terms(
    bare: Theory, fields: Mapping[str, Field], potential: Mapping[str, str], values: ParameterValues
) -> Iterator[Term]:
    definitions = block(potential.get("Definitions", ""))
    known: dict[str, list[str]] = {}
    for key, formula in definitions.items():
        name = key.partition("[")[0].strip()
        known[name] = [] if re.match(r"(cgc|t)\(", formula) else _first_product(formula, known)
    read_so_far: set[str] = set()
    found: list[tuple[str, Term]] = []
    for section, _ in SECTIONS.values():
        for coupling, formula in block(potential.get(section, "")).items():
            if coupling.rpartition("_")[0] in read_so_far:
                continue  # another contraction of the same term
            read_so_far.add(coupling)
            legs = [_leg(name, fields) for name in _first_product(items(formula)[0], known)]
            found.append((coupling, _left_handed(bare, coupling, legs, values.coupling(coupling))))
    for _, term in sorted(found, key=lambda pair: [int(n) for n in re.findall(r"\d+", pair[0])[:1]] or [0]):
        yield term


def _first_product(formula: str, known: Mapping[str, list[str]]) -> list[str]:
    """Return the fields of the first product in a sum, with definitions expanded."""
    first = re.split(r"(?<=[\w\])])\s*[+]", formula)[0] if "(" not in formula else formula
    found: list[str] = []
    for name in names(first):
        base = name.removesuffix(BAR)
        if name in known:
            found += known[name]
        elif base in known:
            found += [_flipped(own) for own in known[base]]
        elif name not in TENSORS:
            found.append(name)
    return found


def _flipped(name: str) -> str:
    return name.removesuffix(BAR) if name.endswith(BAR) else name + BAR


def _leg(name: str, fields: Mapping[str, Field]) -> Leg:
    if name in fields:
        return Leg(fields[name].name)
    base = name.removesuffix(BAR)
    if base in fields:
        return Leg(fields[base].name, conjugate=True)
    raise DataError(f"model file: the potential uses {name}; add it to the fields or to Definitions")


def _left_handed(bare: Theory, coupling: str, legs: list[Leg], value: float) -> Term:
    """Return the term or its Hermitian conjugate, whichever has left-handed spinors."""
    for chosen in (legs, [Leg(leg.field, not leg.conjugate) for leg in legs]):
        term = Term(tuple(chosen), value)
        if term_kind(bare, term):
            return term
    shown = " ".join(leg.field + "†" * leg.conjugate for leg in legs)
    raise DataError(
        f"model file: {coupling} = {shown} is not a supported term; check that only right-handed fermions have names "
        "ending in R"
    )


def _vevs(
    bare: Theory,
    fields: Mapping[str, Field],
    text: str,
    vevs: Mapping[str, str],
    scalars: Mapping[str, str],
    values: ParameterValues,
) -> Iterator[Vev]:
    commented = VEV_COMMENT.findall(text)
    for vev, name, component, value in commented:
        if name not in fields:
            raise DataError(f"model file: vev {vev} belongs to {name}, which is not a field")
        yield Vev(fields[name].name, int(component), decimal(value, f"model file: vev {vev}"))
    commented_names = {details[0] for details in commented}
    parts = {name: block(entry) for name, entry in scalars.items() if entry.startswith("{")}
    real = {items(details["RealFields"])[0]: name for name, details in parts.items() if "RealFields" in details}
    for vev, place in vevs.items():
        if vev in commented_names:
            continue
        name, _, index = place.partition("[")
        if name.strip() not in real:
            raise DataError(
                f"model file: vev {vev} belongs to {name.strip()}, which is not the real part of a complex scalar"
            )
        field = fields[real[name.strip()]]
        component = _component(bare, field, [int(i) for i in re.findall(r"\d+", index)])
        yield Vev(field.name, component, values.vev(vev))


def _component(bare: Theory, field: Field, place: list[int]) -> int:
    sizes = dimensions(bare.gauge, field.labels)
    index_ranges = [size for size, label in zip(sizes, field.labels, strict=True) if any(label)]
    if len(place) != len(index_ranges) or not all(
        1 <= index <= size for index, size in zip(place, index_ranges, strict=True)
    ):
        raise DataError(f"model file: vev of {field.name} is in component {place}; components go up to {index_ranges}")
    component, remaining = 0, list(place)
    for factor, label in enumerate(field.labels):
        if any(label):
            index = remaining.pop(0) - 1
            if label != (1, *(0,) * (len(label) - 1)) and label[-1] == 1 and sum(label) == 1:
                index = sizes[factor] - 1 - index
            component += index * prod(sizes[factor + 1 :])
    return component
