"""Call a verifier safely: every item gets a verdict, whatever the verifier does."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from steelyard.errors import Invalid
from steelyard.text import bounded, ending, shortened, shown
from steelyard.types import Verdict
from steelyard.verification.base import Cause, GroupMode, Item, Verifier
from steelyard.verification.returns import BadReturn, as_scores, checked_verdict

TAIL_CHARACTERS = 1200
"""Number of characters kept from the end of a traceback as the reason."""

_HERE = str(Path(__file__).parent)


def safe_verify(verifier: Verifier, items: Sequence[Item]) -> list[Verdict]:
    """Verify ``items`` in one call. Returns one verdict per item, in order.

    ``Invalid`` becomes a rejection with the verifier's floor; any other exception becomes an unscored verdict. If a
    batch raises, its items are verified one by one, so that one bad item does not affect the others.
    ``KeyboardInterrupt`` is not caught.
    """
    try:
        returned = as_scores(verifier.verify(items), len(items))
        return [_checked(verdict, item, verifier.floor) for verdict, item in zip(returned, items, strict=True)]
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a verifier may do anything
        if len(items) > 1 and not isinstance(verifier.mode, GroupMode) and not isinstance(error, BadReturn):
            return [verdict for item in items for verdict in safe_verify(verifier, [item])]
        return [_verdict_of_error(error, verifier.floor)] * len(items)


def _checked(verdict: object, item: Item, floor: float | None) -> Verdict:
    if isinstance(verdict, Verdict):
        return checked_verdict(verdict, item.sample.text, floor)
    return Verdict.unscored(Cause.BAD_RETURN, f"expected a Verdict, got {type(verdict).__name__}")


def _verdict_of_error(error: BaseException, floor: float | None) -> Verdict:
    if isinstance(error, Invalid):
        return Verdict.rejected(bounded(_message(error)), floor=floor)
    if isinstance(error, BadReturn):
        return Verdict.unscored(Cause.BAD_RETURN, str(error))
    if isinstance(error, SystemExit):
        return Verdict.unscored(
            Cause.EXITED,
            f"the verifier called exit with {shown(error.code, 200)}",
            detail=f"code {shortened(str(error.code), 40)}",
        )
    cause = Cause.OUT_OF_MEMORY if isinstance(error, MemoryError) else Cause.EXCEPTION
    return Verdict.unscored(cause, traceback_tail(error))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - a user's exception class may do anything
        return f"{type(error).__name__} (its message raised {type(failure).__name__})"


def traceback_tail(error: BaseException) -> str:
    """Return the end of the traceback, without the leading frames of this package."""
    lines = traceback.format_exception(type(error), error, _past_this_package(error.__traceback__))
    text = "".join(lines).strip()
    return ending(text, TAIL_CHARACTERS)


def _past_this_package(trace: TracebackType | None) -> TracebackType | None:
    start = trace
    while start is not None and start.tb_frame.f_code.co_filename.startswith(_HERE):
        start = start.tb_next
    return start or trace
