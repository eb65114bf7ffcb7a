"""After a signal the run finishes the step, saves and prints how to resume; a second signal stops it immediately."""

from __future__ import annotations

import re
import runpy
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steelyard.tracking import read_metrics

from .conftest import TINY, Call


def wait_for_steps(process: subprocess.Popen[str], metrics: Path, count: int) -> None:
    deadline = time.monotonic() + 250
    while not metrics.exists() or metrics.read_text(encoding="utf-8").count("\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run did not start"
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
    assert "finishing this step; press Ctrl-C again to stop now" in err
    told = re.search(r"stopped after step (\d+) of 100000; .*\n  (steelyard train --resume .*)\n", out)
    assert told, out
    stopped, resume = int(told[1]), told[2]
    assert Path(f"runs/my-run/checkpoints/step-{stopped:08d}").is_dir()

    resumed = call(*shlex.split(resume)[1:], "--run.steps", str(stopped + 3))
    assert resumed.code == 0, resumed.err
    assert f"step {stopped + 3}/{stopped + 3}" in resumed.out
    steps = [row["step"] for row in read_metrics(Path("runs/my-run/metrics.jsonl"))]
    assert steps == list(range(1, stopped + 4))


SCRIPT = """
import sys, time
from pathlib import Path

import steelyard


def check(task, text):
    while Path("hold").exists():
        Path("held").touch()
        time.sleep(0.01)
    return len(text)


steelyard.train(
    model={"scratch": {"layers": 1, "width": 32, "heads": 2, "vocabulary": ["say", "a"], "max_length": 16}},
    tasks=["say a"],
    verifier=check,
    sampling={"tasks_per_step": 1, "group_size": 4, "max_new_tokens": 4},
    verify={"pool": "inline"},
    checkpoint={"every": 1},
    run={"name": "letters", "steps": int(sys.argv[1])},
    resume="resume" in sys.argv,
)
"""


def test_a_second_interrupt_stops_a_script_immediately(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is started from Python and interrupted during a step that would never end."""
    Path("script.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "script.py", "100000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)
    assert process.stderr is not None
    try:
        wait_for_steps(process, Path("runs/letters/metrics.jsonl"), 2)
        Path("hold").touch()
        deadline = time.monotonic() + 250
        while not Path("held").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        for line in process.stderr:
            if "finishing this step; press Ctrl-C again to stop now" in line:
                break
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=250)
    finally:
        process.kill()
    assert process.returncode != 0
    assert "stopped immediately. The run is in runs/letters" in err
    assert "steelyard train --resume runs/letters\n" in err
    Path("hold").unlink()
    done = len(read_metrics(Path("runs/letters/metrics.jsonl")))
    monkeypatch.setattr(sys, "argv", ["script.py", str(done + 2), "resume"])
    runpy.run_path("script.py")
    steps = [row["step"] for row in read_metrics(Path("runs/letters/metrics.jsonl"))]
    assert steps == list(range(1, done + 3))
