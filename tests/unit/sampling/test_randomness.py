"""Keyed uniforms: the formula in integer arithmetic, pinned values, range and independence."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.sampling.randomness import stream, uniform

WORD = 2**64
COUNT = 200_000
PINNED = [0.928462539585957, 0.20862775819535506, 0.7853853917678473]


def mix(word: int) -> int:
    """The finaliser of SplitMix64 with Python integers."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def uniform_of(seed: int, *fields: int) -> float:
    word = mix((seed % WORD + 0x9E3779B97F4A7C15) % WORD)
    for field in fields:
        word = mix(((word ^ field % WORD) + 0x9E3779B97F4A7C15) % WORD)
    return (word >> 11) * 2.0**-53


@pytest.mark.parametrize(
    "key", [(0, 0, 0, 0, 0, 0), (1, 2, 3, 4, 5, 6), (2**63 - 1, 0, 1, 0, 1, 0), (7, -1, 0, 0, 3, 511)]
)
def test_the_formula(key: tuple[int, ...]) -> None:
    seed, *fields, position = key
    assert uniform(stream(seed, *fields), position) == uniform_of(*key)


def test_pinned_values() -> None:
    """These numbers must never change, so that old runs can resume."""
    found = [
        float(uniform(stream(seed, step, slot, 0, 2), 9)) for seed, step, slot in [(0, 0, 0), (0, 0, 1), (42, 7, 3)]
    ]
    assert found == PINNED


def test_broadcast_fields_equal_single_fields() -> None:
    words = stream(5, np.array([0, 1, 2])[:, None], np.array([0, 1]))
    assert words.shape == (3, 2)
    assert words[2, 1] == stream(5, 2, 1)


def test_the_order_of_fields_matters() -> None:
    assert uniform(stream(0, 1, 2), 3) != uniform(stream(0, 2, 1), 3)


def test_the_range_is_half_open() -> None:
    values = uniform(np.arange(COUNT, dtype=np.uint64), 0)
    assert values.min() >= 0.0
    assert values.max() < 1.0
    assert (2**64 - 1 >> 11) * 2.0**-53 < 1.0, "even the largest word gives less than 1"


AXES = {
    "seed": lambda n: np.array([stream(seed, 0, 0, 0, 0) for seed in range(n // 50)]),
    "step": lambda n: stream(3, np.arange(n), 0, 0, 0),
    "slot": lambda n: stream(3, 0, np.arange(n), 0, 0),
    "attempt": lambda n: stream(3, 0, 0, np.arange(n), 0),
    "index": lambda n: stream(3, 0, 0, 0, np.arange(n)),
    "position": lambda n: np.broadcast_to(stream(3, 0, 0, 0, 0), n),
}


@pytest.mark.parametrize("axis", AXES)
def test_neighbours_are_independent_and_flat(axis: str) -> None:
    """Check the mean and correlation of neighbouring keys, and run a chi-squared test over a 16 x 16 grid of pairs."""
    words = AXES[axis](COUNT)
    position = np.arange(len(words)) if axis == "position" else 0
    value_n = uniform(words, position)
    first, second = value_n[:-1], value_n[1:]
    n = len(first)
    assert abs(value_n.mean() - 0.5) < 4 / np.sqrt(12 * n)
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(n)
    counts = np.histogram2d(first, second, bins=16, range=[[0, 1], [0, 1]])[0]
    expected = n / 256
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - 255) < 4 * np.sqrt(2 * 255)


def test_a_sample_and_its_neighbour_at_the_same_positions_are_independent() -> None:
    positions = np.arange(COUNT)
    here, beside = (uniform(stream(0, 5, 1, 0, index), positions) for index in (0, 1))
    assert abs(np.corrcoef(here, beside)[0, 1]) < 4 / np.sqrt(COUNT)
