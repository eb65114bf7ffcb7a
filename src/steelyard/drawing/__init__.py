"""Pictures: shapes written as SVG or PNG, contact sheets, and charts. The package is independent of domains."""

from steelyard.drawing.chart import Axis, Curve, Panel, chart
from steelyard.drawing.raster import gif, png
from steelyard.drawing.scene import Ellipse, Label, Line, Polygon, Scene, framed, rectangle
from steelyard.drawing.svg import svg

__all__ = [
    "Axis",
    "Curve",
    "Ellipse",
    "Label",
    "Line",
    "Panel",
    "Polygon",
    "Scene",
    "chart",
    "framed",
    "gif",
    "png",
    "rectangle",
    "svg",
]
