"""A run that is killed with SIGKILL 25 times and resumed each time ends bitwise equal to an undisturbed run.

This holds for full fine-tuning and LoRA with every kind of reference. Each start of the run is a separate process. It
is killed at a random moment: after it starts, after it logs a step, or while it writes a checkpoint. At the end, the
newest checkpoints (weights, optimiser, reference, source, counters) are compared byte by byte, and the metrics row by
row.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result

KILLS = 25
STEPS = 80
SAVE_EVERY = 2
PATIENCE = 120.0
MOMENTS = ("start", "step", "write")
"""Moments at which a run is killed, used in turn."""
TURNS_FILE = "turns"
"""File next to the run folders that an environment may write to during an episode."""
LORA: dict[str, Any] = {"lora": {"rank": 4, "alpha": 8}}
MODES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "full, static copy": ({}, {}),
    "full, EMA copy": ({}, {"mode": "ema", "ema_decay": 0.9}),
    "full, periodic copy": ({}, {"mode": "periodic", "every": 3}),
    "LoRA, adapter off": (LORA, {"storage": "adapter_off"}),
    "LoRA, EMA adapter": (LORA, {"mode": "ema", "ema_decay": 0.9, "storage": "adapter"}),
    "LoRA, periodic adapter": (LORA, {"mode": "periodic", "every": 3, "storage": "adapter"}),
    "masked in two steps, EMA copy": ({"kind": "masked"}, {"mode": "ema", "ema_decay": 0.9}),
}
PRELOAD = ["torch", "transformers", "peft", "steelyard.run", "transformers.models.llama.modeling_llama"]


@dataclass(frozen=True)
class Outcome:
    """The result of one run that was killed repeatedly."""

    kills: int
    in_writes: int
    differences: tuple[str, ...]
    in_turns: int = 0
    """Number of kills between two turns of an episode."""


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses two modes with four kills each."""
    modes = ["full, static copy", "LoRA, EMA adapter"] if quick else list(MODES)
    kills = 4 if quick else KILLS
    task = progress.add_task("resume", total=len(modes) * kills)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    outcomes: dict[str, Outcome] = {}
    for number, mode in enumerate(modes):
        with tempfile.TemporaryDirectory() as scratch:
            progress.update(task, description=mode)
            steps = 16 if quick else STEPS
            outcomes[mode] = disturb(context, mode, Path(scratch), kills, steps, number, lambda: progress.advance(task))
    return Result("resume", figures(outcomes, kills), [_detail(mode, outcome) for mode, outcome in outcomes.items()])


def figures(outcomes: Mapping[str, Outcome], kills: int) -> tuple[Figure, ...]:
    """Count the kills of runs that ended bitwise equal, and the kills during a checkpoint write."""
    survived = sum(outcome.kills for outcome in outcomes.values() if not outcome.differences)
    in_writes = min(outcome.in_writes for outcome in outcomes.values())
    return (
        Figure("kills survived bit for bit", survived, ">=", kills * len(outcomes), "kills"),
        Figure("fewest kills inside a checkpoint write", in_writes, ">=", 1, "kills"),
    )


def _detail(mode: str, outcome: Outcome) -> dict[str, Cell]:
    return {
        "mode": mode,
        "kills": outcome.kills,
        "during a checkpoint write": outcome.in_writes,
        "differences": "; ".join(outcome.differences[:3]) or "none",
    }


def disturb(
    context: Any,
    mode: str,
    scratch: Path,
    kills: int,
    steps: int,
    seed: int,
    killed: Callable[[], object] = lambda: None,
    *,
    tables: Callable[[str, Path, str, int], dict[str, Any]] | None = None,
    moments: Sequence[str] = MOMENTS,
) -> Outcome:
    """Let one run finish undisturbed, kill another ``kills`` times at ``moments``, and compare them at the end."""

    def start(name: str) -> Any:
        process = context.Process(target=start_or_resume, args=((tables or mode_tables)(mode, scratch, name, steps),))
        process.start()
        return process

    undisturbed = start("undisturbed")
    undisturbed.join()
    if undisturbed.exitcode != 0:
        raise RuntimeError(f"{mode}: the undisturbed run ended with exit code {undisturbed.exitcode}")
    chance = random.Random(seed)
    folder = scratch / "killed"
    done = in_writes = in_turns = 0
    while done < kills:
        process = start("killed")
        wanted = moments[done % len(moments)]
        if not _wait(process, folder, wanted, chance):
            break
        writing = _writing(folder)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        if process.exitcode != -signal.SIGKILL:
            break
        done += 1
        in_writes += writing
        in_turns += wanted == "turn"
        killed()
    last = start("killed")
    last.join()
    wrong = () if last.exitcode == 0 else (f"the last process ended with exit code {last.exitcode}",)
    return Outcome(done, in_writes, (*wrong, *differences(scratch / "undisturbed", folder)), in_turns)


