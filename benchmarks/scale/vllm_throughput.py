"""Sampling through Steelyard reaches 95% of the throughput of bare ``LLM.generate`` on the same requests.

SmolLM2-135M in float32 samples groups of 16 in one process on one engine. Steelyard's sampler and ``LLM.generate`` take
turns with the same prompts, seeds and parameters, with the prefix cache emptied before each. With top-p, the bare side
uses vLLM's own truncation, which does not report the kept tokens. Under a JSON schema there is no bare side with the
same grammar, so the figure is the fraction of time not spent on our masks.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from rich.progress import Progress

from benchmarks.constraints.constrained_policies import SCHEMA
from benchmarks.correctness.parity import TEXT_PROMPTS
from benchmarks.framework.result import Cell, Figure, Result
from steelyard.types import CutRule

BAR, QUICK_BAR = 0.95, 0.8
"""The quick bar is wider because quick runs have only two short rounds, which are noisier."""
RULES = {"free": CutRule(), "top-p 0.95": CutRule(top_p=0.95)}


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes two rounds with shorter samples."""
    rounds, count, tokens = (2, 8, 24) if quick else (5, 16, 64)
    least = QUICK_BAR if quick else BAR
    bar = progress.add_task("vLLM starts", total=rounds * len(RULES) + 1)
    side = _Side(count, tokens)
    details: list[dict[str, Cell]] = []
    figures: list[Figure] = []
    for name, rule in RULES.items():
        side.ours(rule, 0)  # warm-up
        pairs: list[tuple[float, float]] = []
        for number in range(rounds):
            progress.update(bar, description=name)
            pairs.append(side.pair(rule, number))
            progress.advance(bar)
        ratios = [ours / bare for ours, bare in pairs]
        spread = max(ratios) - min(ratios)
        figures.append(Figure(f"{name}: throughput / vLLM", statistics.median(ratios), ">=", least, spread=spread))
        details.append(_row(name, pairs))
    progress.update(bar, description="JSON schema")
    speed, outside = side.constrained()
    progress.advance(bar)
    figures.append(Figure("JSON schema: share of the time outside our masks", outside, ">=", least))
    details.append({"sampling": "JSON schema", "Steelyard tokens/s": round(speed, 1), "vLLM tokens/s": "", "ratio": ""})
    side.close()
    return Result("vllm-throughput", tuple(figures), details)


def _row(name: str, pairs: list[tuple[float, float]]) -> dict[str, Cell]:
    ours, bare = (statistics.median(side) for side in zip(*pairs, strict=True))
    rates = {"Steelyard tokens/s": round(ours, 1), "vLLM tokens/s": round(bare, 1)}
    return {"sampling": name, **rates, "ratio": ours / bare}


class _Side:
    """One engine, used through Steelyard and directly."""

    def __init__(self, count: int, tokens: int) -> None:
        from steelyard import config as configs
        from steelyard.compose import build_constraint, build_policy, build_sampler
        from steelyard.types import Task

        self.count, self.tokens = count, tokens
        plain, constrained = (configs.build(tables, source="vllm-throughput") for tables in _tables(tokens))
        policy = build_policy(plain)
        self.sampler: Any = build_sampler(plain, policy)
        self.constraint = build_constraint(constrained, policy)
        self.engine = self.sampler.engine
        prompts = [({"role": "user", "content": prompt},) for prompt in TEXT_PROMPTS]
        self.tasks = [Task(str(number), prompt) for number, prompt in enumerate(prompts)]

    def pair(self, rule: CutRule, number: int) -> tuple[float, float]:
        """Return tokens per second with and without Steelyard on the same requests; the order alternates."""
        return self._alternate(number, lambda: self.ours(rule, number), lambda: self.bare(rule, number))

    def constrained(self) -> tuple[float, float]:
        """Return tokens per second under the schema, and the fraction of time not spent on masks."""
        from steelyard.sampling.vllm.masks import RowMasks

        spent, apply = 0.0, RowMasks.apply

        def timed(masks: RowMasks, logits: Any) -> Any:
            nonlocal spent
            start = time.perf_counter()
            try:
                return apply(masks, logits)
            finally:
                spent += time.perf_counter() - start

        self.sampler.constraint = self.constraint
        with patch.object(RowMasks, "apply", timed):
            start = time.perf_counter()
            speed = self.ours(CutRule(), 0)
            taken = time.perf_counter() - start
        self.sampler.constraint = None
        return speed, 1 - spent / taken

    def _alternate(self, number: int, ours: Callable[[], float], bare: Callable[[], float]) -> tuple[float, float]:
        if number % 2:
            second = bare()
            return ours(), second
        return ours(), bare()

    def ours(self, rule: CutRule, number: int) -> float:
        from steelyard.sampling.base import Decoding
        from steelyard.training.phases import requests_for, sample

        self.engine.llm.reset_prefix_cache()
        requests = requests_for(self.tasks, number, self.count)
        start = time.perf_counter()
        samples = sample(self.sampler, requests, Decoding(rule, self.tokens))
        return sum(len(one.completion_ids) for one in samples) / (time.perf_counter() - start)

    def bare(self, rule: CutRule, number: int) -> float:
        """Sample as a vLLM user would: prompts in, token ids and log-probs out."""
        from vllm import SamplingParams

        from steelyard.sampling.randomness import stream

        self.engine.llm.reset_prefix_cache()
        codec = self.sampler.codec
        start = time.perf_counter()
        prompts: list[Any] = []
        parameters: list[Any] = []
        for slot, task in enumerate(self.tasks):
            ids = codec.encode(task.prompt).tolist()
            for index in range(self.count):
                prompts.append({"prompt_token_ids": ids})
                parameters.append(
                    SamplingParams(
                        temperature=rule.temperature,
                        top_p=rule.top_p,
                        seed=int(stream(self.sampler.seed, number, slot, 0, index)) >> 1,
                        max_tokens=self.tokens,
                        stop_token_ids=list(codec.end_ids),
                        logprobs=0,
                        detokenize=False,
                    )
                )
        results = self.engine.llm.generate(prompts, parameters, use_tqdm=False)
        return sum(len(one.outputs[0].token_ids) for one in results) / (time.perf_counter() - start)

    def close(self) -> None:
        self.engine.close()


def _tables(tokens: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings without and with the constraint."""
    from benchmarks.framework.smollm import model_folder

    plain: dict[str, Any] = {
        "run": {"folder": tempfile.gettempdir(), "supplied": ["tasks", "verifier"]},
        "model": {"path": str(model_folder()), "device": "cpu"},
        "sampling": {"max_new_tokens": tokens, "engine": "vllm", "vllm": {"max_length": 256, "cache_gib": 1.0}},
        "tracking": {"console": False},
    }
    return plain, plain | {"constraint": {"kind": "json_schema", "source": SCHEMA}}
