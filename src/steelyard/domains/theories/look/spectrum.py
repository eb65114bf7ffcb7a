"""The spectrum as a picture: mass on a logarithmic axis, a column for every charge."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from html import escape

from steelyard.domains.theories.look import words
from steelyard.domains.theories.look.sheet import SUPERSCRIPT, mass_text, representation_names
from steelyard.domains.theories.masses import Spectrum, State

WIDE, HIGH = 92.0, 420.0
LEFT, TOP, BOTTOM = 64.0, 44.0, 66.0
BAR = 58.0
APART = 11.0
"""Labels nearer than this are moved apart."""
COLOURS = {"fermion": "#1f6f8b", "scalar": "#8a5a00", "exotic": "#b3261e"}
MASSLESS = "massless"


def svg(found: Spectrum, *, title: str = "", limit: float = 99.0) -> str:
    """A standalone picture; a dashed line stands at ``limit`` GeV."""
    return _picture(found, title, limit)[0]


def side_by_side(found: Sequence[tuple[str, Spectrum]], *, scale: float = 1.0, title: str = "") -> str:
    """Several spectra with their titles in one picture, four to a row."""
    pictures = [_picture(own, name, 99.0) for name, own in found]
    wide = max(width for _, width, _ in pictures)
    high = max(height for _, _, height in pictures)
    top = 30.0 if title else 0.0
    columns = min(len(pictures), 4)
    rows = math.ceil(len(pictures) / columns)
    width, height = columns * wide, top + rows * high
    size = f'width="{scale * width:g}" height="{scale * height:g}" viewBox="0 0 {width:g} {height:g}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">']
    parts += [f'<text x="16" y="20" fill="#1c1c1c">{escape(title)}</text>'] if title else []
    for place, (picture, _, _) in enumerate(pictures):
        row, column = divmod(place, columns)
        parts.append(picture.replace("<svg ", f'<svg x="{column * wide:g}" y="{top + row * high:g}" ', 1))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _picture(found: Spectrum, title: str, limit: float) -> tuple[str, float, float]:
    """A picture with its width and height."""
    sectors = sorted({_sector(state) for state in found.states}, key=lambda s: (s[1], -abs(s[0]), s[0]))
    axis = _Axis([abs(state.mass) for state in found.states if state.mass] + [limit])
    width = LEFT + WIDE * max(len(sectors), 2) + 20
    height = TOP + HIGH + BOTTOM
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="{LEFT:g}" y="20" font-size="14" fill="#1c1c1c">{escape(title)}</text>',
        *axis.lines(width - 20),
        *_line(LEFT, width - 20, axis.place(limit), "#b3261e", dashed=True),
        _text(width - 22, axis.place(limit) - 4, f"{limit:g} GeV", "end", "#b3261e"),
    ]
    for column, sector in enumerate(sectors):
        middle = LEFT + WIDE * (column + 0.5)
        own = sorted((state for state in found.states if _sector(state) == sector), key=lambda state: state.mass)
        parts += _states(own, middle, axis)
        charge, colour = sector
        parts.append(_text(middle, TOP + HIGH + 34, f"Q = {words.number(charge)}", "middle", "#1c1c1c"))
        parts.append(_text(middle, TOP + HIGH + 50, f"colour {colour}", "middle", "#5f5f5f"))
    return "\n".join([*parts, "</svg>"]) + "\n", width, height


class _Axis:
    """Where a mass stands: powers of ten from bottom to top, what has no mass below them."""

    def __init__(self, masses: Sequence[float]) -> None:
        self.low = math.floor(math.log10(min(masses)))
        self.high = max(math.ceil(math.log10(max(masses)) + 0.1), self.low + 1)

    def place(self, mass: float) -> float:
        if mass == 0:
            return TOP + HIGH
        return TOP + (HIGH - 40) * (self.high - math.log10(abs(mass))) / (self.high - self.low)

    def lines(self, right: float) -> Iterator[str]:
        step = max(1, math.ceil((self.high - self.low) / 12))
        for exponent in range(self.low, self.high + 1, step):
            y = self.place(10.0**exponent)
            yield from _line(LEFT, right, y, "#e2e2e2")
            yield _text(LEFT - 6, y + 4, f"10{str(exponent).translate(SUPERSCRIPT)}", "end", "#5f5f5f")
        yield _text(LEFT - 6, TOP + HIGH + 4, MASSLESS, "end", "#5f5f5f")
        yield _text(LEFT - 6, TOP - 12, "GeV", "end", "#5f5f5f")


def _sector(state: State) -> tuple[Fraction, int]:
    return state.charge, state.colour


def _states(own: Sequence[State], middle: float, axis: _Axis) -> Iterator[str]:
    taken = math.inf
    for state in own:
        y = axis.place(state.mass)
        colour = COLOURS["exotic" if state.exotic else state.kind]
        dash = ' stroke-dasharray="3 2"' if state.mass < 0 else ""
        yield (
            f'<line x1="{middle - BAR / 2:.1f}" x2="{middle + BAR / 2:.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{colour}" stroke-width="2.5"{dash}><title>{escape(_told(state))}</title></line>'
        )
        label = min(y - 4, taken - APART)
        taken = label
        times = f"{state.count}× " if state.count > 1 else ""
        yield _text(middle, label, times + " ".join(state.fields), "middle", colour)


def _told(state: State) -> str:
    groups = " ".join(irrep.name for irrep in representation_names(state))
    return f"{words.state_text(state)}, {mass_text(abs(state.mass))}, {state.count}×, under SU(k): {groups or '1'}"


def _line(x1: float, x2: float, y: float, colour: str, *, dashed: bool = False) -> Iterator[str]:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    yield f'<line x1="{x1:g}" x2="{x2:g}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"{dash}/>'


def _text(x: float, y: float, said: str, anchor: str, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(said)}</text>'
