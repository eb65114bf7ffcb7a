"""Renders, exports and reports on brick structures.

All of these read the text format, one brick per line, regardless of the policy's action space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from steelyard.domains import artifacts
from steelyard.domains.artifacts import Artifact, ColourBy, Report
from steelyard.domains.base import Domain
from steelyard.domains.bricks import export, render
from steelyard.domains.bricks.actions import ActionSpace
from steelyard.domains.bricks.briefs import brief_of
from steelyard.domains.bricks.flaws import InvalidStructureError, Reason
from steelyard.domains.bricks.report import report_on
from steelyard.domains.bricks.reward import RewardSettings
from steelyard.domains.bricks.stability import Stability, assess
from steelyard.domains.bricks.structure import Structure
from steelyard.domains.bricks.text import Reading, in_raster_order, parse, read, write
from steelyard.domains.defaults import caption, picture_file, require_format
from steelyard.errors import ConfigError, DataError, MissingExtraError
from steelyard.types import Verdict

LARGER_WORLD = "use a larger world: --domain.options.world_size '[40, 40, 40]'"
NO_SOLVER = "Without the solver, --method connectivity checks that every brick reaches the ground, but not stability."


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
"""Writers by format; each returns file contents by file name. ``txt`` is in raster order, as in StableText2Brick."""


class BrickArtifacts(Domain):
    """The methods of the bricks domain that render, export and report. :class:`Bricks` adds tasks and the verifier."""

    picture_formats: ClassVar = ("svg", "png", "gif")
    export_formats: ClassVar = tuple(EXPORTS)

    @cached_property
    def action_space(self) -> ActionSpace:
        """The action space, which holds the world."""
        raise NotImplementedError

    @cached_property
    def reward_settings(self) -> RewardSettings:
        """The reward settings, which determine the stability analysis method."""
        raise NotImplementedError

    def to_text(self, text: str) -> str:
        return write(self.action_space.read(text).structure)

    def render(
        self,
        artifacts: Sequence[Artifact],
        form: str = "svg",
        *,
        by: ColourBy = "part",
        scale: float = 1.0,
        title: str = "",
    ) -> bytes:
        """Draw a single structure, or a contact sheet if there are several or any has a verdict. A ``gif`` shows one
        structure growing brick by brick.
        """
        require_format("picture", self.name, form, self.picture_formats)
        if not artifacts:
            raise DataError("there is nothing to render; pass at least one structure")
        if len(artifacts) == 1 and artifacts[0].verdict is None:
            return self._picture(artifacts[0], form, by, scale)
        if form == "gif":
            raise ConfigError("a gif shows one structure as it grows; choose svg or png for a sheet of several")
        cards = [self._card(artifact, by) for artifact in artifacts]
        return picture_file(render.contact_sheet(cards, by=by, title=title), form, scale)

    def export(self, text: str, form: str, *, name: str) -> dict[str, bytes]:
        """Export a structure. Every brick must fit; floating bricks are allowed."""
        require_format("export", self.name, form, self.export_formats)
        try:
            structure = parse(text, self.action_space.world, may_float=True)
        except InvalidStructureError as error:
            out_of_bounds = error.flaw.reason is Reason.OUT_OF_BOUNDS
            solution = LARGER_WORLD if out_of_bounds else "`steelyard verify` lists all flaws"
            raise DataError(f"{name}: {error}; {solution}") from None
        return {file: content.encode() for file, content in EXPORTS[form](structure, name).items()}

    def report(self, text: str, spec: Mapping[str, Any] | None = None) -> Report:
        """Verify a structure brick by brick. With a ``spec``, apply the brief's loads and measure fulfilment."""
        try:
            return report_on(self._read(text), None if spec is None else brief_of(spec), self.reward_settings)
        except MissingExtraError as error:
            error.add_note(NO_SOLVER)
            raise

    def _read(self, text: str) -> Reading:
        return read(text, self.action_space.world)

    def _stress(self, artifact: Artifact, structure: Structure, by: ColourBy) -> Stability | None:
        if by != "stress":
            return None
        loads = () if artifact.spec is None else brief_of(artifact.spec).loads(structure)
        settings = self.reward_settings
        return assess(structure, loads, method=settings.method, symmetric=settings.symmetric)

    def _picture(self, artifact: Artifact, form: str, by: ColourBy, scale: float) -> bytes:
        reading = self._read(artifact.text)
        structure = reading.structure
        if not structure.bricks:
            flaw = f": {reading.flaws[0]}" if reading.flaws else ""
            raise DataError(f"{artifact.title or 'the text'} has no bricks to render{flaw}")
        stability = self._stress(artifact, structure, by)
        if form == "gif":
            return _animation(structure, by, stability, scale)
        title = " · ".join(filter(None, (artifact.title, _skipped(reading))))
        title += "" if artifact.spec is None else f"\n{brief_of(artifact.spec).title()}"
        return picture_file(render.draw(structure, by=by, stability=stability, title=title), form, scale)

    def _card(self, artifact: Artifact, by: ColourBy) -> render.Card:
        reading, verdict = self._read(artifact.text), artifact.verdict
        lines = [*([] if verdict is None else verdict_lines(verdict)), _skipped(reading)]
        stability = self._stress(artifact, reading.structure, by)
        good = None if verdict is None else verdict.success
        return render.Card(reading.structure, caption(artifact.title, lines), stability, good=good)


def verdict_lines(verdict: Verdict) -> list[str]:
    """Summarise a verdict in caption lines: reward, fulfilment of the purpose, and stability."""
    lines, parts = artifacts.verdict_lines(verdict), verdict.parts
    if verdict.status == "scored" and {"purpose", "stability", "connectivity"} <= set(parts):
        stands = "stands" if parts["stability"] == 1.0 else "collapses"
        lines.append(f"purpose {parts['purpose']:.2f} · {stands}")
        if parts["connectivity"] < 1.0:
            lines.append(f"{1 - parts['connectivity']:.0%} of the bricks float")
    return lines


def _skipped(reading: Reading) -> str:
    count = sum(flaw.reason is not Reason.FLOATING for flaw in reading.flaws)
    return f"{count} could not be placed" if count else ""


def _animation(structure: Structure, by: ColourBy, stability: Stability | None, scale: float) -> bytes:
    try:
        return render.animate(structure, by=by, stability=stability, scale=scale)
    except ValueError as error:  # the picture is too large
        raise ConfigError(str(error)) from None
