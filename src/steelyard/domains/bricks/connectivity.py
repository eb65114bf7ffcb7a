"""Which bricks hang together. A brick that does not reach the ground over bricks above or below one another fails,
whatever a solver says; this is also the whole check when no solver is wanted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steelyard.domains.bricks.contacts import Contacts, contacts
from steelyard.domains.bricks.structure import Structure


def grounded_bricks(touching: Contacts, bricks: int) -> NDArray[np.bool_]:
    """For each brick whether it reaches the ground."""
    reached = np.zeros(bricks + 1, np.bool_)
    reached[bricks] = True  # the ground
    before = 0
    while (now := int(reached.sum())) > before:
        before = now
        reached[touching.upper_C[reached[touching.lower_C]]] = True
        reached[touching.lower_C[reached[touching.upper_C]]] = True
    return reached[:bricks]


def floating(structure: Structure) -> tuple[int, ...]:
    """The places of all bricks that do not reach the ground."""
    reached = grounded_bricks(contacts(structure), len(structure))
    return tuple(np.flatnonzero(~reached).tolist())


def is_connected(structure: Structure) -> bool:
    """Whether every brick reaches the ground."""
    return not floating(structure)
