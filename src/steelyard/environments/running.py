"""Run an environment in a verification pool: an item is an episode so far, and its result is a reply or a verdict."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from steelyard.environments.base import (
    Answer,
    Environment,
    Session,
    SessionEnvironment,
    Turns,
    name_of,
)
from steelyard.types import Reply, SampleKey, Task, Verdict
from steelyard.verification.base import Cause, Item, Verifier
from steelyard.verification.returns import BadReturn, as_number, checked_reply, verdict_of


@dataclass(slots=True)
class OpenSession:
    """A session and the turns that it has seen, including its own replies."""

    session: Session
    turns: Turns


class NotReproducibleError(Exception):
    """A session replied differently when its turns were replayed."""


class EnvironmentVerifier(Verifier):
    """Verifies episodes with an environment: ``verify`` returns ``Verdict.continues(reply)`` or the final verdict.

    Sessions stay open in the worker until their episode ends. Every item contains the whole episode, so any worker can
    reopen a session and replay its turns if the previous worker died or closed the session to make room.
    """

    def __init__(self, environment: Environment, *, seed: int = 0, max_sessions: int = 1024) -> None:
        self.environment, self.seed, self.max_sessions = environment, seed, max_sessions
        self.name, self.floor, self.blame = name_of(environment), environment.floor, dict(environment.blame)
        self.isolate, self.keeps_processes = environment.isolate, environment.keeps_processes
        self.sessions = isinstance(environment, SessionEnvironment)
        self._sessions: OrderedDict[SampleKey, OpenSession] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sessions": OrderedDict[SampleKey, OpenSession]()}

    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        return [self._verify(item) for item in items]

    def _verify(self, item: Item) -> Verdict:
        task, sample = item.task, item.sample
        turns = sample.messages
        try:
            if not turns:
                return Verdict.continues(checked_reply(self.environment.start(task)))
            if isinstance(self.environment, SessionEnvironment):
                answer = self._session_answer(self.environment, item, turns)
            elif not sample.truncated:
                answer = _unwrapped(self.environment.reply(task, turns))
            else:
                answer = _unwrapped(self.environment.cut_off(task, turns, sample.finish))
        except NotReproducibleError as error:
            return Verdict.unscored(Cause.NOT_REPRODUCIBLE, str(error))
        if not is_reply(answer):
            return verdict_of(answer, sample.text, floor=self.floor, success_at=self.environment.success_at)
        if sample.truncated:
            raise BadReturn(f"{self.name}: cut_off returned a reply; it must return a verdict, a number or a bool")
        return Verdict.continues(checked_reply(answer))

    # --- sessions ------------------------------------------------------------------------------------------------

    def open_sessions(self) -> Collection[SampleKey]:
        return self._sessions.keys()

    def close_sessions(self) -> None:
        while self._sessions:
            _close(self._sessions.popitem()[1].session)

    def _session_answer(self, environment: SessionEnvironment, item: Item, turns: Turns) -> Answer:
        key, sample = item.sample.key, item.sample
        answered = turns if turns[-1]["role"] != "assistant" else turns[:-1]
        opened = self._sessions.pop(key, None)
        if opened is not None and opened.turns != answered:
            _close(opened.session)
            opened = None
        if opened is None:
            opened = self._replayed(environment, item.task, key, answered)
        text = "" if answered is turns else turns[-1]["content"]
        try:
            session = opened.session
            answer = _unwrapped(session.cut_off(text, sample.finish) if sample.truncated else session.reply(text))
        except BaseException:
            _close(opened.session)
            raise
        if is_reply(answer):
            opened.turns = (*turns, *checked_reply(answer).messages)
            self._keep(key, opened)
        else:
            _close(opened.session)
        return answer

    def _replayed(self, environment: SessionEnvironment, task: Task, key: SampleKey, turns: Turns) -> OpenSession:
        """Open a session and replay the turns of an unfinished episode; the replies must be the same as before."""
        session = environment.open(task, sample_seed(self.seed, key))
        seen: Turns = ()
        try:
            while len(seen) < len(turns):
                written = turns[len(seen)]
                answer = _unwrapped(session.reply(written["content"]))
                replied = checked_reply(answer).messages if is_reply(answer) else ()
                seen = (*seen, written, *replied)
                if not replied or turns[: len(seen)] != seen:
                    raise NotReproducibleError(
                        f"turn {len(seen)}: the session was opened again on another worker and answered {answer!r}; "
                        "derive every random choice from the seed passed to `open`"
                    )
        except BaseException:
            _close(session)
            raise
        return OpenSession(session, seen)

    def _keep(self, key: SampleKey, opened: OpenSession) -> None:
        self._sessions[key] = opened
        while len(self._sessions) > self.max_sessions:
            _, oldest = self._sessions.popitem(last=False)
            _close(oldest.session)


def sample_seed(seed: int, key: SampleKey) -> int:
    """Return a seed below 2**31 that is specific to one sample of one run."""
    digest = hashlib.blake2b(repr((seed, *key)).encode(), digest_size=4).digest()
    return int.from_bytes(digest) >> 1


def is_reply(answer: object) -> bool:
    """Return whether the answer continues the episode."""
    return isinstance(answer, Reply | str) or (isinstance(answer, list | tuple) and as_number(answer) is None)


def _unwrapped(answer: Answer) -> Answer:
    """Return the reply in ``Verdict.continues(reply)``, or the answer itself."""
    return answer.reply if isinstance(answer, Verdict) and answer.reply is not None else answer


def _close(session: Session) -> None:
    with suppress(Exception):
        session.close()
