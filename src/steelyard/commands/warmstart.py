"""Train a new model on the examples of a recipe's domain, as a starting point for reinforcement learning.

A recipe with a [warmstart] table trains such a model at the start of each run. This command trains a model that several
runs can share.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from steelyard.commands.inputs.target import add_trust
from steelyard.commands.output.keys import keys_help
from steelyard.commands.output.screen import loading, stdout
from steelyard.config import WarmstartConfig
from steelyard.errors import ConfigError
from steelyard.trust import load_recipe


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE|FILE", help="a recipe or TOML file with a domain")
    parser.add_argument("--out", metavar="FOLDER", help="output folder for the model (default: runs/NAME-warmstart)")
    add_trust(parser)


def epilog() -> str:
    return keys_help()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    config = load_recipe(arguments.recipe, overrides, trust=arguments.trust)
    warmstart = config.warmstart or WarmstartConfig()
    folder = Path(arguments.out or Path(config.run.folder) / f"{config.run.name}-warmstart")
    if folder.exists():
        raise ConfigError(f"{folder} already exists; choose another --out, or remove it")
    with loading("torch and transformers"):
        from steelyard.compose import build_policy, with_domain
        from steelyard.compose.warmstart import make_warm_start
    from steelyard.quiet import quiet_engines

    with quiet_engines():
        supplied = with_domain(config)
        loss = make_warm_start(config, warmstart, build_policy(config, supplied), folder, supplied)
    place, recipe = shlex.quote(str(folder)), shlex.join([arguments.recipe, *overrides])
    lines = [
        f"done: {warmstart.updates * warmstart.batch} examples, {loss:.3f} nats per token, in {folder}",
        f"  steelyard eval {place} --recipe {recipe}              evaluate it",
        f"  steelyard train {recipe} --warmstart.folder {place}    train from it",
    ]
    stdout().print("\n".join(lines), markup=False, soft_wrap=True)
    return 0
