"""SIGTERM finishes the step, saves, prints the command that resumes; that command goes on to the end."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from steelyard.tracking import read_metrics

from .conftest import TINY, Call


def wait_for_steps(process: subprocess.Popen[str], metrics: Path, count: int) -> None:
    deadline = time.monotonic() + 250
    while not metrics.exists() or metrics.read_text(encoding="utf-8").count("\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run did not get going"
        time.sleep(0.05)


def test_stop_and_resume(call: Call, environment: dict[str, str]) -> None:
    call("init")
    command = [sys.executable, "-m", "steelyard.cli", "train", "steelyard.toml", *TINY]
    command += ["--run.steps", "100000", "--run.name", "my-run", "--evaluate.every", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment | {"NO_COLOR": "1"}
    )
    try:
        wait_for_steps(process, Path("runs/my-run/metrics.jsonl"), 3)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=250)
    finally:
        process.kill()
    assert process.returncode == 130, err
    told = re.search(r"stopped after step (\d+) of 100000; .*\n  (steelyard train --resume .*)\n", out)
    assert told, out
    stopped, resume = int(told[1]), told[2]
    assert Path(f"runs/my-run/checkpoints/step-{stopped:08d}").is_dir()

    resumed = call(*shlex.split(resume)[1:], "--run.steps", str(stopped + 3))
    assert resumed.code == 0, resumed.err
    assert f"step {stopped + 3}/{stopped + 3}" in resumed.out
    steps = [row["step"] for row in read_metrics(Path("runs/my-run/metrics.jsonl"))]
    assert steps == list(range(1, stopped + 4))
