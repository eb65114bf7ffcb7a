"""Long runs side by side, each in a process of its own with its share of the cores."""

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

Asked = TypeVar("Asked")
Made = TypeVar("Made")
Tell = Callable[[float, str], None]
"""Receives the minutes of training so far, and what is happening."""
Run = Callable[[Asked, Tell], Made]
"""A function of a module, for another process can be given no other."""


def abreast(run: Run[Asked, Made], asked: Mapping[str, Asked], progress: Progress, minutes: float) -> Iterator[Made]:
    """What ``run`` makes of each thing asked for, in their order; as many at once as there are cores. Each has a bar
    under its name, which is full after so many minutes.
    """
    cores = os.cpu_count() or 1
    at_once = min(len(asked), cores)
    bars = {name: progress.add_task(f"{name}: waits", total=minutes) for name in asked}
    context = multiprocessing.get_context("spawn")
    manager = SyncManager(ctx=context)
    manager.start(_end_with_parent)
    with manager:
        news: Any = manager.Queue()

        def listen() -> None:
            for name, spent, text in iter(news.get, None):
                progress.update(bars[name], completed=min(spent, minutes), description=f"{name}: {text}")

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            with ProcessPoolExecutor(at_once, context, _begin, (cores // at_once,)) as processes:
                yield from processes.map(partial(_in_process, run, news), asked, asked.values())
        finally:
            news.put(None)
            listener.join()


def _begin(threads: int) -> None:
    """torch reads the variable when the run imports it."""
    _end_with_parent()
    os.environ["OMP_NUM_THREADS"] = str(threads)


def _end_with_parent() -> None:
    """Have this process end when the one that began it is gone, however it went; else a run would go on for an hour
    unseen.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _in_process(run: Run[Asked, Made], news: Any, name: str, asked: Asked) -> Made:
    return run(asked, lambda spent, text: news.put((name, spent, text)))
