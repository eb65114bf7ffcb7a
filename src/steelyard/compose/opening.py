"""What is opened for a run and must not stay open if the run cannot begin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from steelyard.sampling.base import Closeable


@contextmanager
def closed_on_error(part: Closeable) -> Iterator[None]:
    """If what follows fails, no workers or memory are left behind."""
    try:
        yield
    except BaseException:
        part.close()
        raise
