"""A game with random replies that is small enough to enumerate, and a tiny float64 policy that plays it.

In each turn the policy writes ``s`` to stop, ``a`` to toss a coin, or ``sb`` to pass. The replies are ``x`` or ``y``
(the coin) and ``z``, each with a reward. After three replies the game is cut off. The chat template shortens an earlier
``sb`` to ``b``, so episodes that contain ``sb`` fork into several rows. The enumeration below shares only the rules of
the game with the code under test: it renders its own prompts and lists its own supports.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steelyard.environments import Session, SessionEnvironment
from steelyard.special_tokens import EOS
from steelyard.types import CutRule, Group, Reply, Sample, Task, Verdict

TEXTS = ("s", "a", "sb")
HEADS = 0.45
"""Probability of ``x``."""
REPLY_REWARDS = {"x": 1.0, "y": -0.5, "z": 0.0}
MAX_TURNS = 3
FLOOR = -1.0
TEMPERATURE = 0.8
NEW_TOKENS = 3
PROMPT = "q"
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content | replace('sb', 'b') | replace('<think>', '') }}"
    "{{ eos_token }}{% else %}{{ m.content }}{% endif %}{% endfor %}"
)
"""Like many templates, it also drops the reasoning marker; Steelyard detects templates that rewrite history by this."""
TASK = Task("game", ({"role": "user", "content": PROMPT},))
UNIFORM = CutRule(1e6)
"""At this temperature, a few hundred draws contain every episode."""

History = tuple[tuple[str, ...], tuple[str, ...]]
"""The policy's texts and the environment's replies."""


def stop_reward(replies: str) -> float:
    """Return the reward for stopping after these replies."""
    return 0.4 + 1.5 * replies.count("y") - 0.3 * len(replies) * replies.endswith("x")


def cut_off_reward(replies: str) -> float | None:
    """Return the reward of a game that was cut off; ``None`` rejects it."""
    return None if replies.endswith("z") else 0.7 * replies.count("y")


class CoinGame(SessionEnvironment):
    """The game as an environment; its coin tosses depend on the sample's seed."""

    isolate = False
    floor = FLOOR

    def open(self, task: Task, seed: int) -> Session:
        return CoinSession(random.Random(seed))


class CoinSession(Session):
    def __init__(self, coins: random.Random) -> None:
        self.coins, self.replies = coins, ""

    def reply(self, text: str) -> Any:
        if text == "s":
            return stop_reward(self.replies)
        heads = self.coins.random() < HEADS
        letter = "z" if text != "a" else "x" if heads else "y"
        self.replies += letter
        return Reply.text(letter, reward=REPLY_REWARDS[letter])

    def cut_off(self, text: str, limit: Any) -> Any:
        reward = cut_off_reward(self.replies)
        return Verdict.rejected("no result", floor=FLOOR) if reward is None else reward


# --- the enumeration --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Episode:
    """One way to play: its texts and replies, the probability of the replies, and the rewards of its turns."""

    texts: tuple[str, ...]
    replies: tuple[str, ...]
    coins: float
    rewards: tuple[float, ...]

    def returns(self, gamma: float) -> list[float]:
        """Return the discounted return from each turn onwards."""
        return [
            sum(gamma**later * reward for later, reward in enumerate(self.rewards[turn:]))
            for turn in range(len(self.rewards))
        ]


def every_episode(texts: tuple[str, ...] = (), replies: tuple[str, ...] = (), coins: float = 1.0) -> Iterator[Episode]:
    """Yield all ways to continue a game."""
    earned = tuple(REPLY_REWARDS[letter] for letter in replies)
    if len(texts) == MAX_TURNS:
        last = cut_off_reward("".join(replies))
        final = FLOOR - sum(earned[:-1]) if last is None else earned[-1] + last
        yield Episode(texts, replies, coins, (*earned[:-1], final))
        return
    yield Episode((*texts, "s"), replies, coins, (*earned, stop_reward("".join(replies))))
    for text in TEXTS[1:]:
        for letter, chance in (("x", HEADS), ("y", 1 - HEADS)) if text == "a" else (("z", 1.0),):
            yield from every_episode((*texts, text), (*replies, letter), coins * chance)


def log_probs(model: Any, tokenizer: Any, episodes: list[Episode]) -> list[list[Tensor]]:
    """Return the log-prob of each turn of each episode."""
    known: dict[History, Mapping[str, Tensor]] = {}
    found: list[list[Tensor]] = []
    for episode in episodes:
        turns = [(episode.texts[:turn], episode.replies[:turn]) for turn in range(len(episode.texts))]
        for history in turns:
            if history not in known:
                known[history] = _next_turn(model, tokenizer, history)
        found.append([known[history][text] for history, text in zip(turns, episode.texts, strict=True)])
    return found


