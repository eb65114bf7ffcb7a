"""Painting order (painter's algorithm) that is correct for every structure.

Seen from above, nothing in a lower layer hides anything in a higher one, so layers are painted from the bottom up. A
stud extends into the layer above and is painted with that layer. Within a layer, items are painted from back to front.
This order exists because disjoint convex items, seen along one direction, never hide one another in a cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from steelyard.domains.bricks.structure import Structure


@dataclass(frozen=True, slots=True)
class Item:
    """A brick or one of its studs, with the area that it covers in its layer."""

    brick: int
    stud: bool
    x: int
    y: int
    x_end: int
    y_end: int
    z: int


def painting_order(structure: Structure) -> Iterator[Item]:
    """Yield bricks and uncovered studs from back to front."""
    covered = {cell for brick in structure.bricks for cell in _cells(*brick)}
    layers: dict[int, list[Item]] = {}
    for number, (h, w, x, y, z) in enumerate(structure.bricks):
        layers.setdefault(z, []).append(Item(number, False, x, y, x + h, y + w, z))
        for i, j, k in _cells(h, w, x, y, z + 1):
            if (i, j, k) not in covered:
                layers.setdefault(k, []).append(Item(number, True, i, j, i + 1, j + 1, k))
    for z in sorted(layers):
        yield from _back_to_front(layers[z])


def hides(front: Item, back: Item) -> bool:
    """Return whether ``front`` may hide ``back`` in the same layer from a viewer at positive x and y."""
    apart = front.x - front.y_end >= back.x_end - back.y or back.x - back.y_end >= front.x_end - front.y
    return not apart and (front.x >= back.x_end or front.y >= back.y_end)


def _back_to_front(items: Sequence[Item]) -> Iterator[Item]:
    ordered = sorted(items, key=lambda item: (item.x + item.y, item.x, item.stud))
    graph = {item: [other for other in ordered if other is not item and hides(item, other)] for item in ordered}
    yield from TopologicalSorter(graph).static_order()


def _cells(h: int, w: int, x: int, y: int, z: int) -> Iterator[tuple[int, int, int]]:
    return ((i, j, z) for i in range(x, x + h) for j in range(y, y + w))
