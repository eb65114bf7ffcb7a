"""A taskset for ``verifiers`` with a tool server."""

from collections.abc import Iterator

import verifiers.v1 as vf


class Prices(vf.Toolset[vf.ToolsetConfig, vf.State]):
    @vf.tool
    async def price(self, item: str) -> str:
        """Look up a price."""
        return f"{item} costs {len(item)}"


class ShopTask(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [Prices(vf.ToolsetConfig())]

    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float("5" in trace.last_reply)


class Shop(vf.Taskset[ShopTask, vf.TasksetConfig]):
    def load(self) -> Iterator[ShopTask]:
        yield ShopTask(vf.TaskData(prompt="What does an apple cost?"), self.config.task)


__all__ = ["Shop"]

if __name__ == "__main__":
    Prices.run()
