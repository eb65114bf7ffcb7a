"""Charts: tick positions and labels, gaps and legends; everything stays inside the picture."""

from __future__ import annotations

import io
import math
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.drawing import Axis, Curve, Panel, Scene, chart, png, svg
from steelyard.drawing.chart import COLOURS, HEIGHT, MARKS
from steelyard.drawing.raster import transliterate
from steelyard.drawing.scene import INK, Ellipse, Label, Line, Polygon
from steelyard.drawing.ticks import scale

STEP, VALUE = Axis("step", integers=True, tight=True), Axis("value")


def panel(*curves: Curve, x: Axis = STEP, y: Axis = VALUE) -> Panel:
    return Panel("Panel", x, y, curves)


def labels(scene: Scene) -> list[str]:
    return [shape.text for shape in scene.shapes if isinstance(shape, Label)]


def lines(scene: Scene, colour: int = 0) -> list[Line]:
    return [shape for shape in scene.shapes if isinstance(shape, Line) and shape.edge == COLOURS[colour]]


@pytest.mark.parametrize(
    ("axis", "values", "expected"),
    [
        (VALUE, [0.0, 1.0], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (VALUE, [0.13, 0.87], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (VALUE, [-3.0, 4.0], ["-4", "-2", "0", "2", "4"]),
        (VALUE, [0.0, 45000.0], ["0", "10k", "20k", "30k", "40k", "50k"]),
        (VALUE, [0.0, 3e-6], ["0", "1e-6", "2e-6", "3e-6"]),
        (VALUE, [0.25, 0.25], ["0.10", "0.15", "0.20", "0.25", "0.30", "0.35", "0.40"]),
        (Axis("share", low=0.0, high=1.0, percent=True), [], ["0%", "20%", "40%", "60%", "80%", "100%"]),
        (Axis("share", low=0.0, high=0.01, percent=True), [0.0], ["0.0%", "0.2%", "0.4%", "0.6%", "0.8%", "1.0%"]),
        (STEP, [1.0, 7.0], ["2", "4", "6"]),
        (STEP, [1.0, 3.0], ["1", "2", "3"]),
        (STEP, [5.0], ["4", "5", "6"]),
        (Axis("GPUs", log=True), [16.0, 1024.0], ["16", "64", "256", "1024"]),
        (Axis("time", log=True), [1.0, 1e6], ["1", "100", "10k", "1M"]),
    ],
)
def test_tick_labels(axis: Axis, values: list[float], expected: list[str]) -> None:
    found = scale(axis, values)
    assert list(found.labels) == expected
    assert all(-1e-9 <= found.share(tick) <= 1 + 1e-9 for tick in found.ticks)
    assert all(-1e-9 <= found.share(value) <= 1 + 1e-9 for value in values)


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.booleans(), st.booleans(), st.booleans())
def test_any_numbers_can_be_drawn(ys: list[float], percent: bool, whole: bool, from_zero: bool) -> None:
    axis = Axis("value", low=0.0 if from_zero else None, percent=percent, integers=whole)
    curve = Curve("a", tuple(map(float, range(len(ys)))), tuple(ys), spread=tuple(map(abs, ys)))
    scene = chart([panel(curve, y=axis)])
    assert len([shape for shape in scene.shapes if isinstance(shape, Label)]) < 40, "only a few ticks"
    left, top, right, bottom = scene.frame
    for shape in scene.shapes:
        if not isinstance(shape, Label):
            a, b, c, d = shape.extent()
            assert left <= a <= c <= right
            assert top <= b <= d <= bottom


def test_values_are_drawn_at_the_height_of_their_ticks() -> None:
    scene = chart([panel(Curve("a", (0.0, 1.0, 2.0), (0.0, 0.5, 1.0)))])
    (line,) = lines(scene)
    heights = {shape.text: shape.at[1] for shape in scene.shapes if isinstance(shape, Label) and shape.anchor == "end"}
    assert line.points[0][1] == pytest.approx(heights["0.0"] - 4)
    assert line.points[2][1] == pytest.approx(heights["1.0"] - 4)
    assert line.points[0][1] - line.points[1][1] == pytest.approx(HEIGHT / 2)


def test_axes_have_titles_and_several_curves_have_a_legend() -> None:
    one, other = Curve("one", (0.0, 1.0), (0.0, 1.0)), Curve("other", (0.0, 1.0), (1.0, 0.0))
    assert {"Panel", "step", "value"} <= set(labels(chart([panel(one)])))
    assert "one" not in labels(chart([panel(one)])), "a single curve needs no legend"
    assert {"one", "other"} <= set(labels(chart([panel(one, other), panel(other)])))
    assert labels(chart([panel(one, other), panel(other)])).count("other") == 1, "one legend for all panels"


def test_a_curve_looks_the_same_in_every_panel() -> None:
    one, other = Curve("one", (0.0, 1.0), (0.0, 1.0)), Curve("other", (0.0, 1.0), (1.0, 0.0))
    scene = chart([panel(one, other), panel(other)])
    assert len(lines(scene, 0)) == 2, "the legend and one panel"
    assert len(lines(scene, 1)) == 3, "the legend and both panels"


def test_values_that_are_not_finite_leave_a_gap() -> None:
    curve = Curve("a", tuple(map(float, range(7))), (0.0, 1.0, math.nan, 2.0, math.inf, 3.0, 4.0))
    scene = chart([panel(curve)])
    assert [len(line.points) for line in lines(scene)] == [2, 2]
    marks = [shape for shape in scene.shapes if isinstance(shape, Ellipse)]
    assert len(marks) == 5, "including the isolated point"
    assert "nan" not in svg(scene)
    assert "inf" not in svg(scene)


def test_a_panel_without_finite_values_says_so() -> None:
    assert "no finite values" in labels(chart([panel(Curve("a", (1.0,), (math.nan,)))]))


def test_a_band_is_translucent_and_fits_the_axis() -> None:
    scene = chart([panel(Curve("a", (0.0, 1.0), (0.0, 0.0), spread=(1.0, 1.0)))])
    (band,) = [shape for shape in scene.shapes if isinstance(shape, Polygon)]
    assert band.opacity < 0.5
    assert len(band.points) == 4
    ys = [y for _, y in band.points]
    assert max(ys) - min(ys) == pytest.approx(HEIGHT), "from the lowest tick to the highest"
    assert 'fill-opacity="0.18"' in svg(scene)


def test_there_are_35_combinations_of_colour_and_mark() -> None:
    styles = {(place % len(COLOURS), place % len(MARKS)) for place in range(len(COLOURS) * len(MARKS))}
    assert len(styles) == 35


def test_everything_is_inside_the_picture() -> None:
    names = [f"a run with quite a long name {number}" for number in range(9)]
    curves = [Curve(name, (0.0, 12345.0), (-0.00012, 0.00034)) for name in names]
    for panels in (1, 3, 8):
        assert_inside(chart([panel(*curves)] * panels, title="nine runs", note="12345 steps"))
    long = "a long name that lists all the settings of a run " * 5
    both = Curve(long, (0.0, 1.0), (0.0, 1.0)), Curve("short", (0.0, 1.0), (0.0, 1.0))
    for head in ("title", long):
        assert_inside(chart([panel(*both)], title=head, note="a note that has no room next to the title of the chart"))


def assert_inside(scene: Scene) -> None:
    left, top, right, bottom = scene.frame
    for shape in scene.shapes:
        a, b, c, d = shape.extent()
        assert left <= a <= c <= right, shape
        assert top <= b <= d <= bottom, shape


def test_labels_do_not_overlap() -> None:
    curves = [Curve(f"run {number}", (0.0, 250000.0), (-1234.5, 3456.7)) for number in range(4)]
    scene = chart([panel(*curves), panel(curves[0], y=Axis("nats per decision", low=0.0))] * 4, title="runs", note="n")
    boxes = [(shape.text, shape.extent()) for shape in scene.shapes if isinstance(shape, Label)]
    for (one, (a, b, c, d)), (other, (e, f, g, h)) in combinations(boxes, 2):
        assert c <= e or g <= a or d <= f or h <= b, (one, other)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("reward · step 3 … ± 1", "reward · step 3 … ± 1"),
        ("2 × 4", "2 x 4"),
        ("−1 → x²", "-1 -> x^2"),
        ("größe", "gro?e"),
        ("日本", "??"),
    ],
)
def test_png_text_uses_only_characters_of_its_font(text: str, written: str) -> None:
    assert transliterate(text) == written


def test_svg_and_png_have_the_same_size() -> None:
    Image = pytest.importorskip("PIL.Image")
    scene = chart([panel(Curve("a", (0.0, 1.0), (0.0, 1.0), spread=(0.1, 0.1)))], title="a run")
    root = ET.fromstring(svg(scene))
    with Image.open(io.BytesIO(png(scene, scale=2.0))) as image:
        assert image.size == (2 * int(root.attrib["width"]), 2 * int(root.attrib["height"]))
        assert image.getpixel((0, 0)) == (255, 255, 255)


def test_the_title_of_a_y_axis_runs_upward_in_a_png() -> None:
    Image, Chops = pytest.importorskip("PIL.Image"), pytest.importorskip("PIL.ImageChops")
    label = Label((50.0, 80.0), "nats per decision", 12.0, INK, "middle", upward=True)
    with Image.open(io.BytesIO(png(Scene((label,), (0.0, 0.0, 100.0, 160.0))))) as image:
        left, top, right, bottom = Chops.invert(image).getbbox()
    assert bottom - top > 5 * (right - left)
    assert (top + bottom) / 2 == pytest.approx(80, abs=2)
    assert 38 <= left < right <= 54, "left of its baseline, except for descenders"
