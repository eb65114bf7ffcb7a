"""The theories domain: tasks, splits, examples, vocabulary and settings."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from benchmarks.theories.theories_walks import accepts
from steelyard.domains.registry import make_domain
from steelyard.domains.theories.domain import Theories
from steelyard.domains.theories.grammar.starting_points import SPLITS, STARTING_POINTS
from steelyard.domains.theories.grammar.text import read
from steelyard.domains.theories.physics.anomalies import is_anomaly_free
from steelyard.domains.theories.reward.reward import admitted
from steelyard.domains.theories.reward.success import Findings
from steelyard.errors import ConfigError
from steelyard.types import Task

KINDS = tuple(STARTING_POINTS)
ALL = Theories(kinds=KINDS)


def test_splits_are_disjoint_except_for_single_starting_points() -> None:
    found = {split: {ALL.task(split, index).id for index in range(ALL.size(split) or 2_000)} for split in SPLITS}
    single = {task for task in found["train"] if task.partition("-")[0] in ("nothing", "sector", "model")}
    assert len(single) == 3
    for one, other in itertools.combinations(SPLITS, 2):
        assert found[one] & found[other] == single
    assert min(map(len, found.values())) > 20


def test_training_alternates_kinds_and_visits_every_starting_point_before_repeating() -> None:
    tasks = [ALL.task("train", index) for index in range(120)]
    assert [task.spec["kind"] for task in tasks[:10]] == [*KINDS, *KINDS]
    groups = [task.id for task in tasks if task.spec["kind"] == "groups"]
    assert max(Counter(groups).values()) == 1
    assert [ALL.task("train", index) for index in range(30)] == tasks[:30]
    assert [Theories(kinds=KINDS, seed=1).task("train", index) for index in range(30)] != tasks[:30]


def test_held_out_groups_are_products_of_training_factors() -> None:
    domain = Theories(limits={"groups": 3})
    unseen = [domain.task(split, i) for split in SPLITS[1:] for i in range(domain.size(split) or 0)]
    assert {factors(task) for task in unseen} == {3}
    alone = Theories(limits={"groups": 1})
    assert alone.size("held_out"), "single factors are held out if nothing larger is allowed"


def test_a_fifth_of_the_largest_groups_is_held_out_and_a_fifth_is_for_validation() -> None:
    domain = Theories(required_factors=("SU(2)",), limits={"groups": 3, "abelian": 0, "largest": 6})
    given = [[str(domain.task(s, i).spec["given"]) for i in range(domain.size(s) or 0)] for s in SPLITS[1:]]
    validation, held_out = ({words.replace("SU(", "").replace(")", "")[6:-4] for words in own} for own in given)
    assert held_out == {"2 2 4", "2 3 5", "2 5 5"}
    assert validation == {"2 2 6", "2 4 4", "2 6 6"}


def test_required_factors() -> None:
    domain = Theories(required_factors=["SU(2)", "SU(2)"], limits={"groups": 3})  # type: ignore[arg-type]
    tasks = [domain.task("train", index) for index in range(60)]
    assert min(str(task.spec["given"]).split().count("SU(2)") for task in tasks) == 2
    with pytest.raises(ConfigError, match="require fewer factors"):
        Theories(required_factors=("SU(2)",) * 4, limits={"groups": 3})


def test_harder_starting_points_are_introduced_gradually() -> None:
    """Of five levels, three are used from the start, a fourth from task 40 and all from task 80. In each phase, every
    starting point is visited before any is repeated.
    """
    limits = {"groups": 5, "largest": 3, "abelian": 1}
    domain, plain = Theories(limits=limits, curriculum_tasks=80), Theories(limits=limits)
    tasks = [domain.task("train", index) for index in range(160)]
    assert [max(map(factors, tasks[at : at + 40])) for at in (0, 40, 80)] == [3, 4, 5]
    assert min(map(factors, tasks[:40])) == 1
    kinds = len({task.id for task in tasks[40:80]})
    assert max(Counter(task.id for task in tasks[40 : 40 + kinds]).values()) == 1
    assert tasks[80:] == [plain.task("train", index) for index in range(80)]
    assert domain.example(0) == plain.example(0), "the warm start uses all levels"


def factors(task: Task) -> int:
    return len(str(task.spec["given"]).split()) - 2


def test_difficulty_increases_as_less_is_given() -> None:
    by_kind = {str(task.spec["kind"]): task.difficulty for task in (ALL.task("train", index) for index in range(5))}
    order = [by_kind[kind] or 0.0 for kind in ("model", "partial", "sector", "groups", "nothing")]
    assert order == sorted(order)


@pytest.mark.parametrize("kind", KINDS)
def test_examples_are_valid_for_their_task(kind: str) -> None:
    domain = Theories(kinds=(kind,))
    grammar, words = domain.grammar, set(domain.vocabulary())
    for task, text in itertools.islice(domain.examples(seed=3), 20):
        assert accepts(text, grammar)
        assert text.startswith(str(task.spec["given"]))
        assert set(text.split()) | {str(task.prompt)} <= words
        admitted(task, text, domain.bounds)
    assert domain.example(7, seed=3) == next(itertools.islice(domain.examples(seed=3), 7, None))


def test_examples_respect_the_length_limit() -> None:
    domain = Theories(kinds=("nothing",), max_example_words=20)
    lengths = [len(domain.example(index)[1].split()) for index in range(100)]
    assert max(lengths) == 20


def test_few_examples_succeed() -> None:
    """Successes occur only by chance: the warm-start data does not contain the skills learnt later."""
    theories = [read(ALL.example(index)[1]) for index in range(120)]
    assert sum(is_anomaly_free(theory) and not Findings(theory, 0).vector_like_groups for theory in theories) < 7


def test_the_vocabulary_has_no_duplicates() -> None:
    assert len(set(ALL.vocabulary())) == len(ALL.vocabulary()) < 300
    assert ALL.vocabulary()[:3] == ("<pad>", "<bos>", "<eos>")


def test_an_unconstrained_domain_has_no_automaton() -> None:
    assert Theories(constrained=False).automaton() is None
    assert Theories().automaton() is not None


def test_invalid_settings_are_rejected() -> None:
    for options, message in (
        ({"kinds": ["sm"]}, r"kinds = \['sm'\] .*nothing, groups"),
        ({"kinds": []}, r"kinds = \[\]"),
        ({"kinds": ["model"], "limits": {"largest": 2}}, "remove 'model' from kinds"),
        ({"kinds": ["model"], "limits": {"charge": 3}}, "'model' is outside the limits"),
        (
            {"required_factors": ["U(1)"], "limits": {"groups": 1, "abelian": 0}},
            "groups = 1, .*abelian = 0, .*largest = 6",
        ),
        ({"kinds": ["nothing", "groups"], "required_factors": ["SU(2)"] * 5}, "kind 'groups'; raise a limit"),
        ({"required_factors": "SU(2)"}, r'required_factors = \["SU\(2\)"\]$'),
        ({"kinds": "groups"}, r'kinds = "groups" must be a list'),
        ({"required_factors": ["SU2"]}, r"required_factors = \['SU2'\] .*U\(1\), SU\(2\)"),
        ({"curriculum_tasks": -1}, "curriculum_tasks = -1"),
        ({"kinds": ["partial"], "limits": {"multiplets": 4}}, "remove 'partial' from kinds"),
        ({"limits": {"multiplet": 3}}, "unknown key 'multiplet'; did you mean 'multiplets'"),
        ({"reward": {"weight": {}}}, "did you mean 'weights'"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_domain("theories", **options)
