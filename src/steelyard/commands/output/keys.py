"""Every key of the configuration as help text."""

from __future__ import annotations

import argparse
from itertools import groupby

from steelyard.config import Config, Key, describe

USAGE = """\
configuration, as --section.key value (or in the TOML file).
Unset a key with --section.key none, a whole table with --section none (--judge none): its default applies."""


def keys_help() -> str:
    """All keys with type, default and meaning, a paragraph a section."""
    parser = argparse.ArgumentParser(prog="", usage=argparse.SUPPRESS, add_help=False)
    for section, keys in groupby(describe(), key=lambda key: key.key.partition(".")[0].removesuffix("[]")):
        about = (Config.model_fields[section].description or "").rstrip(".")
        group = parser.add_argument_group(f"[{section}] {about}")
        for key in keys:
            group.add_argument(f"--{key.key}", metavar=key.type, help=_help(key))
    return f"{USAGE}\n\n{parser.format_help()}"


def _help(key: Key) -> str:
    text = f"{key.help} ({key.default})" if key.default else key.help
    return text.replace("%", "%%")
