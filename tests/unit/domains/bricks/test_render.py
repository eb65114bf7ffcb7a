"""Pictures: painting order, colours, and valid file formats."""

from __future__ import annotations

import io
import math
import random
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from benchmarks.bricks.random_structures import random_structure
from steelyard.domains.bricks import Brick, Stability, Structure, World, render
from steelyard.domains.bricks.export import ldraw
from steelyard.domains.bricks.parts import STANDARD, Part
from steelyard.domains.bricks.render import Card, Scene, animate, colours, contact_sheet, draw, png, svg
from steelyard.domains.bricks.render.isometric import COS, LAYER, SIN, UNIT, project
from steelyard.domains.bricks.render.order import painting_order
from steelyard.drawing.scene import PAPER, Ellipse, Label, Polygon
from steelyard.errors import MissingExtraError

ONE = Structure((Brick(2, 4, 0, 0, 0),))
TWO = Structure((Brick(2, 4, 0, 0, 0), Brick(1, 2, 0, 0, 1)))


def verdict(*scores: float) -> Stability:
    failing = tuple(place for place, score in enumerate(scores) if score >= 1.0)
    return Stability(not failing, 0.5, np.array(scores), failing)


def first_hit(structure: Structure, x: float, y: float) -> int | None:
    """Return the first brick hit by a ray through a point of the picture, found by small steps."""
    grid, (x_size, y_size, z_size) = structure.occupancy(), structure.world.size
    across, down = x / (UNIT * COS), y / UNIT
    for step in range(200 * z_size):
        height = z_size - step / 200
        both = (down + height * LAYER) / SIN
        i, j, k = (both - across) / 2, (both + across) / 2, height
        cell = (int(np.floor(i)), int(np.floor(j)), int(np.floor(k)))
        if all(0 <= c < size for c, size in zip(cell, (x_size, y_size, z_size), strict=True)) and grid[cell] >= 0:
            return int(grid[cell])
    return None


def last_painted(structure: Structure, x: float, y: float) -> int | None:
    found = None
    for item in painting_order(structure):
        if not item.stud and inside(silhouette(structure.bricks[item.brick]), x, y):
            found = item.brick
    return found


def silhouette(brick: Brick) -> list[tuple[float, float]]:
    h, w, x, y, z = brick
    corners = [(0, 0, 1), (h, 0, 1), (h, 0, 0), (h, w, 0), (0, w, 0), (0, w, 1)]
    return [project(x + i, y + j, z + k) for i, j, k in corners]


def inside(corners: list[tuple[float, float]], x: float, y: float) -> bool:
    pairs = zip(corners, corners[1:] + corners[:1], strict=True)
    return len({(x2 - x1) * (y - y1) - (y2 - y1) * (x - x1) > 0 for (x1, y1), (x2, y2) in pairs}) == 1


@pytest.mark.parametrize("seed", range(6))
def test_the_last_painted_brick_is_in_front(seed: int) -> None:
    rng = random.Random(seed)
    structure = random_structure(14, rng, World((12, 12, 6)))
    seen = 0
    for _ in range(60):
        h, w, x, y, z = rng.choice(structure.bricks)
        point = project(x + h * rng.random(), y + w * rng.random(), z + rng.random())
        near = [(point[0] + dx, point[1] + dy) for dx, dy in ((0.2, 0), (-0.2, 0), (0, 0.2), (0, -0.2))]
        hits = {first_hit(structure, *place) for place in near}
        if len(hits) == 1:  # skip edges, where small steps are ambiguous
            assert last_painted(structure, *point) == hits.pop()
            seen += 1
    assert seen > 30


def test_studs_under_a_brick_are_not_drawn() -> None:
    assert sum(item.stud for item in painting_order(ONE)) == 8
    assert sum(item.stud for item in painting_order(TWO)) == 8 - 2 + 2
    assert sum(isinstance(shape, Ellipse) for shape in draw(TWO).shapes) == 8


def test_a_stud_is_painted_after_the_brick_behind_it() -> None:
    order = list(painting_order(TWO))
    stud = next(place for place, item in enumerate(order) if item.stud and (item.x, item.y, item.z) == (1, 1, 1))
    behind = next(place for place, item in enumerate(order) if not item.stud and item.brick == 1)
    assert behind < stud


