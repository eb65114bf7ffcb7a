"""The attacks that take only a few seconds, one test each; ``python -m benchmarks attacks`` runs all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.robustness.attack_programs import Attack
from benchmarks.robustness.attacks import attacks

QUICK = [attack for attack in attacks() if attack.quick]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("attack", QUICK, ids=lambda attack: f"{attack.target}: {attack.name}")
def test_the_attack_fails(attack: Attack, tmp_path: Path) -> None:
    assert attack.run(tmp_path) is None


def test_attack_names_are_unique() -> None:
    names = [(attack.target, attack.name) for attack in attacks()]
    assert len(set(names)) == len(names)
