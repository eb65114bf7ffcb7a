"""The files that ``steelyard init`` writes: a verifier, its configuration and a few tasks, ready to train."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from steelyard.errors import ConfigError

FILES = {"verifier.py": "verifier.py.txt", "steelyard.toml": "steelyard.toml", "tasks.jsonl": "tasks.jsonl"}
"""Maps file names in the user's folder to file names in the package, where the verifier must not be importable."""


def write_template(folder: str | Path) -> list[Path]:
    """Write the files into ``folder``, creating it if needed, and return their paths. Never overwrites a file."""
    paths = [Path(folder) / name for name in FILES]
    present = [str(path) for path in paths if path.exists()]
    if present:
        raise ConfigError(f"{', '.join(present)} already exists, so nothing was written; choose another folder")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"{folder} is a file, not a folder; choose another name") from None
    for path in paths:
        template = files("steelyard.templates") / "init" / FILES[path.name]
        path.write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    return paths
