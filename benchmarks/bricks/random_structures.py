"""Random brick structures with random loads, and texts with small errors."""

from __future__ import annotations

import random

from steelyard.domains.bricks import Brick, Load, Structure, World, write
from steelyard.domains.bricks.structure import Site

PLAIN = World()
PIECES = ("x", " ", "(", ")", ",", "\n", "0", "1", "2", "4", "9", "20", "-1", "3x3", "1e3", "٣", "\r", "\x00", "😀")


def random_structure(
    bricks: int, rng: random.Random, world: World = PLAIN, *, hang: float = 0.2, float_: float = 0.0
) -> Structure:
    """Add bricks one by one: on a random earlier brick, under it (``hang``), or anywhere (``float_``)."""
    site = Site(world)
    while len(site.bricks) < bricks:
        brick = _anywhere(rng, world) if rng.random() < float_ else _beside(rng, site, hang)
        if site.problem(brick) is None:
            site.add(brick)
    return site.structure()


def loads(structure: Structure, rng: random.Random, most: int = 3, heaviest: float = 2.0) -> list[Load]:
    """Return up to ``most`` loads on cells of random bricks, log-uniform in weight."""
    found: list[Load] = []
    for _ in range(rng.randint(0, most)):
        h, w, x, y, z = rng.choice(structure.bricks)
        kilograms = heaviest * 10 ** rng.uniform(-2, 0)
        found.append(Load(x + rng.randrange(h), y + rng.randrange(w), z, kilograms))
    return found


def mutated_text(rng: random.Random, sources: list[str]) -> str:
    """Return a structure's text with a few random edits, or random characters."""
    if rng.random() < 0.1:
        return "".join(chr(rng.choice((rng.randrange(128), rng.randrange(0xD800)))) for _ in range(rng.randrange(80)))
    text = rng.choice(sources)
    for _ in range(rng.randrange(4)):
        text = rng.choice((_insert, _cut, _copy, _replace, _digit, _digit, _line, _line))(rng, text)
    return text


def texts(rng: random.Random, count: int) -> list[str]:
    """Return the texts of random structures to mutate."""
    return [write(random_structure(rng.randint(1, 12), rng, float_=0.02)) for _ in range(count)]


def _beside(rng: random.Random, site: Site, hang: float) -> Brick:
    h, w = rng.choice(site.world.library.dimensions)
    x_size, y_size, _ = site.world.size
    if not site.bricks or rng.random() < 0.1:
        across, along = min(4, x_size // 2), min(4, y_size // 2)
        return Brick(h, w, x_size // 2 + rng.randint(-across, across), y_size // 2 + rng.randint(-along, along), 0)
    on = rng.choice(site.bricks)
    z = on.z - 1 if rng.random() < hang else on.z + 1
    return Brick(h, w, on.x + rng.randint(1 - h, on.h - 1), on.y + rng.randint(1 - w, on.w - 1), z)


def _anywhere(rng: random.Random, world: World) -> Brick:
    return Brick(*rng.choice(world.library.dimensions), *(rng.randrange(size) for size in world.size))


def _insert(rng: random.Random, text: str) -> str:
    place = rng.randint(0, len(text))
    return text[:place] + rng.choice(PIECES) + text[place:]


def _cut(rng: random.Random, text: str) -> str:
    place = rng.randint(0, len(text))
    return text[:place] + text[place + rng.randint(1, 8) :]


def _copy(rng: random.Random, text: str) -> str:
    start, place = rng.randint(0, len(text)), rng.randint(0, len(text))
    return text[:place] + text[start : start + rng.randint(1, 30)] + text[place:]


def _replace(rng: random.Random, text: str) -> str:
    place = rng.randint(0, len(text))
    return text[:place] + rng.choice(PIECES) + text[place + 1 :]


def _digit(rng: random.Random, text: str) -> str:
    """Change a digit but keep the format."""
    digits = [place for place, character in enumerate(text) if character.isdigit()]
    if not digits:
        return text
    place = rng.choice(digits)
    return text[:place] + rng.choice("012468") + text[place + 1 :]


def _line(rng: random.Random, text: str) -> str:
    """Remove a line, or repeat it somewhere else."""
    lines = text.split("\n")
    line = lines.pop(rng.randrange(len(lines)))
    if rng.random() < 0.5:
        lines.append(line)
        lines.insert(rng.randint(0, len(lines)), line)
    return "\n".join(lines)
