"""What SARAH calls things: groups and their bosons, the components of fields, couplings."""

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
"""Of the groups of the Standard Model: boson, name and coupling as in SARAH's own model."""
ALIASES = {"U1": "Y", "SU2": "L", "SU3": "c"}
QUARKS_AND_LEPTONS = {
    (3, Fraction(2, 3)): "u",
    (3, Fraction(-1, 3)): "d",
    (1, Fraction(0)): "v",
    (1, Fraction(-1)): "e",
}
RESERVED = ("C", "D", "E", "I", "K", "N", "O")
"""One-letter symbols of Mathematica."""
TAIL = "f"
CHARGES = {2: "pp", 1: "p", 0: "0", -1: "m", -2: "mm"}


@dataclass(frozen=True)
class Group:
    """A factor of the gauge group: boson, type, name, coupling, and whether its indices are written out."""

    boson: str
    kind: str
    name: str
    coupling: str
    expanded: bool


@dataclass(frozen=True)
class Component:
    """A component of a field under the broken groups: name, place, and electric charge and colour as written."""

    name: str
    place: tuple[int, ...]
    charge: Fraction
    colour: Label | None


def plain(name: str) -> str:
    """Letters and digits only, as Mathematica wants its symbols, and none of its own."""
    found = re.sub(r"[^A-Za-z0-9]", "", name) or "x"
    return found + TAIL if found in RESERVED else found


def field_name(symbol: str) -> str:
    """The name behind a symbol."""
    base = symbol.removesuffix(TAIL)
    return base if base in RESERVED else symbol


def broken_factors(theory: Theory, residual: UnbrokenGroup) -> list[int]:
    """The SU(n) that the vacuum does not leave whole."""
    whole = {block.factor for block in residual.blocks if len(block.indices) == theory.gauge.special[block.factor].n}
    return [factor for factor in range(len(theory.gauge.special)) if factor not in whole]


def groups(theory: Theory) -> list[Group]:
    """Every factor, U(1)s first."""
    broken = broken_factors(theory, unbroken(theory))
    found = [_group(name, "U[1]", expanded=False) for name in theory.gauge.abelian]
    for factor, (name, n) in enumerate(theory.gauge.special):
        found.append(_group(name, f"SU[{n}]", expanded=factor in broken))
    return found


def _group(name: str, kind: str, *, expanded: bool) -> Group:
    role = ROLES.get(ALIASES.get(name, name))
    own = (
        role if role and _suits(ALIASES.get(name, name), kind) else (f"B{plain(name)}", plain(name), f"g{plain(name)}")
    )
    return Group(own[0], kind, own[1], own[2], expanded)


def _suits(role: str, kind: str) -> bool:
    return {"Y": "U[1]", "L": "SU[2]", "c": "SU[3]"}[role] == kind


def components(theory: Theory) -> dict[str, tuple[Component, ...]]:
    """The components of every field over the broken groups, in our order; no name comes twice."""
    residual = unbroken(theory)
    broken = broken_factors(theory, residual)
    taken: set[str] = {plain(field.name) for field in theory.fields}
    found: dict[str, tuple[Component, ...]] = {}
    for field in theory.fields:
        found[field.name] = tuple(_components(theory, field, residual, broken, taken))
    return found


def _components(
    theory: Theory, field: Field, residual: UnbrokenGroup, broken: list[int], taken: set[str]
) -> list[Component]:
    sizes = [range(cached(theory.gauge.special[a].n, field.labels[a]).dimension) for a in broken]
    made: list[Component] = []
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
        made.append(Component(name, place, charge, colour))
    return made


def _weight(theory: Theory, field: Field, factor: int, place: int) -> Label:
    return cached(theory.gauge.special[factor].n, field.labels[factor]).weights[place]


def _colour(field: Field, residual: UnbrokenGroup, broken: list[int]) -> Label | None:
    """The label under an SU(3) of colour that is a factor of its own."""
    if not residual.colour or residual.blocks[0].factor in broken:
        return None
    return field.labels[residual.blocks[0].factor]


def _name(field: Field, charge: Fraction, colour: Label | None, number: int, taken: set[str]) -> str:
    hand = {"left": "L", "right": "R", "scalar": ""}[field.kind]
    wished: list[str] = []
    if field.fermion:
        dimension = {None: 1, (0, 0): 1, (1, 0): 3}.get(colour, 0)
        letter = QUARKS_AND_LEPTONS.get((dimension, charge), "")
        wished += [letter + hand] if letter else []
        wished.append(f"{plain(field.name)}{number or ''}{hand}")
    elif number:
        wished += [plain(field.name) + CHARGES[int(charge)]] if charge in CHARGES else []
        wished.append(f"{plain(field.name)}{number}")
    else:
        wished.append(f"{plain(field.name)}0" if charge == 0 else f"{plain(field.name)}s")
    return next((name for name in wished if name not in taken), _free(wished[-1], taken))


def _free(name: str, taken: set[str]) -> str:
    """The first of name, nameX2, nameX3, … that is free."""
    number = 2
    while f"{name}X{number}" in taken:
        number += 1
    return f"{name}X{number}"
