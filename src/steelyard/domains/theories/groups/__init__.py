"""SU(n), exactly: representations, their generators, their products and the invariants in them."""

from steelyard.domains.theories.groups.products import decompose, singlets
from steelyard.domains.theories.groups.representation import Representation, representation

__all__ = ["Representation", "decompose", "representation", "singlets"]
