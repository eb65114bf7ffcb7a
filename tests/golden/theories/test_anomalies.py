"""Anomalies of known models, and sums computed by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from benchmarks.theories.theory_cases import Case, cases
from steelyard.domains.theories.model.known_models import models, standard_model
from steelyard.domains.theories.model.notation import left, right, theory
from steelyard.domains.theories.physics.anomalies import anomaly_conditions, is_anomaly_free
from steelyard.domains.theories.physics.invariance import flaws


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_ground_truth(case: Case) -> None:
    broken = {name: anomaly.total for name, anomaly in anomaly_conditions(case.theory).items() if not anomaly.cancels}
    assert broken == case.broken
    assert is_anomaly_free(case.theory) is (not case.broken)
    assert flaws(case.theory) == []


def test_each_field_of_the_standard_model() -> None:
    found = anomaly_conditions(standard_model())
    assert list(found) == ["c³", "L²·Y", "c²·Y", "gravity²·Y", "Y³", "Witten L"]
    assert found["c³"].by_field == {"Q": 6, "u": -3, "d": -3}
    assert found["L²·Y"].by_field == {"L": Fraction(-3, 4), "Q": Fraction(3, 4)}
    assert found["c²·Y"].by_field == {"Q": Fraction(1, 2), "u": -1, "d": Fraction(1, 2)}
    assert found["gravity²·Y"].by_field == {"L": -3, "e": 3, "Q": 3, "u": -6, "d": 3}
    assert found["Y³"].by_field == {
        "L": Fraction(-3, 4),
        "e": 3,
        "Q": Fraction(1, 12),
        "u": Fraction(-8, 3),
        "d": Fraction(1, 3),
    }
    assert found["Witten L"].by_field == {"L": 3, "Q": 9}


def test_all_mixed_conditions_of_two_charges_exist() -> None:
    assert list(anomaly_conditions(theory("X Z G:4", ()))) == [
        "G³",
        "G²·X",
        "G²·Z",
        "gravity²·X",
        "gravity²·Z",
        "X³",
        "X²·Z",
        "X·Z²",
        "Z³",
    ]


@pytest.mark.parametrize(("dimension", "odd"), [(1, 0), (2, 1), (3, 0), (4, 0), (5, 0), (6, 1), (7, 0), (10, 1)])
def test_witten_counts_dimensions_two_modulo_four(dimension: int, odd: int) -> None:
    assert anomaly_conditions(theory("L:2", (left("D", str(dimension)),)))["Witten L"].total == odd


def test_witten_counts_generations_and_other_dimensions() -> None:
    assert anomaly_conditions(theory("L:2 c:3", (left("D", "2 1", 3),)))["Witten L"].total == 1
    assert anomaly_conditions(theory("L:2 c:3", (left("D", "2 1", 2),)))["Witten L"].total == 0
    assert anomaly_conditions(theory("L:2 c:3", (left("D", "2 3"), right("E", "2 1"))))["Witten L"].total == 0


def test_a_sextet_counts_as_seven_triplets() -> None:
    free = theory("c:3", (left("S", "6"), right("q", "3", 7)))
    assert is_anomaly_free(free)
    assert anomaly_conditions(free)["c³"].by_field == {"S": 7, "q": -7}


def test_the_number_of_known_models() -> None:
    assert len(models()) == 19
