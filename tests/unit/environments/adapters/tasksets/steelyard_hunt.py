"""A game for ``verifiers``: the environment plays the user, and its hints are partly random."""

import random
from collections.abc import Iterator

import verifiers.v1 as vf


class Hidden(vf.TaskData):
    number: int


class HuntTask(vf.Task[Hidden, vf.State, vf.TaskConfig]):
    pass


class HuntConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()
    helper: vf.AgentConfig = vf.AgentConfig()
    ask_helper: bool = False


class HuntEnv(vf.Env[HuntConfig]):
    async def run(self, task: HuntTask, agents: vf.Agents) -> None:
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            if self.config.ask_helper:
                await agents.helper.run(task)
            while not segment.terminated:
                guess = int(segment.last_reply)
                if guess == task.data.number:
                    break
                hint = "higher" if guess < task.data.number else "lower"
                segment = await interaction.turn(f"{hint} ({random.randint(0, 999)})")
        interaction.trace.record_reward("turns", -float(interaction.trace.num_turns))


class Hunt(vf.Taskset[HuntTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self) -> Iterator[HuntTask]:
        number = 0
        while True:
            yield HuntTask(Hidden(prompt="Find the number from 0 to 31.", number=number % 32), self.config.task)
            number += 7


__all__ = ["Hunt", "HuntEnv"]
