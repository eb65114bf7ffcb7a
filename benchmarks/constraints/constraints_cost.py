"""A constraint over 49,152 tokens adds little sampling and update time, and forced text samples faster than free text.

SmolLM2-135M in bfloat16 samples groups of 16, with and without a constraint in turn, in one process. The size of stored
supports is reported per 1,000 tokens, along with the time to recompute them instead.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.progress import Progress

from benchmarks.constraints.constrained_policies import CONSTRAINTS, build_constrained_trainer, without_supports
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.speed.overhead import alternate, learner_batch
from steelyard.types import CutRule, Sample

GROUP = 16
TOKENS = 64
PAIRS = 7
RARE = "<file_sep>"
"""A token that a chat model never writes serves as the end token, so that both sides run to full length."""

FREE_TEXT = r"[A-Za-z0-9 ,.;:!?'()-]*"
FORCED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name_of_the_capital_city": {"enum": ["Paris", "Rome", "Berlin"]},
        "is_it_on_the_coast_of_the_sea": {"type": "boolean"},
        "number_of_inhabitants_in_millions": {"type": "integer", "minimum": 0, "maximum": 40},
    },
    "required": ["name_of_the_capital_city", "is_it_on_the_coast_of_the_sea", "number_of_inhabitants_in_millions"],
    "additionalProperties": False,
}


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version runs two short float32 repetitions (fast on any CPU) with wider bars."""
    pairs, tokens, bars = (2, 24, (1.3, 1.2, 1.0)) if quick else (PAIRS, TOKENS, (1.1, 1.05, 1.0))
    model = {"path": _folder(), "dtype": "float32" if quick else "bfloat16"}
    bar = progress.add_task("warm-up", total=2 * (6 * pairs + 3))
    trainer = build_constrained_trainer(model, [_prompt()], None, new_tokens=tokens, tables=ONE_MINIBATCH)
    free, forced = _constraint(trainer, "regex", FREE_TEXT, RARE), _constraint(trainer, "json_schema", FORCED, None)
    figures: list[Figure] = []
    rows: list[dict[str, Cell]] = []

    def compare(name: str, repetitions: int, sides: Mapping[str, Callable[[], object]], limit: float) -> None:
        """Add the ratio of the second side's time to the first's as a figure."""
        one, other = sides.values()
        times = alternate(one, other, repetitions, progress, bar, name)
        ratios = [second / first for first, second in zip(*times, strict=True)]
        first, second = sides
        figures.append(_figure(f"{name}, {second} / {first}", ratios, limit))
        rows.extend(_row(name, side, seconds) for side, seconds in zip(sides, times, strict=True))

    sides = {"free": lambda: draw(trainer, None, tokens), "constrained": lambda: draw(trainer, free, tokens)}
    compare("sampling time", pairs, sides, bars[0])
    samples = draw(trainer, free, tokens)[: GROUP // 4]  # many short updates, because the difference is small
    plain, on_support = learner_batch([without_supports(sample) for sample in samples]), learner_batch(samples)
    sides = {
        "full vocabulary": lambda: trainer.learner.update(plain, 0),
        "on supports": lambda: trainer.learner.update(on_support, 0),
    }
    compare("update time", 4 * pairs, sides, bars[1])
    length = max(len(sample.completion_ids) for sample in draw(trainer, forced))
    sides = {
        "free": lambda: draw(trainer, None, length),
        "forced JSON keys": lambda: draw(trainer, forced, TOKENS + 32),
    }
    compare(f"sampling time of {length} tokens", pairs, sides, bars[2])
    rows += [] if quick else stored_supports(trainer)
    return Result("constraints-cost", tuple(figures), rows)


def _figure(name: str, ratios: Sequence[float], bar: float) -> Figure:
    return Figure(name, statistics.median(ratios), "<=", bar, spread=max(ratios) - min(ratios))


ONE_MINIBATCH = {"optimiser": {"minibatches": 1, "name": "adamw_fused", "lr": 1e-7}}


def stored_supports(trainer: Any) -> list[dict[str, Cell]]:
    """Measure the bytes needed to store the supports of 1,000 tokens, and the seconds needed to recompute them."""
    from steelyard.constraints.support_tables import size_of
    from steelyard.training.supports import find_supports

    rows: list[dict[str, Cell]] = []
    cases = {name: (CutRule(), table) for name, table in CONSTRAINTS.items()}
    cases |= {"top-p 0.9": (CutRule(1.0, top_p=0.9), None), "top-p 0.99": (CutRule(1.0, top_p=0.99), None)}
    for name, (rule, table) in cases.items():
        constraint = None if table is None else _named(trainer, table)
        samples = draw(trainer, constraint, rule=rule)
        tokens = sum(len(sample.completion_ids) for sample in samples)
        stored = sum(size_of(sample.decisions.supports) for sample in samples if sample.decisions.supports is not None)
        left_out = draw(trainer, constraint, rule=rule, supports="recomputed")
        start = time.perf_counter()
        find_supports(trainer.policy, left_out, trainer.learner.rule.microbatch_tokens)
        seconds = time.perf_counter() - start
        sizes = {"bytes per 1,000 tokens": round(1000 * stored / tokens), "s to recompute": 1000 * seconds / tokens}
        work: dict[str, Cell] = {"work": f"stored supports, {name}", "side": f"{tokens} tokens"}
        rows.append({**work, "seconds": seconds, "spread": 0.0, **sizes})
    return rows


def draw(
    trainer: Any,
    constraint: Any,
    tokens: int = TOKENS,
    *,
    rule: CutRule = CutRule(),
    supports: Any = "stored",
) -> list[Sample]:
    """Sample a group, either under a constraint, or unconstrained and without an end token."""
    from steelyard.policies.causal import CausalPolicy
    from steelyard.sampling.base import Decoding
    from steelyard.training.phases import requests_for, sample

    class Endless(CausalPolicy):
        end_ids = ()  # type: ignore[assignment]

    policy = trainer.policy
    policy.constraint, policy.__class__ = constraint, Endless if constraint is None else CausalPolicy
    tasks = trainer.parts.source.draw(0, 1)
    return sample(trainer.parts.sampler, requests_for(tasks, 0, GROUP), Decoding(rule, tokens, supports))


def _constraint(trainer: Any, kind: Any, source: Any, end: str | None) -> Any:
    from steelyard.constraints.grammar import GrammarConstraint

    policy = trainer.policy
    end_id = policy.end_ids[0] if end is None else policy.tokenizer.convert_tokens_to_ids(end)
    return GrammarConstraint(kind, source, policy.tokenizer, end_id=end_id, vocabulary=policy.vocabulary)


def _named(trainer: Any, table: dict[str, Any]) -> Any:
    from steelyard import config as configs
    from steelyard.compose import build_constraint

    tables = {
        "run": {"supplied": ["tasks", "verifier", "model"]},
        "constraint": table,
        "sampling": {"max_new_tokens": TOKENS},
    }
    return build_constraint(configs.build(tables, source="constraints-cost"), trainer.policy)


def _row(work: str, side: str, seconds: Sequence[float]) -> dict[str, Cell]:
    spread = max(seconds) - min(seconds)
    row: dict[str, Cell] = {"work": work, "side": side, "seconds": statistics.median(seconds), "spread": spread}
    return row | {"bytes per 1,000 tokens": "", "s to recompute": ""}


def _folder() -> str:
    from benchmarks.framework.smollm import model_folder

    return str(model_folder())


def _prompt() -> Any:
    return ({"role": "user", "content": "Tell me about the capital of a country."},)
