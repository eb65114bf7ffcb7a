"""The process pool with verifiers that really crash, hang, fork, flood their output and forge answers."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import steelyard
from benchmarks.framework.orphans import pool_processes, wait_for_pool_processes, zombies
from benchmarks.robustness.attack_programs import worker_protocol
from benchmarks.verification import misbehaving
from benchmarks.verification.faults import verify_texts
from benchmarks.verification.misbehaving import EXPECTED, FINE, PATIENT_LIMITS, Expected
from steelyard.errors import VerifierError
from steelyard.types import Task, Verdict
from steelyard.verification import ProcessPool, Recycling, WorkerLimits, as_verifier

SOURCE = Path(steelyard.__file__).parents[1]
UNHURRIED = WorkerLimits(seconds=100)
"""Limits that only a hanging verifier reaches, even on a busy machine."""


@contextmanager
def pool_of(function: Any, **settings: Any) -> Iterator[ProcessPool]:
    """Open a pool with one worker, and assert that none of its processes remain at the end."""
    declared = settings.pop("declared", {})
    pool = ProcessPool(as_verifier(function, **declared), **{"workers": 1, "limits": PATIENT_LIMITS, **settings})
    try:
        yield pool
    finally:
        pool.close()
    assert wait_for_pool_processes(0) == 0, "a process was left behind"
    assert zombies({os.getpid()}) == []


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; pytest-timeout ends an endless wait."""
    while not condition():
        time.sleep(0.01)


def seen(verdict: Verdict) -> Expected:
    return Expected(verdict.status, verdict.cause, verdict.detail)


@pytest.mark.parametrize("kind", EXPECTED)
def test_every_misbehaviour_gets_its_cause_and_the_next_item_is_verified(kind: str) -> None:
    with pool_of(misbehaving.misbehave) as pool:
        first, bad, last = verify_texts(pool, [FINE, kind, FINE])
        assert seen(bad) == EXPECTED[kind], bad.reason
        assert first.status == last.status == "scored"
        assert wait_for_pool_processes(2) == 2, "one keeper and one worker"
        assert zombies() == []


def test_an_item_that_crashes_its_batch_does_not_affect_the_others() -> None:
    with pool_of(misbehaving.misbehave_in_batches, declared={"mode": "batch", "size": 4}) as pool:
        verdicts = verify_texts(pool, [FINE, "segfault", FINE, FINE, "few", FINE])
    assert [verdict.status for verdict in verdicts] == [
        "scored",
        "rejected",
        "scored",
        "scored",
        "rejected",
        "scored",
    ]
    assert (verdicts[1].detail, verdicts[4].cause) == ("SIGSEGV", "bad return")


def crashing_group(task: Task, texts: list[str]) -> list[float]:
    if "die" in texts:
        os.abort()
    return [float(len(text)) for text in texts]


def test_all_samples_of_a_group_that_crashes_are_unscored() -> None:
    with pool_of(crashing_group, declared={"mode": "group"}) as pool:
        texts = ["a", "die", "b", "c"]
        pool.submit([misbehaving.item(number, text, group_size=2) for number, text in enumerate(texts)])
        found = {2 * key.slot + key.sample: verdict for key, verdict in pool.completed(wait=True)}
    assert [found[number].status for number in range(4)] == ["unscored", "unscored", "scored", "scored"]
    assert found[0].detail == "SIGABRT"
    assert found[0].tries == 2


def burn(task: Task, text: str) -> float:
    end = time.process_time() + float(text)
    while time.process_time() < end:
        pass
    return 1.0


def test_cpu_time_is_counted_separately_for_every_item() -> None:
    with pool_of(burn, limits=WorkerLimits(seconds=60, cpu_seconds=1)) as pool:
        verdicts = verify_texts(pool, ["0.7", "0.7", "0.7", "30"])
    assert [verdict.cause for verdict in verdicts] == ["", "", "", "cpu limit"]


def large_file(task: Task, text: str) -> float:
    with open(os.path.join(text, "large"), "wb") as file:  # noqa: PTH118, PTH123 - as a verifier would
        file.truncate(2**30)
        file.write(b"x")
    return 1.0


def many_files(task: Task, text: str) -> float:
    held = [open(os.devnull) for _ in range(200)]  # noqa: PTH123, SIM115
    return float(len(held))


