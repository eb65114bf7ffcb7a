"""A learner group whose ranks are local processes connected by pipes; it works as on Ray, but without Ray."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from steelyard.cluster.learners import RankGroup
from steelyard.cluster.rank import BuildLearner, LearnerRank
from steelyard.training.learner import UpdateRule

PATIENCE = 240.0
PRELOAD = ["torch", "transformers", "peft", "steelyard.compose.ranks", "transformers.models.llama.modeling_llama"]


class ProcessGroup(RankGroup):
    """Starts ``ranks`` processes from a fork server that has already imported everything."""

    def __init__(
        self, build: BuildLearner, rule: UpdateRule, *, ranks: int, mirror: Any = None, **settings: Any
    ) -> None:
        super().__init__(rule, mirror=mirror)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
        pairs = [context.Pipe() for _ in range(ranks)]
        self._pipes: list[Connection] = [ours for ours, _ in pairs]
        self._processes = [context.Process(target=serve, args=(theirs,), daemon=True) for _, theirs in pairs]
        for process in self._processes:
            process.start()
        where = self.call_first("address")
        for rank, pipe in enumerate(self._pipes):
            pipe.send(("start", (build, where, rank, ranks), {"seconds": PATIENCE, **settings}))
        self._answers(self._pipes)

    def call_all(self, method: str, *arguments: Any) -> list[Any]:
        for pipe in self._pipes:
            pipe.send((method, arguments, {}))
        return self._answers(self._pipes)

    def call_first(self, method: str, *arguments: Any) -> Any:
        self._pipes[0].send((method, arguments, {}))
        return self._answers(self._pipes[:1])[0]

    def _answers(self, pipes: Sequence[Connection]) -> list[Any]:
        answers: list[Any] = []
        for pipe in pipes:
            if not pipe.poll(PATIENCE):
                raise TimeoutError(f"a learner rank did not answer within {PATIENCE:.0f} s")
            ok, answer = pipe.recv()
            if not ok:
                raise answer
            answers.append(answer)
        return answers

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def serve(pipe: Connection) -> None:
    """Run a rank: call the requested methods and send back the result or the error."""
    import torch

    torch.set_num_threads(1)
    rank = LearnerRank()
    while True:
        try:
            method, arguments, named = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, getattr(rank, method)(*arguments, **named)))
        except Exception as error:  # noqa: BLE001 - the other side must know about every error
            pipe.send((False, error))
