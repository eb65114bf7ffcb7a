"""Verifiers that write to the connection between the worker and the pool, which is open in their process."""

from __future__ import annotations

import json
import os
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.robustness.attack_programs import Attack
from benchmarks.verification.misbehaving import item
from steelyard.types import Task, Verdict
from steelyard.verification import ProcessPool, WorkerLimits, as_verifier

LIMITS = WorkerLimits(seconds=60.0, memory_mb=2048)
SHORT = WorkerLimits(seconds=5.0, memory_mb=2048)
FINE = "fine"
BEFORE, AFTER = 5, 10
HUGE = 2.0**40
MOST_REASON = 10_000
GOOD = {"status": "scored", "reward": HUGE, "success": True}
FOREVER = 100_000.0


def frame(payload: bytes) -> bytes:
    return struct.pack("<Q", len(payload)) + payload


def call_number() -> int:
    """Return the current call's number, found on the worker's stack."""
    caller: Any = sys._getframe()
    while caller is not None:
        if caller.f_code.co_name == "serve":
            return int(caller.f_locals.get("number", 0))
        caller = caller.f_back
    return 0


def answers(number: object, *verdicts: object, **more: object) -> bytes:
    return frame(json.dumps({"call": number, "verdicts": list(verdicts), "last": False, **more}).encode())


def bad_values(number: int) -> bytes:
    return answers(number, {"status": "scored", "reward": 1.0, "success": True, "parts": {"a": {"b": [1]}}})


FORGED: dict[str, Callable[[int], bytes]] = {
    "garbage": lambda _: os.urandom(64),
    "a frame of four exabytes": lambda _: struct.pack("<Q", 2**62),
    "half a frame": lambda _: struct.pack("<Q", 2**20) + b"{",
    "deeply nested JSON": lambda _: frame(b"[" * 100_000),
    "JSON that is not a message": lambda _: frame(b"3") + frame(b"[]") + frame(b"null"),
    "ready once more": lambda _: frame(b'{"ready": 1}'),
    "failed to start": lambda _: frame(b'{"failed": "no"}'),
    "an answer without a number": lambda _: frame(json.dumps({"verdicts": [GOOD], "last": False}).encode()),
    "answers to the calls that follow": lambda number: b"".join(answers(number + ahead, GOOD) for ahead in range(1, 9)),
    "its own answer and the next ones": lambda number: b"".join(answers(number + ahead, GOOD) for ahead in range(9)),
    "its own answer, three times": lambda number: 3 * answers(number, GOOD),
    "too many verdicts": lambda number: answers(number, GOOD, GOOD, GOOD),
    "a verdict with nested values": bad_values,
    "a number of twenty million characters": lambda _: answers("x" * 20_000_000, GOOD),
    "a reward that is text": lambda number: answers(number, {**GOOD, "reward": "lots"}),
    "a reward that is infinite": lambda number: answers(number, {**GOOD, "reward": float("inf")}),
    "steps beyond the text": lambda number: answers(number, {**GOOD, "steps": [[10**9, 1.0]]}),
}


def forging(_task: Task, text: str) -> float:
    """Score by length; if the text names a forgery, first write it to each of the worker's sockets."""
    if text in FORGED:
        data = FORGED[text](call_number())
        for descriptor in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    sent = data
                    while sent:
                        sent = sent[os.write(descriptor, sent) :]
            except OSError:
                continue
        if text == "ready once more":
            time.sleep(FOREVER)
    return float(len(text))


def set_of_scores(_tasks: list[Task], texts: list[str]) -> set[float]:
    return {float(len(text)) for text in texts}


def dictionary_of_scores(_tasks: list[Task], texts: list[str]) -> Any:
    return dict.fromkeys((float(len(text)) for text in texts), 1.0).keys()


def verify_texts(function: Any, texts: list[str], limits: WorkerLimits = LIMITS, **settings: Any) -> list[Verdict]:
    pool = ProcessPool(as_verifier(function, **settings), workers=1, limits=limits)
    try:
        pool.submit([item(number, text) for number, text in enumerate(texts)])
        found = {key.slot: verdict for key, verdict in pool.completed(wait=True)}
        return [found[number] for number in range(len(texts))]
    finally:
        pool.close()


def forge(*kinds: str, limits: WorkerLimits = LIMITS) -> Callable[[Path], str | None]:
    """Return an attack in which some samples forge messages; every other sample must get its own verdict."""

    def run(_folder: Path) -> str | None:
        texts: list[str] = []
        for kind in kinds:
            texts += [FINE + "x" * (len(texts) + number) for number in range(BEFORE)] + [kind]
        texts += [FINE + "y" * (len(texts) + number) for number in range(AFTER)]
        for text, verdict in zip(texts, verify_texts(forging, texts, limits), strict=True):
            if len(verdict.reason) > MOST_REASON:
                return f"{text!r} has a reason of {len(verdict.reason)} characters"
            if text not in FORGED and (verdict.status, verdict.reward) != ("scored", len(text)):
                return f"{text!r} got {verdict}"
        return None

    return run


def without_order(function: Any) -> Callable[[Path], str | None]:
    """Return an attack whose scores have no order, so they cannot be assigned to samples."""

    def run(_folder: Path) -> str | None:
        verdicts = verify_texts(function, ["aaaaaaaa", "a", "aaa"], mode="batch", size=3)
        scored = [verdict for verdict in verdicts if verdict.status == "scored"]
        return f"accepted: {scored}" if scored else None

    return run


HANG = ("half a frame", "ready once more")
"""Calls with these forgeries end only at the time limit."""
ATTACKS = (
    Attack("worker protocol", "every forgery in turn", forge(*(kind for kind in FORGED if kind not in HANG))),
    *(Attack("worker protocol", kind, forge(kind), quick=False) for kind in FORGED if kind not in HANG),
    *(Attack("worker protocol", kind, forge(kind, limits=SHORT), quick=False) for kind in HANG),
    Attack("worker protocol", "a batch verifier returns a set", without_order(set_of_scores)),
    Attack("worker protocol", "a batch verifier returns the keys of a dict", without_order(dictionary_of_scores)),
)
