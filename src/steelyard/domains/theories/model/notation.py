"""A shorthand for writing theories by hand.

Representations are given by dimension (``3``, ``-3`` for 3̄, ``15'``), charges as fractions::

    theory("Y L:2 c:3", fields=[left("Q", "1/6 2 3", 3), right("u", "2/3 1 3", 3), …], terms=["Q u H: 1", …])

The quantum numbers of a field follow the order of the gauge groups. In a term, a trailing ``†`` or ``*`` conjugates a
scalar. Right-handed fermions are conjugated automatically and need no mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from steelyard.domains.theories.groups.representation import Label, cached, representation
from steelyard.domains.theories.model.theory import Field, GaugeGroup, Kind, Leg, SpecialUnitary, Term, Theory, Vev

CONJUGATED = ("†", "*")


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field in shorthand, independent of any gauge group."""

    name: str
    kind: Kind
    acts: str
    generations: int = 1


def left(name: str, acts: str, generations: int = 1) -> FieldSpec:
    return FieldSpec(name, "left", acts, generations)


def right(name: str, acts: str, generations: int = 1) -> FieldSpec:
    return FieldSpec(name, "right", acts, generations)


def scalar(name: str, acts: str) -> FieldSpec:
    return FieldSpec(name, "scalar", acts)


def theory(
    gauge: str,
    fields: Iterable[FieldSpec],
    *,
    vevs: Iterable[tuple[str, int, float]] = (),
    terms: Iterable[str] = (),
) -> Theory:
    """Build a theory from shorthand.

    ``gauge`` lists a name for each U(1) and ``name:n`` for each SU(n). ``vevs`` holds (field, component, GeV) tuples.
    """
    factors = [part.partition(":") for part in gauge.split()]
    group = GaugeGroup(
        tuple(name for name, _, n in factors if not n),
        tuple(SpecialUnitary(name, int(n)) for name, _, n in factors if n),
    )
    made = tuple(_field(sketch, [n for _, _, n in factors]) for sketch in fields)
    kinds: dict[str, Kind] = {field.name: field.kind for field in made}
    return Theory(
        group,
        made,
        tuple(Vev(*vev) for vev in vevs),
        tuple(_term(text, kinds) for text in terms),
    )


def label_of(n: int, text: str) -> Label:
    """Return the Dynkin label of a representation such as ``15'`` or ``-3``."""
    digits = text.strip().rstrip("'")
    primes = len(text.strip()) - len(digits)
    return representation(n, abs(int(digits)), bar=digits.startswith("-"), primes=primes).label


def notation_of(n: int, label: Label) -> str:
    """Return the shorthand of a Dynkin label, the inverse of :func:`label_of`."""
    irrep = cached(n, label)
    return "-" * irrep.is_barred + str(irrep.dimension) + "'" * irrep.primes


def _field(sketch: FieldSpec, sizes: list[str]) -> Field:
    parts = sketch.acts.split()
    labels = tuple(label_of(int(n), part) for n, part in zip(sizes, parts, strict=True) if n)
    charges = tuple(Fraction(part) for n, part in zip(sizes, parts, strict=True) if not n)
    return Field(sketch.name, sketch.kind, labels, charges, sketch.generations)


def _term(text: str, kinds: Mapping[str, Kind]) -> Term:
    legs, _, parameter = text.partition(":")
    return Term(tuple(_leg(part, kinds) for part in legs.split()), float(parameter or 1))


def _leg(text: str, kinds: Mapping[str, Kind]) -> Leg:
    name = text.rstrip("".join(CONJUGATED))
    if kinds[name] == "scalar":
        return Leg(name, text != name)
    return Leg(name, kinds[name] == "right")
