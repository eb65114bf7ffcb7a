"""Signals at any time: the current work is finished and saved, and the printed command resumes the run."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

from benchmarks.robustness.attack_programs import Attack
from benchmarks.robustness.tiny_runs import RUN, TRAIN, start, steelyard, write_run

INFILL = """\
run = {steps = 1, name = "tiny"}
model.kind = "masked"
model.device = "cpu"
model.threads = 1
model.scratch = {layers = 1, width = 16, heads = 2, max_length = 64, spaced = false}
domain = {name = "infill", options = {max_length = 60, max_holes = 6}}
sampling = {tasks_per_step = 2, group_size = 2}
warmstart = {examples = 240, batch = 4, warmup_steps = 1}
judge = {examples = 80, batch = 4, warmup_steps = 1, weight = 0.5}
verify.pool = "inline"
"""
RESUME = ("train", "--resume", str(RUN))


def during_training(number: signal.Signals, folder: Path) -> str | None:
    """Check that the step finishes and is saved, and that the exit code signals that the run can be resumed."""
    write_run(folder)
    command = start(folder, *TRAIN, "--run.steps", "1000000")
    metrics = folder / RUN / "metrics.jsonl"
    command.wait_until(metrics.is_file)
    command.send(number)
    code = command.wait()
    if code != 130 or "steelyard train --resume" not in command.out:
        return f"exit code {code}: {command.out[-200:]} {command.error[-300:]}"
    last = int(max((folder / RUN / "checkpoints").glob("step-*")).name.removeprefix("step-"))
    code, command = steelyard(folder, *RESUME, "--run.steps", str(last + 1))
    return None if code == 0 else f"the resumed run ended with {code}: {command.error[-300:]}"


def before_training(phase: str, number: signal.Signals, folder: Path) -> str | None:
    """Interrupt a warm start or judge training: the work is kept, and the resumed run continues."""
    write_run(folder, config=INFILL)
    command = start(folder, *TRAIN)
    command.wait_until(lambda: f"{phase} (" in command.error)
    command.send(number)
    code = command.wait()
    if code != 130 or "steelyard train --resume" not in command.out or "Traceback" in command.error:
        return f"exit code {code}: {command.out[-200:]} {command.error[-300:]}"
    kept = folder / RUN / (".warmstart.progress" if phase == "warm start" else "warmstart")
    if not kept.is_dir():
        return f"{kept.name} was not kept"
    code, command = steelyard(folder, *RESUME)
    if code != 0:
        return f"the resumed run ended with {code}: {command.error[-300:]}"
    updates = command.error.partition("warm start (")[2].partition(")")[0]
    return f"all {updates} updates were repeated" if updates == "60" else None


ATTACKS = (
    Attack("signals", "SIGHUP during training", partial(during_training, signal.SIGHUP)),
    Attack("signals", "SIGINT during training", partial(during_training, signal.SIGINT), quick=False),
    Attack("signals", "SIGHUP during a warm start", partial(before_training, "warm start", signal.SIGHUP), quick=False),
    Attack(
        "signals", "SIGTERM during a warm start", partial(before_training, "warm start", signal.SIGTERM), quick=False
    ),
    Attack(
        "signals", "SIGTERM while a judge is trained", partial(before_training, "judge", signal.SIGTERM), quick=False
    ),
)
