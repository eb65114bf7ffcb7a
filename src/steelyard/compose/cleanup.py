"""Release resources if a run cannot start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from steelyard.sampling.base import Closeable


@contextmanager
def closed_on_error(part: Closeable) -> Iterator[None]:
    """Close ``part`` if the block raises, so that no workers or memory are leaked."""
    try:
        yield
    except BaseException:
        part.close()
        raise
