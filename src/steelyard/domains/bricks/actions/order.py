"""An order in which bricks can be built."""

from __future__ import annotations

import heapq

from steelyard.domains.bricks.contacts import contacts
from steelyard.domains.bricks.structure import Structure


def in_building_order(structure: Structure) -> Structure:
    """The same bricks so that each is held when it comes, by the ground or by one before it; the given order as far
    as that allows. Those that float in the end come last.
    """
    bricks, touching = len(structure), contacts(structure)
    neighbours: list[set[int]] = [set() for _ in range(bricks + 1)]  # the last one: the ground
    for upper, lower in zip(touching.upper_C.tolist(), touching.lower_C.tolist(), strict=True):
        neighbours[upper].add(lower)
        neighbours[lower].add(upper)
    held = sorted(neighbours[bricks])
    met, order = {bricks, *held}, list[int]()
    while held:
        place = heapq.heappop(held)
        order.append(place)
        for other in neighbours[place] - met:
            met.add(other)
            heapq.heappush(held, other)
    order += [place for place in range(bricks) if place not in met]
    return Structure(tuple(structure.bricks[place] for place in order), structure.world)
