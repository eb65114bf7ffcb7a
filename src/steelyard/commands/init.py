"""Write a small example project into a folder: a verifier, its configuration and tasks."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from steelyard.commands.output.screen import stdout
from steelyard.errors import ConfigError
from steelyard.templates import write_template


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", default=".", metavar="FOLDER", help="folder to write to (default: the working directory)"
    )


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if overrides:
        raise ConfigError(f"init does not accept {overrides[0]}; edit the TOML file it writes")
    folder = Path(arguments.folder)
    written = write_template(folder)
    recipe = next(path for path in written if path.suffix == ".toml")
    lines = ["wrote " + ", ".join(str(path) for path in written), "next:"]
    if folder.resolve() != Path.cwd():
        lines.append(f"  cd {shlex.quote(str(folder))}")
    lines += [
        f"  steelyard check {recipe.name}    test the verifier on samples of the base model",
        f"  steelyard train {recipe.name}    train against it",
    ]
    stdout().print("\n".join(lines), markup=False, soft_wrap=True)
    return 0
