"""The verifier pool on a real one-node Ray cluster: causes match the process pool, and a lost actor loses no work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from benchmarks.framework.orphans import wait_for_pool_processes
from benchmarks.robustness.attack_programs import ray_cluster
from benchmarks.verification import misbehaving
from benchmarks.verification.faults import verify_texts
from benchmarks.verification.misbehaving import EXPECTED, FINE, PATIENT_LIMITS, Expected
from benchmarks.verification.worker_kills import slow_verifier
from steelyard.cluster.connection import LOCAL_VARIABLES, Connection
from steelyard.cluster.pool import RayPool
from steelyard.errors import VerifierError
from steelyard.verification import as_verifier

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Connection]:
    before = {name: os.environ.get(name) for name in LOCAL_VARIABLES}
    connection = Connection()
    yield connection
    connection.close()
    assert wait_for_pool_processes(0) == 0
    assert {name: os.environ.get(name) for name in LOCAL_VARIABLES} == before, "the environment is restored"


def test_a_local_cluster_listens_on_loopback_only_and_requires_its_token(cluster: Connection) -> None:
    pytest.importorskip("grpc")
    assert ray_cluster.flaw(cluster) is None


def test_workers_have_the_priority_of_the_run() -> None:
    pool = RayPool(as_verifier(misbehaving.misbehave), workers=1, limits=PATIENT_LIMITS)
    try:
        verify_texts(pool, [FINE])
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert [os.getpriority(os.PRIO_PROCESS, process) for process in pool.actor_processes()] == [own]
    finally:
        pool.close()


def test_failure_causes_match_the_process_pool() -> None:
    kinds = [FINE, "segfault", "raise", "exit", "close", "session", "nan", "none", "sleep", FINE]
    pool = RayPool(as_verifier(misbehaving.misbehave), workers=2, limits=PATIENT_LIMITS)
    try:
        verdicts = verify_texts(pool, kinds)
    finally:
        pool.close()
    seen = [Expected(verdict.status, verdict.cause, verdict.detail) for verdict in verdicts]
    assert seen == [EXPECTED[kind] for kind in kinds]
    assert pool.metrics()["pool/workers_lost"] > 0


def test_batches_are_formed_before_they_are_sent() -> None:
    pool = RayPool(
        as_verifier(misbehaving.misbehave_in_batches, mode="batch", size=4), workers=1, limits=PATIENT_LIMITS
    )
    try:
        verdicts = verify_texts(pool, [FINE, "few", FINE, FINE, FINE])
    finally:
        pool.close()
    assert [verdict.status for verdict in verdicts] == ["scored", "rejected", "scored", "scored", "scored"]


def test_calls_of_a_killed_actor_are_verified_elsewhere() -> None:
    pool = RayPool(as_verifier(slow_verifier), workers=2, workers_per_actor=1)
    try:
        pool.submit([misbehaving.item(number, str(number)) for number in range(1000)])
        found = dict(next(pool.completed(wait=True)) for _ in range(1))
        os.kill(pool.actor_processes()[0], signal.SIGKILL)
        time.sleep(0.1)
        found.update(pool.completed(wait=True))
    finally:
        pool.close()
    assert sorted(key.slot for key in found) == list(range(1000))
    assert all(verdict.reward == key.slot for key, verdict in found.items() if verdict.status == "scored")
    assert sum(verdict.status == "scored" for verdict in found.values()) == 1000


def test_two_pools_share_the_cluster_and_close_in_either_order() -> None:
    pools = [RayPool(as_verifier(slow_verifier), shares=2) for _ in range(2)]
    try:
        for pool in pools:
            assert [verdict.status for verdict in verify_texts(pool, ["1", "2"])] == ["scored", "scored"]
    finally:
        for pool in pools:
            pool.close()
            pool.close()


def test_a_verifier_that_does_not_start_stops_the_run(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "absent_checker.py").write_text(
        "import os\nif os.environ.get('STEELYARD_FORKSERVER'):\n    raise ImportError('no licence')\n"
        "def score(task, text):\n    return 1.0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import absent_checker  # type: ignore[import-not-found]

    pool = RayPool(as_verifier(absent_checker.score), workers=1)
    try:
        pool.submit([misbehaving.item(0, FINE)])
        with pytest.raises(VerifierError, match="no licence"):
            list(pool.completed(wait=True))
    finally:
        pool.close()
