"""Long runs side by side, each in a process of its own with its share of the cores."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, TypeVar

from rich.progress import Progress

from benchmarks.watched import Tell

Made = TypeVar("Made")
Run = Callable[[int, Tell], Made]
"""A seed's run; a function of a module, for a process can be told no other."""


def abreast(run: Run[Made], seeds: Sequence[int], progress: Progress, minutes: float) -> Iterator[Made]:
    """What ``run`` makes of each seed, in their order, with a bar a seed; as many at once as there are cores."""
    cores = os.cpu_count() or 1
    at_once = min(len(seeds), cores)
    bars = {seed: progress.add_task(f"seed {seed}: waits", total=minutes) for seed in seeds}
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        news: Any = manager.Queue()

        def listen() -> None:
            for seed, spent, text in iter(news.get, None):
                progress.update(bars[seed], completed=min(spent, minutes), description=f"seed {seed}: {text}")

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            with ProcessPoolExecutor(at_once, context, _begin, (cores // at_once,)) as processes:
                yield from processes.map(partial(_in_process, run, news), seeds)
        finally:
            news.put(None)
            listener.join()


def _begin(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def _in_process(run: Run[Made], news: Any, seed: int) -> Made:
    return run(seed, lambda spent, text: news.put((seed, spent, text)))
