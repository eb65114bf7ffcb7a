"""Connectivity: which bricks are connected to the ground through vertical contacts.

A brick that is not connected to the ground fails, regardless of what a solver reports. With ``method="connectivity"``,
this is the only check.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.bricks.contacts import Contacts, contacts
from steelyard.domains.bricks.structure import Structure


def grounded_bricks(touching: Contacts, bricks: int) -> NDArray[np.bool_]:
    """Return for each brick whether it is connected to the ground."""
    reached = np.zeros(bricks + 1, np.bool_)
    reached[bricks] = True  # the ground
    before = 0
    while (now := int(reached.sum())) > before:
        before = now
        reached[touching.upper_C[reached[touching.lower_C]]] = True
        reached[touching.lower_C[reached[touching.upper_C]]] = True
    return reached[:bricks]


def floating(structure: Structure) -> tuple[int, ...]:
    """Return the indices of all bricks that are not connected to the ground."""
    reached = grounded_bricks(contacts(structure), len(structure))
    return tuple(np.flatnonzero(~reached).tolist())


def is_connected(structure: Structure) -> bool:
    """Return whether every brick is connected to the ground."""
    return not floating(structure)
