"""``steelyard plan`` predicts the step times of real runs to within 20% and their peak memory to within 15%.

The sampler's and the learner's rates are fitted to some configurations. The resulting predictions for *other*
configurations (depth, width, number of samples, length, rank, vocabulary, verifiers that wait) are compared with
measured steps. Memory is predicted from shapes alone and compared with the peak of a fresh process, minus its memory
after imports and a step of a tiny model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.progress import Progress

from benchmarks.framework.process import run_module
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.scale.plan_measurements import Case, cores
from steelyard.memory.footprint import BatchSize, TrainingSetup, footprint
from steelyard.memory.model_shape import KNOWN_SHAPES, SPECIAL_TOKEN_COUNT, ModelShape, decoder, feed_forward_width
from steelyard.planning.plan import PlannedRun, learner_seconds, learner_work
from steelyard.planning.rates import Rates, fit
from steelyard.planning.simulation import Pipeline, Spread, simulate
from steelyard.planning.work import Work, decode, prefill

SMOLLM = "smollm2-135m"
TIME_BAR, MEMORY_BAR = 0.2, 0.15

CALIBRATION = (
    Case("c1", layers=2, width=64, rows=16, tokens=32),
    Case("c2", layers=2, width=128, rows=64, tokens=32),
    Case("c3", layers=4, width=128, rows=16, tokens=64, kl=0.05),
    Case("c4", layers=4, width=256, rows=32, tokens=32, kl=0.05),
    Case("c5", layers=6, width=192, rows=32, tokens=64),
    Case("c6", layers=4, width=256, rows=64, tokens=64, kl=0.05),
    Case("c7", layers=2, width=256, rows=16, tokens=32, rank=8),
    Case("c8", layers=4, width=128, rows=32, tokens=48, rank=16, kl=0.05),
    Case("c9", layers=2, width=128, rows=32, tokens=32, words=1997),
)
PREDICTED = (
    Case("between", layers=3, width=160, rows=48, tokens=40),
    Case("deeper", layers=8, width=128, rows=24, tokens=48, kl=0.05),
    Case("wider", layers=4, width=384, rows=32, tokens=64),
    Case("more and longer", layers=3, width=192, rows=80, tokens=96, kl=0.05),
    Case("LoRA", layers=4, width=192, rows=32, tokens=64, rank=32, kl=0.05),
    Case("larger vocabulary", layers=4, width=128, rows=48, tokens=32, words=997),
    Case("verifier that computes", layers=4, width=128, rows=64, tokens=48, check=0.004),
    Case("verified during sampling", layers=4, width=128, rows=64, wave=16, tokens=48, check=0.02, workers=4),
    Case("slow verifier", layers=4, width=128, rows=64, wave=16, tokens=48, check=0.2, workers=4),
)
"""The verifiers in the last two cases wait, so these cases are timed by wall clock and need more than one core."""
MEMORY = (
    Case("from scratch, all weights", layers=4, width=512, rows=16, tokens=64, kl=0.05, steps=1),
    Case("from scratch, LoRA 16", layers=8, width=512, rows=16, tokens=64, rank=16, kl=0.05, steps=1),
    Case("from scratch, LoRA 32", layers=6, width=384, rows=16, tokens=64, rank=32, kl=0.05, steps=1),
    Case("SmolLM2-135M, all weights", model=SMOLLM, dtype="bfloat16", rows=16, tokens=64, kl=0.05, steps=1),
    Case("SmolLM2-135M, LoRA 64", model=SMOLLM, dtype="bfloat16", rank=64, rows=16, tokens=64, kl=0.05, steps=1),
)
SAMPLING = ("calls", "flops", "cache", "logits", "tokens")
LEARNING = ("calls", "flops", "activations", "logits", "state")
Measured = Mapping[str, Any]
Timed = tuple[Work, float]


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version predicts only the memory of from-scratch models."""
    task = progress.add_task("plan", total=2 if quick else 1 + len(MEMORY))
    if quick:
        rows = [memory_row(case, *_run([case], progress, task)) for case in MEMORY[:2]]
        return Result("plan", (_memory_error(rows),), rows)
    predicted = [case for case in PREDICTED if not case.workers or cores() > 1]
    timed = _run([*CALIBRATION, *predicted], progress, task)
    rates = fitted(CALIBRATION, timed[: len(CALIBRATION)])
    rows = [time_row(case, found, rates) for case, found in zip(predicted, timed[len(CALIBRATION) :], strict=True)]
    rows += [memory_row(case, *_run([case], progress, task)) for case in MEMORY]
    time_error = _largest("step time", rows, "s/step", TIME_BAR)
    return Result("plan", (time_error, _memory_error(rows)), rows, _note(rates, CALIBRATION))


def _memory_error(rows: Sequence[Mapping[str, Cell]]) -> Figure:
    return _largest("peak memory", rows, "MiB", MEMORY_BAR)


def _run(cases: Sequence[Case], progress: Progress, task: Any) -> list[dict[str, Any]]:
    """Run the cases round-robin in one fresh process."""
    progress.update(task, description=f"plan: {cases[0].name}")
    from benchmarks.framework.smollm import model_folder

    named = [asdict(replace(case, model=str(model_folder()) if case.model else "")) for case in cases]
    found: Any = run_module("benchmarks.scale.plan_measurements", json.dumps(named))
    progress.advance(task)
    return found


def _largest(name: str, rows: Sequence[Mapping[str, Cell]], unit: str, bar: float) -> Figure:
    """Return the largest relative error among the rows with the given unit."""
    errors = [abs(float(row["error"])) for row in rows if row["unit"] == unit]
    label = f"{name}: largest relative error of {len(errors)} predictions"
    return Figure(label, max(errors), "<=", bar, spread=max(errors) - min(errors))