def test_projection_by_hand() -> None:
    assert project(0, 0, 0) == (0, 0)
    assert project(1, 1, 0) == pytest.approx((0, UNIT))
    assert project(0, 0, 1) == pytest.approx((0, -1.2 * UNIT))
    assert project(1, 0, 0) == pytest.approx((-UNIT * COS, UNIT / 2))
    assert project(0, 1, 0) == pytest.approx((UNIT * COS, UNIT / 2))


def test_pictures_and_exports_have_the_same_handedness() -> None:
    """Seen from positive x, y and z, right-handed axes are in counter-clockwise order. The maps from our axes to those
    of LDraw (x, -z, y) and glTF (x, z, -y) are rotations, not reflections.
    """
    (x1, y1), (x2, y2) = project(1, 0, 0), project(0, 1, 0)
    assert x1 * y2 - y1 * x2 < 0, "counter-clockwise, because y points down"
    corner, along_x, along_y, above = (
        np.array(ldraw(Structure((Brick(1, 1, *at),))).splitlines()[3].split()[2:5], float)
        for at in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    )
    axes = np.stack([along_x - corner, along_y - corner, above - corner])
    assert np.linalg.det(axes) > 0


def test_every_part_has_its_own_colour() -> None:
    assert len({colours.of_part(part) for part in STANDARD.parts}) == len(STANDARD.parts)
    assert colours.of_part(Part(3, 5, 1.0)) in colours.OTHERS


def test_stress_colours_follow_the_scale() -> None:
    assert colours.of_score(0.0) == colours.STRESS_SCALE[0][1]
    assert colours.of_score(0.35) == colours.STRESS_SCALE[1][1]
    assert colours.of_score(0.9999) != colours.FAILING
    assert colours.of_score(1.0) == colours.FAILING


def test_failing_bricks_are_outlined_even_when_hidden() -> None:
    holding, failing = (draw(TWO, by="stress", stability=verdict(score, 0.2)) for score in (0.9, 1.0))
    outlines = [s for s in failing.shapes if isinstance(s, Polygon) and s.fill is None]
    assert len(outlines) == 1
    assert failing.shapes[-1] is outlines[0], "painted last"
    assert not [s for s in holding.shapes if isinstance(s, Polygon) and s.fill is None]


def test_stress_pictures_have_a_legend() -> None:
    by_part, by_stress = draw(TWO), draw(TWO, by="stress", stability=verdict(0.3, 1.0))
    texts = [shape.text for shape in by_stress.shapes if isinstance(shape, Label)]
    assert not [shape for shape in by_part.shapes if isinstance(shape, Label)]
    assert texts == ["stress = pull / capacity of a contact (0.98 N)", "0", "0.25", "0.5", "0.75", "1", *texts[6:]]
    assert texts[6:] == ["0", "separates", "fails or floats"]
    fills = [shape.fill for shape in by_stress.shapes if isinstance(shape, Polygon)]
    for score in (0.01, 0.49, 0.99, 1.0):
        assert colours.of_score(score) in fills
    assert_inside(by_stress)


def test_the_ticks_of_the_legend_are_aligned_with_their_colours() -> None:
    shapes = draw(TWO, by="stress", stability=verdict(0.3, 0.2)).shapes
    half = next(shape for shape in shapes if isinstance(shape, Label) and shape.text == "0.5")
    bar = [shape for shape in shapes if isinstance(shape, Polygon) and shape.fill == colours.of_score(0.49)]
    left, _, right, _ = bar[0].extent()
    assert left <= half.at[0] <= right + 1


def test_without_a_solver_the_legend_has_two_colours() -> None:
    stability = Stability(False, math.nan, np.array([0.0, 1.0]), (1,))
    scene = draw(TWO, by="stress", stability=stability)
    texts = [shape.text for shape in scene.shapes if isinstance(shape, Label)]
    assert texts == ["reaches the ground", "floats", "forces were not computed"]


def test_a_sheet_by_stress_has_one_legend() -> None:
    cards = [Card(TWO, "one", verdict(0.3, 0.1)), Card(TWO, "other", verdict(0.3, 1.0))]
    sheet = contact_sheet(cards, by="stress", title="two")
    texts = [shape.text for shape in sheet.shapes if isinstance(shape, Label)]
    assert texts.count("fails or floats") == 1
    assert texts[0] == "two"
    assert_inside(sheet)


