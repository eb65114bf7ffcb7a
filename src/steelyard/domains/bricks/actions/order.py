"""Building order: every brick is supported when it is placed."""

from __future__ import annotations

import heapq

from steelyard.domains.bricks.contacts import contacts
from steelyard.domains.bricks.structure import Structure


def in_building_order(structure: Structure) -> Structure:
    """Reorder bricks so that each is supported by the ground or an earlier brick. The given order is kept where
    possible, and floating bricks come last.
    """
    bricks, touching = len(structure), contacts(structure)
    neighbours: list[set[int]] = [set() for _ in range(bricks + 1)]  # the last entry is the ground
    for upper, lower in zip(touching.upper_C.tolist(), touching.lower_C.tolist(), strict=True):
        neighbours[upper].add(lower)
        neighbours[lower].add(upper)
    supported = sorted(neighbours[bricks])
    seen, order = {bricks, *supported}, list[int]()
    while supported:
        index = heapq.heappop(supported)
        order.append(index)
        for other in neighbours[index] - seen:
            seen.add(other)
            heapq.heappush(supported, other)
    order += [index for index in range(bricks) if index not in seen]
    return Structure(tuple(structure.bricks[index] for index in order), structure.world)
