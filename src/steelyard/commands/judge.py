"""Train a judge: a sequence classifier that tells a domain's examples from what a model makes of the same tasks.

A recipe with a table [judge] does this by itself at the start of a run; here it is done once for several runs.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from steelyard import config as configs
from steelyard.commands.keys import keys_help
from steelyard.commands.screen import loading, stdout
from steelyard.config import Config, JudgeConfig
from steelyard.errors import ConfigError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["train"], help="what to do")
    parser.add_argument("recipe", metavar="RECIPE|FILE", help="a recipe or a TOML file with a domain")
    parser.add_argument("--out", metavar="FOLDER", help="where the judge goes (runs/NAME-judge)")


def epilog() -> str:
    return keys_help()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    config = configs.load(arguments.recipe, overrides)
    judge = config.judge or JudgeConfig()
    folder = Path(arguments.out or Path(config.run.folder) / f"{config.run.name}-judge")
    if folder.exists():
        raise ConfigError(f"{folder} is there already; choose another --out, or remove it")
    if judge.folder is not None:
        raise ConfigError(f"judge.folder names one that is there ({judge.folder}); leave it out to train another")
    right = _train(config, judge, folder)
    place, recipe = shlex.quote(str(folder)), shlex.join([arguments.recipe, *overrides])
    lines = [
        f"done: {judge.updates * judge.batch} real texts and as many made ones, {right:.1%} told right, in {folder}",
        f"  steelyard train {recipe} --judge.folder {place}    train against it",
    ]
    stdout().print("\n".join(lines), markup=False, soft_wrap=True)
    return 0


def _train(config: Config, judge: JudgeConfig, folder: Path) -> float:
    """Against the model that a run would begin with; a warm start that is not named is made for it, and not kept."""
    with loading("torch and transformers"):
        from steelyard.compose import build_policy
        from steelyard.compose.judge import make_judge
        from steelyard.compose.warmstart import beginning_with, make_warm_start
    from steelyard.quiet import quiet_engines

    with quiet_engines(), tempfile.TemporaryDirectory() as scratch:
        started = config
        if config.warmstart is not None:
            named = Path(config.warmstart.folder or Path(scratch) / "warmstart")
            if config.warmstart.folder is None:
                make_warm_start(config, config.warmstart, build_policy(config), named)
            started = beginning_with(config, named)
        return make_judge(started, judge, build_policy(started), folder)
