"""Read theories from SARAH model files: groups, fields, Lagrangian and vacuum expectation values.

Parameter values come from ``parameters.m``, or from the comments that Steelyard writes into the model file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from steelyard.domains.theories.groups.representation import Label, representation
from steelyard.domains.theories.interchange.parameter_values import ParameterValues, decimal, fraction, integer
from steelyard.domains.theories.interchange.sarah_names import ROLES, field_name
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

OVER_SQRT_2 = "/Sqrt[2]"
NAMES = {group: name for name, (_, group, _) in ROLES.items()}
TERM = re.compile(r"((?:[\w/\\\[\]]+\s+)*)((?:conj\[\w+\]|\w+)(?:\.(?:conj\[\w+\]|\w+))+)")
VALUE = re.compile(r"\{\s*(\\\[\w+\]|\w+)\s*,\s*\{[^{}]*\bValue\s*->\s*([-+.\d]+(?:\*\^[-+]?\d+)?)")
VALUE_COMMENT = re.compile(r"\(\*\s*value\s+(\S+)\s*=\s*(\S+)\s*\*\)")


def read(text: str, parameters: str = "") -> Theory:
    """Read a model file. Missing couplings default to 1 and missing vacuum expectation values to 246 GeV."""
    return read_with_missing(text, parameters)[0]


def read_with_missing(text: str, parameters: str = "") -> tuple[Theory, list[str]]:
    """Read a model file and return the theory and the names of parameters without a value."""
    noted = [
        *VALUE_COMMENT.findall(text),
        *((name, value.replace("*^", "e")) for name, value in VALUE.findall(parameters)),
    ]
    values = ParameterValues({name: decimal(value, f"SARAH: value of {name}") for name, value in noted})
    text = re.sub(r"\(\*.*?\*\)", " ", text, flags=re.DOTALL)
    rows = {kind: _rows(text, kind) for kind in ("Gauge", "FermionFields", "ScalarFields")}
    if not rows["Gauge"]:
        raise DataError("SARAH: Gauge[[1]] is missing; pass the main model file, Name.m")
    if short := [row for row in rows["Gauge"] if len(row) < 3]:
        raise DataError(f"SARAH: gauge group {short[0]} is incomplete; it needs a boson, a group and a name")
    sizes = [_size(row[1]) for row in rows["Gauge"]]
    group_names = [NAMES.get(row[2], field_name(row[2])) for row in rows["Gauge"]]
    gauge = GaugeGroup(
        tuple(name for name, n in zip(group_names, sizes, strict=True) if n == 1),
        tuple(SpecialUnitary(name, n) for name, n in zip(group_names, sizes, strict=True) if n > 1),
    )
    fields = [_field(row, sizes, "left") for row in rows["FermionFields"]]
    fields += [_field(row, sizes, "scalar") for row in rows["ScalarFields"]]
    bare = Theory(gauge, tuple(fields))
    places = _places([*rows["FermionFields"], *rows["ScalarFields"]])
    vevs, terms = tuple(_vevs(bare, text, places, values)), tuple(_terms(bare, text, values))
    return Theory(gauge, bare.fields, vevs, terms), values.missing


def _rows(text: str, kind: str) -> list[list[str]]:
    """Return the lists assigned to ``kind[[1]]``, ``kind[[2]]``, …, in order."""
    found: dict[int, list[str]] = {}
    for match in re.finditer(rf"\b{kind}\[\[(\d+)\]\]\s*=\s*", text):
        found[int(match[1])] = _list(_braced(text, match.end()))
    return [found[number] for number in sorted(found)]


def _braced(text: str, start: int) -> str:
    """Return the text from an opening brace to its closing brace."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[start : place + 1]
    raise DataError(f"SARAH: a brace is not closed after {text[start : start + 40]!r}")


def _list(text: str) -> list[str]:
    """Return the entries of a list in braces."""
    depth, entry, found = 0, "", list[str]()
    for sign in text.strip()[1:-1]:
        depth += (sign in "{[(") - (sign in "}])")
        if sign == "," and depth == 0:
            found.append(entry.strip())
            entry = ""
        else:
            entry += sign
    return [*found, entry.strip()] if entry.strip() else found


def _size(kind: str) -> int:
    match = re.fullmatch(r"(U|SU)\[(\d+)\]", kind.replace(" ", ""))
    if not match or (match[1] == "U" and match[2] != "1"):
        raise DataError(f"SARAH: gauge group {kind} is not supported; use U[1] or SU[n]")
    return int(match[2]) if match[1] == "SU" else 1


