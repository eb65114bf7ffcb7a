"""A theory to look at: text for a terminal, a page, LaTeX, and a picture of its spectrum."""

from steelyard.domains.theories.rendering.html import page
from steelyard.domains.theories.rendering.latex import document
from steelyard.domains.theories.rendering.plain_text import text
from steelyard.domains.theories.rendering.spectrum_chart import svg

__all__ = ["document", "page", "svg", "text"]
