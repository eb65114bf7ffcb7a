"""A replica of an engine in its own process. This module does not depend on Ray."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from torch import Tensor

from steelyard.sampling.base import Decoding, SampleRequest, TurnQueue
from steelyard.types import Sample, SampleKey

Named = Sequence[tuple[str, Tensor]]


class Engine(Protocol):
    """A sampler that can load new weights."""

    def load(self, weights: Named, version: int) -> None: ...

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]: ...

    def sample_turns(
        self, requests: Sequence[SampleRequest], decoding: Decoding, turns: TurnQueue
    ) -> Iterator[Sample | None]: ...


class Inbox(TurnQueue):
    """Receives new turns and the keys of ended episodes from the controller while a replica samples."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self.closed = False

    def receive(self, requests: Sequence[SampleRequest], ended: Sequence[SampleKey], closed: bool) -> None:
        with self._changed:
            for request in requests:
                self.add(request)
            for key in ended:
                self.end(key)
            self.closed = closed
            self._changed.notify_all()

    def wait(self, *, requests_only: bool = False) -> None:
        """Wait until something arrives or the inbox is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed or self._requests or (self._newly_ended and not requests_only))
            self.take_ended()


class SamplerActor:
    """The actor class: an engine, built on first use."""

    def __init__(self, build: Callable[[], Engine], paths: Sequence[str] = (), folder: str | None = None) -> None:
        sys.path.extend(path for path in paths if path not in sys.path)
        if folder is not None and Path(folder).is_dir():
            os.chdir(folder)
        self._build = build
        self._inboxes: dict[int, Inbox] = {}

    @cached_property
    def engine(self) -> Engine:
        return self._build()

    def process(self) -> int:
        """Return the process id; the call returns once the actor has been placed."""
        return os.getpid()

    def load(self, weights: Named, version: int) -> int:
        self.engine.load(weights, version)
        return version

    def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
        yield from self.engine.sample(requests, decoding)

    def sample_turns(self, number: int, decoding: Decoding) -> Iterator[Sample]:
        """Sample the turns that are passed to ``receive`` under this number, until their inbox is closed."""
        inbox = self._inboxes.setdefault(number, Inbox())
        try:
            while not inbox.closed:
                inbox.wait(requests_only=True)
                for sample in self.engine.sample_turns(inbox.take(), decoding, inbox):
                    if inbox.closed:
                        return
                    if sample is None:
                        inbox.wait()
                    else:
                        yield sample
        finally:
            del self._inboxes[number]

    def receive(
        self, number: int, requests: Sequence[SampleRequest], ended: Sequence[SampleKey], closed: bool = False
    ) -> None:
        self._inboxes.setdefault(number, Inbox()).receive(requests, ended, closed)
