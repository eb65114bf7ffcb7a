"""A taskset for ``verifiers`` with one turn per task: rewards, metrics, and a reward that fails."""

from collections.abc import Iterator

import verifiers.v1 as vf


class Sum(vf.TaskData):
    answer: int


class SumTask(vf.Task[Sum, vf.State, vf.TaskConfig]):
    @vf.reward(weight=2.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(str(self.data.answer) in trace.last_reply)

    @vf.metric
    async def words(self, trace: vf.Trace) -> float:
        if "crash" in trace.last_reply:
            raise ValueError("no words")
        return float(len(trace.last_reply.split()))


class Sums(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self) -> Iterator[SumTask]:
        for number in range(5):
            data = Sum(prompt=f"What is {number} + {number}?", system_prompt="Be brief.", answer=2 * number)
            yield SumTask(data, self.config.task)


__all__ = ["Sums"]
