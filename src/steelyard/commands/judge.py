"""Train a judge: a sequence classifier that distinguishes a domain's examples from a model's samples.

A recipe with a [judge] table trains its judge at the start of each run. This command trains a judge that several runs
can share.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from steelyard.commands.inputs.target import add_trust
from steelyard.commands.output.keys import keys_help
from steelyard.commands.output.screen import loading, stdout
from steelyard.config import Config, JudgeConfig, WarmstartConfig
from steelyard.errors import ConfigError
from steelyard.trust import load_recipe


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["train"], help="action to perform")
    parser.add_argument("recipe", metavar="RECIPE|FILE", help="a recipe or TOML file with a domain")
    parser.add_argument("--out", metavar="FOLDER", help="output folder for the judge (default: runs/NAME-judge)")
    add_trust(parser)


def epilog() -> str:
    return keys_help()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    config = load_recipe(arguments.recipe, overrides, trust=arguments.trust)
    judge = config.judge or JudgeConfig()
    folder = Path(arguments.out or Path(config.run.folder) / f"{config.run.name}-judge")
    if folder.exists():
        raise ConfigError(f"{folder} already exists; choose another --out, or remove it")
    if judge.folder is not None:
        raise ConfigError(f"judge.folder = {judge.folder} is a trained judge; remove the key to train a new one")
    words = [arguments.recipe, *overrides]
    if config.warmstart is not None and config.warmstart.folder is None:
        warm = folder.with_name(f"{folder.name}-warmstart")
        _warm_start(config, config.warmstart, warm)
        words += ["--warmstart.folder", str(warm)]
    accuracy = _train(load_recipe(arguments.recipe, words[1:], trust=arguments.trust), judge, folder)
    recipe = shlex.join([*words, "--judge.folder", str(folder)])
    lines = [
        f"done: {judge.updates * judge.batch} real and as many generated texts, accuracy {accuracy:.1%}, in {folder}",
        f"  steelyard train {recipe}    train against it",
    ]
    stdout().print("\n".join(lines), markup=False, soft_wrap=True)
    return 0


def _warm_start(config: Config, warmstart: WarmstartConfig, folder: Path) -> None:
    """Train the model that a run would start from and save it next to the judge, so that runs can use it."""
    if folder.exists():
        raise ConfigError(f"{folder} already exists; use it with --warmstart.folder {folder}, or remove it")
    with loading("torch and transformers"):
        from steelyard.compose import build_policy, with_domain
        from steelyard.compose.warmstart import make_warm_start
    from steelyard.quiet import quiet_engines

    with quiet_engines():
        supplied = with_domain(config)
        make_warm_start(config, warmstart, build_policy(config, supplied), folder, supplied)


def _train(config: Config, judge: JudgeConfig, folder: Path) -> float:
    """Train the judge against the model that a run would start from, and return its accuracy."""
    with loading("torch and transformers"):
        from steelyard.compose import build_policy, with_domain
        from steelyard.compose.judge import make_judge
        from steelyard.compose.warmstart import check_folder, starting_from
    from steelyard.quiet import quiet_engines

    with quiet_engines():
        named = None if config.warmstart is None else config.warmstart.folder
        if named is not None:
            check_folder(Path(named), "warmstart.folder", "steelyard warmstart")
            config = starting_from(config, Path(named))
        supplied = with_domain(config)
        return make_judge(config, judge, build_policy(config, supplied), folder, supplied)
