"""A simulated cluster with 1,024 GPUs and 100,000 verifier cores takes barely longer per step than one with 16 GPUs.

The model has 14B parameters, with 96 samples and 100 cores per GPU, so that the step time would be constant if nothing
were shared. Accelerators run at their data-sheet rates. The controller's cost per sample is measured here, and the cost
of the Ray pool comes from the stored result of ``pool-throughput``. Each of the other simulated designs lacks one
feature that scaling needs.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from rich.progress import Progress

from benchmarks.framework import report
from benchmarks.framework.result import Cell, Figure, Result
from steelyard.memory.footprint import TrainingSetup
from steelyard.memory.model_shape import KNOWN_SHAPES
from steelyard.planning.hardware import ACCELERATORS, Machines
from steelyard.planning.plan import SAMPLER_SHARE, Deployment, PlannedRun, Prediction, predict
from steelyard.planning.simulation import Spread
from steelyard.types import Decisions, Sample, SampleKey, Task

BAR = 1.25
SIZES, QUICK_SIZES = (16, 64, 256, 512, 1024), (16, 32, 64)
SAMPLES, CORES = 96, 100
"""Number of samples and verifier cores per GPU."""
GROUP, PROMPT = 64, 512
TOKENS = Spread(800, 1200, 1200)
CHECK = Spread(9.0, 60.0, 60.0)
"""Verification plays a game, which takes nine seconds; one game in a hundred reaches the time limit."""
LORA = TrainingSetup(2, 64, state=2, checkpointing=True)
FULL = TrainingSetup(2, checkpointing=True)
STEPS = 7
FIRST = "as designed"
DESIGNS = {
    FIRST: (LORA, {}),
    "no staleness": (LORA, {"staleness": 0}),
    "staleness 2": (LORA, {"staleness": 2}),
    "no time limit": (LORA, {"check": replace(CHECK, limit=math.inf)}),
    "controller 4 times slower": (LORA, {"controller": 4.0}),
    "all weights": (FULL, {}),
    "all weights, no tree": (FULL, {"tree": False}),
}


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version goes up to 64 GPUs."""
    sizes = QUICK_SIZES if quick else SIZES
    controller = controller_seconds(2_000 if quick else 10_000) + pool_seconds()
    task = progress.add_task("scaling", total=len(sizes) * len(DESIGNS))
    rows: list[dict[str, Cell]] = []
    for design in DESIGNS:
        for gpus in sizes:
            progress.update(task, description=f"{gpus} GPUs, {design}")
            rows.append(row(design, gpus, predicted(design, gpus, controller)))
            progress.advance(task)
    ours = [float(row["step s"]) for row in rows if row["design"] == FIRST]
    name = f"simulated step time, {sizes[-1]:,} GPUs and {sizes[-1] * CORES:,} cores / {sizes[0]} GPUs"
    figure = Figure(name, ours[-1] / ours[0], "<=", BAR)
    note = (
        f"A sample costs the controller {1e3 * controller:.2f} ms (measured). There are {SAMPLES} samples and {CORES} "
        f"cores per GPU; a verification takes {CHECK.mean:.0f} s, one in a hundred {CHECK.p99:.0f} s or more. GPUs are "
        f"divided between learners and samplers in the best of three ratios. Learners hold complete copies of the "
        f"weights where these fit (ddp); samplers use {SAMPLER_SHARE:.0%} of a GPU and receive complete weights."
    )
    return Result("scaling", (figure,), rows, note)


