"""Published outcomes of eight brick structures hold, and the largest pull is right by every other road we know.

Random heaps, most of them loaded: HiGHS against Gurobi on the same programs, our program against another formulation
solved by SciPy, moved and scaled structures, all images under turns and mirrors, and structures with floating bricks.
Differences of the largest pull are in capacities of a contact point.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from rich.progress import Progress

from benchmarks.bricks import brick_reference
from benchmarks.bricks.brick_cases import column, golden
from benchmarks.bricks.random_structures import heap, loads
from benchmarks.bricks.weighted_program import assess_weighted
from benchmarks.framework.result import Cell, Figure, Result
from steelyard.domains.bricks import STANDARD, Library, Physics, Structure, World, assess, floating, largest_pull
from steelyard.domains.bricks.images import Loaded, images, moved
from steelyard.domains.bricks.stability.physics import PUBLISHED
from steelyard.domains.bricks.stability.symmetry import largest_pull_symmetric

WORLDS = (World((40, 40, 20)), World((14, 3, 20)), World((3, 14, 20)), World((6, 6, 20)))
"""In the narrow ones bricks have many neighbours that they press against."""
GUROBI, SCIPY, MOVED, IMAGES, FLOATING = 500, 1000, 300, 200, 300
Row = dict[str, Cell]


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: a tenth of the random structures."""
    share = 10 if quick else 1
    outcomes = published()
    turned = list(cases("images", IMAGES // share, (2, 14), progress))
    checks = [
        against_gurobi(cases("gurobi", GUROBI // share, (2, 45), progress)),
        against_scipy(cases("scipy", SCIPY // share, (2, 25), progress)),
        after_moving_and_scaling(cases("moved and scaled", MOVED // share, (2, 25), progress)),
        *under_images(turned),
        with_floating_bricks(cases("floating", FLOATING // share, (2, 25), progress, afloat=0.2)),
    ]
    right = sum(row["stands"] == row["published"] for row in outcomes)
    gurobi, scipy, kept, _, symmetric, afloat = checks
    figures = (
        Figure("published outcomes", right, ">=", 8),
        Figure("misjudged column stands", float(largest_pull(column()) < PUBLISHED.capacity), ">=", 1),
        Figure("other class with Gurobi", _number(gurobi, "class changed"), "<=", 0),
        Figure("difference to Gurobi", _number(gurobi, "largest difference"), "<=", 1e-6),
        Figure("difference to SciPy", _number(scipy, "largest difference"), "<=", 1e-6),
        Figure("other class when moved or scaled", _number(kept, "class changed"), "<=", 0),
        Figure("other class of an image, symmetric", _number(symmetric, "class changed"), "<=", 0),
        Figure("stable with a floating brick", _number(afloat, "class changed"), "<=", 0),
    )
    return Result("bricks-golden", figures, [*outcomes, *checks], note(outcomes, turned))


def cases(
    name: str, count: int, sizes: tuple[int, int], progress: Progress, *, afloat: float = 0.0
) -> Iterator[Loaded]:
    """Random heaps with up to three loads, always the same ones."""
    for number in progress.track(range(count), description=name):
        rng = random.Random(f"{name} {number}")
        structure = heap(rng.randint(*sizes), rng, WORLDS[number % len(WORLDS)], float_=afloat)
        yield structure, tuple(loads(structure, rng))


def published() -> list[Row]:
    rows: list[Row] = []
    for case in golden():
        pull = largest_pull(case.structure) / PUBLISHED.capacity
        mirror = [largest_pull(*image) / PUBLISHED.capacity for image in images(case.structure)]
        weighted = assess_weighted(case.structure)
        rows.append(
            {
                "what": case.name,
                "published": _word(case.stands),
                "stands": _word(assess(case.structure).stands),
                "weighted form": _word(weighted.stands),
                "structures": 1,
                "largest pull": pull,
                "least of its images": min(mirror),
                "class changed": "",
                "largest difference": "",
            }
        )
    return rows


def against_gurobi(found: Iterator[Loaded]) -> Row:
    return compare("HiGHS and Gurobi", found, lambda case: [largest_pull(*case, backend="gurobi")])


def against_scipy(found: Iterator[Loaded]) -> Row:
    return compare("ours and SciPy's", found, lambda case: [brick_reference.largest_pull(*case, PUBLISHED)])


def after_moving_and_scaling(found: Iterator[Loaded]) -> Row:
    """Masses, loads and capacity times 3.7."""
    factor = 3.7
    library = Library(tuple(replace(part, mass=part.mass * factor) for part in STANDARD.parts))
    physics = Physics(capacity=PUBLISHED.capacity * factor)

    def others(case: Loaded) -> list[float]:
        structure, weights = case
        scaled = Structure(structure.bricks, replace(structure.world, library=library))
        more = [load._replace(kilograms=load.kilograms * factor) for load in weights]
        there = moved(structure, 11, -7, weights)
        return [largest_pull(*there), largest_pull(scaled, more, physics=physics) / factor]

    return compare("moved, scaled", found, others)


def under_images(found: Sequence[Loaded]) -> tuple[Row, Row]:
    """All eight images: by the published contact points, and with the symmetric option, where nothing may differ."""
    plain = compare("images, published points", found, lambda case: [largest_pull(*i) for i in images(*case)])
    symmetric = compare(
        "images, symmetric",
        found,
        lambda case: [largest_pull_symmetric(*image) for image in images(*case)],
        base=lambda case: largest_pull_symmetric(*case),
    )
    return plain, symmetric


def with_floating_bricks(found: Iterator[Loaded]) -> Row:
    """Class changed: how many stand although a brick does not reach the ground, or are said to float and do not."""
    afloat, wrong = 0, 0
    for structure, weights in found:
        verdict, loose = assess(structure, weights), floating(structure)
        afloat += bool(loose)
        wrong += bool(loose) and (verdict.stands or not set(loose) <= set(verdict.failing))
    return row("floating", afloat, 0, afloat, wrong, 0.0)


def compare(
    what: str,
    found: Iterable[Loaded],
    others: Callable[[Loaded], list[float]],
    base: Callable[[Loaded], float] = lambda case: largest_pull(*case),
) -> Row:
    """How many change class, and by how much the largest pull differs at most."""
    count = stand = changed = 0
    worst = 0.0
    for case in found:
        pull = base(case)
        pulls = others(case)
        count += 1
        stand += pull < PUBLISHED.capacity
        changed += any((other < PUBLISHED.capacity) is not (pull < PUBLISHED.capacity) for other in pulls)
        worst = max(worst, *(_distance(pull, other) for other in pulls))
    return row(what, count, stand, count - stand, changed, worst)


def row(what: str, count: int, stand: int, fall: int, changed: int, worst: float) -> Row:
    return {
        "what": what,
        "published": "",
        "stands": f"{stand} stand, {fall} fall",
        "weighted form": "",
        "structures": count,
        "largest pull": "",
        "least of its images": "",
        "class changed": changed,
        "largest difference": worst,
    }


def note(outcomes: Sequence[Row], found: Sequence[Loaded]) -> str:
    """What the published contact points do to images, and what the weighted form does to a column."""
    ratios = [asymmetry(case) for case in found]
    differ = [ratio for ratio in ratios if ratio > 1 + 1e-6]
    flipped = [row["what"] for row in outcomes if row["stands"] == "falls" and _number(row, "least of its images") < 1]
    pull, weighted = largest_pull(column()) / PUBLISHED.capacity, _word(assess_weighted(column()).stands)
    return (
        f"The published contact points under wide bricks are not symmetric: in {len(differ)} of {len(ratios)} random "
        f"structures turned and mirrored images differ in the largest pull, by a factor of "
        f"{statistics.median(differ):.2f} in the median and {max(differ):.2f} at most, and an image stands of what "
        f"falls for {' and '.join(map(str, flipped))}. The column of eight 1x1 under the end of a 1x4 stands at "
        f"{pull:.1%} of the capacity; the weighted form says that it {weighted}."
    )


def asymmetry(case: Loaded) -> float:
    """The largest t of all images over the smallest; 1 where nothing pulls."""
    pulls = [largest_pull(*image) for image in images(*case)]
    return max(pulls) / min(pulls) if min(pulls) > 1e-9 else 1.0


def _distance(one: float, other: float) -> float:
    if math.isinf(one) or math.isinf(other):
        return 0.0 if one == other else math.inf
    return abs(one - other) / PUBLISHED.capacity


def _number(row: Row, column: str) -> float:
    return float(row[column])


def _word(stands: bool) -> str:
    return "stands" if stands else "falls"