def _field(row: list[str], sizes: list[int], kind: Kind) -> Field:
    if len(row) < 3:
        raise DataError(
            f"SARAH: field {row} is incomplete; it needs a name, generations, components and quantum numbers"
        )
    name, entry, parts, *numbers = row
    generations = integer(entry, f"SARAH: generations of {name}")
    if len(numbers) < len(sizes):
        raise DataError(f"SARAH: {name} has {len(numbers)} quantum numbers; list one per group ({len(sizes)})")
    pairs = list(zip(sizes, numbers, strict=False))
    charges = tuple(fraction(number, f"SARAH: charge of {name}") for n, number in pairs if n == 1)
    labels = tuple(_label(n, number, f"SARAH: representation of {name}") for n, number in pairs if n > 1)
    if kind == "left" and "conj[" in parts:
        labels = tuple(label[::-1] for label in labels)
        return Field(field_name(name), "right", labels, tuple(-charge for charge in charges), generations)
    return Field(field_name(name), kind, labels, charges, generations)


def _label(n: int, entry: str, where: str) -> Label:
    if entry.startswith("{"):
        label = tuple(integer(value, where) for value in _list(_list(entry)[-1]))
        if len(label) != n - 1:
            raise DataError(f"{where} = {entry} is not a Dynkin label of SU({n}); use {n - 1} integers")
        return label
    dimension = integer(entry, where)
    try:
        return representation(n, abs(dimension), bar=dimension < 0).label
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None


def _terms(bare: Theory, text: str, values: ParameterValues) -> Iterator[Term]:
    definition = re.search(r"DEFINITION\[GaugeES\]\[(?:LagrangianInput|Additional)\]\s*=\s*", text)
    if not definition:
        return
    symbols = {field.name: field for field in bare.fields}
    for entry in _list(_braced(text, definition.end())):
        lagrangian = _list(entry)[0]
        match = re.search(rf"\b{lagrangian}\s*=(?!=)(.*?);", text, flags=re.DOTALL)
        for coefficient, product in TERM.findall(match[1] if match else ""):
            legs = [_leg(part, symbols) for part in product.split(".")]
            coupling = [word for word in coefficient.split() if not word[0].isdigit()]
            value = values.coupling(coupling[0]) if coupling else 1.0
            yield _left_handed(bare, legs, value, product)


def _leg(entry: str, symbols: Mapping[str, Field]) -> Leg:
    """Parse a leg. In SARAH files, the symbol of a right-handed field denotes its conjugate."""
    name = entry.removeprefix("conj[").removesuffix("]")
    field = symbols.get(field_name(name))
    if field is None:
        raise DataError(f"SARAH: the Lagrangian uses {name}; add it to FermionFields or ScalarFields")
    return Leg(field.name, entry.startswith("conj[") != (field.kind == "right"))


def _left_handed(bare: Theory, legs: list[Leg], value: float, entry: str) -> Term:
    for chosen in (legs, [Leg(leg.field, not leg.conjugate) for leg in legs]):
        term = Term(tuple(chosen), value)
        if term_kind(bare, term):
            return term
    raise DataError(
        f"SARAH: {entry} is not a supported term; use two to four scalars, or two left-handed spinors and at most one "
        "scalar"
    )


def _places(rows: list[list[str]]) -> dict[str, tuple[str, int, int]]:
    """Map each component name to its field, its index in Steelyard's order and the number of components."""
    found: dict[str, tuple[str, int, int]] = {}
    for name, _, parts, *_ in rows:
        names = _flat(parts)
        for place, part in enumerate(names):
            found[part] = field_name(name), place, len(names)
    return found


def _flat(parts: str) -> list[str]:
    """Return the component names in Steelyard's order, highest weight first. SU(2) triplets may be 2×2 matrices."""
    parts = parts.lstrip("-").removesuffix(OVER_SQRT_2)
    if not parts.startswith("{"):
        return [parts.removeprefix("conj[").removesuffix("]")]
    inner = _list(parts)
    if _is_triplet(inner):
        (zero, up), (down, _) = (_list(row) for row in inner)
        return [name for row in (up, zero, down) for name in _flat(row)]
    return [name for row in inner for name in _flat(row)]


def _is_triplet(inner: list[str]) -> bool:
    """Return whether a nested list is a triplet matrix {{T0/√2, T+}, {T-, -T0/√2}}."""
    if len(inner) != 2 or not all(row.startswith("{") and row.endswith("}") for row in inner):
        return False
    zero, *others = _list(inner[0])
    return len(others) == 1 and zero.endswith(OVER_SQRT_2)


def _vevs(
    bare: Theory, text: str, places: Mapping[str, tuple[str, int, int]], values: ParameterValues
) -> Iterator[Vev]:
    for match in re.finditer(r"DEFINITION\[\w+\]\[VEVs\]\s*=\s*", text):
        for entry in _list(_braced(text, match.end())):
            part, *others = _list(entry) or [""]
            symbol = next(iter(_list(others[0])), "") if others else ""
            if symbol == "0":
                continue
            if part not in places or not symbol:
                raise DataError(f"SARAH: vev {symbol or entry} belongs to {part}, which is not a component of a field")
            name, place, count = places[part]
            size = prod(dimensions(bare.gauge, bare.by_name[name].labels))
            yield Vev(name, place * (size // count), values.vev(symbol))