def test_files_are_limited_in_size_and_number(tmp_path: Path) -> None:
    with pool_of(large_file, limits=WorkerLimits(file_mb=1)) as pool:
        assert "File too large" in verify_texts(pool, [str(tmp_path)])[0].reason
    with pool_of(many_files, limits=WorkerLimits(open_files=64)) as pool:
        assert "Too many open files" in verify_texts(pool, ["x"])[0].reason


def print_and_exit(task: Task, text: str) -> float:
    print("here is why", text)
    os._exit(9)


def test_the_reason_includes_the_end_of_the_output() -> None:
    with pool_of(print_and_exit) as pool:
        first, second = verify_texts(pool, ["one", "two"])
    assert "here is why one" in first.reason
    assert "two" in second.reason
    assert "one" not in second.reason, "only the output of this item"


def process_id(task: Task, text: str) -> float:
    return float(os.getpid())


def hoard(task: Task, text: str) -> float:
    HELD.append(bytearray(b"x" * 2**20 * 40))
    return float(os.getpid())


HELD: list[bytearray] = []


def test_workers_are_recycled_by_number_of_items_and_by_memory() -> None:
    with pool_of(process_id, recycling=Recycling(items=10)) as pool:
        pids = [verdict.reward for verdict in verify_texts(pool, [FINE] * 40)]
        assert len(set(pids)) == 4
        assert pool.metrics() == {}, "no worker was lost"
    with pool_of(hoard, recycling=Recycling(memory_mb=120)) as pool:
        assert len({verdict.reward for verdict in verify_texts(pool, [FINE] * 12)}) >= 3


def leave_thread(task: Task, text: str) -> float:
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    return float(os.getpid())


async def slow(task: Task, text: str) -> float:
    await asyncio.sleep(0)
    return float(os.getpid())


def test_leftover_threads_are_tolerated_up_to_a_limit() -> None:
    with pool_of(leave_thread, limits=WorkerLimits(memory_mb=None)) as pool:
        assert len({verdict.reward for verdict in verify_texts(pool, [FINE] * 100)}) in (3, 4)
    with pool_of(slow) as pool:
        assert len({verdict.reward for verdict in verify_texts(pool, [FINE] * 40)}) == 1, (
            "the event loop's thread stays"
        )


def start_helper(task: Task, text: str) -> float:
    """A verifier that keeps its own process running between items."""
    if not HELPERS:
        HELPERS.append(subprocess.Popen(["sleep", "1000"]))
    return float(HELPERS[0].poll() is None)


HELPERS: list[subprocess.Popen[bytes]] = []


def test_child_processes_survive_only_with_keep_children() -> None:
    with pool_of(start_helper, keep_children=True) as pool:
        assert [verdict.reward for verdict in verify_texts(pool, [FINE] * 3)] == [1.0, 1.0, 1.0]
    with pool_of(start_helper) as pool:
        assert [verdict.reward for verdict in verify_texts(pool, [FINE] * 3)] == [1.0, 0.0, 0.0]


def hang_once(task: Task, text: str) -> float:
    """Hang on the first call with a given file name, and return on the second."""
    try:
        Path(text).touch(exist_ok=False)
    except FileExistsError:
        return 1.0
    time.sleep(misbehaving.FOREVER)
    raise AssertionError


@pytest.mark.parametrize("victim", ["worker", "keeper"])
def test_work_of_a_killed_pool_process_is_repeated(victim: str, tmp_path: Path) -> None:
    known, started = tmp_path / "known", tmp_path / "started"
    known.touch()
    with pool_of(hang_once, limits=UNHURRIED) as pool:
        verify_texts(pool, [str(known)])
        keeper, worker = sorted(pool_processes())
        pool.submit([misbehaving.item(0, str(started))])
        wait_for(started.exists)
        os.kill(worker if victim == "worker" else keeper, signal.SIGKILL)
        ((_, verdict),) = pool.completed(wait=True)
        assert (verdict.status, verdict.tries) == ("scored", 2)


