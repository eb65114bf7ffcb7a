"""In multi-turn episodes, the sampler and the learner compute the same log-prob for every sampled token.

Episodes have 1 to 8 turns, with and without a constraint that changes every turn, and with a chat template that drops
earlier reasoning, so that episodes fork. Everything is in float32. As a control, the benchmark reports the fraction of
SmolLM2's episodes whose tokens change if their text is tokenised again, as in systems that keep messages instead of
tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import Progress

from benchmarks.constraints.constrained_policies import characters_model, sharpen
from benchmarks.correctness.parity import TEXT_PROMPTS, log_prob_gaps
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.scale.vllm_parity import MEAN as VLLM_MEAN
from benchmarks.scale.vllm_parity import MOST as VLLM_MOST
from steelyard.environments import Environment
from steelyard.types import Reply, Sample, Task

MAX_TURNS = 8
TOKENS = 24
PATTERNS = ("[a-z]{1,6}", "[0-9]{2,5}", "(yes|no|not yet)", "[A-Z][a-z]{2,5} [a-z]{1,4}", "x = -?[1-9][0-9]{0,2}")
REASONING = "<think>[a-z]{2,6}</think>[a-z]{1,6}"
REPLIES = ("Why?", "Are you sure of that?", "Go on.", "The other one, please: explain it once more.")
PROMPTS = ("a", "Now write.", "The quick brown fox jumps.")
ENDS = (".", ",", "!", "?", ";", ":", "Ċ", "Ġthe", "Ġa", "Ġof", "Ġto", "Ġand", "Ġis", "e", "o", "t")
"""Additional tokens that end an unconstrained turn; otherwise most turns would reach the token limit."""
FORGETFUL = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{{ message['content'].split('</think>')[-1] }}"
    "{% else %}{{ message['content'] }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""A chat template that drops the reasoning of earlier turns."""


class Talk(Environment):
    """Replies until the task's number of turns is reached; each reply sets the pattern for the next turn."""

    isolate = False

    def reply(self, task: Task, turns: Any) -> Any:
        written = sum(turn["role"] == "assistant" for turn in turns)
        if written >= task.spec["turns"]:
            return 1.0
        text = REPLIES[(written + task.spec["offset"]) % len(REPLIES)]
        return Reply.text(text, spec={"pattern": _pattern(task.spec, written)})

    def cut_off(self, task: Task, turns: Any, limit: Any) -> Any:
        return 0.0


def _pattern(spec: Any, turn: int) -> str:
    return REASONING if spec["reasons"] else PATTERNS[(turn + spec["offset"]) % len(PATTERNS)]


@dataclass(frozen=True)
class Study:
    """One kind of episode, with ``per_task`` samples for each of 24 tasks, three tasks for each number of turns."""

    model: str
    sampling: str
    per_task: int
    engine: str = "local"

    @property
    def constrained(self) -> bool:
        return self.sampling != "free"

    @property
    def forks(self) -> bool:
        return self.sampling == "forking template"


SAMPLING = ("free", "a constraint per turn", "forking template")
FULL = (
    *(Study("scratch", sampling, 21) for sampling in SAMPLING[:2]),
    *(Study("SmolLM2", sampling, 14) for sampling in SAMPLING),
    *(Study("SmolLM2", sampling, 2, "vllm") for sampling in SAMPLING),
)
"""1,008 episodes each with a from-scratch model and with SmolLM2, and 144 through vLLM."""
QUICK = tuple(Study("scratch", sampling, 3) for sampling in SAMPLING[:2])


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version plays 144 episodes of the from-scratch model."""
    studies = QUICK if quick else FULL
    bar = progress.add_task("episodes", total=len(studies))
    details: list[dict[str, Cell]] = []
    gaps: dict[str, list[np.ndarray]] = {}
    changed: list[bool] = []
    for study in studies:
        name = study.model if study.engine == "local" else f"{study.model} through vLLM"
        progress.update(bar, description=f"{name}, {study.sampling}")
        row, gap_N, retokenised = _played(study)
        details.append({"model": name, **row})
        gaps.setdefault(name, []).append(gap_N)
        if name == "SmolLM2":
            changed += retokenised
        progress.advance(bar)
    figures = [figure for name, found in gaps.items() for figure in _figures(name, np.concatenate(found))]
    if changed:
        share = float(np.mean(changed))
        figures.append(Figure("control: share of SmolLM2's episodes changed by tokenising again", share, ">=", 0.01))
    return Result("episodes-parity", tuple(figures), details)


def _figures(name: str, gap_N: np.ndarray) -> list[Figure]:
    bars = {
        "scratch": {"max": 1e-5},
        "SmolLM2": {"mean": 1e-5, "99.9th percentile": 1e-4, "max": 5e-4},
        "SmolLM2 through vLLM": {"mean": VLLM_MEAN, "max": VLLM_MOST},
    }[name]
    values = {"mean": gap_N.mean(), "99.9th percentile": np.quantile(gap_N, 0.999), "max": gap_N.max()}
    return [Figure(f"{name} {key} |Δ log-prob|", float(values[key]), "<=", bar, "nats") for key, bar in bars.items()]


def _played(study: Study) -> tuple[dict[str, Cell], np.ndarray, list[bool]]:
    """Play the episodes of a study; return its table row, all gaps, and whether each episode's tokens would change."""
    from steelyard.training.phases import requests_for, sample

    trainer = _trainer(study)
    try:
        tasks = trainer.parts.source.draw(0, trainer.parts.tasks_per_step)
        requests = requests_for(tasks, 0, study.per_task)
        episodes = sample(trainer.parts.sampler, requests, trainer.parts.decoding)
        gap_N = log_prob_gaps(trainer, [row for one in episodes for row in one.rows if len(row.decisions)])
        changed = [_changes(trainer.policy.tokenizer, one) for one in episodes]
    finally:
        trainer.close()
    return _row(study, episodes, gap_N, changed), gap_N, changed


