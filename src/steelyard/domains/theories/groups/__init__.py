"""Exact group theory of SU(n): representations, generators, tensor products and invariant tensors."""

from steelyard.domains.theories.groups.products import decompose, singlets
from steelyard.domains.theories.groups.representation import Representation, representation

__all__ = ["Representation", "decompose", "representation", "singlets"]
