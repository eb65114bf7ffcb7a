"""The workshop of bricks: pictures, files for other programs, and reports.

All of it works on the text format, a brick a line, whatever action space a policy uses.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from steelyard.domains.base import ColourBy, Made, Report
from steelyard.domains.bricks import export, render
from steelyard.domains.bricks.actions import ActionSpace
from steelyard.domains.bricks.briefs import brief_of
from steelyard.domains.bricks.flaws import InvalidStructureError, Reason
from steelyard.domains.bricks.report import report_on
from steelyard.domains.bricks.reward import Reward
from steelyard.domains.bricks.stability import Method, Stability, assess
from steelyard.domains.bricks.structure import Structure
from steelyard.domains.bricks.text import Reading, in_raster_order, parse, read, write
from steelyard.errors import ConfigError, DataError, MissingExtraError
from steelyard.types import Verdict

PICTURES = ("svg", "png", "gif")
WIDE = 33
"""Characters that fit into a line under a picture of a sheet."""
LARGER_WORLD = "a larger world: --domain.options.world_size '[40, 40, 40]'"
NO_SOLVER = (
    "Without it, --method connectivity only asks whether every brick reaches the ground, and not whether it stands."
)


@dataclass(frozen=True)
class BrickWorkshop:
    """Structures of the action space's world, judged as the reward says: by its method, symmetric or not."""

    action: ActionSpace
    reward: Reward = field(default_factory=Reward)

    @property
    def pictures(self) -> tuple[str, ...]:
        return PICTURES

    @property
    def exports(self) -> tuple[str, ...]:
        return tuple(EXPORTS)

    def judged_by(self, method: str) -> BrickWorkshop:
        return replace(self, reward=replace(self.reward, method=cast("Method", method)))

    def plain(self, text: str) -> str:
        return write(self.action.read(text).structure)

    def look(
        self, things: Sequence[Made], form: str, *, by: ColourBy = "part", scale: float = 1.0, title: str = ""
    ) -> bytes:
        """One structure, as ``gif`` the way it grows; several, or any that was judged, on a contact sheet."""
        _require("picture", form, PICTURES)
        if not things:
            raise DataError("there is nothing to draw: give at least one structure")
        if len(things) == 1 and things[0].verdict is None:
            return self._picture(things[0], form, by, scale)
        if form == "gif":
            raise ConfigError("a gif shows one structure as it grows; a sheet of several is an svg or a png")
        cards = [self._card(thing, by) for thing in things]
        return _written(render.contact_sheet(cards, by=by, title=title), form, scale)

    def leave(self, text: str, form: str, *, name: str = "structure") -> dict[str, bytes]:
        """Every brick must be one that can be placed; bricks that float are exported too."""
        _require("export", form, self.exports)
        try:
            structure = parse(text, self.action.world, may_float=True)
        except InvalidStructureError as error:
            way_out = (
                LARGER_WORLD if error.flaw.reason is Reason.OUT_OF_BOUNDS else "`steelyard verify` lists all flaws"
            )
            raise DataError(f"{name}: {error}; {way_out}") from None
        return {file: content.encode() for file, content in EXPORTS[form](structure, name).items()}

    def report(self, text: str, spec: Mapping[str, Any] | None = None) -> Report:
        """With a ``spec``, under the loads of that brief, and how far it serves its purpose."""
        try:
            return report_on(self._read(text), None if spec is None else brief_of(spec), self.reward)
        except MissingExtraError as error:
            error.add_note(NO_SOLVER)
            raise

    def _read(self, text: str) -> Reading:
        return read(text, self.action.world)

    def _stress(self, thing: Made, structure: Structure, by: ColourBy) -> Stability | None:
        if by != "stress":
            return None
        loads = () if thing.spec is None else brief_of(thing.spec).loads(structure)
        return assess(structure, loads, method=self.reward.method, symmetric=self.reward.symmetric)

    def _picture(self, thing: Made, form: str, by: ColourBy, scale: float) -> bytes:
        reading = self._read(thing.text)
        structure = reading.structure
        if not structure.bricks:
            flaw = f": {reading.flaws[0]}" if reading.flaws else ""
            raise DataError(f"{thing.title or 'the text'} has no brick to draw{flaw}")
        stability = self._stress(thing, structure, by)
        if form == "gif":
            return _refusing(lambda: render.film(structure, by=by, stability=stability, scale=scale))
        title = " · ".join(filter(None, (thing.title, _passed_over(reading))))
        title += "" if thing.spec is None else f"\n{brief_of(thing.spec).title()}"
        return _written(render.draw(structure, by=by, stability=stability, title=title), form, scale)

    def _card(self, thing: Made, by: ColourBy) -> render.Card:
        reading, verdict = self._read(thing.text), thing.verdict
        said = [*([] if verdict is None else verdict_lines(verdict)), _passed_over(reading)]
        lines = textwrap.wrap(thing.title, WIDE, max_lines=3, placeholder=" …")
        lines += [line for text in said for line in textwrap.wrap(text, WIDE, max_lines=2, placeholder=" …")]
        stability = self._stress(thing, reading.structure, by)
        good = None if verdict is None else verdict.success
        return render.Card(reading.structure, "\n".join(lines), stability, good=good)


