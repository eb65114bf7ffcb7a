"""Failures are retried, attributed to the sample or left unscored."""

from __future__ import annotations

import pytest

from steelyard.errors import VerifierError
from steelyard.types import Verdict
from steelyard.verification import BatchMode, Blame, Cause, GroupMode, SingleMode, as_verifier
from steelyard.verification.blame import require_causes
from steelyard.verification.calls import Batcher, Call, settle

CRASH = Verdict.unscored(Cause.SIGNAL, "SIGSEGV", detail="SIGSEGV")
ABORT = Verdict.unscored(Cause.SIGNAL, "SIGABRT", detail="SIGABRT")
LATE = Verdict.unscored(Cause.TIMEOUT, "no verdict after 1 s")
LOST = Verdict.unscored(Cause.LOST_WORKER)
SILENT = Verdict.unscored(Cause.NO_SCORE)
FINE = Verdict.scored(1.0)


@pytest.mark.parametrize(
    ("failures", "status"),
    [
        ((CRASH, CRASH), "rejected"),
        ((LATE, LATE), "rejected"),
        ((CRASH, LATE), "unscored"),
        ((CRASH, ABORT), "unscored"),
        ((LOST, LOST), "unscored"),
        ((CRASH,), "unscored"),
    ],
)
def test_only_the_same_failure_in_every_try_rejects_the_sample(failures, status) -> None:
    final = Blame().final(failures, floor=-2.0)
    assert (final.status, final.tries) == (status, len(failures))
    assert final.reward == (-2.0 if status == "rejected" else 0.0)
    assert final.verifier_failed, "it remains a failure in either case"
    assert Blame().final(failures, floor=None).open_floor == (status == "rejected")


def test_a_cause_can_be_mapped_to_either_outcome() -> None:
    blame = Blame(tries=1, outcome={"timeout": "rejected", "killed by signal": "unscored"})
    assert blame.final((LATE,), 0.0).status == "rejected"
    assert blame.final((CRASH, CRASH), 0.0).status == "unscored"


def test_a_verifier_declares_its_own_outcomes() -> None:
    own = as_verifier(lambda task, text: 1.0, blame={"timeout": "unscored"})
    default = Blame(3, {"exited": "rejected", "timeout": "rejected"})
    assert default.with_outcomes(own.blame) == Blame(3, {"exited": "rejected", "timeout": "unscored"})
    with pytest.raises(VerifierError, match="unknown cause 'timeuot'; valid causes are exception"):
        as_verifier(lambda task, text: 1.0, blame={"timeuot": "unscored"})
    with pytest.raises(VerifierError, match="must be 'rejected' or 'unscored'"):
        require_causes("f", {"timeout": "zero"})


def test_failures_are_retried_and_then_settled(item) -> None:
    call = Call.of([item("a"), item("b", key=(0, 1, 0, 0))])
    settled, (retry,) = settle(call, [FINE, CRASH], BatchMode(2), Blame(), 0.0)
    assert [verdict for _, verdict in settled] == [FINE]
    assert [entry.sample.text for entry in retry.items] == ["b"]
    settled, retries = settle(retry, [FINE], BatchMode(2), Blame(), 0.0)
    assert (settled[0][1].status, settled[0][1].tries, retries) == ("scored", 2, [])
    settled, retries = settle(retry, [CRASH], BatchMode(2), Blame(), 0.0)
    assert (settled[0][1].status, retries) == ("rejected", [])


def test_a_batch_that_fails_as_a_whole_is_split_without_using_a_try(item) -> None:
    call = Call.of([item("a"), item("b", key=(0, 1, 0, 0))])
    settled, retries = settle(call, [CRASH, CRASH], BatchMode(2), Blame(tries=1), 0.0)
    assert not settled
    assert [(len(call.items), call.before) for call in retries] == [(1, ((),)), (1, ((),))]
    settled, retries = settle(retries[0], [CRASH], BatchMode(2), Blame(tries=1), 0.0)
    assert (len(settled), retries) == (1, [])


def test_a_verifier_that_declines_to_score_is_not_retried(item) -> None:
    own = Verdict.unscored("solver licence", "expired")
    for verdict in (SILENT, own):
        settled, retries = settle(Call.of([item()]), [verdict], SingleMode(), Blame(), 0.0)
        assert (settled[0][1].status, retries) == ("unscored", [])


def test_a_group_is_retried_as_a_whole(group) -> None:
    call = Call.of(group("a", "b"))
    settled, (retry,) = settle(call, [FINE, CRASH], GroupMode(), Blame(), 0.0)
    assert not settled
    assert len(retry.items) == 2
    settled, _ = settle(retry, [FINE, CRASH], GroupMode(), Blame(), 0.0)
    assert [verdict.status for _, verdict in settled] == ["scored", "rejected"], (
        "the failure is attributed to one sample"
    )


def test_a_group_that_fails_as_a_whole_is_unscored(group) -> None:
    _, (retry,) = settle(Call.of(group("a", "b")), [CRASH, CRASH], GroupMode(), Blame(), 0.0)
    settled, _ = settle(retry, [CRASH, CRASH], GroupMode(), Blame(), 0.0)
    assert [verdict.status for _, verdict in settled] == ["unscored", "unscored"]


def test_the_mode_determines_the_calls(group) -> None:
    items = [*group("a", "b", "c"), *group("d", "e", "f", slot=1)]
    mixed = [items[index] for index in (3, 0, 4, 1, 2, 5)]

    def texts(calls):
        return ["".join(entry.sample.text for entry in call.items) for call in calls]

    assert texts(Batcher(SingleMode()).add(mixed)) == list("daebcf")
    batches = Batcher(BatchMode(4))
    assert texts(batches.add(mixed)) == ["abde"]
    assert texts(batches.flush()) == ["cf"]
    groups = Batcher(GroupMode())
    assert texts(groups.add(mixed[:-1])) == ["abc"]
    assert texts(groups.flush()) == ["de"]
