"""Mixing of gauge bosons and fermions after symmetry breaking, in SARAH syntax."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction

from steelyard.domains.theories.groups.representation import Label
from steelyard.domains.theories.interchange.sarah_names import Component, groups
from steelyard.domains.theories.model.theory import Theory


def gauge_sector(theory: Theory) -> str:
    """Return the photon, Z and W mixing if exactly one SU(2) is broken. Other cases must be written by hand."""
    factors = groups(theory)
    broken = [group for group in factors if group.expanded]
    if len(broken) != 1 or broken[0].kind != "SU[2]" or not theory.gauge.abelian:
        return ""
    w = f"V{broken[0].boson}"
    neutral = [f"V{group.boson}" for group in factors if group.kind == "U[1]"]
    massive = ["VP", "VZ", *(f"VZ{'p' * k}" for k in range(1, len(neutral)))]
    return (
        f"\n{{\n  {{{{{', '.join([*neutral, f'{w}[3]'])}}}, {{{', '.join(massive)}}}, ZZ}},\n"
        f"  {{{{{w}[1], {w}[2]}}, {{VWp, conj[VWp]}}, ZW}}\n}}"
    )


def matter_sector(theory: Theory, parts: Mapping[str, tuple[Component, ...]]) -> tuple[list[str], list[str]]:
    """Return the fermion mixings by electric charge and colour, and the resulting Dirac spinors."""
    sectors: dict[tuple[Fraction, Label | None], list[str]] = defaultdict(list)
    for field in theory.fermions:
        for part in parts[field.name]:
            conjugated = field.kind == "right"
            key = (-part.charge, part.colour and part.colour[::-1]) if conjugated else (part.charge, part.colour)
            sectors[key].append(f"conj[{part.name}]" if conjugated else part.name)
    matter: list[str] = []
    spinors: list[str] = []
    for number, (key, names) in enumerate(sectors.items(), 1):
        conjugate_key = (-key[0], key[1] and key[1][::-1])
        letter = names[0].removesuffix("L").removeprefix("conj[").rstrip("]R") or f"x{number}"
        if key == conjugate_key:
            spinors.append(
                f"F{letter} -> {{{names[0]}, 0}}"
                if len(names) == 1
                else f"F{letter} -> {{{letter.upper()}0, conj[{letter.upper()}0]}}"
            )
            matter += [f"{{{{{', '.join(names)}}}, {{{letter.upper()}0, Z{letter}}}}}"] if len(names) > 1 else []
        elif conjugate_key not in sectors:
            spinors.append(f"F{letter} -> {{{names[0]}, 0}}")
        elif names[0] == min(names[0], sectors[conjugate_key][0], key=lambda text: text.startswith("conj")):
            up = letter.upper()
            left, right = ", ".join(names), ", ".join(sectors[conjugate_key])
            matter.append(f"{{{{{{{left}}}, {{{right}}}}}, {{{{{up}L, V{letter}}}, {{{up}R, U{letter}}}}}}}")
            spinors.append(f"F{letter} -> {{{up}L, conj[{up}R]}}")
    return matter, spinors


def gauge_spinors(theory: Theory, parts: Mapping[str, tuple[Component, ...]]) -> Iterator[str]:
    """Yield each component as a separate Dirac spinor."""
    for field in theory.fermions:
        for part in parts[field.name]:
            yield (
                f"F{part.name} -> {{0, {part.name}}}"
                if field.kind == "right"
                else f"F{part.name} -> {{{part.name}, 0}}"
            )