PROGRAM = """
import sys, time
from benchmarks.verification import misbehaving
from steelyard.verification import ProcessPool, as_verifier
from benchmarks.verification.faults import verify_texts
pool = ProcessPool(as_verifier(misbehaving.misbehave), workers=2)
verify_texts(pool, ["fine"] * 10)
pool.submit([misbehaving.item(0, "session"), misbehaving.item(1, "sleep"), misbehaving.item(2, "deaf")])
time.sleep(0.5)
print("busy", flush=True)
time.sleep(1000)
"""


def test_all_workers_end_when_the_run_is_killed() -> None:
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), str(SOURCE)])
    run = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
    )
    assert run.stdout is not None
    with run, run.stdout:
        assert run.stdout.readline() == b"busy\n"
        assert len(pool_processes()) >= 4
        run.kill()
    assert wait_for_pool_processes(0) == 0


def test_lambdas_and_closures_are_sent_by_value_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    bonus = 2.0
    with caplog.at_level(logging.WARNING, "steelyard.verification"), pool_of(lambda task, text: bonus) as pool:
        assert verify_texts(pool, [FINE])[0].reward == 2.0
    assert "not importable by name" in caplog.text


def test_importable_functions_are_imported_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with pool_of(misbehaving.misbehave) as pool:
        verify_texts(pool, [FINE])
    assert caplog.text == ""


SCRIPT = """
from steelyard.verification import ProcessPool, as_verifier
from benchmarks.verification import misbehaving

def score(task, text):
    import sys
    return float("torch" in sys.modules) + 10 * float(__name__ == "__main__")

pool = ProcessPool(as_verifier(score), workers=1)
pool.submit([misbehaving.item(0, "x")])
print([verdict.reward for _, verdict in pool.completed(wait=True)])
"""


