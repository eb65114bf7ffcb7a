"""The infill domain: texts, masking patterns and rewards."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from steelyard.domains import make_domain
from steelyard.domains.infill import Infill
from steelyard.domains.infill.corpus import (
    TextFilter,
    chunks,
    deduplication_key,
    functions,
    iter_texts,
    load_texts,
    split_of,
)
from steelyard.domains.infill.domain import text_spans
from steelyard.domains.infill.masking import Masking, fills, with_holes
from steelyard.domains.infill.reward import InfillScorer, parses, recovered, tokenizes
from steelyard.errors import ConfigError, DataError
from steelyard.types import HOLE, Task

CODE = """\
import os

class A:
    def one(self, x):
        return x + 1

    async def two(self):

        pass

def odd(
):
    pass

def three(): return 3
"""


@pytest.fixture(scope="module")
def domain() -> Infill:
    return Infill()


# --- texts -----------------------------------------------------------------------------------------------------------


def test_functions_are_complete_and_dedented() -> None:
    found = dict(functions(CODE, 100))
    assert found == {
        4: "def one(self, x):\n    return x + 1\n",
        7: "async def two(self):\n\n    pass\n",
        15: "def three(): return 3\n",
    }
    assert [text for _, text in functions(CODE, 25) if len(text) <= 25] == ["def three(): return 3\n"]


def test_chunks_are_complete_lines() -> None:
    content = "aaa\nbbb\n" + "c" * 20 + "\nddd\n"
    assert list(chunks(content, 8)) == [(1, "aaa\nbbb\n"), (3, "c" * 20 + "\n"), (4, "ddd\n")]
    assert [line for line, text in chunks(content, 5) if len(text) <= 5] == [1, 2, 4]


def test_a_document_is_in_one_split_and_texts_are_distinct(domain: Infill) -> None:
    found = domain._texts
    assert all(len(own) > 100 for own in found.values())
    for split, own in found.items():
        assert {split_of(text.source.rpartition(":")[0]) for text in own} == {split}
        assert all(40 <= len(text.text) <= 256 and parses(text.text) for text in own[:200])
    together = [text.text for own in found.values() for text in own]
    assert len(together) == len(set(together))


def test_texts_are_read_from_any_folder(tmp_path: Path, domain: Infill) -> None:
    for number in range(30):
        (tmp_path / f"{number}.txt").write_text(f"the text of number {number} is here\n" * 2, encoding="utf-8")
    (tmp_path / "same.txt").write_text("the text of number 3 is here\n" * 2, encoding="utf-8")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "odd.txt").write_text("déjà vu, déjà vu, déjà vu, déjà vu\n", encoding="utf-8")
    own = Infill(files=str(tmp_path), unit="chunk")
    assert sum(len(part) for part in own._texts.values()) == 30
    accents = Infill(files=str(tmp_path), unit="chunk", weights={"recovered": 1.0}, min_length=30, characters="éà")
    assert "é" in accents.vocabulary()
    assert any("déjà" in text.text for part in accents._texts.values() for text in part)
    first = next(iter_texts(str(tmp_path), "chunk", TextFilter(1, 99, frozenset(map(chr, range(128))))))
    assert first.source == "0.txt:1"
    with pytest.raises(DataError, match="not an existing file or folder"):
        Infill(files=str(tmp_path / "nowhere"), unit="chunk").task("train", 0)
    with pytest.raises(DataError, match="pass a folder"):
        Infill(files=str(tmp_path / "0.txt")).task("train", 0)
    (tmp_path / "few").mkdir()
    with pytest.raises(DataError, match="too few texts"):
        Infill(files=str(tmp_path / "few"), unit="chunk").task("train", 0)


def test_skipped_texts_are_reported_by_reason(tmp_path: Path) -> None:
    for number in range(60):
        rule = f"target{number}: source{number}\n\tcc -o target{number} source{number}\n"
        (tmp_path / f"{number}.mk").write_text(rule, encoding="utf-8")
    (tmp_path / "short.mk").write_text("all:\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"60 with '\\t', which is not in `characters`; 1 shorter than min_length=40"):
        Infill(files=str(tmp_path), unit="chunk").task("train", 0)
    assert Infill(files=str(tmp_path), unit="chunk", characters="\t").task("train", 0)


def test_a_file_can_contain_many_documents(tmp_path: Path) -> None:
    lines = [f"a paragraph with the number {number} in it\nand a second line" for number in range(60)]
    prose, records, tokens = tmp_path / "prose.txt", tmp_path / "texts.jsonl", tmp_path / "tokens.jsonl"
    prose.write_text("\n\n".join(lines), encoding="utf-8")
    records.write_text("\n".join(json.dumps({"text": line}) for line in lines), encoding="utf-8")
    tokens.write_text("\n".join(json.dumps({"tokens": line.split(" ")}) for line in lines), encoding="utf-8")
    for path in (prose, records, tokens):
        own = Infill(files=str(path), unit="chunk")
        assert sum(len(part) for part in own._texts.values()) == 60
        task = own.task("held_out", 0)
        verdict = own.scorer(task, task.spec["text"])
        assert (verdict.reward, verdict.success) == (1.0, True), "only the original succeeds for prose"
    records.write_text('{"words": 1}\n', encoding="utf-8")
    load_texts.cache_clear()
    with pytest.raises(DataError, match=r"texts\.jsonl:1 must be"):
        Infill(files=str(records), unit="chunk").task("train", 0)
    records.write_text('{"tokens": [1, 2]}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"set domain\.options\.tokenizer"):
        Infill(files=str(records), unit="chunk").task("train", 0)


def test_functions_that_differ_only_in_name_are_deduplicated(tmp_path: Path) -> None:
    for number in range(40):
        body = f"def f{number}(self):\n    return self.something({number % 20}, 'a text')\n"
        (tmp_path / f"{number}.py").write_text(body + "\n" * (number % 3), encoding="utf-8")
    own = Infill(files=str(tmp_path))
    assert sum(len(part) for part in own._texts.values()) == 20
    key = deduplication_key
    assert key("async def a(b): c\n") == key("async def other(b):\n    c\n") != key("def a(b): c\n")


# --- holes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["random", "span", "sticky"])
def test_the_share_of_holes_matches_the_ratio(pattern: str) -> None:
    masking, rng = Masking(pattern, (0.3, 0.3), mean_span=5.0, max_holes=1000), np.random.default_rng(0)  # type: ignore[arg-type]
    found = [masking.positions(200, rng) for _ in range(300)]
    assert np.mean([len(positions) / 200 for positions in found]) == pytest.approx(0.3, abs=0.015)
    assert all((np.diff(positions) > 0).all() for positions in found)
    runs = [len(positions) / (1 + int((np.diff(positions) > 1).sum())) for positions in found if len(positions)]
    expected = {"random": 1 / 0.7, "span": 5.0, "sticky": 5.0}[pattern]
    assert np.mean(runs) == pytest.approx(expected, rel=0.25)


def test_ratios_are_drawn_and_the_number_of_holes_is_bounded() -> None:
    rng = np.random.default_rng(0)
    shares = [len(Masking("random", (0.1, 0.5), max_holes=99).positions(100, rng)) / 100 for _ in range(300)]
    assert 0.1 <= min(shares) < 0.15 < 0.45 < max(shares) <= 0.5
    assert len(Masking("sticky", (0.001, 0.001), max_holes=99).positions(20, rng)) == 1
    assert len(Masking("random", (0.5, 0.5), max_holes=7).positions(100, rng)) == 7
    assert with_holes("abcd", np.asarray([1, 3])) == f"a{HOLE}c{HOLE}"


@pytest.mark.parametrize("pattern", ["random", "span", "sticky"])
def test_the_limit_removes_holes_uniformly(pattern: str) -> None:
    masking, rng = Masking(pattern, (0.5, 0.5), mean_span=6.0, max_holes=64), np.random.default_rng(0)  # type: ignore[arg-type]
    found = [masking.positions(256, rng) for _ in range(400)]
    assert max(map(len, found)) <= 64
    quarter_4 = np.bincount(np.concatenate(found) // 64, minlength=4) / sum(map(len, found))
    assert quarter_4 == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(
    "options",
    [{"masking": "x"}, {"ratio": [0.5, 0.2]}, {"ratio": [0.1, 0.2, 0.3]}, {"mean_span": 0.5}, {"unit": "x"},
     {"ratio": 0.0}, {"weights": {"x": 1.0}}, {"weights": {}}, {"min_length": 9, "max_length": 8},
     {"characters": HOLE}],
)  # fmt: skip
def test_invalid_options_are_rejected(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="infill"):
        make_domain("infill", **options)


# --- tasks -----------------------------------------------------------------------------------------------------------


def test_tasks_depend_only_on_split_and_index(domain: Infill) -> None:
    again = Infill()
    for split in ("train", "validation", "held_out"):
        assert [domain.task(split, index) for index in range(5)] == [again.task(split, index) for index in range(5)]
    task = domain.task("held_out", 0)
    assert len(str(task.prompt)) == len(task.spec["text"])
    assert task.difficulty == str(task.prompt).count(HOLE) == pytest.approx(0.2 * len(task.spec["text"]), abs=1)
    assert Infill(seed=1).task("held_out", 0) != task
    count = len(domain._texts["train"])
    texts_of_epoch = {domain.task("train", index).spec["text"] for index in range(0, count, 97)}
    assert len(texts_of_epoch) == len(range(0, count, 97))
    assert domain.size("train") is None
    assert domain.size("held_out") == len(domain._texts["held_out"])


def test_examples_are_training_texts_with_their_own_holes(domain: Infill) -> None:
    found = list(itertools.islice(domain.examples(seed=0), 20))
    own = {text.text for text in domain._texts["train"]}
    for task, text in found:
        assert text in own
        assert all(hole in (HOLE, true) for hole, true in zip(str(task.prompt), text, strict=True))
    assert [task.prompt for task, _ in found] != [
        task.prompt for task, _ in itertools.islice(domain.examples(seed=1), 20)
    ]


# --- rewards ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "token", "parse"),
    [("def f(): pass\n", True, True), ("def f( pass\n", False, False), ("x y z\n", True, False), ("'a\n", False, False),
     ("a\0b", True, False), ("(" * 250, False, False), ('"\\d"\n', True, True)],
)  # fmt: skip
def test_tokenizes_and_parses(text: str, token: bool, parse: bool) -> None:
    assert parses(text) is parse
    if "\0" not in text:
        assert tokenizes(text) is token


def test_the_reward_is_the_weighted_sum_of_its_parts() -> None:
    task = Task("t", f"x = {HOLE}{HOLE}\n", {"text": "x = 12\n"})
    found = InfillScorer()(task, "x = 1+\n")
    assert found.parts == {"tokenizes": 1.0, "parses": 0.0, "recovered": 0.5, "exact": 0.0}
    assert (found.reward, found.success) == (0.25, False)
    assert InfillScorer()(task, "x = 12\n").reward == 1.0
    assert InfillScorer({"recovered": 2.0})(task, "x = 19\n").reward == 1.0
    assert InfillScorer({"recovered": 2.0})(task, "x = 12\n").success
    assert "parses" not in InfillScorer({"exact": 1.0})(task, "x = 19\n").parts
    assert InfillScorer().verifier().version != InfillScorer({"exact": 1.0}).verifier().version


def test_recovery_of_longer_fillings_is_counted_by_runs() -> None:
    masked = f"a{HOLE}{HOLE} c{HOLE}"
    assert fills(masked, "a whole c+1") == [" whole", "+1"]
    assert fills(masked, "b whole c+1") is None
    assert fills(f"a{HOLE}a", "a") is None
    assert recovered(masked, "a whole c+1", "a whole c-1") == pytest.approx(2 / 3)
    assert recovered(masked, "a whole c+1", "a whole c+1") == 1.0
    assert recovered(masked, "a whole c+1", "something else") == 0.0


def test_highlights_separate_given_and_filled_text() -> None:
    assert text_spans(f"a{HOLE}{HOLE}d{HOLE}", "abcde", "abxde") == [
        ("a", "given"),
        ("b", "right"),
        ("x", "made"),
        ("d", "given"),
        ("e", "right"),
    ]
    assert text_spans(f"a {HOLE} c{HOLE}", "a new cd", "a new c!") == [
        ("a ", "given"),
        ("new", "right"),
        (" c", "given"),
        ("!", "made"),
    ]
    assert text_spans(f"a {HOLE} c", "a b c", "a whole c") == [("a ", "given"), ("whole", "made"), (" c", "given")]
    assert text_spans(f"a {HOLE} c", "a b c", "no") == [("no", "made")]
