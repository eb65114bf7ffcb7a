"""Train with a recipe or a TOML file, or resume a run that was stopped or killed.

docs/metrics.md explains every value on the live display and every key of metrics.jsonl.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard import config as configs
from steelyard.commands import INTERRUPTED
from steelyard.commands.inputs.target import add_trust, read_named_run
from steelyard.commands.output.keys import keys_help
from steelyard.commands.output.screen import loading, stdout
from steelyard.config import Config
from steelyard.errors import ConfigError, SteelyardError
from steelyard.folders import RunLock, require_free, resume_command, run_folder
from steelyard.tracking.charts import CHART
from steelyard.trust import TRAINING, load_recipe

if TYPE_CHECKING:
    from steelyard.training.loop import Trainer


def configure(parser: argparse.ArgumentParser) -> None:
    shipped = ", ".join(configs.recipes())
    parser.add_argument("recipe", nargs="?", metavar="RECIPE|FILE", help=f"a recipe ({shipped}) or a TOML file")
    parser.add_argument("--resume", metavar="RUN", help="resume this run from its newest complete checkpoint")
    add_trust(parser)


def epilog() -> str:
    return keys_help()


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    config, folder = _chosen(arguments, overrides)
    try:
        with RunLock(folder) as lock:  # locked before torch is imported, which takes seconds
            trainer = _train(lock, config, resume=arguments.resume is not None)
    except (SteelyardError, KeyboardInterrupt) as error:
        if (folder / "config.toml").exists():
            note = f"The run is in {folder}; resume with: {resume_command(folder)}"
            error.add_note(note)
            if isinstance(error, KeyboardInterrupt):
                stdout().print(f"stopped immediately. {note}", markup=False, soft_wrap=True)
        raise
    return _report_end(trainer, folder)


def _train(lock: RunLock, config: Config, *, resume: bool) -> Trainer:
    with loading("torch and transformers"):
        from steelyard.run import run_locked
    return run_locked(lock, config, _nothing(), resume=resume)


def _chosen(arguments: argparse.Namespace, overrides: Sequence[str]) -> tuple[Config, Path]:
    if (arguments.recipe is None) == (arguments.resume is None):
        raise ConfigError(
            "pass either a recipe or TOML file to train, or --resume RUN to continue a run "
            f"(recipes: {', '.join(configs.recipes())})"
        )
    if arguments.resume is not None:
        run = Path(arguments.resume)
        return read_named_run(run, overrides, trust=arguments.trust, uses=TRAINING), run
    config = load_recipe(arguments.recipe, overrides, uses=TRAINING, trust=arguments.trust)
    require_free(run_folder(config))
    return config, run_folder(config)


def _nothing():
    from steelyard.compose import NOTHING_SUPPLIED

    return NOTHING_SUPPLIED


def _report_end(trainer: Trainer, folder: Path) -> int:
    """Print the location of the run and the commands to try next, and return the exit code."""
    lines: list[str] = []
    if trainer.stopped:
        lines += [
            f"stopped after step {trainer.step} of {trainer.settings.steps}; everything is saved. Resume with:",
            f"  {resume_command(folder)}",
        ]
    else:
        quoted = shlex.quote(str(folder))
        lines += [
            f"done: {trainer.step} steps, in {folder}",
            f"  steelyard eval {quoted}      measure reward, success and pass@k",
            f"  steelyard sample {quoted}    print some samples",
            f"  {resume_command(folder)} --run.steps {2 * trainer.step}    train longer",
        ]
    if (folder / CHART).is_file():
        lines.append(f"curves: {folder / CHART}")
    with suppress(OSError):  # a failed print must not abort the run
        stdout().print("\n".join(lines), markup=False, soft_wrap=True)
    return INTERRUPTED if trainer.stopped else 0