def test_a_long_title_is_wrapped_and_the_subtitle_is_small() -> None:
    brief = "a bridge over 4 studs, 2 layers clear, 2 wide, carrying 100 g"
    scene = draw(ONE, title=f"{brief}\nruns/bricks · task bridge-4")
    words = [shape for shape in scene.shapes if isinstance(shape, Label)]
    assert " ".join(label.text for label in words[:-1]) == brief
    assert len(words) > 2
    assert words[-1].text == "runs/bricks · task bridge-4"
    assert words[-1].size < words[0].size
    assert_inside(scene)


def assert_inside(scene: Scene) -> None:
    left, top, right, bottom = scene.frame
    for shape in scene.shapes:
        a, b, c, d = shape.extent()
        assert left <= a <= c <= right, shape
        assert top <= b <= d <= bottom, shape


def test_stress_requires_a_stability_analysis() -> None:
    with pytest.raises(ValueError, match="stability=assess"):
        draw(ONE, by="stress")


def test_svg_is_xml_and_holds_every_shape() -> None:
    scene = draw(TWO, title="two < three & more")
    root = ET.fromstring(svg(scene))
    assert len(root) == len(scene.shapes) + 1, "plus the background"
    assert root[1].text == "two < three & more"
    assert svg(scene) == svg(draw(TWO, title="two < three & more")), "the same picture every time"


def test_control_characters_in_a_label_leave_the_svg_readable() -> None:
    root = ET.fromstring(svg(draw(ONE, title="a\x1b[31m\x00b")))
    assert root[1].text == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b"


def test_png_has_the_requested_size_and_the_colour_of_the_brick() -> None:
    Image = pytest.importorskip("PIL.Image")
    scene = draw(ONE)
    image = Image.open(io.BytesIO(png(scene, scale=2.0)))
    assert image.size == tuple(round(2 * side) for side in scene.size)
    x, y = project(1, 4, 0.5)  # the centre of the right face
    place = round(2 * (x - scene.frame[0])), round(2 * (y - scene.frame[1]))
    assert image.getpixel(place) == colours.darker(colours.PARTS["2x4"], 0.3)
    assert image.getpixel((0, 0)) == PAPER


def test_a_picture_that_is_too_large_is_rejected() -> None:
    pytest.importorskip("PIL")
    with pytest.raises(ValueError, match=r"scale = 1000 .*; lower it"):
        png(draw(ONE), scale=1000)


def test_an_animation_grows_brick_by_brick() -> None:
    Image = pytest.importorskip("PIL.Image")
    structure = random_structure(5, random.Random(1))
    moving = Image.open(io.BytesIO(animate(structure, milliseconds=100, last=900)))
    assert moving.n_frames == 5
    times = []
    for frame in range(5):
        moving.seek(frame)
        times.append(moving.info["duration"])
    assert times == [100, 100, 100, 100, 900]
    with pytest.raises(ValueError, match="at least one brick"):
        animate(Structure(()))


def test_a_long_animation_adds_several_bricks_per_frame() -> None:
    Image = pytest.importorskip("PIL.Image")
    row = Structure(tuple(Brick(1, 1, x, y, 0) for x in range(0, 20, 2) for y in range(0, 20, 1)))
    assert Image.open(io.BytesIO(animate(row, scale=0.1))).n_frames == 100


def test_a_caption_wider_than_its_cell_is_wrapped() -> None:
    long = "table length=6 width=8 height=3 free=60 load=100"
    one, both = contact_sheet([Card(TWO, "a tower")]), contact_sheet([Card(TWO, f"{long}\nreward 1.00")])
    lines = [shape.text for shape in both.shapes if isinstance(shape, Label)]
    assert lines == ["table length=6 width=8 height=3", "free=60 load=100", "reward 1.00"]
    assert both.size[1] > one.size[1]


def test_a_contact_sheet_contains_all_cards() -> None:
    cards = [Card(random_structure(4, random.Random(n)), f"reward {n}\nsecond line", good=n % 2 == 0) for n in range(5)]
    sheet = contact_sheet(cards, title="step 3")
    labels = [element.text for element in ET.fromstring(svg(sheet)) if element.tag.endswith("text")]
    assert labels == ["step 3", *(line for n in range(5) for line in (f"reward {n}", "second line"))]
    assert_inside(sheet)
    with pytest.raises(ValueError, match="at least one card"):
        contact_sheet([])


def test_an_empty_structure_can_be_drawn() -> None:
    assert isinstance(draw(Structure(())), Scene)


def test_missing_pillow_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"steelyard\[pictures\]"):
        render.png(draw(ONE))
