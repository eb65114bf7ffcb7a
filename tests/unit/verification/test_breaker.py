"""The circuit breaker: too many failures stop the run instead of counting as zero reward."""

from __future__ import annotations

import pytest

from steelyard.errors import VerifierError
from steelyard.types import SampleKey, Verdict
from steelyard.verification import CircuitBreaker, FunctionVerifier, InlinePool, Pipeline

FINE = Verdict.scored(1.0)
LATE = Verdict.unscored("timeout", "3 s")
CRASHED = Verdict("rejected", cause="killed by signal", detail="SIGSEGV", reason="SIGSEGV\nin solve()", tries=2)


def fed(breaker: CircuitBreaker, *verdicts: Verdict) -> None:
    for number, verdict in enumerate(verdicts):
        breaker.observe(SampleKey(0, 0, 0, number), verdict)


def test_the_breaker_stops_with_counts_and_examples() -> None:
    with pytest.raises(VerifierError) as stopped:
        fed(CircuitBreaker(0.5, 4), FINE, LATE, CRASHED, CRASHED)
    text = str(stopped.value)
    assert "failed for 3 of the last 4 samples: 2 × killed by signal (SIGSEGV), 1 × timeout" in text
    assert "timeout: 3 s" in text
    assert "SIGSEGV\n    in solve()" in text
    assert "steelyard check" in text


@pytest.mark.parametrize(("share", "stops"), [(0.4, True), (0.5, False), (1.0, False)])
def test_the_share_must_exceed_the_limit(share: float, stops: bool) -> None:
    if stops:
        with pytest.raises(VerifierError, match="1 of the last 2"):
            fed(CircuitBreaker(share, 2), FINE, LATE)
    else:
        fed(CircuitBreaker(share, 2), FINE, LATE)


def test_a_few_failures_at_the_start_do_not_trip_and_the_window_moves() -> None:
    fed(CircuitBreaker(0.5, 8), LATE, LATE, LATE)
    fed(CircuitBreaker(0.5, 4), LATE, LATE, FINE, FINE, FINE, FINE, LATE, LATE)
    with pytest.raises(VerifierError):
        fed(CircuitBreaker(0.5, 4), FINE, FINE, FINE, FINE, LATE, LATE, LATE)


def test_the_same_failure_from_the_start_stops_before_the_window_is_full() -> None:
    with pytest.raises(VerifierError, match="failed for 8 of the last 8 samples: 8 × timeout"):
        fed(CircuitBreaker(0.5, 1000), *[LATE] * 8)
    fed(CircuitBreaker(0.5, 1000), *[LATE] * 7, FINE, *[LATE] * 8)
    fed(CircuitBreaker(0.5, 1000), *[LATE, CRASHED] * 8)
    fed(CircuitBreaker(0.5, 1000), *[Verdict.unscored("exception", f"x\nKeyError: {name!r}") for name in "ab" * 4])
    fed(CircuitBreaker(1.0, 1000), *[LATE] * 20)


def test_ordinary_rejections_are_not_failures() -> None:
    fed(CircuitBreaker(0.0, 2), *[Verdict.rejected("no brick")] * 10)


def test_the_breaker_can_pause_and_continue(caplog) -> None:
    slept: list[float] = []
    fed(CircuitBreaker(0.5, 2, "continue", 7.0, slept.append), LATE, LATE, FINE, LATE, LATE)
    assert slept == [7.0, 7.0]
    assert "2 of the last 2" in caplog.text
    assert "Continuing in 7 s" in caplog.text


def test_the_breaker_observes_the_verdicts_of_a_pool(group) -> None:
    def broken(task, text):
        raise KeyError("key")

    pool = Pipeline([CircuitBreaker(0.5, 4)], InlinePool(FunctionVerifier(broken)))
    pool.submit(group("a", "b", "c", "d"))
    with pytest.raises(VerifierError, match="4 × exception"):
        list(pool.completed(wait=True))


def test_control_characters_from_a_verifier_are_removed() -> None:
    hostile = Verdict.unscored("cause\x1b[2J", "\x1b]0;title\x07 text", detail="d\x1b[2J")
    with pytest.raises(VerifierError) as stopped:
        fed(CircuitBreaker(0.5, 2), hostile, hostile)
    assert "\x1b" not in str(stopped.value)
    assert "\x07" not in str(stopped.value)