def _note(rates: tuple[Rates, Rates], calibration: Sequence[Case]) -> str:
    clock = "one core, in CPU time" if cores() == 1 else f"{cores()} cores"
    sampler, learner = rates
    return (
        f"{clock}; rates from {len(calibration)} other configurations: sampler {_shown(sampler, SAMPLING)}; "
        f"learner {_shown(learner, LEARNING)} (seconds per unit)."
    )


def _shown(rates: Rates, kinds: Sequence[str]) -> str:
    return ", ".join(f"{kind} {getattr(rates, kind):.2g}" for kind in kinds)


# --- from a case to its prediction -----------------------------------------------------------------------------------


def shape_of(case: Case) -> ModelShape:
    if case.model:
        return KNOWN_SHAPES[SMOLLM]
    return decoder(
        layers=case.layers,
        width=case.width,
        feed_forward=feed_forward_width(case.width),
        heads=case.heads,
        kv_heads=case.kv_heads,
        vocabulary=case.words + SPECIAL_TOKEN_COUNT,
    )


def run_of(case: Case, prompt: int) -> PlannedRun:
    weight = 4 if case.dtype == "float32" else 2
    training = TrainingSetup(weight, case.rank, reference=case.kl > 0, eager=weight == 2)
    return PlannedRun(shape_of(case), training, tasks=1, group=case.rows, prompt=prompt, length=Spread(case.tokens))


def sampler_work(case: Case, run: PlannedRun) -> Work:
    """Return the total work of the local sampler's forward passes, wave by wave."""
    wave = case.wave or case.rows
    one = decode(run.shape, run.training, wave, run.prompt + case.tokens / 2).times(case.tokens)
    return (one + prefill(run.shape, run.training, 1, run.prompt)).times(math.ceil(case.rows / wave))


def passes(run: PlannedRun, found: Measured) -> tuple[int, int]:
    """Return the number of passes for scoring, which processes twice as many tokens per pass, and for the update."""

    def needed(tokens: int) -> int:
        return math.ceil(run.samples / max(tokens // run.sequence, 1))

    return needed(2 * found["microbatch"]), needed(found["microbatch"])


def fitted(cases: Sequence[Case], found: Sequence[Measured]) -> tuple[Rates, Rates]:
    """Fit the rates of the sampler and the learner."""
    sampled: list[Timed] = []
    learned: list[Timed] = []
    for case, seconds in zip(cases, found, strict=True):
        run = run_of(case, seconds["prompt"])
        scoring, updating = learner_work(run, passes(run, seconds))
        sampled.append((sampler_work(case, run), seconds["sample"]))
        learned.append((updating, seconds["update"]))
        if case.kl:
            learned.append((scoring, seconds["score"]))
    return _fit(sampled, SAMPLING), _fit(learned, LEARNING)


def _fit(timed: Sequence[Timed], kinds: Sequence[str]) -> Rates:
    return fit([work for work, _ in timed], [seconds for _, seconds in timed], kinds)


def pipeline_of(case: Case, found: Measured, rates: tuple[Rates, Rates]) -> Pipeline:
    """Describe one local replica that alternates between sampling and learning."""
    sampler, learner = rates
    run = run_of(case, found["prompt"])
    context = run.prompt + case.tokens / 2
    none = sampler.seconds(decode(run.shape, run.training, 0, context))
    one = sampler.seconds(decode(run.shape, run.training, 1, context))
    return Pipeline(
        tasks=1,
        group=case.rows,
        replicas=1,
        rows=case.wave or case.rows,
        length=Spread(case.tokens),
        prefill=sampler.seconds(prefill(run.shape, run.training, 1, run.prompt)),
        decode=none,
        decode_row=one - none,
        cores=case.workers or case.rows,
        check=Spread(case.check if case.workers else 0.0),
        controller=0.0 if case.workers else case.check,
        learn=sum(learner_seconds(run, learner, passes(run, found))),
        publish=0.0,
    )


def time_row(case: Case, found: Measured, rates: tuple[Rates, Rates]) -> dict[str, Cell]:
    pipeline = pipeline_of(case, found, rates)
    outcome = simulate(pipeline, 3)
    phases = {
        "sample": outcome.phases["samplers"] + outcome.phases["verifiers"],
        "learn": outcome.phases["learner"],
    }
    split = f"{phases['sample']:.3g} + {phases['learn']:.3g}"
    measured_split = f"{found['sample']:.3g} + {found['score'] + found['update']:.3g}"
    return _row(case, "s/step", outcome.step, found["step"], f"{split} (measured {measured_split})")


def memory_row(case: Case, found: Measured) -> dict[str, Cell]:
    run = run_of(case, found["prompt"])
    tokens = min(max(found["microbatch"] // run.sequence, 1), run.samples) * run.sequence
    batch = BatchSize(case.rows, run.sequence + 1, tokens, min(found["chunk"], run.samples * case.tokens))
    needed = footprint(run.shape, run.training, batch)
    parts = {name: round(getattr(needed, name) / 2**20) for name in asdict(needed)}
    split = ", ".join(f"{name} {size}" for name, size in parts.items())
    return _row(case, "MiB", needed.peak / 2**20, found["memory"] / 2**20, split)


def _row(case: Case, unit: str, predicted: float, real: float, split: str) -> dict[str, Cell]:
    size = "135M" if case.model else f"{case.layers} x {case.width}"
    return {
        "configuration": case.name,
        "model": size,
        "samples x tokens": f"{case.rows} x {case.tokens}",
        "unit": unit,
        "predicted": predicted,
        "measured": real,
        "error": predicted / real - 1,
        "breakdown": split,
    }
