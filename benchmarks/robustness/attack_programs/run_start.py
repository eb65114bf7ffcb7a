"""Common failures at the start of a run: each gets a message with a solution, no traceback and no partial files."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.robustness.attack_programs import Attack
from benchmarks.robustness.attack_programs.run_output import allow_small_files, small_disk
from benchmarks.robustness.tiny_runs import CONFIG, RUN, TRAIN, steelyard, write_run


def explained(folder: Path, *words: str, message: str, before: Callable[[], None] | None = None) -> str | None:
    """Check for exit code 2 and a message that names the problem and its solution."""
    code, command = steelyard(folder, *words, before=before)
    if code != 2 or message not in command.error or "Traceback" in command.error:
        return f"exit code {code}: {command.error[-300:]}"
    return None


def full_disk(folder: Path) -> str | None:
    write_run(folder)
    with small_disk(folder / "runs") as fill:
        fill()
        return explained(folder, *TRAIN, message="No space left")


def small_files(folder: Path) -> str | None:
    """Limit file sizes to less than the size of the configuration."""
    write_run(folder)
    return explained(folder, *TRAIN, "--checkpoint.every", "0", message="--run.folder", before=allow_tiny_files)


def allow_tiny_files() -> None:
    allow_small_files(100)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only, even for root where mounting is permitted."""
    folder.mkdir(exist_ok=True)
    if os.getuid() == 0:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(folder)], check=True, capture_output=True)
    else:
        folder.chmod(0o555)
    try:
        yield
    finally:
        if os.getuid() == 0:
            subprocess.run(["umount", "-l", str(folder)], check=False)
        else:
            folder.chmod(0o755)


def read_only_folder(folder: Path) -> str | None:
    write_run(folder)
    with read_only(folder / "runs"):
        return explained(folder, *TRAIN, message="--run.folder")


def file_as_folder(folder: Path) -> str | None:
    write_run(folder)
    (folder / "runs").touch()
    return explained(folder, *TRAIN, message="runs is a file")


def torn_config(content: bytes, folder: Path) -> str | None:
    """Check that resume, eval and sample name the damaged file and the solution."""
    write_run(folder)
    steelyard(folder, *TRAIN)
    config = folder / RUN / "config.toml"
    config.write_bytes(config.read_bytes()[:200] + content)
    for words in (("train", "--resume", str(RUN)), ("eval", str(RUN)), ("sample", str(RUN))):
        if failure := explained(folder, *words, message="restore it from a copy"):
            return f"{words[0]}: {failure}"
    return None


def nested_spec(depth: int, folder: Path) -> str | None:
    spec = "[" * depth + "]" * depth
    (folder / "tasks.jsonl").write_text(f'{{"prompt": "a", "deep": {spec}}}\n')
    write_run(folder, config=CONFIG.replace('prompts = ["a", "b", "a b"]', 'file = "tasks.jsonl"'))
    return explained(folder, *TRAIN, message="tasks.jsonl, line 1: nested more than 100 levels deep")


def nested_options(depth: int, folder: Path) -> str | None:
    write_run(folder, config=CONFIG + f'domain = {{name = "x", options = {{deep = {"[" * depth}{"]" * depth}}}}}\n')
    return explained(folder, *TRAIN, message="nested more than 100 levels deep")


def lone_surrogate(folder: Path) -> str | None:
    """Use a prompt with a lone surrogate, which no tokenizer accepts."""
    (folder / "tasks.jsonl").write_text(json.dumps({"prompt": "a \ud800"}) + "\n")
    write_run(folder, config=CONFIG.replace('prompts = ["a", "b", "a b"]', 'file = "tasks.jsonl"'))
    return explained(folder, *TRAIN, message="lone surrogate")


ATTACKS = (
    Attack("start of a run", "the disk is full", full_disk, quick=False),
    Attack("start of a run", "a file size limit of 100 bytes", small_files),
    Attack("start of a run", "the folder is read-only", read_only_folder, quick=False),
    Attack("start of a run", "run.folder is a file", file_as_folder),
    Attack("start of a run", "config.toml is truncated in a string", partial(torn_config, b'\nname = "to')),
    Attack("start of a run", "config.toml ends in garbage", partial(torn_config, b"\0\xff\xfe"), quick=False),
    Attack("start of a run", "a spec nested 100,000 levels deep", partial(nested_spec, 100_000)),
    Attack("start of a run", "a spec nested 400 levels deep", partial(nested_spec, 400)),
    Attack("start of a run", "options nested 100,000 levels deep", partial(nested_options, 100_000)),
    Attack("start of a run", "a prompt with a lone surrogate", lone_surrogate),
)
