"""Hostile verifier output and unwritable outputs: neither ends a run or controls the terminal.

Every attack trains a tiny policy through the real command line.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from benchmarks.robustness.attack_programs import Attack
from benchmarks.robustness.tiny_runs import CONFIG, RUN, SECONDS, TRAIN, Command, start, steelyard, write_run

ESCAPE = "\x1b"
HEAD = "import itertools\nfrom steelyard import Invalid, Verdict\nN = itertools.count()\n"
SURROGATES = r"""
def score(task, text):
    if next(N) % 3 == 0:
        raise Invalid('bad \ud800 text')
    return Verdict.scored(1.0, parts={'part\udfff': 1.0})
"""
EXTREMES = """
REWARDS = [1e17, 1e17, 1e308, -1e308, 5e-324, 1.0]
def score(task, text):
    return Verdict.scored(REWARDS[next(N) % 6], parts={'coarse': 2**62 + 1024 * (next(N) % 2)})
"""
EQUAL = """
def score(task, text):
    return Verdict.scored(1e17, parts={'large': 2**62, 'largest': 1.7e308})
"""
LONG = """
def score(task, text):
    if next(N) % 2:
        raise Invalid('x' * 20_000_000)
    return Verdict.unscored('c' * 20_000_000, 'y' * 20_000_000) if next(N) % 3 else 1.0
"""
ESCAPES = r"""
def score(task, text):
    number = next(N)
    if number % 4 == 0:
        return Verdict.unscored('cause\x1b[2J', 'reason\x1b[2J')
    if number % 4 == 1:
        raise Invalid('reason\x1b]0;title\x07')
    return Verdict.scored(1.0, parts={'part\x1b[2J\n\x1b[31m': 1.0})
"""
BROKEN = r"""
def score(task, text):
    raise ValueError('\x1b]0;title\x07 \x1b[2J')
"""
UNPRINTABLE = """
class Odd(Invalid):
    def __str__(self):
        raise RuntimeError('no text')
def score(task, text):
    if next(N) % 2:
        raise Odd()
    return 1.0
"""


def trains(score: str, folder: Path, *, pool: str = "inline", largest: float = 1e6) -> str | None:
    """Check that the run finishes, writes little, and writes no escape sequences."""
    ids = [f"task{ESCAPE}[2J", "task\ud800", "plain"]
    tasks = "".join(json.dumps({"id": name, "prompt": "a b"}) + "\n" for name in ids)
    (folder / "tasks.jsonl").write_text(tasks, encoding="utf-8")
    config = CONFIG.replace('prompts = ["a", "b", "a b"]', 'file = "tasks.jsonl"').replace("inline", pool)
    write_run(folder, score=HEAD + score, config=config)
    code, command = steelyard(folder, *TRAIN, "--verify.max_unscored", "1")
    if code != 0:
        return f"exit code {code}: {command.error[-300:]}"
    if ESCAPE in command.out + command.error:
        return "an escape sequence reached the terminal"
    size = sum(path.stat().st_size for path in (folder / RUN).rglob("*") if path.is_file())
    return None if size <= largest else f"the run folder has {size / 1e6:.0f} MB"


def breaker_message(folder: Path) -> str | None:
    """Check that the breaker's message shows how to resume, and the verifier's text without escape sequences."""
    write_run(folder, score=HEAD + BROKEN)
    code, command = steelyard(folder, *TRAIN)
    if code != 2 or "steelyard train --resume runs/tiny" not in command.error:
        return f"exit code {code}: {command.error[-300:]}"
    return "an escape sequence reached the terminal" if ESCAPE in command.error else None


def finishes(folder: Path, command: Command) -> str | None:
    """Check that training finishes even if its output cannot be written."""
    code = command.wait()
    if code != 0:
        return f"exit code {code}: {command.error[-300:]}"
    return None if (folder / RUN / "checkpoints/step-00000004").is_dir() else "no checkpoint of the last step"


def closed_pipe(folder: Path) -> str | None:
    """Run ``steelyard train | head -1``: the reader closes the pipe after the first bytes."""
    write_run(folder)
    pipe = folder / "pipe"
    os.mkfifo(pipe)

    def read_a_little() -> None:
        with pipe.open("rb", buffering=0) as reader:
            reader.read(1)

    reader = threading.Thread(target=read_a_little, daemon=True)
    reader.start()
    command = start(folder, *TRAIN, out=pipe)
    reader.join(SECONDS)
    return finishes(folder, command)


def full_output(folder: Path) -> str | None:
    """Run ``steelyard train > log`` on a full disk."""
    write_run(folder)
    return finishes(folder, start(folder, *TRAIN, out=Path("/dev/full")))


def close_output() -> None:
    sys.stdout.close()
    os.close(1)
    sys.stdout = None


def closed_output(folder: Path) -> str | None:
    """Run ``steelyard train >&-``."""
    write_run(folder)
    return finishes(folder, start(folder, *TRAIN, before=close_output))


def blocked(block: Callable[[Path], object], name: str, folder: Path) -> str | None:
    """Make one of the run's files or folders unwritable during training: the run must finish and warn once."""
    write_run(folder)
    command = start(folder, *TRAIN, "--run.steps", "100000", "--checkpoint.every", "0")
    metrics = folder / RUN / "metrics.jsonl"
    command.wait_until(lambda: metrics.is_file() and metrics.read_bytes().count(b"\n") >= 2)
    block(folder / RUN)
    command.wait_until(lambda: name in command.error)
    command.send(signal.SIGTERM)
    code = command.wait()
    if code != 130 or not list((folder / RUN / "checkpoints").glob("step-*")):
        return f"exit code {code}: {command.error[-300:]}"
    warnings = command.error.count(name)
    return None if warnings == 1 else f"{warnings} warnings"


