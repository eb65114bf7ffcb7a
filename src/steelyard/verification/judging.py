"""One call of a verifier, guarded: whatever it does, every item gets a verdict and the blame is explicit."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from steelyard.errors import Invalid
from steelyard.text import bounded, ending, shortened, shown
from steelyard.types import Verdict
from steelyard.verification.base import Cause, Item, Verifier, WholeGroup
from steelyard.verification.returns import BadReturn, as_scores, sound

TAIL_CHARACTERS = 1200
"""How much of a traceback's end is kept as the reason."""

_HERE = str(Path(__file__).parent)


def judge(verifier: Verifier, items: Sequence[Item]) -> list[Verdict]:
    """Verify ``items`` in one call; one verdict an item, in order.

    ``Invalid`` is rejected with the verifier's floor, any other exception is unscored. When a batch of several fails
    as a whole its items are tried one by one, so one bad item never loses the others. ``KeyboardInterrupt`` passes.
    """
    try:
        returned = as_scores(verifier.verify(items), len(items))
        return [_checked(verdict, item, verifier.floor) for verdict, item in zip(returned, items, strict=True)]
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a verifier may do anything
        if len(items) > 1 and not isinstance(verifier.mode, WholeGroup) and not isinstance(error, BadReturn):
            return [verdict for item in items for verdict in judge(verifier, [item])]
        return [_verdict_of_error(error, verifier.floor)] * len(items)


def _checked(verdict: object, item: Item, floor: float | None) -> Verdict:
    if isinstance(verdict, Verdict):
        return sound(verdict, item.sample.text, floor)
    return Verdict.unscored(Cause.BAD_RETURN, f"expected a Verdict, got {type(verdict).__name__}")


def _verdict_of_error(error: BaseException, floor: float | None) -> Verdict:
    if isinstance(error, Invalid):
        return Verdict.rejected(bounded(_said(error)), floor=floor)
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


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - an exception of the verifier's own may do anything
        return f"{type(error).__name__}, whose text raised {type(failure).__name__}"


def traceback_tail(error: BaseException) -> str:
    """The end of the traceback, from the first frame that is not of this package."""
    lines = traceback.format_exception(type(error), error, _past_this_package(error.__traceback__))
    text = "".join(lines).strip()
    return ending(text, TAIL_CHARACTERS)


def _past_this_package(trace: TracebackType | None) -> TracebackType | None:
    start = trace
    while start is not None and start.tb_frame.f_code.co_filename.startswith(_HERE):
        start = start.tb_next
    return start or trace