def predicted(design: str, gpus: int, controller: float) -> Prediction:
    """Predict the best of three ways to divide the GPUs; a design's ``controller`` multiplies the measured cost."""
    training, changes = DESIGNS[design]
    kind = ACCELERATORS["h100"]
    run = PlannedRun(KNOWN_SHAPES["qwen2.5-14b"], training, gpus * SAMPLES // GROUP, GROUP, PROMPT, TOKENS)
    base = Deployment(
        learners=Machines(gpus // 2, kind),
        samplers=Machines(gpus // 2, kind),
        cores=gpus * CORES,
        check=CHECK,
        staleness=1,
        controller=controller,
    )
    site = replace(base, **{**changes, "controller": controller * float(changes.get("controller", 1.0))})
    divided = [
        replace(site, learners=Machines(learners, kind), samplers=Machines(gpus - learners, kind))
        for learners in (gpus // 2, 5 * gpus // 8, 3 * gpus // 4)
    ]
    small = SIZES[0] / gpus  # the split is chosen for the smallest cluster
    best = min(divided, key=lambda one: predict(_scaled(run, small), _shrunk(one, small), STEPS).outcome.step)
    return predict(run, best, STEPS)


def _scaled(run: PlannedRun, share: float) -> PlannedRun:
    return replace(run, tasks=max(int(run.tasks * share), 1))


def _shrunk(site: Deployment, share: float) -> Deployment:
    def fewer(machines: Machines) -> Machines:
        return Machines(max(int(machines.count * share), 1), machines.kind)

    samplers = None if site.samplers is None else fewer(site.samplers)
    return replace(site, learners=fewer(site.learners), samplers=samplers, cores=max(int(site.cores * share), 1))


def row(design: str, gpus: int, found: Prediction) -> dict[str, Cell]:
    outcome = found.outcome
    return {
        "design": design,
        "doublings": math.log2(gpus),
        "GPUs": gpus,
        "samples": found.pipeline.samples,
        "cores": found.pipeline.cores,
        "step s": outcome.step,
        "sampling s": outcome.phases["samplers"],
        "last verdict s": outcome.phases["verifiers"],
        "learning s": found.pipeline.learn,
        "traffic s": found.traffic,
        "publication s": found.pipeline.publish,
        "samplers busy": round(outcome.busy["samplers"], 2),
        "cores busy": round(outcome.busy["verifiers"], 2),
        "learner busy": round(outcome.busy["learner"], 2),
        "controller busy": round(outcome.busy["controller"], 2),
        "bottleneck": outcome.bottleneck,
    }


# --- cost of the controller ------------------------------------------------------------------------------------------


def controller_seconds(count: int) -> float:
    """Return the loop's CPU seconds per sample to submit it, receive its verdict and assign credit, excluding waits."""
    from steelyard.sampling.base import Decoding, SampleRequest
    from steelyard.training.credit import Credit
    from steelyard.training.phases import collect, requests_for
    from steelyard.verification import as_verifier
    from steelyard.verification.inline import InlinePool

    tasks = [Task(f"t{number}", "p", {}) for number in range(count // GROUP)]
    requests = requests_for(tasks, 0, GROUP)
    samples = [_sample(slot, index) for slot in range(len(tasks)) for index in range(GROUP)]
    pool = InlinePool(as_verifier(_length))

    class Ready:
        """A sampler that returns ready-made samples."""

        def sample(self, requests: Sequence[SampleRequest], decoding: Decoding) -> Iterator[Sample]:
            return iter(samples)

        def publish(self, version: int) -> None: ...

    def once() -> float:
        began = time.process_time()
        groups = collect(Ready(), pool, requests, Decoding(max_new_tokens=1))
        Credit().assign(groups)
        return (time.process_time() - began) / len(samples)

    once()
    return statistics.median(once() for _ in range(5))


def _length(_task: Task, text: str) -> float:
    return float(len(text))


def _sample(slot: int, index: int) -> Sample:
    count = int(TOKENS.mean)
    place = np.arange(PROMPT, PROMPT + count, dtype=np.int32)
    decisions = Decisions(place, np.arange(count, dtype=np.int32), np.zeros(count, np.float32))
    ids = np.zeros(PROMPT + count, np.int32)
    return Sample(SampleKey(0, slot, 0, index), ids, PROMPT, "x" * (index % 7), "length", decisions)


def pool_seconds() -> float:
    """Return the seconds to submit a tiny item to the Ray pool and receive its verdict, from ``pool-throughput``."""
    stored = json.loads((report.RESULTS / "pool-throughput.json").read_text(encoding="utf-8"))
    details = stored["result"]["details"]
    rates: Sequence[float] = [row["Steelyard items/s"] for row in details if row["work"] == "tiny on Ray"]
    return 1 / statistics.median(rates)
