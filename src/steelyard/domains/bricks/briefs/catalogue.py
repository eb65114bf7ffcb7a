"""All briefs of some kinds, split by what they ask for.

A hash of a brief's parameters alone decides its split: whatever the seed, the world or the other kinds, parameters that
are held out are never asked for in training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from steelyard.domains.base import Split
from steelyard.domains.bricks.briefs.base import Brief
from steelyard.domains.bricks.briefs.captions import Caption
from steelyard.domains.bricks.briefs.shapes import Shape
from steelyard.domains.bricks.briefs.spans import Bridge, Cantilever
from steelyard.domains.bricks.briefs.stairs import Stairs
from steelyard.domains.bricks.briefs.table import Table
from steelyard.domains.bricks.briefs.upright import Tower, Wall
from steelyard.domains.bricks.structure import World
from steelyard.errors import DataError
from steelyard.suggest import nearest_or_all

KINDS: dict[str, type[Brief]] = {
    kind.kind: kind for kind in (Tower, Wall, Stairs, Table, Bridge, Cantilever, Shape, Caption)
}
COUNTABLE = tuple(kind for kind in KINDS if kind != Caption.kind)
"""The kinds whose parameters are numbers of a grid: all but captions, which come from a file."""

SPLIT_OF_TENTH: dict[int, Split] = {0: "held_out", 1: "validation"}
"""A tenth of the parameters each; the rest is for training."""


def brief_of(spec: Mapping[str, Any]) -> Brief:
    """The brief of such a spec, which may have been to JSON and back."""
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise DataError(f"no brief is of the kind {kind!r}; {nearest_or_all(str(kind), KINDS)}")
    given = {name: value for name, value in spec.items() if name != "kind"}
    names = [field.name for field in fields(KINDS[kind])]
    if set(given) != set(names):
        raise DataError(f"brief {kind}: parameters {sorted(given)}; it has {names}")
    try:
        return KINDS[kind](**given)
    except (TypeError, ValueError) as error:
        raise DataError(f"{error}") from None


def split_of(brief: Brief) -> Split:
    """The split that a brief belongs to, by what it asks for alone."""
    digest = hashlib.blake2b(brief.split_key.encode(), digest_size=8).digest()
    return SPLIT_OF_TENTH.get(int.from_bytes(digest, "big") % 10, "train")


def catalogue(
    kinds: Sequence[str],
    world: World,
    *,
    easiest: float = 0.0,
    hardest: float = float("inf"),
    captions: Iterable[Caption] = (),
) -> dict[Split, dict[str, list[Brief]]]:
    """The briefs of each split by kind that fit into the world and are between two difficulties; captions, which
    somebody chose, may be of any. Kinds of which nothing is left are left out.
    """
    found: dict[Split, dict[str, list[Brief]]] = {"train": {}, "validation": {}, "held_out": {}}
    for kind in kinds:
        for brief in captions if kind == Caption.kind else KINDS[kind].grid():
            fits = all(need <= size for need, size in zip(brief.extent, world.size, strict=True))
            if fits and (kind == Caption.kind or easiest <= brief.difficulty <= hardest):
                found[split_of(brief)].setdefault(kind, []).append(brief)
    return found


def in_turn(by_kind: Mapping[str, Sequence[Brief]]) -> list[Brief]:
    """All briefs, one of each kind in turn as long as there are any: the first n are balanced for every n."""
    longest = max((len(briefs) for briefs in by_kind.values()), default=0)
    return [briefs[place] for place in range(longest) for briefs in by_kind.values() if place < len(briefs)]