def verdict_lines(verdict: Verdict) -> list[str]:
    """A verdict under a picture: the reward, and what it says of purpose and standing."""
    if verdict.status == "unscored":
        return [f"unscored ({verdict.cause})"]
    if verdict.status == "rejected":
        return [f"reward {verdict.reward:.3f} · rejected", verdict.reason]
    lines = [f"reward {verdict.reward:.3f} · {'success' if verdict.success else 'no success'}"]
    parts = verdict.parts
    if {"purpose", "stability", "connectivity"} <= set(parts):
        stands = "stands" if parts["stability"] == 1.0 else "collapses"
        lines.append(f"purpose {parts['purpose']:.2f} · {stands}")
        if parts["connectivity"] < 1.0:
            lines.append(f"{1 - parts['connectivity']:.0%} of it floats")
    return lines


def _ldraw(structure: Structure, name: str) -> dict[str, str]:
    return {f"{name}.ldr": export.ldraw(structure, title=name, name=f"{name}.ldr")}


def _gltf(structure: Structure, name: str) -> dict[str, str]:
    return {f"{name}.gltf": export.gltf(structure)}


def _obj(structure: Structure, name: str) -> dict[str, str]:
    mesh, materials = export.obj(structure, materials=f"{name}.mtl")
    return {f"{name}.obj": mesh, f"{name}.mtl": materials}


def _text(structure: Structure, name: str) -> dict[str, str]:
    return {f"{name}.txt": write(in_raster_order(structure))}


EXPORTS: dict[str, Callable[[Structure, str], dict[str, str]]] = {
    "ldr": _ldraw,
    "gltf": _gltf,
    "obj": _obj,
    "txt": _text,
}
"""The files of each form by name; ``txt`` is in raster order, as in StableText2Brick."""


def _require(what: str, form: str, known: Sequence[str]) -> None:
    if form not in known:
        raise ConfigError(f"no {what} of bricks is called {form!r}; there are: {', '.join(known)}")


def _passed_over(reading: Reading) -> str:
    count = sum(flaw.reason is not Reason.FLOATING for flaw in reading.flaws)
    return f"{count} could not be placed" if count else ""


def _written(scene: render.Scene, form: str, scale: float) -> bytes:
    if form == "svg":
        return render.svg(scene if scale == 1.0 else scene.placed(scale, 0.0, 0.0)).encode()
    return _refusing(lambda: render.png(scene, scale=scale))


def _refusing(painted: Callable[[], bytes]) -> bytes:
    """A picture; one that is too large is a mistake of the caller."""
    try:
        return painted()
    except ValueError as error:
        raise ConfigError(str(error)) from None
