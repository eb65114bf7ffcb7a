"""`verify`, `render` and `export` on files: output files, messages and exit codes."""

from __future__ import annotations

import io
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from .conftest import Call

pytest.importorskip("highspy")

BRIDGE = "1x2 (0,0,0)\n1x2 (0,0,1)\n1x2 (5,0,0)\n1x2 (5,0,1)\n6x2 (0,0,2)\n"
BRIEF = json.dumps({"kind": "bridge", "gap": 4, "clearance": 2, "width": 2, "load": 100})
FLOATS = "2x2 (0,0,0)\n2x2 (8,8,1)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("bridge.txt").write_text(BRIDGE, encoding="utf-8")
    Path("floats.txt").write_text(FLOATS, encoding="utf-8")
    return tmp_path


def files() -> set[str]:
    return {path.name for path in Path().iterdir()} - {"bridge.txt", "floats.txt"}


def test_verify_reports_every_brick_and_draws_next_to_the_file(call: Call) -> None:
    code, out, err = call("verify", "bricks", "bridge.txt")
    assert (code, err) == (0, "")
    assert "6x2" in out
    assert "(0,0,2)" in out
    assert "stands: largest pull" in out
    assert "picture: bridge.svg" in out
    assert ET.parse("bridge.svg").getroot().tag.endswith("svg")


def test_verify_with_a_brief(call: Call) -> None:
    code, out, _ = call("verify", "bricks", "bridge.txt", "--brief", BRIEF, "--no-picture")
    assert code == 0
    assert "success: purpose score 1 (" in out
    assert not files()
    code, out, _ = call("verify", "bricks", "bridge.txt", "--brief", BRIEF.replace("4", "3", 1), "--no-picture")
    assert code == 1
    assert "failed: purpose score" in out


def test_verify_exits_with_1_for_a_bad_artifact_and_2_for_an_error(call: Call) -> None:
    code, out, _ = call("verify", "bricks", "floats.txt", "--picture", "fallen.png")
    assert code == 1
    assert "floating" in out
    assert "collapses: 1 of 2 bricks are not connected to the ground" in out
    assert Path("fallen.png").read_bytes().startswith(b"\x89PNG")
    code, _, err = call("verify", "bricks", "nowhere.txt")
    assert code == 2
    assert "nowhere.txt: no such file" in err


def test_verify_lists_flaws_with_their_lines(call: Call) -> None:
    Path("bad.txt").write_text("2x2 (0,0,0)\n2x2 (1,1,0)\n\x1b[31m\n", encoding="utf-8")
    code, out, _ = call("verify", "bricks", "bad.txt")
    assert code == 1
    assert "line 2: collision: 2x2 (1,1,0) overlaps another brick" in out
    assert "line 3: ill formatted" in out
    assert "\x1b" not in out
    Path("empty.txt").write_text("", encoding="utf-8")
    code, out, _ = call("verify", "bricks", "empty.txt")
    assert (code, out) == (1, "there is no brick to verify\n")
    assert files() == {"bad.txt", "bad.svg", "empty.txt"}, "nothing to draw"


def test_verify_of_stdin_draws_only_with_picture(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(BRIDGE))
    code, out, _ = call("verify", "bricks", "-")
    assert code == 0
    assert "picture" not in out
    assert not files()


def test_verify_accepts_domain_options(call: Call) -> None:
    Path("long.txt").write_text("2x2 (30,0,0)\n", encoding="utf-8")
    code, out, _ = call("verify", "bricks", "long.txt", "--no-picture")
    assert code == 1
    assert "out of bounds" in out
    wide = ("--domain.options.world_size", "[40, 4, 4]")
    assert call("verify", "bricks", "long.txt", "--no-picture", *wide)[0] == 0
    assert call("export", "bricks", "long.txt", "--out", "long.ldr", *wide)[0] == 0


def test_render_selects_the_format_by_suffix(call: Call) -> None:
    Image = pytest.importorskip("PIL.Image")
    assert call("render", "bricks", "bridge.txt", "--colour-by", "stress") == (0, "wrote bridge.svg\n", "")
    assert (
        call("render", "bricks", "bridge.txt", "--out", "deep/b.PNG", "--scale", "2", "--colour-by", "stress")[0] == 0
    )
    assert call("render", "bricks", "bridge.txt", "--out", "b.gif")[0] == 0
    width = float(ET.parse("bridge.svg").getroot().get("width", "0"))
    with Image.open("deep/b.PNG") as png, Image.open("b.gif") as gif:
        assert png.width == pytest.approx(2 * width, abs=2)
        assert gif.n_frames == 5


