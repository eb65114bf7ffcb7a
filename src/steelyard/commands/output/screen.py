"""Console output of commands: results go to stdout, progress to stderr, so that a pipe receives only results."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from steelyard.tracking.bars import stages
from steelyard.tracking.console import Screen

if TYPE_CHECKING:
    from steelyard.sampling.base import Decoding, Sampler, SampleRequest
    from steelyard.types import Sample


def positive(text: str) -> int:
    """Parse a positive integer from the command line."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} must be a positive integer")
    return int(text)


def amount(size: float) -> str:
    """Format a number of bytes to three significant digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def stdout() -> Console:
    return Screen(highlight=False, soft_wrap=False)


def print_line(line: str) -> None:
    """Print a line of results without wrapping or colour, so that paths and commands can be copied."""
    stdout().print(line, markup=False, soft_wrap=True)


def stderr() -> Console:
    return Screen(stderr=True, highlight=False)


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Show a spinner while models load, and silence the libraries' own messages.

    Without a terminal, log lines appear if loading takes a long time.
    """
    console = stderr()
    with console.status(f"loading {what}") if console.is_terminal else stages(f"loading {what}"):
        from steelyard.quiet import quiet_engines

        with quiet_engines():
            yield


class CountedSampler:
    """A sampler that calls ``advance`` after every sample, to drive a progress bar."""

    def __init__(self, sampler: Sampler, advance: Callable[[], None]) -> None:
        self.sampler, self.advance = sampler, advance

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        for sample in self.sampler.sample(requests, decoding):
            self.advance()
            yield sample

    def publish(self, version: int) -> None:
        self.sampler.publish(version)
