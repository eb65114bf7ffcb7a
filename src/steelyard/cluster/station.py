"""What runs on a node of the cluster: a pool of worker processes with the same limits and causes as on one machine."""

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


class Station:
    """An actor: takes chunks of calls, several at a time, and answers each when all of it is judged."""

    def __init__(
        self, verifier: PackedVerifier, workers: int, settings: dict[str, Any], paths: Sequence[str], folder: str
    ) -> None:
        sys.path.extend(path for path in paths if path not in sys.path)
        if Path(folder).is_dir():
            os.chdir(folder)
        self._judged: dict[SampleKey, Verdict] = {}
        self._news = threading.Condition()
        self._pool = ProcessPool(verifier, workers=workers, listener=self._settled, **settings)

    def process(self) -> int:
        """The actor's process id; answers when the actor is up."""
        return os.getpid()

    def judge(self, chunk: Sequence[Sequence[Item]]) -> str:
        """JSON: key and verdict of every item of the chunk, and what happened to the workers meanwhile."""
        calls = [Call.of(items) for items in chunk]
        keys = [item.sample.key for call in calls for item in call.items]
        self._pool.submit_calls(calls)
        with self._news:
            while not all(key in self._judged for key in keys):
                self._news.wait(CHECK_SECONDS)
                self._pool.require_working()
            verdicts = [(key, self._judged.pop(key).to_json()) for key in keys]
        return json.dumps({"verdicts": verdicts, "counts": self._pool.metrics()})

    def _settled(self, settled: Settled) -> None:
        with self._news:
            self._judged.update(settled)
            self._news.notify_all()