def test_render_several_files_as_a_sheet(call: Call) -> None:
    assert call("render", "bricks", "bridge.txt", "floats.txt", "--out", "both.svg")[0] == 0
    texts = [element.text for element in ET.parse("both.svg").getroot() if element.tag.endswith("text")]
    assert texts == ["bridge", "floats"]


def test_export_selects_the_format_by_suffix(call: Call) -> None:
    assert call("export", "bricks", "bridge.txt", "--out", "b.ldr") == (0, "wrote b.ldr\n", "")
    assert Path("b.ldr").read_text().count("2456.dat") == 1
    assert call("export", "bricks", "bridge.txt", "--out", "b.obj")[1] == "wrote b.obj\nwrote b.mtl\n"
    assert "mtllib b.mtl" in Path("b.obj").read_text()
    assert call("export", "bricks", "bridge.txt", "--out", "sub/b.gltf")[0] == 0
    assert json.loads(Path("sub/b.gltf").read_text())["nodes"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("verify", "sequences", "bridge.txt"), "--spec"),
        (("verify", "sequences", "bridge.txt", "--method", "highs"), "omit --method"),
        (("export", "sequences", "bridge.txt", "--out", "x.ldr"), "one of .txt"),
        (
            ("verify", "brics", "bridge.txt"),
            "nor a run folder; did you mean bricks?",
        ),
        (("verify", "bricks", "bridge.txt", "--brief", "{"), "--brief is not JSON"),
        (("verify", "bricks", "bridge.txt", "--brief", "[1]"), "--brief must be a JSON object"),
        (("verify", "bricks", "bridge.txt", "--brief", '{"kind": "castle"}'), "kind = 'castle' does not exist"),
        (("verify", "bricks", "bridge.txt", "--method", "guess"), "choose highs, gurobi or connectivity"),
        (("verify", "bricks", "bridge.txt", "--picture", "x.jpg"), "one of .svg, .png, .gif"),
        (("verify", "bricks", "bridge.txt", "--run.steps", "1"), "only domain options can be set"),
        (("verify", "bricks", "bridge.txt", "--domain.options.colour", "1"), "its parameters are: kinds"),
        (("render", "bricks"), "pass a run folder instead (runs/bricks)"),
        (("render", "bricks", "bridge.txt", "--out", "x.ldr"), "one of .svg, .png, .gif"),
        (("render", "bricks", "bridge.txt", "floats.txt", "--out", "x.gif"), "a gif shows one structure"),
        (("render", "bricks", "-"), "--out FILE"),
        (("render", "bricks", "bridge.txt", "--out", "x.png", "--scale", "1000"), "lower it"),
        (("render", "bricks", "bridge.txt", "--out", "bridge.txt/x.png"), "bridge.txt/x.png cannot be written"),
        (("export", "bricks", "bridge.txt", "--out", "x.stl"), "one of .ldr, .gltf, .obj"),
        (("export", "bricks", "bridge.txt", "--out", "x"), "--out x: the suffix selects the format"),
    ],
)
def test_mistakes_are_explained(call: Call, words: tuple[str, ...], expected: str) -> None:
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert expected in err
    assert not files()


def test_a_missing_solver_or_pillow_names_its_extra(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.domains.bricks.stability import highs

    monkeypatch.setattr(highs, "_thread_state", type(highs._thread_state)())
    monkeypatch.setitem(sys.modules, "highspy", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    code, _, err = call("verify", "bricks", "bridge.txt")
    assert code == 2
    assert "steelyard[bricks]" in err
    assert "--method connectivity" in err
    code, out, _ = call("verify", "bricks", "bridge.txt", "--method", "connectivity")
    assert code == 0
    assert "stability was not check" in out
    assert Path("bridge.svg").is_file()
    code, _, err = call("render", "bricks", "bridge.txt", "--out", "b.png")
    assert code == 2
    assert "steelyard[pictures]" in err
