"""docs/results.md is generated: the committed page equals the one generated from the stored results."""

from __future__ import annotations

import re

from benchmarks.framework.report import PAGE, PICTURES, generate, pages_with_results, pictures
from benchmarks.framework.result import Figure, Result, record


def test_the_committed_page_is_the_generated_one():
    assert PAGE.read_text(encoding="utf-8") == generate(), "run: python -m benchmarks --report"


def test_the_committed_pictures_are_the_generated_ones():
    for name, picture in pictures().items():
        assert (PAGE.parent / name).read_text(encoding="utf-8") == picture, "run: python -m benchmarks --report"


def test_the_committed_tables_are_the_generated_ones():
    for name, page in pages_with_results().items():
        assert (PAGE.parent / name).read_text(encoding="utf-8") == page, "run: python -m benchmarks --report"


def test_an_outdated_table_is_replaced_and_the_text_around_it_stays(tmp_path):
    kept = record(Result("sandbox", (Figure("n", 1, ">=", 1),), ({"escape": "by night"},)), quick=False, seconds=3)
    (tmp_path / "sandbox.json").write_text(kept.to_json())
    page, text = pages_with_results(tmp_path)["sandbox.md"], (PAGE.parent / "sandbox.md").read_text(encoding="utf-8")
    assert "| by night |" in page
    assert page.partition("<!-- ")[0] == text.partition("<!-- ")[0]
    assert page.rpartition("<!-- end -->")[2] == text.rpartition("<!-- end -->")[2]


def test_a_missed_target_is_marked(tmp_path):
    figures = (Figure("gap", 0.7, "<=", 0.5, "nat", 0.1), Figure("share", 0.9, ">=", 0.8))
    details = ({"row": "a", "gap": 0.7}, {"row": "b", "gap": 0.61234})
    kept = record(Result("parity", figures, details), quick=False, seconds=3)
    (tmp_path / "parity.json").write_text(kept.to_json())
    page = generate(tmp_path)
    assert "| `parity` | gap | 0.7 nat | <= 0.5 nat | 0.1 | **no** |" in page
    assert "| `parity` | share | 0.9 | >= 0.8 | 0 | yes |" in page
    assert "| b | 0.612 |" in page
    assert "`python -m benchmarks parity`" in page


def test_missing_values_are_left_out_of_pictures_and_tables(tmp_path):
    """A run has no entropy before its first step."""
    first, second, third = ({"run": "a", "minutes": 1.0 * at} for at in range(3))
    every = ("held-out success", "distinct successes", "fermion contents", "entropy")
    rows = [row | dict.fromkeys(every, at) for row, at in ((first, 0.0), (second, 0.25), (third, 0.5))]
    rows[0]["entropy"] = float("nan")
    kept = record(Result("theories-learn", (Figure("gap", 0.1, "<=", 0.5),), rows), quick=False, seconds=3)
    (tmp_path / "theories-learn.json").write_text(kept.to_json())
    picture = pictures(tmp_path)["theories-learn.svg"]
    assert "nan" not in picture
    curves = re.findall(r'<polyline points="([^"]*)" fill="none" stroke="#0072b2"', picture)
    assert [line.count(",") for line in curves] == [3, 3, 3, 2]
    assert "| a | 0 | 0 | 0 | 0 |  |" in generate(tmp_path)


def test_pictures_have_ticks_titles_and_named_curves():
    for name, picture in pictures().items():
        texts = set(re.findall(r"<text [^>]*>([^<]*)</text>", picture))
        drawn = PICTURES[name.removesuffix(".svg")]
        assert {drawn.axis.title, *(panel.title for panel in drawn.panels)} <= texts
        assert {panel.axis.title for panel in drawn.panels} <= texts
        assert sum(bool(re.fullmatch(r"[\d.]+%?", text)) for text in texts) > 5
    assert ">seed 2</text>" in pictures()["bricks-learn.svg"]


def test_quick_results_do_not_enter_the_page(tmp_path):
    (tmp_path / "quick").mkdir()
    kept = record(Result("parity", (Figure("gap", 0.1, "<=", 0.5),)), quick=True, seconds=3)
    (tmp_path / "quick" / "parity.json").write_text(kept.to_json())
    assert "| `parity`" not in generate(tmp_path)