def block_artifacts(run: Path) -> None:
    (run / "artifacts").rename(run / "elsewhere")
    (run / "artifacts").touch()


def block_metrics(run: Path) -> None:
    (run / "metrics.jsonl").rename(run / "elsewhere.jsonl")
    (run / "metrics.jsonl").mkdir()


def full_disk(folder: Path) -> str | None:
    """Fill the run's disk: the run must stop with its checkpoints and the resume command, which works once there is
    space again.
    """
    write_run(folder)
    with small_disk(folder / "runs") as fill:
        command = start(folder, *TRAIN, "--run.steps", "100000", "--checkpoint.every", "5")
        checkpoints = folder / RUN / "checkpoints"
        command.wait_until(lambda: any(checkpoints.glob("step-*")))
        filling = fill()
        code = command.wait()
        if code != 2 or "No space left" not in command.error or "--resume runs/tiny" not in command.error:
            return f"exit code {code}: {command.error[-300:]}"
        if "Traceback" in command.error:
            return f"a traceback: {command.error[:300]}"
        filling.unlink()
        last = max(int(path.name.removeprefix("step-")) for path in checkpoints.glob("step-*"))
        code, command = steelyard(folder, "train", "--resume", "runs/tiny", "--run.steps", str(last + 5))
        if code != 0:
            return f"the resumed run ended with {code}: {command.error[-300:]}"
        steps = [json.loads(line)["step"] for line in (folder / RUN / "metrics.jsonl").read_text().splitlines()]
        return None if steps == sorted(set(steps)) else "metrics.jsonl has torn or doubled lines"


@contextmanager
def small_disk(place: Path) -> Iterator[Callable[[], Path]]:
    """Mount a 1 MB file system at ``place`` and yield a function that fills it. Requires permission to mount."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)], check=True, capture_output=True)

    def fill() -> Path:
        filling = place / "filling"
        with suppress(OSError), filling.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        return filling

    try:
        yield fill
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def allow_small_files(size: int = 6000) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def small_files(folder: Path) -> str | None:
    """Limit files to 6000 bytes: the first checkpoint fails, and the message says how to resume."""
    write_run(folder)
    code, command = steelyard(folder, *TRAIN, before=allow_small_files)
    if code != 2 or "--resume runs/tiny" not in command.error or "Traceback" in command.error:
        return f"exit code {code}: {command.error[-300:]}"
    code, command = steelyard(folder, "train", "--resume", "runs/tiny")
    return None if code == 0 else f"the resumed run ended with {code}: {command.error[-300:]}"


def _attack(name: str, run: Callable[[Path], str | None], *, quick: bool = True) -> Attack:
    return Attack("run output", name, run, quick)


ATTACKS = (
    _attack("lone surrogates in reasons, parts and task ids", partial(trains, SURROGATES, pool="processes")),
    _attack("rewards of 1e17 and ±1e308, a part of 2**62", partial(trains, EXTREMES)),
    _attack("equal rewards of 1e17, equal parts of 2**62", partial(trains, EQUAL), quick=False),
    _attack("reasons and causes of 20 MB", partial(trains, LONG, pool="processes")),
    _attack("terminal escapes in causes, reasons, parts and task ids", partial(trains, ESCAPES)),
    _attack("an Invalid whose text raises", partial(trains, UNPRINTABLE)),
    _attack("terminal escapes in the breaker's message", breaker_message),
    _attack("standard output is a pipe whose reader has gone", closed_pipe),
    _attack("standard output is a full disk", full_output, quick=False),
    _attack("standard output is closed", closed_output),
    _attack("artifacts/ turns into a file", partial(blocked, block_artifacts, "ArtifactTracker")),
    _attack("metrics.jsonl turns into a folder", partial(blocked, block_metrics, "JsonlTracker"), quick=False),
    _attack("a file size limit of 6000 bytes", small_files),
    _attack("the disk fills up during training", full_disk, quick=False),
)
