"""Pictures, exports and reports of structures, verified by the real solver."""

from __future__ import annotations

import io
import json
import sys
import xml.etree.ElementTree as ET

import pytest

from steelyard.domains import Artifact
from steelyard.domains.bricks import World, parse, write
from steelyard.domains.bricks.artifacts import verdict_lines
from steelyard.domains.bricks.domain import Bricks
from steelyard.domains.bricks.render import colours
from steelyard.domains.defaults import CAPTION_WIDTH
from steelyard.errors import ConfigError, DataError, MissingExtraError
from steelyard.types import Task, Verdict

pytest.importorskip("highspy")

BRIDGE = "1x2 (0,0,0)\n1x2 (0,0,1)\n1x2 (5,0,0)\n1x2 (5,0,1)\n6x2 (0,0,2)\n"
BRIEF = {"kind": "bridge", "gap": 4, "clearance": 2, "width": 2, "load": 100}
STAIRS = "".join(f"4x2 ({2 * step},0,{step})\n" for step in range(20))
"""In the published analysis, twenty unsupported steps collapse and nineteen stand."""
LONG = (64, 8, 32)
FLOATS = "2x2 (0,0,0)\n2x2 (8,8,1)\n"


def bricks(world_size: tuple[int, int, int] = (20, 20, 20)) -> Bricks:
    return Bricks(world_size=world_size)


def labels(picture: bytes) -> list[str]:
    return [str(element.text) for element in ET.fromstring(picture) if element.tag.endswith("text")]


def fills(picture: bytes) -> set[str]:
    return {element.get("fill", "") for element in ET.fromstring(picture)}


def test_pictures_exports_and_reports_use_the_reward_and_world_of_the_domain() -> None:
    domain = Bricks(reward={"method": "connectivity"}, world_size=(40, 8, 8))
    far = "2x2 (30,0,0)\n"
    assert domain.report(far).summary[0].startswith("connected: ")
    assert labels(domain.render([Artifact(far, "far")])) == ["far"]
    assert list(domain.export(far, "obj", name="b")) == ["b.obj", "b.mtl"]
    assert domain.to_text(domain.action_space.write(parse(far, domain.world))) == far
    assert domain.picture_formats == ("svg", "png", "gif")
    assert domain.export_formats[0] == "ldr"


@pytest.mark.parametrize("domain", [Bricks(), Bricks(action_options={"joint": True}), Bricks(action="absolute")])
def test_samples_are_converted_to_the_text_format(domain: Bricks) -> None:
    written = domain.action_space.write(parse(BRIDGE, World()))
    assert written != BRIDGE
    assert domain.to_text(written) == BRIDGE
    assert domain.to_text("nonsense") == ""


def test_bricks_that_cannot_be_placed_are_removed_from_the_text() -> None:
    assert Bricks(action="text").to_text("2x2 (0,0,0)\n2x2 (1,1,0)\nhello") == "2x2 (0,0,0)\n"


def test_one_structure_is_a_picture_with_its_title() -> None:
    picture = bricks().render([Artifact(BRIDGE, "a bridge")], "svg")
    assert labels(picture) == ["a bridge"]
    twice = bricks().render([Artifact(BRIDGE, "a bridge")], "svg", scale=2.0)
    sizes = [float(ET.fromstring(one).get("width", "0")) for one in (picture, twice)]
    assert sizes[1] == pytest.approx(2 * sizes[0], abs=1.0)


def test_a_picture_with_a_brief_describes_it() -> None:
    shown = labels(bricks().render([Artifact(BRIDGE, "mine", BRIEF)], "svg"))
    assert shown[0] == "mine"
    assert " ".join(shown[1:]) == "bridge over 4 studs, 2 layers clear, 2 wide, carrying 100 g"


def test_pictures_count_bricks_that_could_not_be_placed() -> None:
    artifact = Artifact("2x2 (0,0,0)\n2x2 (1,1,0)\n", "two")
    assert labels(bricks().render([artifact], "svg")) == ["two · 1 could not be placed"]
    assert "1 could not be placed" in labels(bricks().render([artifact, artifact], "svg"))


