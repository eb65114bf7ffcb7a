"""The theories domain: tasks and their splits, examples, vocabulary, settings."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from benchmarks.theories.theories_walks import accepts
from steelyard.domains.registry import make_domain
from steelyard.domains.theories.domain import Theories
from steelyard.domains.theories.grammar.prompts import BEGINNINGS, SPLITS
from steelyard.domains.theories.grammar.text import read
from steelyard.domains.theories.physics.anomalies import is_anomaly_free
from steelyard.domains.theories.reward.reward import admitted
from steelyard.domains.theories.reward.success import Findings
from steelyard.errors import ConfigError
from steelyard.types import Task

KINDS = tuple(BEGINNINGS)
ALL = Theories(kinds=KINDS)


def test_splits_share_no_beginning_but_where_there_is_only_one() -> None:
    found = {split: {ALL.task(split, index).id for index in range(ALL.size(split) or 2_000)} for split in SPLITS}
    single = {task for task in found["train"] if task.partition("-")[0] in ("nothing", "sector", "model")}
    assert len(single) == 3
    for one, other in itertools.combinations(SPLITS, 2):
        assert found[one] & found[other] == single
    assert min(map(len, found.values())) > 20


def test_training_takes_kinds_in_turn_and_each_beginning_before_any_comes_again() -> None:
    tasks = [ALL.task("train", index) for index in range(120)]
    assert [task.spec["kind"] for task in tasks[:10]] == [*KINDS, *KINDS]
    groups = [task.id for task in tasks if task.spec["kind"] == "groups"]
    assert max(Counter(groups).values()) == 1
    assert [ALL.task("train", index) for index in range(30)] == tasks[:30]
    assert [Theories(kinds=KINDS, seed=1).task("train", index) for index in range(30)] != tasks[:30]


def test_what_is_held_out_are_products_of_what_was_met() -> None:
    domain = Theories(limits={"groups": 3})
    unseen = [domain.task(split, i) for split in SPLITS[1:] for i in range(domain.size(split) or 0)]
    assert {factors(task) for task in unseen} == {3}
    alone = Theories(limits={"groups": 1})
    assert alone.size("held_out"), "unless there is nothing larger"


def test_a_fifth_of_the_largest_is_held_out_and_a_fifth_is_for_validation() -> None:
    domain = Theories(containing=("SU(2)",), limits={"groups": 3, "abelian": 0, "largest": 6})
    given = [[str(domain.task(s, i).spec["given"]) for i in range(domain.size(s) or 0)] for s in SPLITS[1:]]
    validation, held_out = ({words.replace("SU(", "").replace(")", "")[6:-4] for words in own} for own in given)
    assert held_out == {"2 2 4", "2 3 5", "2 5 5"}
    assert validation == {"2 2 6", "2 4 4", "2 6 6"}


def test_gauge_groups_that_contain_some_factors() -> None:
    domain = Theories(containing=["SU(2)", "SU(2)"], limits={"groups": 3})  # type: ignore[arg-type]
    tasks = [domain.task("train", index) for index in range(60)]
    assert min(str(task.spec["given"]).split().count("SU(2)") for task in tasks) == 2
    with pytest.raises(ConfigError, match="ask for fewer factors"):
        Theories(containing=("SU(2)",) * 4, limits={"groups": 3})


def test_harder_beginnings_come_in_one_after_the_other() -> None:
    """Of five levels three from the first, another from 40, all from 80 on; in each part every beginning comes before
    any comes again.
    """
    limits = {"groups": 5, "largest": 3, "abelian": 1}
    domain, plain = Theories(limits=limits, rising=80), Theories(limits=limits)
    tasks = [domain.task("train", index) for index in range(160)]
    assert [max(map(factors, tasks[at : at + 40])) for at in (0, 40, 80)] == [3, 4, 5]
    assert min(map(factors, tasks[:40])) == 1
    kinds = len({task.id for task in tasks[40:80]})
    assert max(Counter(task.id for task in tasks[40 : 40 + kinds]).values()) == 1
    assert tasks[80:] == [plain.task("train", index) for index in range(80)]
    assert domain.example(0) == plain.example(0), "the warm start sees them all"


def factors(task: Task) -> int:
    return len(str(task.spec["given"]).split()) - 2


def test_what_is_given_less_leaves_more_free() -> None:
    by_kind = {str(task.spec["kind"]): task.difficulty for task in (ALL.task("train", index) for index in range(5))}
    order = [by_kind[kind] or 0.0 for kind in ("model", "partial", "sector", "groups", "nothing")]
    assert order == sorted(order)


@pytest.mark.parametrize("kind", KINDS)
def test_examples_are_theories_for_their_task(kind: str) -> None:
    domain = Theories(kinds=(kind,))
    grammar, words = domain.grammar, set(domain.vocabulary())
    for task, text in itertools.islice(domain.examples(seed=3), 20):
        assert accepts(text, grammar)
        assert text.startswith(str(task.spec["given"]))
        assert set(text.split()) | {str(task.prompt)} <= words
        admitted(task, text, domain.bounds)
    assert domain.example(7, seed=3) == next(itertools.islice(domain.examples(seed=3), 7, None))


def test_examples_keep_to_their_length() -> None:
    domain = Theories(kinds=("nothing",), longest_example=20)
    lengths = [len(domain.example(index)[1].split()) for index in range(100)]
    assert max(lengths) == 20


def test_few_examples_succeed() -> None:
    """By chance alone: what is learnt later is not in the data."""
    theories = [read(ALL.example(index)[1]) for index in range(120)]
    assert sum(is_anomaly_free(theory) and not Findings(theory, 0).vector_like_groups for theory in theories) < 7


def test_a_closed_vocabulary_of_different_words() -> None:
    assert len(set(ALL.vocabulary())) == len(ALL.vocabulary()) < 300
    assert ALL.vocabulary()[:3] == ("<pad>", "<bos>", "<eos>")


def test_unconstrained_there_is_no_automaton() -> None:
    assert Theories(constrained=False).automaton() is None
    assert Theories().automaton() is not None


def test_settings_that_make_no_sense_are_refused() -> None:
    for options, said in (
        ({"kinds": ["sm"]}, "choose some of nothing, groups"),
        ({"kinds": []}, "choose some of"),
        ({"kinds": ["model"], "limits": {"largest": 2}}, "'model' out of kinds"),
        ({"kinds": ["model"], "limits": {"charge": 3}}, "does not fit into the limits"),
        ({"containing": ["U(1)"], "limits": {"groups": 1, "abelian": 0}}, "groups = 1, abelian = 0 and largest = 6"),
        ({"kinds": ["nothing", "groups"], "containing": ["SU(2)"] * 5}, "no beginning of kind 'groups'; raise one"),
        ({"containing": "SU(2)"}, r'containing=\["SU\(2\)"\]$'),
        ({"kinds": "groups"}, r'kinds="groups" is a word where a list belongs'),
        ({"containing": ["SU2"]}, r"containing=\['SU2'\]; the factors within the limits are U\(1\), SU\(2\)"),
        ({"rising": -1}, "rising=-1"),
        ({"kinds": ["partial"], "limits": {"multiplets": 4}}, "'partial' out of kinds"),
        ({"limits": {"multiplet": 3}}, "there is no 'multiplet'"),
        ({"reward": {"weight": {}}}, "did you mean 'weights'"),
    ):
        with pytest.raises(ConfigError, match=said):
            make_domain("theories", **options)
