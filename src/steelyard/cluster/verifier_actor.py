"""The actor that verifies on a cluster node: a pool of worker processes with the same limits as on one machine."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steelyard.types import SampleKey, Verdict
from steelyard.verification import Item
from steelyard.verification.calls import Call, Settled
from steelyard.verification.processes import ProcessPool
from steelyard.verification.transport import PackedVerifier

CHECK_SECONDS = 1.0


class VerifierActor:
    """A Ray actor that verifies several chunks of calls concurrently and returns each chunk when it is complete."""

    def __init__(
        self, verifier: PackedVerifier, workers: int, settings: dict[str, Any], paths: Sequence[str], folder: str
    ) -> None:
        sys.path.extend(path for path in paths if path not in sys.path)
        if Path(folder).is_dir():
            os.chdir(folder)
        self._verdicts: dict[SampleKey, Verdict] = {}
        self._changed = threading.Condition()
        self._pool = ProcessPool(verifier, workers=workers, listener=self._settled, **settings)

    def process(self) -> int:
        """Return the process id; the call returns once the actor is running."""
        return os.getpid()

    def verify(self, chunk: Sequence[Sequence[Item]]) -> str:
        """Return JSON with the key and verdict of every item, and the counters of the pool such as lost workers."""
        calls = [Call.of(items) for items in chunk]
        keys = [item.sample.key for call in calls for item in call.items]
        self._pool.submit_calls(calls)
        with self._changed:
            while not all(key in self._verdicts for key in keys):
                self._changed.wait(CHECK_SECONDS)
                self._pool.require_working()
            verdicts = [(key, self._verdicts.pop(key).to_json()) for key in keys]
        return json.dumps({"verdicts": verdicts, "counts": self._pool.metrics()})

    def _settled(self, settled: Settled) -> None:
        with self._changed:
            self._verdicts.update(settled)
            self._changed.notify_all()
