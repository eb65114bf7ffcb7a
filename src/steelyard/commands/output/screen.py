"""Where commands write: results to stdout, progress to stderr, so that a pipe gets results alone."""

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
    """A number of things on the command line."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number from 1 on")
    return int(text)


def amount(size: float) -> str:
    """Bytes, with three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def stdout() -> Console:
    return Screen(highlight=False, soft_wrap=False)


def tell(line: str) -> None:
    """A line of results as it stands: paths and commands are neither folded nor coloured."""
    stdout().print(line, markup=False, soft_wrap=True)


def stderr() -> Console:
    return Screen(stderr=True, highlight=False)


@contextmanager
def loading(what: str) -> Iterator[None]:
    """A spinner while engines and models load, without their own messages; if there is no terminal, lines when it takes
    long.
    """
    console = stderr()
    with console.status(f"loading {what}") if console.is_terminal else stages(f"loading {what}"):
        from steelyard.quiet import quiet_engines

        with quiet_engines():
            yield


class CountedSampler:
    """A sampler that calls ``advance`` after every sample."""

    def __init__(self, sampler: Sampler, advance: Callable[[], None]) -> None:
        self.sampler, self.advance = sampler, advance

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        for made in self.sampler.sample(requests, decoding):
            self.advance()
            yield made

    def publish(self, version: int) -> None:
        self.sampler.publish(version)