def _row(study: Study, episodes: Sequence[Sample], gap_N: np.ndarray, changed: Sequence[bool]) -> dict[str, Cell]:
    turns = [sum(turn.role == "assistant" for turn in one.turns) for one in episodes]
    return {
        "sampling": study.sampling,
        "episodes": len(episodes),
        "turns": f"{min(turns)}–{max(turns)}",
        "mean turns": float(np.mean(turns)),
        "rows": sum(len(one.rows) for one in episodes),
        "decisions": len(gap_N),
        "mean |Δ|": float(gap_N.mean()),
        "99.9th percentile |Δ|": float(np.quantile(gap_N, 0.999)),
        "max |Δ|": float(gap_N.max()),
        "changed by tokenising again": float(np.mean(changed)),
    }


def _changes(tokenizer: Any, episode: Sample) -> bool:
    """Return whether any row's text gives different tokens when it is tokenised as a whole."""
    return any(
        tokenizer.encode(tokenizer.decode(row.token_ids), add_special_tokens=False) != row.token_ids.tolist()
        for row in episode.rows
    )


def _trainer(study: Study) -> Any:
    """Build a trainer; two minibatches per step make the learner compute the old log-probs, as in training."""
    from benchmarks.framework.smollm import model_folder
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer

    scratch = study.model == "scratch"
    rows = _tasks(study, PROMPTS if scratch else TEXT_PROMPTS)
    characters: dict[str, Any] = characters_model()["scratch"]
    model = {"scratch": {**characters, "max_length": 512}} if scratch else {"path": str(model_folder())}
    sampling: dict[str, Any] = {"tasks_per_step": len(rows), "max_new_tokens": TOKENS, "engine": study.engine}
    if study.engine == "vllm":
        sampling["vllm"] = {"max_length": 1024, "cache_gib": 1.0}
    tables: dict[str, Any] = {
        "run": {"folder": tempfile.gettempdir(), "supplied": ["tasks", "verifier"]},
        "model": {**model, "device": "cpu"},
        "sampling": sampling,
        "episode": {"max_turns": MAX_TURNS},
        "verify": {"pool": "inline"},
        "optimiser": {"minibatches": 2},
        "tracking": {"console": False},
    }
    if study.constrained:
        tables["constraint"] = {"kind": "regex", "column": "pattern"}
    trainer = build_trainer(configs.build(tables, source="episodes-parity"), Supplied(tasks=rows, verifier=Talk()))
    _adapt(trainer, study)
    return trainer


def _adapt(trainer: Any, study: Study) -> None:
    """Change what the configuration cannot set: random weights, tokens that end a turn, and the chat template."""
    from steelyard.policies.tokens.conversation import Conversations

    policy, episodes = trainer.policy, trainer.parts.sampler
    if study.model == "scratch":
        sharpen(policy, 2.0)
    if study.forks:
        policy.tokenizer.chat_template = FORGETFUL
    if not study.constrained:
        vocabulary = policy.tokenizer.get_vocab()
        extra = [vocabulary[token] for token in ENDS if token in vocabulary]
        policy.model.generation_config.eos_token_id = [*policy.end_ids, *extra]
    codec = policy.codec
    episodes.conversations = Conversations(codec)
    if study.engine == "vllm":
        episodes.sampler.codec = codec
        episodes.sampler.publish(0)


def _tasks(study: Study, prompts: Sequence[str]) -> list[dict[str, Any]]:
    """Return tasks with every prompt and every number of turns."""
    rows: list[dict[str, Any]] = []
    for turns in range(1, MAX_TURNS + 1):
        for offset, prompt in enumerate(prompts):
            spec: dict[str, Any] = {"turns": turns, "offset": offset, "reasons": study.forks}
            written = prompt if study.model == "scratch" else ({"role": "user", "content": prompt},)
            rows.append({"id": f"{turns}-{offset}", "prompt": written, **spec, "pattern": _pattern(spec, 0)})
    return rows