def test_stress_pictures_show_failing_bricks_in_red_under_the_load_of_the_brief() -> None:
    red = "#" + "".join(f"{part:02x}" for part in colours.lighter(colours.FAILING, 0.12))
    domain = bricks(LONG)
    assert red in fills(domain.render([Artifact(STAIRS)], "svg", by="stress"))
    nineteen = STAIRS[: STAIRS.rindex("4x2")]
    assert red not in fills(domain.render([Artifact(nineteen)], "svg", by="stress"))
    arm = {"kind": "cantilever", "reach": 4, "height": 1, "base": 2, "load": 200}
    text = "2x2 (0,0,0)\n6x2 (0,0,1)\n"
    assert red not in fills(domain.render([Artifact(text)], "svg", by="stress"))
    assert red in fills(domain.render([Artifact(text, spec=arm)], "svg", by="stress")), (
        "200 g at four studs exceed the capacity"
    )


def test_an_animation_shows_one_structure() -> None:
    Image = pytest.importorskip("PIL.Image")
    assert Image.open(io.BytesIO(bricks().render([Artifact(BRIDGE)], "gif"))).n_frames == 5
    with pytest.raises(ConfigError, match="a gif shows one structure as it grows"):
        bricks().render([Artifact(BRIDGE)] * 2, "gif")


def test_a_sheet_shows_the_verdicts() -> None:
    task, scorer = Task("bridge", "", BRIEF), Bricks(action="text").scorer()
    artifacts = [
        Artifact(text, str(number), BRIEF, scorer(task, text)) for number, text in enumerate((BRIDGE, FLOATS), 1)
    ]
    sheet = bricks().render(
        [*artifacts, Artifact("", "3", BRIEF, Verdict.rejected("there is no brick"))], "svg", title="T"
    )
    assert labels(sheet) == [
        *("T", "1", "reward 1.000 · success", "purpose 1.00 · stands"),
        *("2", "reward 0.001 · failed", "purpose 0.00 · collapses", "50% of the bricks float"),
        *("3", "reward 0.000 · rejected", "there is no brick"),
    ]
    green, red = "#2e8b57", "#be3c3c"
    bars = [element.get("fill") for element in ET.fromstring(sheet) if element.get("fill") in (green, red)]
    assert bars == [green, red, red]


def test_one_structure_with_a_verdict_is_a_sheet() -> None:
    verified = Artifact(BRIDGE, "1", verdict=Verdict.scored(0.5))
    assert labels(bricks().render([verified], "svg")) == ["1", "reward 0.500 · failed"]


def test_no_caption_is_wider_than_its_picture() -> None:
    verdict = Verdict.rejected("collision: brick 12, 2x4 (10,10,10) overlaps another brick, and so do many others")
    lines = labels(
        bricks().render([Artifact(BRIDGE, "best · cantilever-10-10-10-1000 and so on", verdict=verdict)], "svg")
    )
    assert max(map(len, lines)) <= CAPTION_WIDTH


@pytest.mark.parametrize(
    ("verdict", "lines"),
    [
        (Verdict.scored(0.25), ["reward 0.250 · failed"]),
        (Verdict.unscored("timeout", "after 10 s"), ["unscored (timeout)"]),
        (Verdict.rejected("no brick", floor=-0.1), ["reward -0.100 · rejected", "no brick"]),
        (
            Verdict.scored(0.4, parts={"purpose": 0.5, "stability": 0.4, "connectivity": 0.75}),
            ["reward 0.400 · failed", "purpose 0.50 · collapses", "25% of the bricks float"],
        ),
    ],
)
def test_verdict_lines(verdict: Verdict, lines: list[str]) -> None:
    assert verdict_lines(verdict) == lines


def test_exports_return_files_by_name() -> None:
    domain = bricks()
    assert list(domain.export(BRIDGE, "obj", name="b")) == ["b.obj", "b.mtl"]
    assert domain.export(BRIDGE, "obj", name="b")["b.obj"].startswith(b"mtllib b.mtl\n")
    assert b"0 Name: b.ldr\n" in domain.export(BRIDGE, "ldr", name="b")["b.ldr"]
    assert json.loads(domain.export(BRIDGE, "gltf", name="b")["b.gltf"])["asset"]["version"] == "2.0"
    upside_down = "".join(reversed(BRIDGE.splitlines(keepends=True)))
    raster = parse(domain.export(upside_down, "txt", name="b")["b.txt"].decode(), World())
    assert [brick.z for brick in raster.bricks] == [0, 0, 1, 1, 2]
    assert sorted(raster.bricks) == sorted(parse(BRIDGE, World()).bricks)
    assert write(parse(FLOATS, World(), may_float=True)).encode() == domain.export(FLOATS, "txt", name="f")["f.txt"]