def test_a_script_without_a_main_guard_works_and_no_worker_loads_torch(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    paths = os.pathsep.join([str(Path(__file__).parents[2]), str(SOURCE)])
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.stdout.splitlines() == ["[10.0]"], done.stderr


def test_a_verifier_that_cannot_be_sent_is_rejected_with_a_suggestion() -> None:
    lock = threading.Lock()
    with pytest.raises(VerifierError, match=r'cannot be sent to another process.*verify\.pool = "inline"'):
        ProcessPool(as_verifier(lambda task, text: float(lock.locked())))


@pytest.mark.parametrize(
    ("module", "preload", "message"),
    [
        ("raise ImportError('no solver here')", True, "no solver here"),
        ("raise ImportError('no solver here')", False, "no solver here"),
        ("import os; print('licence expired', flush=True); os._exit(7)", True, "licence expired"),
    ],
)
def test_a_verifier_that_cannot_be_imported_stops_the_run_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, preload: bool, message: str
) -> None:
    """The module can be imported in this process, but not in the worker."""
    guard = "import os\nif os.environ.get('STEELYARD_FORKSERVER'):\n    "
    (tmp_path / "far_checker.py").write_text(f"{guard}{module}\ndef score(task, text):\n    return 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import far_checker  # type: ignore[import-not-found]

    pool = ProcessPool(as_verifier(far_checker.score), workers=1, preload=preload)
    try:
        pool.submit([misbehaving.item(0, FINE)])
        with pytest.raises(VerifierError, match=message):
            list(pool.completed(wait=True))
    finally:
        pool.close()
        sys.modules.pop("far_checker", None)
    assert wait_for_pool_processes(0) == 0


def test_a_module_that_starts_threads_is_imported_by_every_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module's thread would not exist in a forked worker, so every worker must import the module itself."""
    (tmp_path / "threaded_checker.py").write_text(
        "import threading, queue\nasked, answered = queue.Queue(), queue.Queue()\n"
        "def serve():\n    while True:\n        answered.put(len(asked.get()))\n"
        "threading.Thread(target=serve, daemon=True).start()\n"
        "def score(task, text):\n    asked.put(text)\n    return float(answered.get(timeout=60))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import threaded_checker  # type: ignore[import-not-found]

    with pool_of(threaded_checker.score, limits=UNHURRIED) as pool:
        assert [verdict.reward for verdict in verify_texts(pool, ["abc", "de"])] == [3.0, 2.0]
    sys.modules.pop("threaded_checker", None)


def numpy_success(task: Task, text: str) -> Verdict:
    import numpy as np

    if text == "object":
        return Verdict("rejected", reason=KeyError("no text"))  # type: ignore[arg-type]
    return Verdict.scored(0.5, success=np.float32(text) > 0.5)  # type: ignore[arg-type]


def test_numpy_values_and_objects_in_a_verdict_become_plain_data() -> None:
    with pool_of(numpy_success) as pool:
        low, high, odd = verify_texts(pool, ["0.1", "0.9", "object"])
    assert (low.success, high.success) == (False, True)
    assert (odd.status, odd.reason) == ("rejected", "'no text'")


def flaky_process(task: Task, text: str) -> float:
    """One item corrupts its process: all later items fail in that process, and only there."""
    if POISONED:
        raise OSError("the library is in a bad state")
    if text == "poison":
        POISONED.append(text)
    return 1.0


POISONED: list[str] = []


def test_with_one_worker_a_failure_is_retried_in_a_new_process() -> None:
    with pool_of(flaky_process) as pool:
        verdicts = verify_texts(pool, [FINE, "poison", FINE, FINE, FINE, FINE])
    assert [verdict.status for verdict in verdicts] == ["scored"] * 6
    assert verdicts[2].tries == 2


def fast_or_slow(task: Task, text: str) -> float:
    time.sleep(float(text))
    return float(text)


def test_only_the_item_that_takes_too_long_times_out() -> None:
    with pool_of(fast_or_slow, limits=WorkerLimits(seconds=4)) as pool:
        texts = ["0.001"] * 50 + ["1000"] + ["0.001"] * 50
        verdicts = verify_texts(pool, texts)
    assert [verdict.cause for verdict in verdicts if verdict.cause] == ["timeout"]
    assert verdicts[50].cause == "timeout"


def test_forged_answers_neither_break_the_pool_nor_reach_other_samples(tmp_path: Path) -> None:
    """A verifier can write to its worker's connection, so calls are numbered and every value is checked."""
    kinds = [kind for kind in worker_protocol.FORGED if kind not in worker_protocol.HANG]
    assert worker_protocol.forge(*kinds)(tmp_path) is None


def test_scores_without_an_order_are_rejected(tmp_path: Path) -> None:
    assert worker_protocol.without_order(worker_protocol.set_of_scores)(tmp_path) is None


def large(task: Task, text: str) -> float:
    if text == "fail":
        raise OSError("try again")
    return float(len(text))


def test_a_worker_that_retires_with_unsent_requests_is_replaced() -> None:
    """A failure retires the only worker while more requests wait than its connection can buffer."""
    with pool_of(large, limits=WorkerLimits()) as pool:
        verdicts = verify_texts(pool, ["fail", *("x" * 20_000_000 for _ in range(3))])
    assert [verdict.status for verdict in verdicts] == ["rejected", *["scored"] * 3]


def test_a_consumer_that_pauses_loses_no_verdicts() -> None:
    with pool_of(misbehaving.misbehave) as pool:
        pool.submit([misbehaving.item(number, FINE) for number in range(20)])
        found = [next(iter(pool.completed(wait=True))) for _ in range(5)]
        found += list(pool.completed(wait=True))
    assert sorted(key.slot for key, _ in found) == list(range(20))


def test_a_closed_pool_rejects_items() -> None:
    with pool_of(misbehaving.misbehave) as pool:
        pass
    with pytest.raises(VerifierError, match="closed"):
        pool.submit([misbehaving.item(0, FINE)])


def test_closing_does_not_wait_for_a_long_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a module starts on import are also ended."""
    (tmp_path / "slow_checker.py").write_text(
        "import os, subprocess, time\n"
        "if os.environ.get('STEELYARD_FORKSERVER'):\n"
        "    subprocess.Popen(['sleep', '1000'])\n"
        f"    open({str(tmp_path / 'importing')!r}, 'w').close()\n"
        "    time.sleep(1000)\n"
        "def score(task, text):\n    return 1.0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import slow_checker  # type: ignore[import-not-found]

    with pool_of(slow_checker.score) as pool:
        pool.submit([misbehaving.item(0, FINE)])
        wait_for((tmp_path / "importing").exists)
        began = time.monotonic()
        pool.close()
        assert time.monotonic() - began < 100, "the import takes 1,000 s"
    sys.modules.pop("slow_checker", None)
