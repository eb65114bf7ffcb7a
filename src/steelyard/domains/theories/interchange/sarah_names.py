"""Names in SARAH model files: groups, gauge bosons, field components and couplings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from steelyard.domains.theories.groups.representation import Label, cached
from steelyard.domains.theories.model.theory import Field, Theory
from steelyard.domains.theories.physics.breaking import unbroken
from steelyard.domains.theories.physics.vacuum import UnbrokenGroup, states

ROLES = {"Y": ("B", "hypercharge", "g1"), "L": ("WB", "left", "g2"), "c": ("G", "color", "g3")}
"""Boson, name and coupling of each Standard Model gauge group, as in SARAH's own model file."""
ALIASES = {"U1": "Y", "SU2": "L", "SU3": "c"}
QUARKS_AND_LEPTONS = {
    (3, Fraction(2, 3)): "u",
    (3, Fraction(-1, 3)): "d",
    (1, Fraction(0)): "v",
    (1, Fraction(-1)): "e",
}
RESERVED = ("C", "D", "E", "I", "K", "N", "O")
"""Single-letter symbols reserved by Mathematica."""
ESCAPE_SUFFIX = "f"
CHARGES = {2: "pp", 1: "p", 0: "0", -1: "m", -2: "mm"}


@dataclass(frozen=True)
class Group:
    """A gauge factor in SARAH; if ``expanded``, its indices are written out."""

    boson: str
    kind: str
    name: str
    coupling: str
    expanded: bool


@dataclass(frozen=True)
class Component:
    """A component of a field under the broken groups, with the electric charge and colour of the field as written."""

    name: str
    place: tuple[int, ...]
    charge: Fraction
    colour: Label | None


def to_symbol(name: str) -> str:
    """Return a valid Mathematica symbol: letters and digits only, and not a reserved symbol."""
    found = re.sub(r"[^A-Za-z0-9]", "", name) or "x"
    return found + ESCAPE_SUFFIX if found in RESERVED else found


def field_name(symbol: str) -> str:
    """Return the field name of a symbol, the inverse of :func:`to_symbol`."""
    base = symbol.removesuffix(ESCAPE_SUFFIX)
    return base if base in RESERVED else symbol


def broken_factors(theory: Theory, residual: UnbrokenGroup) -> list[int]:
    """Return the indices of the SU(n) factors that are not completely unbroken."""
    whole = {block.factor for block in residual.blocks if len(block.indices) == theory.gauge.special[block.factor].n}
    return [factor for factor in range(len(theory.gauge.special)) if factor not in whole]


def groups(theory: Theory) -> list[Group]:
    """Return all gauge factors, U(1)s first."""
    broken = broken_factors(theory, unbroken(theory))
    found = [_group(name, "U[1]", expanded=False) for name in theory.gauge.abelian]
    for factor, (name, n) in enumerate(theory.gauge.special):
        found.append(_group(name, f"SU[{n}]", expanded=factor in broken))
    return found


def _group(name: str, kind: str, *, expanded: bool) -> Group:
    role = ROLES.get(ALIASES.get(name, name))
    own = (
        role
        if role and _suits(ALIASES.get(name, name), kind)
        else (f"B{to_symbol(name)}", to_symbol(name), f"g{to_symbol(name)}")
    )
    return Group(own[0], kind, own[1], own[2], expanded)


def _suits(role: str, kind: str) -> bool:
    return {"Y": "U[1]", "L": "SU[2]", "c": "SU[3]"}[role] == kind


def components(theory: Theory) -> dict[str, tuple[Component, ...]]:
    """Return the components of each field under the broken groups, in Steelyard's order, with unique names."""
    residual = unbroken(theory)
    broken = broken_factors(theory, residual)
    taken: set[str] = {to_symbol(field.name) for field in theory.fields}
    found: dict[str, tuple[Component, ...]] = {}
    for field in theory.fields:
        found[field.name] = tuple(_components(theory, field, residual, broken, taken))
    return found


def _components(
    theory: Theory, field: Field, residual: UnbrokenGroup, broken: list[int], taken: set[str]
) -> list[Component]:
    sizes = [range(cached(theory.gauge.special[a].n, field.labels[a]).dimension) for a in broken]
    found: list[Component] = []
    several = len(list(product(*sizes))) > 1
    for number, place in enumerate(product(*sizes), 1):
        chosen = dict(zip(broken, place, strict=True))
        state = next(
            own
            for own in states(theory.gauge, field.labels)
            if all(own[a] == _weight(theory, field, a, chosen[a]) for a in broken)
        )
        charge = residual.charges[0].of(field.charges, state) if residual.charges else Fraction(0)
        colour = _colour(field, residual, broken)
        name = _name(field, charge, colour, number if several else 0, taken)
        taken.add(name)
        found.append(Component(name, place, charge, colour))
    return found


def _weight(theory: Theory, field: Field, factor: int, place: int) -> Label:
    return cached(theory.gauge.special[factor].n, field.labels[factor]).weights[place]


def _colour(field: Field, residual: UnbrokenGroup, broken: list[int]) -> Label | None:
    """Return the label under the colour SU(3) if it is a complete gauge factor."""
    if not residual.colour or residual.blocks[0].factor in broken:
        return None
    return field.labels[residual.blocks[0].factor]


def _name(field: Field, charge: Fraction, colour: Label | None, number: int, taken: set[str]) -> str:
    hand = {"left": "L", "right": "R", "scalar": ""}[field.kind]
    preferred: list[str] = []
    if field.fermion:
        dimension = {None: 1, (0, 0): 1, (1, 0): 3}.get(colour, 0)
        letter = QUARKS_AND_LEPTONS.get((dimension, charge), "")
        preferred += [letter + hand] if letter else []
        preferred.append(f"{to_symbol(field.name)}{number or ''}{hand}")
    elif number:
        preferred += [to_symbol(field.name) + CHARGES[int(charge)]] if charge in CHARGES else []
        preferred.append(f"{to_symbol(field.name)}{number}")
    else:
        preferred.append(f"{to_symbol(field.name)}0" if charge == 0 else f"{to_symbol(field.name)}s")
    return next((name for name in preferred if name not in taken), _unused_name(preferred[-1], taken))


def _unused_name(name: str, taken: set[str]) -> str:
    """Return the first unused name among nameX2, nameX3, …."""
    number = 2
    while f"{name}X{number}" in taken:
        number += 1
    return f"{name}X{number}"
