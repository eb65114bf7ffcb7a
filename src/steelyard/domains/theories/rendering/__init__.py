"""Render theories as terminal text, HTML pages, LaTeX and SVG charts of their mass spectra."""

from steelyard.domains.theories.rendering.html import page
from steelyard.domains.theories.rendering.latex import document
from steelyard.domains.theories.rendering.plain_text import text
from steelyard.domains.theories.rendering.spectrum_chart import svg

__all__ = ["document", "page", "svg", "text"]
