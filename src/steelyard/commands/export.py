"""Write a thing from a file for other programs; the ending of --out says which form (bricks: .ldr, .gltf, .obj, …)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from steelyard.commands.screen import tell
from steelyard.commands.target import add_trust
from steelyard.commands.things import WHERE, WHERE_HELP, drawing_domains, form_of, open_workshop, read_thing, write_file
from steelyard.errors import DataError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar=WHERE, help=WHERE_HELP)
    add_trust(parser)
    parser.add_argument("file", metavar="FILE", help="the thing as text, as `render RUN` writes it; - is stdin")
    parser.add_argument("--out", required=True, metavar="FILE", help="what to write")


def epilog() -> str:
    return drawing_domains()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    workshop, out = open_workshop(arguments.target, overrides, trust=arguments.trust), Path(arguments.out)
    form = form_of(out, workshop.exports, "--out")
    asked, *others = workshop.leave(read_thing(arguments.file), form, name=out.stem).items()
    beside = [(out.with_name(name), content) for name, content in others]
    _require_free(out, beside)
    for path, content in ((out, asked[1]), *beside):
        write_file(path, content)
        tell(f"wrote {path}")
    return 0


def _require_free(out: Path, beside: Sequence[tuple[Path, bytes]]) -> None:
    """Files that go beside the one asked for under a name of their own must not be those of another thing."""
    if out.exists():
        return
    for path, content in beside:
        if path.stem != out.stem and path.exists() and path.read_bytes() != content:
            raise DataError(
                f"{path} is there already and belongs to something else; give {out.name} a folder of its own: "
                f"--out {out.with_name(out.stem) / out.name}"
            )
