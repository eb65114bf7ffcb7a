from __future__ import annotations

import signal
import subprocess
import sys

from benchmarks.framework.process import ROOT

STARTED = """
import os, signal, subprocess, sys
from benchmarks.framework.process import stop_ignoring_signals
stop_ignoring_signals()
os.kill(os.getpid(), signal.SIGHUP)
child = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_DFL)"
subprocess.run([sys.executable, "-c", child], check=True)
"""


def ignore_hangups() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_under_nohup_this_process_survives_a_hangup_and_its_children_do_not_ignore_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        preexec_fn=ignore_hangups,
    )
    assert done.stdout == "True\n"
