"""Draw artifacts: those of files, or the samples of a run on held-out tasks.

With files: one gives a picture, or as .gif a film of how it grows; several give a sheet. With a run alone: a group is
sampled for each task and judged, and a folder gets a sheet a task and every thing as text, the best first.
"""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from steelyard.commands.inputs.artifact_files import (
    STDIN,
    WHERE,
    domain_of_run,
    known_domains,
    name_of,
    open_domain,
    read_artifact,
)
from steelyard.commands.inputs.groups import sample_groups, temperature_note
from steelyard.commands.inputs.target import Target, add_target, resolve
from steelyard.commands.output.files import form_of, write_file
from steelyard.commands.output.gallery import TaskGallery, folder_names, write_gallery
from steelyard.commands.output.screen import positive, stderr, tell
from steelyard.domains.artifacts import Artifact, ColourBy
from steelyard.domains.base import Domain, Split, title_of
from steelyard.domains.registry import is_domain
from steelyard.errors import ConfigError
from steelyard.text import one_line
from steelyard.types import Task

if TYPE_CHECKING:
    from steelyard.compose import Opened


def configure(parser: argparse.ArgumentParser) -> None:
    add_target(parser, WHERE, "a domain, whose files follow; or a run folder")
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="artifacts as text (bricks: hxw (x,y,z), one per line)"
    )
    parser.add_argument(
        "--out",
        metavar="FILE|FOLDER",
        help="files: .svg, .png or .gif (FILE as .svg); a run: a folder (RUN/looks)",
    )
    parser.add_argument("--by", choices=get_args(ColourBy), default="part", help="what colours stand for (part)")
    parser.add_argument("--scale", type=_scale, default=1.0, metavar="X", help="size of the picture (1)")
    parser.add_argument("--n", type=positive, default=8, metavar="N", help="of a run: samples a task (8)")
    parser.add_argument("--tasks", type=positive, default=1, metavar="N", help="of a run: how many tasks (1)")
    parser.add_argument("--split", choices=get_args(Split), default="held_out", help="of a run: which tasks (held_out)")


def epilog() -> str:
    return known_domains()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if arguments.files:
        return _render_files(arguments, overrides)
    if is_domain(arguments.target):
        raise ConfigError(
            f"{arguments.target} is a domain: name the files to draw, or a run by its folder (runs/{arguments.target})"
        )
    return _render_run(arguments, overrides)


def _render_files(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    domain = open_domain(arguments.target, overrides, trust=arguments.trust)
    if arguments.out is None and STDIN in arguments.files:
        raise ConfigError("say with --out where the picture of what comes from stdin goes")
    out = Path(arguments.out or Path(arguments.files[0]).with_suffix(".svg"))
    form = form_of(out, domain.picture_formats, "--out")
    artifacts = [Artifact(read_artifact(file), name_of(file)) for file in arguments.files]
    write_file(out, domain.render(artifacts, form, by=arguments.by, scale=arguments.scale))
    tell(f"wrote {out}")
    return 0


def _render_run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    target = resolve(arguments, overrides)
    domain = domain_of_run(target.config)
    if arguments.out is None and target.run is None:
        raise ConfigError(f"{arguments.target} is no run: say with --out FOLDER where the pictures go")
    if arguments.out is not None and Path(arguments.out).suffix.removeprefix(".") in domain.picture_formats:
        raise ConfigError(f"--out {arguments.out}: what a run makes goes into a folder, not into one picture")
    opened, groups = sample_groups(target, arguments.n, split=arguments.split, count=arguments.tasks, domain=domain)
    folder = Path(arguments.out or _looks(target, opened))
    look = {"by": arguments.by, "scale": arguments.scale}
    galleries = [
        write_gallery(domain, group, folder / name, title=_title(domain, group.task, opened), **look)
        for name, group in zip(folder_names(groups), groups, strict=True)
    ]
    drawn = f"{len(groups)} {arguments.split} tasks × {arguments.n} samples, {temperature_note(target.config)}"
    tell(f"{opened.label}: {drawn}, in {folder}")
    best = _tell_galleries(galleries)
    if best is not None:
        command = ["steelyard", "export", _where(target), str(best), "--out", f"best.{domain.export_formats[0]}"]
        tell(f"take the best one elsewhere:\n  {shlex.join(command)}")
    return 0


def _title(domain: Domain, task: Task, opened: Opened) -> str:
    """What was asked for, and in small print where it comes from."""
    return f"{title_of(domain, task)}\n{opened.label} · task {one_line(task.id)}"


def _tell_galleries(galleries: Sequence[TaskGallery]) -> Path | None:
    """Where the pictures are; gives the text of the best artifact of all."""
    for gallery in galleries:
        tell(f"  {gallery.sheet}   best {gallery.verdict.reward:.3f}, {gallery.successes} of {gallery.samples} succeed")
    for note in {gallery.note for gallery in galleries if gallery.note}:
        stderr().print(note, style="yellow", markup=False, soft_wrap=True)
    return max(galleries, key=lambda one: (one.best is not None, one.verdict.counts, one.verdict.reward)).best


def _where(target: Target) -> str:
    """What the file of an artifact belongs to, for `steelyard export`."""
    if target.run is not None:
        return str(target.run)
    return "" if target.config.domain is None else target.config.domain.name


def _looks(target: Target, opened: Opened) -> Path:
    step = "start" if opened.step is None else f"step-{opened.step:08d}"
    return Path(target.run or "") / "looks" / step


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not (math.isfinite(scale) and scale > 0):
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return scale
