"""The catalogue of briefs, divided into splits.

The split of a brief depends only on a hash of its parameters. Held-out parameters therefore never occur in training,
regardless of the seed, the world or the selected kinds.
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
GRID_KINDS = tuple(kind for kind in KINDS if kind != Caption.kind)
"""Kinds whose parameters form a grid: all except captions, which come from a file."""

SPLIT_OF_TENTH: dict[int, Split] = {0: "held_out", 1: "validation"}
"""Each of these splits gets one tenth of the parameters; the rest are used for training."""


def brief_of(spec: Mapping[str, Any]) -> Brief:
    """Build a brief from its spec, which may have been loaded from JSON."""
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise DataError(f"brief: kind = {kind!r} does not exist; {nearest_or_all(str(kind), KINDS)}")
    given = {name: value for name, value in spec.items() if name != "kind"}
    names = [field.name for field in fields(KINDS[kind])]
    if set(given) != set(names):
        raise DataError(f"brief {kind}: parameters {sorted(given)} must be exactly {names}")
    try:
        return KINDS[kind](**given)
    except (TypeError, ValueError) as error:
        raise DataError(f"{error}") from None


def split_of(brief: Brief) -> Split:
    """Return the split of a brief, which depends only on its ``split_key``."""
    digest = hashlib.blake2b(brief.split_key.encode(), digest_size=8).digest()
    return SPLIT_OF_TENTH.get(int.from_bytes(digest, "big") % 10, "train")


def catalogue(
    kinds: Sequence[str],
    world: World,
    *,
    min_difficulty: float = 0.0,
    max_difficulty: float = float("inf"),
    captions: Iterable[Caption] = (),
) -> dict[Split, dict[str, list[Brief]]]:
    """Return the briefs of each split by kind, limited to those that fit in the world and the difficulty range.

    The difficulty range does not apply to captions. Kinds without any briefs are omitted.
    """
    found: dict[Split, dict[str, list[Brief]]] = {"train": {}, "validation": {}, "held_out": {}}
    for kind in kinds:
        for brief in captions if kind == Caption.kind else KINDS[kind].grid():
            fits = all(need <= size for need, size in zip(brief.extent, world.size, strict=True))
            if fits and (kind == Caption.kind or min_difficulty <= brief.difficulty <= max_difficulty):
                found[split_of(brief)].setdefault(kind, []).append(brief)
    return found


def interleaved(by_kind: Mapping[str, Sequence[Brief]]) -> list[Brief]:
    """Interleave the kinds so that the first n briefs are balanced for every n."""
    longest = max((len(briefs) for briefs in by_kind.values()), default=0)
    return [briefs[index] for index in range(longest) for briefs in by_kind.values() if index < len(briefs)]
