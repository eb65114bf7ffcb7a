"""Pictures: shapes that are written as SVG or PNG, and charts with axes. Knows nothing of what is drawn."""

from steelyard.drawing.chart import Axis, Curve, Panel, chart
from steelyard.drawing.raster import gif, png
from steelyard.drawing.scene import Scene
from steelyard.drawing.svg import svg

__all__ = ["Axis", "Curve", "Panel", "Scene", "chart", "gif", "png", "svg"]
