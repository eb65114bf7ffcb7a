"""Draw artifacts from files, or a run's samples on held-out tasks.

One file yields a picture or, with .gif, an animation of its construction; several files yield a contact sheet. For a
run, sample and verify a group for each task, and write a contact sheet per task and every artifact as text, best first.
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
    artifact_name,
    domain_of_run,
    known_domains,
    open_domain,
    read_artifact,
)
from steelyard.commands.inputs.groups import add_split, sample_groups, tasks_note, temperature_note
from steelyard.commands.inputs.target import Target, add_target, resolve
from steelyard.commands.output.files import format_of, write_file
from steelyard.commands.output.gallery import TaskGallery, folder_names, write_gallery
from steelyard.commands.output.screen import positive, print_line, stderr
from steelyard.domains.artifacts import Artifact, ColourBy
from steelyard.domains.base import Domain, title_of
from steelyard.domains.registry import is_domain
from steelyard.errors import ConfigError
from steelyard.text import one_line, with_unit
from steelyard.types import Task

if TYPE_CHECKING:
    from steelyard.compose import OpenedPolicy


def configure(parser: argparse.ArgumentParser) -> None:
    add_target(parser, WHERE, "a domain, followed by files; or a run folder")
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="artifacts as text (bricks: hxw (x,y,z), one per line)"
    )
    parser.add_argument(
        "--out",
        metavar="FILE|FOLDER",
        help="for files: .svg, .png or .gif file (default: FILE with suffix .svg); for a run: folder "
        "(default: RUN/renders)",
    )
    parser.add_argument(
        "--colour-by", choices=get_args(ColourBy), default="part", help="property shown by the colours (default: part)"
    )
    parser.add_argument(
        "--scale", type=_scale, default=1.0, metavar="X", help="scale factor of the picture (default: 1)"
    )
    parser.add_argument("--n", type=positive, default=8, metavar="N", help="for a run: samples per task (default: 8)")
    parser.add_argument(
        "--tasks", type=positive, default=1, metavar="N", help="for a run: number of tasks (default: 1)"
    )
    add_split(parser, "for a run: ")


def epilog() -> str:
    return known_domains()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if arguments.files:
        return _render_files(arguments, overrides)
    if is_domain(arguments.target):
        raise ConfigError(
            f"{arguments.target} is a domain: also pass the files to render, or pass a run folder instead "
            f"(runs/{arguments.target})"
        )
    return _render_run(arguments, overrides)


def _render_files(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    domain = open_domain(arguments.target, overrides, trust=arguments.trust)
    if arguments.out is None and STDIN in arguments.files:
        raise ConfigError("--out FILE is required when reading from stdin")
    out = Path(arguments.out or Path(arguments.files[0]).with_suffix(".svg"))
    form = format_of(out, domain.picture_formats, "--out")
    artifacts = [Artifact(read_artifact(file), artifact_name(file)) for file in arguments.files]
    write_file(out, domain.render(artifacts, form, by=arguments.colour_by, scale=arguments.scale))
    print_line(f"wrote {out}")
    return 0


def _render_run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    target = resolve(arguments, overrides)
    domain = domain_of_run(target.config)
    if arguments.out is None and target.run is None:
        raise ConfigError(f"{arguments.target} is not a run, so --out FOLDER is required")
    if arguments.out is not None and Path(arguments.out).suffix.removeprefix(".") in domain.picture_formats:
        raise ConfigError(f"--out {arguments.out} must be a folder: a run's samples produce several pictures")
    opened, groups = sample_groups(target, arguments.n, split=arguments.split, count=arguments.tasks, domain=domain)
    folder = Path(arguments.out or _default_folder(target, opened))
    style = {"by": arguments.colour_by, "scale": arguments.scale}
    galleries = [
        write_gallery(domain, group, folder / name, title=_title(domain, group.task, opened), **style)
        for name, group in zip(folder_names(groups), groups, strict=True)
    ]
    tasks = tasks_note(len(groups), target.config, arguments.split, domain)
    drawn = f"{tasks} × {with_unit(arguments.n, 'sample')}, {temperature_note(target.config)}"
    print_line(f"{opened.label}: {drawn}, in {folder}")
    best = _print_galleries(galleries)
    if best is not None:
        command = ["steelyard", "export", _where(target), str(best), "--out", f"best.{domain.export_formats[0]}"]
        print_line(f"export the best artifact:\n  {shlex.join(command)}")
    return 0


def _title(domain: Domain, task: Task, opened: OpenedPolicy) -> str:
    """Return a sheet's title: the task, then a second line with the model and task id."""
    return f"{title_of(domain, task)}\n{opened.label} · task {one_line(task.id)}"


def _print_galleries(galleries: Sequence[TaskGallery]) -> Path | None:
    """Print the paths of the pictures, and return the text file with the best artifact overall."""
    for gallery in galleries:
        print_line(
            f"  {gallery.sheet}   best {gallery.verdict.reward:.3f}, {gallery.successes} of {gallery.samples} succeed"
        )
    for note in {gallery.note for gallery in galleries if gallery.note}:
        stderr().print(note, style="yellow", markup=False, soft_wrap=True)
    return max(galleries, key=lambda one: (one.best is not None, one.verdict.has_reward, one.verdict.reward)).best


def _where(target: Target) -> str:
    """Return the first argument of `steelyard export` for artifacts of this target."""
    if target.run is not None:
        return str(target.run)
    return "" if target.config.domain is None else target.config.domain.name


def _default_folder(target: Target, opened: OpenedPolicy) -> Path:
    step = "start" if opened.step is None else f"step-{opened.step:08d}"
    return Path(target.run or "") / "renders" / step


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not (math.isfinite(scale) and scale > 0):
        raise argparse.ArgumentTypeError(f"{text} must be a positive number")
    return scale
