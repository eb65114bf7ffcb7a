"""A theory to look at: text for a terminal, a page, LaTeX, and a picture of its spectrum."""

from steelyard.domains.theories.look.html import page
from steelyard.domains.theories.look.latex import document
from steelyard.domains.theories.look.spectrum import svg
from steelyard.domains.theories.look.unicode import text

__all__ = ["document", "page", "svg", "text"]