def test_invalid_structures_and_formats_are_rejected() -> None:
    with pytest.raises(DataError, match=r"b: collision: brick 2, .*steelyard verify"):
        bricks().export("2x2 (0,0,0)\n2x2 (1,1,0)", "ldr", name="b")
    with pytest.raises(DataError, match=r"out of bounds: .* --domain.options.world_size"):
        bricks().export("2x2 (19,0,0)", "ldr", name="b")
    with pytest.raises(ConfigError, match="'stl' is not supported; choose one of ldr, "):
        bricks().export(BRIDGE, "stl", name="b")
    with pytest.raises(ConfigError, match="'jpg' is not supported; choose one of svg, png, gif"):
        bricks().render([Artifact(BRIDGE)], "jpg")
    with pytest.raises(DataError, match="x has no bricks to render: ill formatted: brick 1, 'hello'"):
        bricks().render([Artifact("hello", "x")], "svg")
    with pytest.raises(DataError, match="nothing to render"):
        bricks().render([], "svg")


def test_a_report_has_a_row_for_each_brick() -> None:
    report = bricks().report("\n" + BRIDGE)
    assert report.good
    assert [row.cells[:3] for row in report.rows] == [
        ("2", "1x2", "(0,0,0)"),
        ("3", "1x2", "(0,0,1)"),
        ("4", "1x2", "(5,0,0)"),
        ("5", "1x2", "(5,0,1)"),
        ("6", "6x2", "(0,0,2)"),
    ]
    assert {row.cells[4] for row in report.rows} == {"held"}
    assert report.summary[0].startswith("stands: largest pull ")
    assert len(report.summary) == 1


def test_a_report_with_a_brief_shows_purpose_load_and_reward() -> None:
    report = bricks().report(BRIDGE, BRIEF)
    assert report.good
    stands, success, reward = report.summary
    assert stands.startswith("stands under 100 g: largest pull ")
    assert success.startswith("success: purpose score 1 (a bridge along x")
    assert reward.startswith("reward 1: purpose 1 · stability 1 · connectivity 1 · success 1")
    wider = bricks().report(BRIDGE, {**BRIEF, "gap": 5})
    assert not wider.good, "it stands, but does not match the brief"
    assert wider.summary[1].startswith("failed: purpose score 0.8, too low")
    with pytest.raises(DataError, match="did you mean 'bridge'"):
        bricks().report(BRIDGE, {**BRIEF, "kind": "brigde"})


def test_a_report_marks_bricks_that_let_go() -> None:
    report = bricks(LONG).report(STAIRS)
    assert not report.good
    assert report.summary[0].startswith("collapses: largest pull 0.9854 N, 100.6% of a contact's capacity; see line ")
    failing = [row for row in report.rows if not row.good]
    assert failing
    assert {row.cells[3:] for row in failing} == {("–", "separates")}


def test_a_report_lists_floating_bricks_and_flaws() -> None:
    report = bricks().report(FLOATS + "2x2 (1,1,0)\n3x3 (0,0,0)\nhello\n2x2 (19,0,0)\n")
    assert [row.cells[4] for row in report.rows] == ["held", "floating"]
    assert [row.good for row in report.rows] == [True, False]
    assert report.summary == ("collapses: 1 of 2 bricks are not connected to the ground",)
    reasons = [flaw.split(":")[:2] for flaw in report.flaws]
    assert reasons == [
        ["line 3", " collision"],
        ["line 4", " not in library"],
        ["line 5", " ill formatted"],
        ["line 6", " out of bounds"],
    ]
    assert not bricks().report(BRIDGE + "hello").good, "it stands, but a line could not be read"
    nothing = bricks().report("hello")
    assert (nothing.rows, nothing.good, len(nothing.flaws)) == ((), False, 1)


def test_a_missing_solver_is_reported_with_a_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.domains.bricks.stability import highs

    monkeypatch.setattr(highs, "_thread_state", type(highs._thread_state)())
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(MissingExtraError, match=r"steelyard\[bricks\]") as caught:
        bricks().report(BRIDGE)
    assert any("--method connectivity" in note for note in caught.value.__notes__)
    connected = Bricks().with_method("connectivity")
    report = connected.report(BRIDGE, BRIEF)
    assert report.good
    assert report.summary[0].startswith("connected: ")
    assert {row.cells[3] for row in report.rows} == {"–"}
    assert not connected.report(FLOATS).good


def test_an_unknown_method_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"method = 'telepathy' .* choose highs, gurobi or connectivity"):
        Bricks().with_method("telepathy")
