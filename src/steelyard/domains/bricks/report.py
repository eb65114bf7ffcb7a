"""Report on a structure brick by brick: its support, its pull, and the overall result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from steelyard.domains.artifacts import Report, Row
from steelyard.domains.bricks.briefs import Brief
from steelyard.domains.bricks.connectivity import floating
from steelyard.domains.bricks.flaws import Reason
from steelyard.domains.bricks.outcome import outcome
from steelyard.domains.bricks.reward import RewardSettings, reward_parts, total_reward
from steelyard.domains.bricks.stability import Load, Stability, assess
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.domains.bricks.text import Reading

COLUMNS = ("line", "part", "position", "pull", "result")


def report_on(reading: Reading, brief: Brief | None, settings: RewardSettings) -> Report:
    """Report one row per brick, the flaws of skipped bricks, and the verdict under the brief's loads, if any."""
    structure = reading.structure
    flaws = tuple(
        f"line {flaw.line}: {flaw.reason}: {flaw.detail}"
        for flaw in reading.flaws
        if flaw.reason is not Reason.FLOATING
    )
    if not structure.bricks:
        return Report(COLUMNS, (), flaws, ("there is no brick to verify",), good=False)
    loads = () if brief is None else brief.loads(structure)
    found = assess(structure, loads, method=settings.method, symmetric=settings.symmetric)
    purpose, success = ((), True) if brief is None else _purpose(reading, brief, settings)
    return Report(
        COLUMNS,
        tuple(_rows(reading, found)),
        flaws,
        (_standing(reading, found, loads), *purpose),
        good=found.stands and success and not flaws,
    )


def _rows(reading: Reading, found: Stability) -> Iterator[Row]:
    afloat, solved = set(floating(reading.structure)), not math.isnan(found.pull)
    for index, (line, brick) in enumerate(zip(reading.lines, reading.structure.bricks, strict=True)):
        good = index not in found.failing
        pull = f"{max(found.score_B[index], 0.0):.1%}" if solved and good else "–"
        state = "floating" if index in afloat else "held" if good else "separates"
        yield Row((str(line), f"{brick.h}x{brick.w}", f"({brick.x},{brick.y},{brick.z})", pull, state), good)


def _standing(reading: Reading, found: Stability, loads: Sequence[Load]) -> str:
    bricks, afloat = len(reading.structure), len(floating(reading.structure))
    if afloat:
        return f"collapses: {afloat} of {bricks} bricks are not connected to the ground"
    if math.isnan(found.pull):
        return "connected: every brick reaches the ground; stability was not checked (method connectivity)"
    under = f" under {1000 * sum(load.kilograms for load in loads):g} g" if loads else ""
    newtons = round(max(found.pull, 0.0), 4)  # smaller values are solver noise
    pull = f"largest pull {newtons:g} N, {newtons / PUBLISHED.capacity:.1%} of a contact's capacity"
    if found.stands:
        return f"stands{under}: {pull}; every brick reaches the ground"
    lines = ", ".join(str(reading.lines[index]) for index in found.failing)
    return f"collapses{under}: {pull if math.isfinite(found.pull) else 'no equilibrium exists'}; see line {lines}"


def _purpose(reading: Reading, brief: Brief, settings: RewardSettings) -> tuple[tuple[str, ...], bool]:
    """Return the lines about purpose and reward, and whether the structure succeeds."""
    found = outcome(reading.structure, brief, method=settings.method, symmetric=settings.symmetric)
    parts = reward_parts(reading, found, settings)
    success = parts["success"] == 1.0
    purpose = f"purpose score {found.purpose:.3g}" + ("" if found.fulfilled else ", too low")
    figures = " · ".join(f"{name} {value:.3g}" for name, value in parts.items())
    return (
        f"{'success' if success else 'failed'}: {purpose} ({brief.sentence()})",
        f"reward {total_reward(parts, settings):.4g}: {figures}",
    ), success
