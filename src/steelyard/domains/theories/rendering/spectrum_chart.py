"""Draw a mass spectrum as SVG: mass on a logarithmic axis, one column per charge and colour."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from fractions import Fraction
from html import escape

from steelyard.domains.theories.physics.mass_spectrum import Spectrum, State
from steelyard.domains.theories.rendering import symbols
from steelyard.domains.theories.rendering.data_sheet import SUPERSCRIPT, mass_text, representations_of

COLUMN_WIDTH, PLOT_HEIGHT = 92.0, 420.0
LEFT, TOP, BOTTOM = 64.0, 52.0, 88.0
BAR_WIDTH = 58.0
LABEL_DISTANCE = 11.0
"""Minimum vertical distance between labels, in pixels."""
COLOURS = {"fermion": "#0067a3", "scalar": "#007a59", "exotic": "#c44900"}
"""Colours that colour-blind readers can distinguish. Bars of exotic states are also thicker."""
LIMIT = 99.0
LETTER_WIDTH, LINE_HEIGHT = 7.4, 18.0
"""Character width and line height of a title, in pixels."""
MASSLESS = "massless"


def svg(spectrum: Spectrum, *, title: str = "", limit: float = LIMIT) -> str:
    """Return a standalone chart with a dashed line at ``limit`` GeV."""
    return _picture(spectrum, _wrapped(title, _width(spectrum)), limit)


def side_by_side(spectrum: Sequence[tuple[str, Spectrum]], *, scale: float = 1.0, title: str = "") -> str:
    """Return one chart with several titled spectra, four per row.

    The lines of ``title`` after the first are set in small print.
    """
    chart_width = max(_width(own) for _, own in spectrum)
    titles = [_wrapped(name, chart_width) for name, _ in spectrum]
    lines = max(map(len, titles))
    pictures = [
        _picture(own, [*lines_of, *[""] * (lines - len(lines_of))], LIMIT)
        for lines_of, (_, own) in zip(titles, spectrum, strict=True)
    ]
    columns = min(len(pictures), 4)
    width = columns * chart_width
    head = list(_head(title, width))
    top = 24.0 * len(head) + (10.0 if head else 0.0)
    chart_height = _height(lines)
    height = top + math.ceil(len(pictures) / columns) * chart_height
    size = f'width="{scale * width:g}" height="{scale * height:g}" viewBox="0 0 {width:g} {height:g}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">']
    parts += [f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>', *head]
    for position, picture in enumerate(pictures):
        row, column = divmod(position, columns)
        parts.append(
            picture.replace("<svg ", f'<svg x="{column * chart_width:g}" y="{top + row * chart_height:g}" ', 1)
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _head(title: str, width: float) -> Iterator[str]:
    """Yield a text element for each line of the title, with long lines wrapped."""
    y = 0
    for number, paragraph in enumerate(title.split("\n") if title else ()):
        size, colour = (12, "#5f5f5f") if number else (16, "#1c1c1c")
        for line in textwrap.wrap(paragraph, max(20, int((width - 32) / (0.55 * size)))):
            y += 24
            yield f'<text x="16" y="{y}" font-size="{size}" fill="{colour}">{escape(line)}</text>'


def _wrapped(title: str, width: float) -> list[str]:
    return textwrap.wrap(title, int((width - 32) / LETTER_WIDTH)) or [""]


def _width(spectrum: Spectrum) -> float:
    return LEFT + COLUMN_WIDTH * max(len({_sector(state) for state in spectrum.states}), 2) + 20


def _height(lines: int) -> float:
    return LINE_HEIGHT * lines + TOP + PLOT_HEIGHT + BOTTOM


def _picture(spectrum: Spectrum, title: Sequence[str], limit: float) -> str:
    """Return the chart of one spectrum, with its title lines above it."""
    sectors = sorted({_sector(state) for state in spectrum.states}, key=lambda s: (s[1], -abs(s[0]), s[0]))
    axis = _Axis([abs(state.mass) for state in spectrum.states if state.mass] + [limit])
    width, height = _width(spectrum), _height(len(title))
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
        *(
            f'<text x="16" y="{LINE_HEIGHT * (number + 1):g}" font-size="14" fill="#1c1c1c">{escape(line)}</text>'
            for number, line in enumerate(title)
        ),
        f'<g transform="translate(0 {LINE_HEIGHT * len(title):g})">',
        *axis.lines(width - 20),
        *_line(LEFT, width - 20, axis.position(limit), COLOURS["exotic"], dashed=True),
        _text(width - 22, axis.position(limit) - 4, f"{limit:g} GeV", "end", COLOURS["exotic"]),
    ]
    for column, sector in enumerate(sectors):
        middle = LEFT + COLUMN_WIDTH * (column + 0.5)
        own = sorted((state for state in spectrum.states if _sector(state) == sector), key=lambda state: state.mass)
        parts += _states(own, middle, axis)
        charge, colour = sector
        parts.append(_text(middle, TOP + PLOT_HEIGHT + 34, f"Q = {symbols.number(charge)}", "middle", "#1c1c1c"))
        parts.append(_text(middle, TOP + PLOT_HEIGHT + 50, f"colour {colour}", "middle", "#5f5f5f"))
    return "\n".join([*parts, *_legend(), "</g>", "</svg>"]) + "\n"


def _legend() -> Iterator[str]:
    y = TOP + PLOT_HEIGHT + 74
    for x, (kind, colour) in zip((16.0, 92.0, 158.0), COLOURS.items(), strict=True):
        yield _bar(x, x + 16, y - 4, colour, thick=kind == "exotic")
        yield _text(x + 20, y, kind, "start", colour)


class _Axis:
    """The mass axis: powers of ten from bottom to top, with massless states below."""

    def __init__(self, masses: Sequence[float]) -> None:
        self.low = math.floor(math.log10(min(masses)))
        self.high = max(math.ceil(math.log10(max(masses)) + 0.1), self.low + 1)

    def position(self, mass: float) -> float:
        if mass == 0:
            return TOP + PLOT_HEIGHT
        return TOP + (PLOT_HEIGHT - 40) * (self.high - math.log10(abs(mass))) / (self.high - self.low)

    def lines(self, right: float) -> Iterator[str]:
        step = max(1, math.ceil((self.high - self.low) / 12))
        for exponent in range(self.low, self.high + 1, step):
            y = self.position(10.0**exponent)
            yield from _line(LEFT, right, y, "#e2e2e2")
            yield _text(LEFT - 6, y + 4, f"10{str(exponent).translate(SUPERSCRIPT)}", "end", "#5f5f5f")
        yield _text(LEFT - 6, TOP + PLOT_HEIGHT + 4, MASSLESS, "end", "#5f5f5f")
        yield _text(16, TOP - 16, "mass, GeV", "start", "#1c1c1c")


def _sector(state: State) -> tuple[Fraction, int]:
    return state.charge, state.colour


def _states(own: Sequence[State], middle: float, axis: _Axis) -> Iterator[str]:
    taken = math.inf
    for state in own:
        y = axis.position(state.mass)
        colour = COLOURS["exotic" if state.exotic else state.kind]
        dash = ' stroke-dasharray="3 2"' if state.mass < 0 else ""
        inside = f"<title>{escape(_tooltip(state))}</title>"
        yield _bar(
            middle - BAR_WIDTH / 2, middle + BAR_WIDTH / 2, y, colour, thick=state.exotic, dash=dash, inside=inside
        )
        label = min(y - 4, taken - LABEL_DISTANCE)
        taken = label
        times = f"{state.count}× " if state.count > 1 else ""
        yield _text(middle, label, times + " ".join(state.fields), "middle", colour)


def _bar(x1: float, x2: float, y: float, colour: str, *, thick: bool, dash: str = "", inside: str = "") -> str:
    return (
        f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y:.1f}" y2="{y:.1f}" '
        f'stroke="{colour}" stroke-width="{4 if thick else 2.5}"{dash}>{inside}</line>'
    )


def _tooltip(state: State) -> str:
    groups = " ".join(irrep.name for irrep in representations_of(state))
    return f"{symbols.state_text(state)}, {mass_text(abs(state.mass))}, {state.count}×, under SU(k): {groups or '1'}"


def _line(x1: float, x2: float, y: float, colour: str, *, dashed: bool = False) -> Iterator[str]:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    yield f'<line x1="{x1:g}" x2="{x2:g}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"{dash}/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