def start_or_resume(data: dict[str, Any]) -> None:
    """Start the run, or resume it if it has started before; serves as a process target."""
    from steelyard import config as configs
    from steelyard.compose import Supplied
    from steelyard.run import run

    config = configs.build(data, source="resume")
    begun = (Path(config.run.folder) / config.run.name / "config.toml").exists()
    run(config, Supplied(), resume=begun)


def mode_tables(mode: str, scratch: Path, name: str, steps: int) -> dict[str, Any]:
    """Return the settings for a tiny policy on sequences (or fill-in if masked) with all stateful features enabled."""
    model, reference = MODES[mode]
    small: dict[str, Any] = {"layers": 1, "width": 32, "heads": 2, "kv_heads": 1, "max_length": 32}
    masked = model.get("kind") == "masked"
    domain: dict[str, Any] = {"name": "sequences"}
    if masked:
        small |= {"max_length": 64, "spaced": False}
        domain = {"name": "infill", "options": {"max_length": 60, "max_holes": 6}}
    return {
        "run": {"folder": str(scratch), "name": name, "steps": steps},
        "model": {"scratch": small, "device": "cpu", "threads": 1, **model},
        "domain": domain,
        "sampling": {"tasks_per_step": 4, "group_size": 4, "max_new_tokens": 8, "fill_steps": 2 if masked else 1},
        "credit": {"refill_dead_groups": 1},
        "loss": {"kl": {"coefficient": 0.05, "adaptive": {"target": 0.01, "horizon": 100}}},
        "reference": reference,
        "optimiser": {"lr": 3e-3, "schedule": "cosine", "warmup_steps": 5, "minibatches": 2},
        "evaluate": {"every": 5, "tasks": 4},
        "checkpoint": {"every": SAVE_EVERY},
        "tracking": {"console": False, "samples_every": 7},
    }


def _wait(process: Any, folder: Path, wanted: str, chance: random.Random) -> bool:
    """Wait for the moment to kill the process; return False if it exits before that."""
    rows, turns, deadline = _rows(folder), _turns(folder), time.monotonic() + PATIENCE
    if wanted == "start":
        time.sleep(chance.uniform(0.0, 1.5))
        return process.is_alive()
    while time.monotonic() < deadline and process.is_alive():
        if wanted == "write" and _writing(folder):
            time.sleep(chance.uniform(0.0, 0.01))
            return process.is_alive()
        if wanted == "turn" and _turns(folder) != turns:
            time.sleep(chance.uniform(0.0, 0.002))
            return process.is_alive()
        if wanted == "step" and _rows(folder) > rows:
            time.sleep(chance.uniform(0.0, 0.3))
            return process.is_alive()
        time.sleep(0.0005)
    return process.is_alive()


def _rows(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _turns(folder: Path) -> bytes:
    """Return the bytes that the environment last wrote, or none; they change in every turn after the first."""
    path = folder.parent / TURNS_FILE
    return path.read_bytes() if path.exists() else b""


def _writing(folder: Path) -> bool:
    return any((folder / "checkpoints").glob(".writing-*"))


def differences(undisturbed: Path, killed: Path) -> tuple[str, ...]:
    """Return the names of the files in which the newest checkpoints and the metrics of two runs differ."""
    ours, theirs = _contents(undisturbed), _contents(killed)
    wrong = [name for name in sorted(ours | theirs) if ours.get(name) != theirs.get(name)]
    if _metrics(undisturbed) != _metrics(killed):
        wrong.append("metrics.jsonl")
    return tuple(wrong) if ours else ("the undisturbed run left no checkpoint",)


def _contents(run: Path) -> dict[str, str]:
    """Map the files of the newest checkpoint to their hashes."""
    steps = sorted((run / "checkpoints").glob("step-*"))
    files = [path for path in steps[-1].rglob("*") if path.is_file()] if steps else []
    named = {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return {name: digest for name, digest in named.items() if not name.endswith("manifest.json")}


def _metrics(run: Path) -> list[dict[str, Any]]:
    from steelyard.tracking.jsonl import read_metrics

    rows = read_metrics(run / "metrics.jsonl")
    return [{key: repr(value) for key, value in row.items() if not key.startswith(("time/", "cache/"))} for row in rows]
