"""Who hides whom: an order of painting that is right for every structure.

Seen from above nothing in a lower layer hides anything in a higher one, so layers are painted from the bottom up. A
stud reaches into the layer above and belongs there. Within a layer, things that share no ground are ordered by who is
behind: seen along one direction, disjoint convex things never hide one another in a circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from steelyard.domains.bricks.structure import Structure


@dataclass(frozen=True, slots=True)
class Item:
    """A brick or one of its studs, with the ground that it takes in its layer."""

    brick: int
    stud: bool
    x: int
    y: int
    x_end: int
    y_end: int
    z: int


def painting_order(structure: Structure) -> Iterator[Item]:
    """Bricks and the studs that nothing stands on, from back to front."""
    covered = {cell for brick in structure.bricks for cell in _cells(*brick)}
    layers: dict[int, list[Item]] = {}
    for number, (h, w, x, y, z) in enumerate(structure.bricks):
        layers.setdefault(z, []).append(Item(number, False, x, y, x + h, y + w, z))
        for i, j, k in _cells(h, w, x, y, z + 1):
            if (i, j, k) not in covered:
                layers.setdefault(k, []).append(Item(number, True, i, j, i + 1, j + 1, k))
    for z in sorted(layers):
        yield from _behind_first(layers[z])


def hides(front: Item, back: Item) -> bool:
    """Whether, within a layer, a thing may hide another from a viewer at large x and y."""
    beside = front.x - front.y_end >= back.x_end - back.y or back.x - back.y_end >= front.x_end - front.y
    return not beside and (front.x >= back.x_end or front.y >= back.y_end)


def _behind_first(items: Sequence[Item]) -> Iterator[Item]:
    ordered = sorted(items, key=lambda item: (item.x + item.y, item.x, item.stud))
    graph = {item: [other for other in ordered if other is not item and hides(item, other)] for item in ordered}
    yield from TopologicalSorter(graph).static_order()


def _cells(h: int, w: int, x: int, y: int, z: int) -> Iterator[tuple[int, int, int]]:
    return ((i, j, z) for i in range(x, x + h) for j in range(y, y + w))
