"""Help text for every configuration key."""

from __future__ import annotations

import argparse
from itertools import groupby

from steelyard.config import Config, Key, describe

USAGE = """\
configuration keys, set as --section.key value or in the TOML file.
To restore a key's default, set it to none (--section.key none); this also works for a table (--judge none)."""


def keys_help() -> str:
    """Format all keys with type, default and description, grouped by section."""
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
