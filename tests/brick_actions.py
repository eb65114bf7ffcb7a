"""Helpers for action-space tests: all texts that add one brick, and their expected results by brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from steelyard.constraints.automaton import Automaton, AutomatonConstraint, WordConstraint
from steelyard.constraints.trie import CharacterConstraint
from steelyard.domains.bricks import Brick, Library, Part, Structure, World, is_connected
from steelyard.domains.bricks.actions import Absolute, ActionSpace, Lines, Relative, TwoStep
from steelyard.domains.bricks.actions.lines import LineState
from steelyard.domains.bricks.structure import Site
from tests.automata import TASK

FEW = Library((Part(1, 2, 0.8e-3), Part(1, 1, 0.4e-3), Part(2, 2, 1.2e-3), Part(1, 4, 1.6e-3)))
LONGER = (
    "2x",
    "x1 (",
    " (",
    ",0",
    ",0,",
    "10",
    "11,",
    ")\n",
    "0)\n1",
    "\n1x1 (0",
    "(1",
    "1x1 (0,0,0)\n",
    "0,0)",
    "\n\n",
)
TOKENS = (*"0123456789x (,)\n", *LONGER)
"""Single characters, which can all occur, and longer tokens, most of which can occur."""


def placeable_bricks(bricks: Sequence[Brick], world: World, *, may_float: bool) -> set[Brick]:
    """Find every brick that can be placed next, by trying all of them and some invalid ones."""
    site = Site(world)
    for brick in bricks:
        site.add(brick)
    sides = range(1, 6)
    corners = (range(-1, size + 1) for size in world.size)
    free = (brick for one in product(sides, sides, *corners) if site.problem(brick := Brick(*one)) is None)
    return {brick for brick in free if may_float or is_connected(Structure((*bricks, brick), world))}


def random_bricks(world: World, max_bricks: int, rng: random.Random, *, may_float: bool) -> tuple[Brick, ...]:
    """Place a random number of bricks, or fewer if no more fit."""
    bricks: list[Brick] = []
    for _ in range(rng.randint(0, max_bricks)):
        if found := sorted(placeable_bricks(bricks, world, may_float=may_float)):
            bricks.append(rng.choice(found))
    return tuple(bricks)


def texts_adding(space: ActionSpace, bricks: Sequence[Brick], brick: Brick) -> Iterator[str]:
    """Yield all texts that add this brick, by the definition of the action space."""
    h, w, x, y, z = brick
    if isinstance(space, Lines):
        yield f"{h}x{w} ({x},{y},{z})\n"
    elif isinstance(space, Absolute):
        yield f"x{x} y{y} z{z} {h}x{w}"
    elif isinstance(space, Relative):
        yield f"z{z} {x - bricks[0].x:+d}{y - bricks[0].y:+d} {h}x{w}" if bricks else f"z{z} {x},{y} {h}x{w}"
    elif isinstance(space, TwoStep):
        if z == 0:
            yield f"ground {x},{y} {h}x{w}" if space.joint else f"ground x{x} y{y} {h}x{w}"
        for back in range(1, len(bricks) + 1):
            away = [here - there for here, there in zip((x, y, z), bricks[-back][2:], strict=True)]
            signed = [f"{d:+d}" for d in away]
            if all(abs(d) <= most for d, most in zip(away, space.reach, strict=True)):
                by_axis = " ".join(axis + d for axis, d in zip("xyz", signed, strict=True))
                yield f"back{back} {''.join(signed) if space.joint else by_axis} {h}x{w}"


def texts_adding_one_brick(automaton: Automaton[Any], bricks: tuple[Brick, ...]) -> dict[str, Brick]:
    """Return all texts with which the automaton adds one brick; assert that there is no dead end."""
    start: Any = automaton.start(TASK)._replace(bricks=bricks)
    separator = "" if isinstance(start, LineState) else " "
    found: dict[str, Brick] = {}

    def explore(state: Any, symbols: tuple[str, ...]) -> None:
        if len(state.bricks) > len(bricks) and automaton.may_end(state):
            found[separator.join(symbols)] = state.bricks[-1]
            return
        following = automaton.moves(state)
        assert following or not symbols, f"a dead end after {symbols}"
        for symbol, after in following.items():
            explore(after, (*symbols, symbol))

    explore(start, ())
    return found


def constraint_for(space: ActionSpace) -> tuple[AutomatonConstraint[Any], list[str], str]:
    """Return the constraint over tokens, the text of each token, and the separator between tokens."""
    words = space.vocabulary()
    if words is not None:
        return WordConstraint(space.automaton(), ("<end>", *words), 0), ["<end>", *words], " "
    tokens = [None, *(token.encode() for token in TOKENS)]
    return CharacterConstraint(space.automaton(), tokens, 0), ["<end>", *TOKENS], ""