def _next_turn(model: Any, tokenizer: Any, history: History) -> dict[str, Tensor]:
    """Return the log-prob of each text after a history: the first letter, then what follows ``s``; the rest is forced.

    The policy sees the conversation as the template renders it at this point, whether or not the episode forked.
    """
    said = "".join(text.replace("sb", "b") + EOS + reply for text, reply in zip(*history, strict=True))
    ids = tokenizer.encode(PROMPT + said + "s", add_special_tokens=False)
    token = {name: tokenizer.convert_tokens_to_ids(name) for name in ("s", "a", "b", EOS)}
    logits_TV = model(input_ids=torch.tensor([ids])).logits[0] / TEMPERATURE
    first = logits_TV[-2, [token["s"], token["a"]]].log_softmax(0)
    second = logits_TV[-1, [token[EOS], token["b"]]].log_softmax(0)
    return {"s": first[0] + second[0], "a": first[1], "sb": first[0] + second[1]}


# --- the policy and its episodes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A trainer whose sampler plays the game, and all episodes, each with its recorded sample and verdict."""

    trainer: Any
    episodes: list[Episode]
    samples: list[Sample]
    verdicts: list[Verdict]

    @property
    def parameters(self) -> list[Tensor]:
        return [parameter for _, parameter in self.trainer.policy.trainable()]

    @property
    def length(self) -> int:
        """The divisor used by ``constant`` aggregation."""
        return self.trainer.learner.rule.constant_length

    def log_probs(self) -> list[list[Tensor]]:
        return log_probs(self.trainer.policy.model, self.trainer.policy.tokenizer, self.episodes)

    @torch.no_grad()
    def probabilities(self) -> np.ndarray:
        pairs = zip(self.episodes, self.log_probs(), strict=True)
        return np.asarray([episode.coins * float(sum(turns[1:], turns[0]).exp()) for episode, turns in pairs])


def build(draws: int = 500) -> Case:
    """Build a policy and draw episodes uniformly, ``draws`` at a time, until all have been seen."""
    trainer = _trainer()
    episodes = list(every_episode())
    found: dict[History, tuple[Sample, Verdict]] = {}
    for step in itertools.count():
        (group,) = play(trainer, draws, step, UNIFORM)
        found |= {
            history(sample): (sample, verdict) for sample, verdict in zip(group.samples, group.verdicts, strict=True)
        }
        if len(found) == len(episodes):
            break
    pairs = [found[episode.texts, episode.replies] for episode in episodes]
    return Case(trainer, episodes, [_at_temperature(sample) for sample, _ in pairs], [verdict for _, verdict in pairs])


def play(trainer: Any, count: int, step: int, rule: CutRule = CutRule(TEMPERATURE)) -> list[Group]:
    """Play ``count`` episodes through the trainer's own sampler and pool."""
    from steelyard.sampling.base import SampleRequest
    from steelyard.training.phases import collect

    decoding = replace(trainer.parts.decoding, rule=rule)
    return collect(trainer.parts.sampler, trainer.parts.pool, [SampleRequest(TASK, step, 0, count)], decoding)


def history(sample: Sample) -> History:
    """Return the texts and replies of a sample."""
    return (
        tuple(turn.text for turn in sample.turns if turn.role == "assistant"),
        tuple(turn.text for turn in sample.turns if turn.role != "assistant"),
    )


def _at_temperature(sample: Sample) -> Sample:
    """Return the sample as if drawn at the policy's temperature; its recorded log-probs are not used."""
    rows = [replace(row, decisions=replace(row.decisions, rule=CutRule(TEMPERATURE))) for row in sample.rows]
    return replace(rows[-1], earlier_rows=tuple(rows[:-1]))


def _trainer() -> Any:
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer

    data: dict[str, Any] = {
        "run": {"folder": tempfile.gettempdir(), "supplied": ["tasks", "verifier"]},
        "model": {
            "device": "cpu",
            "scratch": {
                "layers": 1,
                "width": 16,
                "heads": 2,
                "max_length": 32,
                "vocabulary": tuple("qsabxyz"),
                "spaced": False,
            },
        },
        "constraint": {"kind": "choices", "source": list(TEXTS)},
        "sampling": {
            "tasks_per_step": 1,
            "max_new_tokens": NEW_TOKENS,
            "temperature": TEMPERATURE,
            "max_rows": 256,
        },
        "episode": {"max_turns": MAX_TURNS},
        "credit": {"advantage": "rloo"},
        "loss": {"aggregation": "constant", "kl": {"coefficient": 0.0}},
        "optimiser": {"minibatches": 1},
        "tracking": {"console": False},
    }
    supplied = Supplied(tasks=[{"prompt": PROMPT}], verifier=CoinGame())
    trainer = build_trainer(configs.build(data, source="episodes-exact"), supplied)
    trainer.learner.rule = replace(trainer.learner.rule, grad_clip=None)
    trainer.policy.tokenizer.chat_template = TEMPLATE
    with torch.no_grad():
        for parameter in trainer.policy.model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4.0)
    trainer.policy.model.double()
    return trainer
