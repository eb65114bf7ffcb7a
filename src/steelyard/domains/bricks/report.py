"""A structure brick by brick: which are held, how hard each pulls, and what it comes to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from steelyard.domains.artifacts import Report, Row
from steelyard.domains.bricks.briefs import Brief
from steelyard.domains.bricks.connectivity import floating
from steelyard.domains.bricks.flaws import Reason
from steelyard.domains.bricks.outcome import outcome
from steelyard.domains.bricks.reward import Reward, parts_of, total
from steelyard.domains.bricks.stability import Load, Stability, assess
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.domains.bricks.text import Reading

COLUMNS = ("line", "part", "position", "pull", "")


def report_on(reading: Reading, brief: Brief | None, reward: Reward) -> Report:
    """A row a brick, what was wrong with the others, and the verdict under the loads of the brief if there is one."""
    structure = reading.structure
    flaws = tuple(
        f"line {flaw.line}: {flaw.reason}: {flaw.what}" for flaw in reading.flaws if flaw.reason is not Reason.FLOATING
    )
    if not structure.bricks:
        return Report(COLUMNS, (), flaws, ("there is no brick to judge",), good=False)
    loads = () if brief is None else brief.loads(structure)
    found = assess(structure, loads, method=reward.method, symmetric=reward.symmetric)
    purpose, success = ((), True) if brief is None else _purpose(reading, brief, reward)
    return Report(
        COLUMNS,
        tuple(_rows(reading, found)),
        flaws,
        (_standing(reading, found, loads), *purpose),
        good=found.stands and success and not flaws,
    )


def _rows(reading: Reading, found: Stability) -> Iterator[Row]:
    afloat, asked = set(floating(reading.structure)), not math.isnan(found.pull)
    for place, (line, brick) in enumerate(zip(reading.lines, reading.structure.bricks, strict=True)):
        good = place not in found.failing
        pull = f"{max(found.score_B[place], 0.0):.1%}" if asked and good else "–"
        state = "floating" if place in afloat else "held" if good else "lets go"
        yield Row((str(line), f"{brick.h}x{brick.w}", f"({brick.x},{brick.y},{brick.z})", pull, state), good)


def _standing(reading: Reading, found: Stability, loads: Sequence[Load]) -> str:
    bricks, afloat = len(reading.structure), len(floating(reading.structure))
    if afloat:
        return f"collapses: {afloat} of {bricks} bricks have no way to the ground"
    if math.isnan(found.pull):
        return "hangs together: every brick reaches the ground; whether it stands was not asked (method connectivity)"
    under = f" under {1000 * sum(load.kilograms for load in loads):g} g" if loads else ""
    newtons = round(max(found.pull, 0.0), 4)  # below that it is the solver's noise
    pull = f"largest pull {newtons:g} N, {newtons / PUBLISHED.capacity:.1%} of what a contact holds"
    if found.stands:
        return f"stands{under}: {pull}; every brick reaches the ground"
    lines = ", ".join(str(reading.lines[place]) for place in found.failing)
    return f"collapses{under}: {pull if math.isfinite(found.pull) else 'no forces hold it'}; see line {lines}"


def _purpose(reading: Reading, brief: Brief, reward: Reward) -> tuple[tuple[str, ...], bool]:
    """What the judge would say of it, and whether it succeeds."""
    found = outcome(reading.structure, brief, method=reward.method, symmetric=reward.symmetric)
    parts = parts_of(reading, found, reward)
    success = parts["success"] == 1.0
    share = f"{found.purpose:.1%}" + ("" if found.fulfilled else ", which is not enough")
    figures = " · ".join(f"{name} {value:.3g}" for name, value in parts.items())
    return (
        f"{'success' if success else 'no success'}: its purpose is served by {share} ({brief.sentence()})",
        f"reward {total(parts, reward):.4g}: {figures}",
    ), success
