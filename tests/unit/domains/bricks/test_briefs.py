"""Briefs as data: specs, splits, difficulty, and captions from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.domains.bricks import World, parse
from steelyard.domains.bricks.briefs import (
    GRID_KINDS,
    KINDS,
    Bridge,
    Brief,
    Cantilever,
    Caption,
    Shape,
    Stairs,
    Table,
    Tower,
    Wall,
    brief_of,
    catalogue,
    interleaved,
    read_captions,
    split_of,
)
from steelyard.errors import DataError

WORLD = World()
CHAIR = Caption("a chair", "2x2 (4,4,0)\n1x2 (4,4,1)\n", "object 7", "structure 9", 1)


@pytest.fixture(scope="module")
def everything() -> list[Brief]:
    return [brief for kind in GRID_KINDS for brief in KINDS[kind].grid()]


def test_specs_round_trip_through_json(everything: list[Brief]) -> None:
    for brief in (*everything, CHAIR):
        again = brief_of(json.loads(json.dumps(brief.spec)))
        assert again == brief
        assert type(again) is type(brief)
        assert split_of(again) == split_of(brief)


def test_no_two_briefs_have_the_same_words(everything: list[Brief]) -> None:
    assert len({brief.words() for brief in everything}) == len({brief.id for brief in everything}) == len(everything)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "kind = None does not exist; there are: tower, wall"),
        ({"kind": "bridges"}, "did you mean 'bridge'"),
        ({"kind": ["tower"]}, "kind = .* does not exist"),
        ({"kind": "tower", "height": 3, "length": 2}, r"brief tower: parameters \['height', 'length'\] must be"),
        ({"kind": "tower", "height": 3, "length": 2, "width": 0}, "width = 0 must be an integer of at least 1"),
        ({"kind": "tower", "height": 3.5, "length": 2, "width": 1}, "height = 3.5"),
        ({"kind": "shape", "depth": 1, "heights": []}, "heights is empty"),
        ({"kind": "shape", "depth": 1, "heights": 3}, "not iterable"),
        ({"kind": "shape", "depth": 1, "heights": [2, -1]}, "heights = -1"),
        ({"kind": "table", "length": 4, "width": 2, "height": 3, "free": 101, "load": 0}, "at most 100"),
    ],
)
def test_invalid_specs_are_rejected(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        brief_of(spec)


def test_a_load_may_be_zero() -> None:
    assert Bridge(2, 1, 1, 0).loads(parse("1x1 (0,0,0)\n1x1 (3,0,0)\n4x1 (0,0,1)", WORLD))[0].kilograms == 0.0


def test_splits_are_disjoint_and_every_kind_is_in_each() -> None:
    found = catalogue(GRID_KINDS, WORLD, max_difficulty=16)
    keys = {split: {brief.split_key for briefs in kinds.values() for brief in briefs} for split, kinds in found.items()}
    assert not keys["train"] & keys["validation"]
    assert not keys["train"] & keys["held_out"]
    assert not keys["validation"] & keys["held_out"]
    for kind in GRID_KINDS:
        sizes = [len(found[split][kind]) for split in ("train", "validation", "held_out")]
        assert sizes[0] > 3 * max(sizes[1:]), (kind, sizes)
        assert min(sizes) >= 4, (kind, sizes)


def test_the_split_depends_only_on_the_parameters() -> None:
    """The splits must never change: a different hash would leak held-out briefs into training."""
    splits = {height: split_of(Tower(height, 2, 2)) for height in range(3, 11)}
    assert {height for height, split in splits.items() if split == "validation"} == {4, 6}
    assert {height for height, split in splits.items() if split == "train"} == {3, 5, 7, 8, 9, 10}
    assert split_of(Tower(5, 4, 2)) == "held_out"


def test_briefs_with_the_same_form_share_a_split_whatever_the_load() -> None:
    for kind in ("table", "bridge", "cantilever"):
        splits: dict[tuple[int, ...], set[str]] = {}
        for brief in KINDS[kind].grid():
            form = tuple(value for name, value in brief.spec.items() if name not in ("kind", "load", "free"))
            splits.setdefault(form, set()).add(split_of(brief))
        assert all(len(found) == 1 for found in splits.values())
        assert {"train", "held_out"} <= set().union(*splits.values())


def test_the_catalogue_respects_world_and_difficulty() -> None:
    found = catalogue(("tower", "shape"), World((8, 8, 5)), min_difficulty=4, max_difficulty=9)
    briefs = [brief for kinds in found.values() for some in kinds.values() for brief in some]
    assert {brief.kind for brief in briefs} == {"tower", "shape"}
    assert all(4 <= brief.difficulty <= 9 and brief.extent[2] <= 5 for brief in briefs)
    assert max(brief.extent[2] for brief in briefs) == 5
    assert catalogue(("bridge",), World((4, 4, 4)))["train"] == {}


def test_kinds_are_interleaved() -> None:
    towers: list[Brief] = [Tower(3, 1, 1), Tower(4, 1, 1), Tower(5, 1, 1)]
    shapes: list[Brief] = [Shape(1, (1, 2))]
    assert interleaved({"tower": towers, "shape": shapes}) == [towers[0], shapes[0], towers[1], towers[2]]
    assert interleaved({}) == []


@pytest.mark.parametrize(
    ("brief", "bricks"),
    [(Tower(5, 2, 4), 5), (Tower(3, 3, 3), 12), (Table(4, 2, 3, 50, 0), 5), (Shape(2, (1, 3, 1)), 3)],
)
def test_difficulty_approximates_the_number_of_bricks(brief: Brief, bricks: int) -> None:
    assert brief.difficulty == bricks


@pytest.mark.parametrize(
    ("brief", "title"),
    [
        (Tower(5, 2, 4), "tower 5 layers tall, 2×4 studs"),
        (Wall(9, 1, 4), "wall 9 studs long, 1 thick, 4 layers tall"),
        (Stairs(6, 3, 2), "stairs of 6 steps, each 3 studs long, 2 wide"),
        (Table(6, 8, 3, 60, 100), "table of 6×8 studs, 3 layers tall, 60% free below, carrying 100 g"),
        (Bridge(4, 1, 2, 50), "bridge over 4 studs, 1 layer clear, 2 wide, carrying 50 g"),
        (Cantilever(3, 2, 1, 0), "cantilever reaching 3 studs, 2 layers up, base of 1 stud"),
        (Shape(1, (1, 4, 2)), "shape 1 stud deep, heights 1, 4, 2"),
        (CHAIR, "a chair"),
    ],
)
def test_titles(brief: Brief, title: str) -> None:
    assert brief.title() == title


def row(**changes: Any) -> dict[str, Any]:
    usual = {
        "structure_id": "s1",
        "object_id": "o1",
        "category_id": "c",
        "captions": ["a stool", "a small seat"],
        "bricks": "2x2 (4,4,0)\n2x2 (4,4,1)\n",
        "stability_scores": [0.0],
    }
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def write_rows(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return path


def test_each_caption_becomes_a_brief(tmp_path: Path) -> None:
    briefs = read_captions(write_rows(tmp_path / "rows.jsonl", row(), row(structure_id="s2", captions="one")))
    assert [brief.sentence() for brief in briefs] == ["a stool", "a small seat", "one"]
    assert [brief.id for brief in briefs] == ["caption-s1-0", "caption-s1-1", "caption-s2-0"]
    assert len({split_of(brief) for brief in briefs}) == 1, "all captions of one object"
    assert briefs[0].difficulty == 2
    assert briefs[0].extent == (2, 2, 2)
    assert len(read_captions(tmp_path / "rows.jsonl", limit=1)) == 2


def test_captions_are_read_from_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist([row()]), tmp_path / "rows.parquet")
    assert [brief.caption for brief in read_captions(tmp_path / "rows.parquet")] == ["a stool", "a small seat"]


def test_a_caption_is_scored_against_its_structure() -> None:
    assert CHAIR.fulfilment(parse(CHAIR.bricks, WORLD)) == 1.0
    assert CHAIR.fulfilment(parse("2x2 (0,9,0)\n1x1 (0,9,1)", WORLD)) == pytest.approx(5 / 6)
    assert CHAIR.fulfilled(parse("2x2 (0,9,0)\n1x1 (0,9,1)", WORLD))
    assert not CHAIR.fulfilled(parse("2x2 (0,9,0)", WORLD))


def test_captions_have_no_closed_vocabulary() -> None:
    with pytest.raises(ValueError, match="closed vocabulary"):
        CHAIR.words()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(bricks="3x3 (0,0,0)")], "line 1, structure s1: not in library"),
        ([row(), row(captions=None)], "line 2: column 'captions' is missing"),
        ([row(captions=[""])], "has an empty caption"),
        ([[1]], "expected an object, got list"),
        ([row(captions=[])], "contains no captions"),
    ],
)
def test_invalid_rows_are_reported_with_position_and_reason(rows: list[Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_captions(write_rows(tmp_path / "rows.jsonl", *rows))


def test_unreadable_files_are_reported_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text('{"a": \n', encoding="utf-8")
    for name, message in (
        ("broken.jsonl", "line 1: not JSON"),
        ("absent.jsonl", "no such file"),
        ("a.csv", "not '.csv'"),
    ):
        with pytest.raises(DataError, match=message):
            read_captions(tmp_path / name)
