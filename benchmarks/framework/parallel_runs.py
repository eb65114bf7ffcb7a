"""Run long jobs in parallel, each in its own process with an equal share of the cores."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing.managers import SyncManager
from typing import Any, TypeVar

from rich.progress import Progress

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")
ReportProgress = Callable[[float, str], None]
"""Receives the training minutes so far and a description of the current work."""
RunJob = Callable[[Job, ReportProgress], Outcome]
"""Must be a module-level function so that it can be pickled for another process."""


def run_in_parallel(
    run: RunJob[Job, Outcome], jobs: Mapping[str, Job], progress: Progress, minutes: float
) -> Iterator[Outcome]:
    """Run all jobs, one per core at a time, and yield their outcomes in order.

    Each job has a named progress bar that is full after ``minutes``.
    """
    cores = os.cpu_count() or 1
    workers = min(len(jobs), cores)
    bars = {name: progress.add_task(f"{name}: waits", total=minutes) for name in jobs}
    context = multiprocessing.get_context("spawn")
    manager = SyncManager(ctx=context)
    manager.start(_exit_with_parent)
    with manager:
        updates: Any = manager.Queue()

        def listen() -> None:
            for name, spent, text in iter(updates.get, None):
                progress.update(bars[name], completed=min(spent, minutes), description=f"{name}: {text}")

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            with ProcessPoolExecutor(workers, context, _initialise, (cores // workers,)) as processes:
                yield from processes.map(partial(_in_process, run, updates), jobs, jobs.values())
        finally:
            updates.put(None)
            listener.join()


def _initialise(threads: int) -> None:
    """Set the thread count before the job imports torch, which reads the variable only then."""
    _exit_with_parent()
    os.environ["OMP_NUM_THREADS"] = str(threads)


def _exit_with_parent() -> None:
    """Exit when the parent process is gone, for whatever reason; otherwise a job would keep training for an hour."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _in_process(run: RunJob[Job, Outcome], updates: Any, name: str, job: Job) -> Outcome:
    return run(job, lambda spent, text: updates.put((name, spent, text)))
