"""Structures as pictures, files for other programs, and reports.

All of it works on the text format, one brick per line, whatever action space a policy uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard.domains import artifacts
from steelyard.domains.artifacts import Artifact, ColourBy, Report
from steelyard.domains.bricks import export, render
from steelyard.domains.bricks.actions import ActionSpace
from steelyard.domains.bricks.briefs import brief_of
from steelyard.domains.bricks.flaws import InvalidStructureError, Reason
from steelyard.domains.bricks.report import report_on
from steelyard.domains.bricks.reward import Reward
from steelyard.domains.bricks.stability import Stability, assess
from steelyard.domains.bricks.structure import Structure
from steelyard.domains.bricks.text import Reading, in_raster_order, parse, read, write
from steelyard.domains.defaults import caption, picture_file, require_format
from steelyard.errors import ConfigError, DataError, MissingExtraError
from steelyard.types import Verdict

PICTURES = ("svg", "png", "gif")
LARGER_WORLD = "a larger world: --domain.options.world_size '[40, 40, 40]'"
NO_SOLVER = (
    "Without it, --method connectivity only asks whether every brick reaches the ground, and not whether it stands."
)


@dataclass(frozen=True)
class BrickArtifacts:
    """Structures of the action space's world, verified as the reward says: by its method, symmetric or not."""

    action: ActionSpace
    reward: Reward = field(default_factory=Reward)

    def to_text(self, text: str) -> str:
        return write(self.action.read(text).structure)

    def render(
        self, artifacts: Sequence[Artifact], form: str, *, by: ColourBy = "part", scale: float = 1.0, title: str = ""
    ) -> bytes:
        """One structure, as ``gif`` the way it grows; several, or any with a verdict, on a contact sheet."""
        require_format("picture", "bricks", form, PICTURES)
        if not artifacts:
            raise DataError("there is nothing to draw: give at least one structure")
        if len(artifacts) == 1 and artifacts[0].verdict is None:
            return self._picture(artifacts[0], form, by, scale)
        if form == "gif":
            raise ConfigError("a gif shows one structure as it grows; a sheet of several is an svg or a png")
        cards = [self._card(artifact, by) for artifact in artifacts]
        return picture_file(render.contact_sheet(cards, by=by, title=title), form, scale)

    def export(self, text: str, form: str, *, name: str = "structure") -> dict[str, bytes]:
        """Every brick must be one that can be placed; bricks that float are exported too."""
        require_format("export", "bricks", form, tuple(EXPORTS))
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

    def _stress(self, artifact: Artifact, structure: Structure, by: ColourBy) -> Stability | None:
        if by != "stress":
            return None
        loads = () if artifact.spec is None else brief_of(artifact.spec).loads(structure)
        return assess(structure, loads, method=self.reward.method, symmetric=self.reward.symmetric)

    def _picture(self, artifact: Artifact, form: str, by: ColourBy, scale: float) -> bytes:
        reading = self._read(artifact.text)
        structure = reading.structure
        if not structure.bricks:
            flaw = f": {reading.flaws[0]}" if reading.flaws else ""
            raise DataError(f"{artifact.title or 'the text'} has no brick to draw{flaw}")
        stability = self._stress(artifact, structure, by)
        if form == "gif":
            return _film(structure, by, stability, scale)
        title = " · ".join(filter(None, (artifact.title, _passed_over(reading))))
        title += "" if artifact.spec is None else f"\n{brief_of(artifact.spec).title()}"
        return picture_file(render.draw(structure, by=by, stability=stability, title=title), form, scale)

    def _card(self, artifact: Artifact, by: ColourBy) -> render.Card:
        reading, verdict = self._read(artifact.text), artifact.verdict
        lines = [*([] if verdict is None else verdict_lines(verdict)), _passed_over(reading)]
        stability = self._stress(artifact, reading.structure, by)
        good = None if verdict is None else verdict.success
        return render.Card(reading.structure, caption(artifact.title, lines), stability, good=good)


def verdict_lines(verdict: Verdict) -> list[str]:
    """A verdict under a picture: the reward, how far it serves its purpose, and whether it stands."""
    lines, parts = artifacts.verdict_lines(verdict), verdict.parts
    if verdict.status == "scored" and {"purpose", "stability", "connectivity"} <= set(parts):
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


def _passed_over(reading: Reading) -> str:
    count = sum(flaw.reason is not Reason.FLOATING for flaw in reading.flaws)
    return f"{count} could not be placed" if count else ""


def _film(structure: Structure, by: ColourBy, stability: Stability | None, scale: float) -> bytes:
    try:
        return render.film(structure, by=by, stability=stability, scale=scale)
    except ValueError as error:  # too large
        raise ConfigError(str(error)) from None
