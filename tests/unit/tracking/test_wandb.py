"""An offline Weights & Biases run, and its continuation under the same id."""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import MissingExtraError
from steelyard.tracking import Histogram, ShownSample
from steelyard.tracking.wandb import WandbTracker
from steelyard.types import Verdict

pytest.importorskip("wandb")

pytestmark = [
    pytest.mark.slow,
    # wandb leaves resources to the garbage collector, which must not fail these tests.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def no_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the API key and the home directory that may contain one, and point to an unreachable service."""
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")


def history(run_folder: Path) -> list[dict[str, Any]]:
    """Read the rows of an offline run's log; wandb's service process writes its end shortly after ``finish``."""
    from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportAttributeAccessIssue]

    (path,) = run_folder.glob("run-*.wandb")
    for _ in range(1000):
        records = [Record.FromString(data) for data in log_records(path.read_bytes())]
        if any(record.WhichOneof("record_type") == "exit" for record in records):
            break
        time.sleep(0.1)
    return [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]


def log_records(data: bytes) -> Iterator[bytes]:
    """Parse LevelDB's log format: 32 KiB blocks; records of checksum, length and kind (1 complete; 2, 3, 4 parts)."""
    place, parts = 7, b""  # skip the file header
    while place + 7 <= len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


def test_an_offline_run_is_written_and_resumes_under_the_same_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = tmp_path / "run"
    first = WandbTracker(run, mode="offline", config={"seed": 1})
    first.log(1, {"reward/mean": 0.25, "parts/a/histogram": Histogram.of([0.0, 1.0])})
    first.log(2, {"reward/mean": 0.5})
    first.samples(2, [ShownSample("best", "t", "p", "text", Verdict.scored(1.0))])
    first.close()

    second = WandbTracker(run)
    second.rewind(1)
    second.log(2, {"reward/mean": 0.5})
    second.close()

    assert first.run_id == second.run_id
    folders = sorted((run / "wandb").glob("offline-run-*"))
    assert len(folders) == 2
    assert all(first.run_id in folder.name for folder in folders)
    rows = history(folders[0])
    assert [(row["step"], row.get("reward/mean")) for row in rows] == [(1, 0.25), (2, 0.5), (2, None)]
    assert rows[0]["parts/a/histogram/_type"] == "histogram"
    assert "samples" in {name.split("/")[0] for name in rows[2]}
    assert [(row["step"], row["reward/mean"]) for row in history(folders[1])] == [(2, 0.5)]


def test_the_error_names_the_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"steelyard\[wandb\]"):
        WandbTracker(tmp_path)
