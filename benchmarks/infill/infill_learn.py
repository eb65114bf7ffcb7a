"""Training improves fills of unseen functions according to the judge and the parser, without gaming the judge.

The judge was trained on fills from the warm start and can be exploited. Its scores are therefore compared with two
models that training never uses and that were trained on other texts (PyTorch's own sources): a second judge, and a
causal character model, which measures how much more a filled text surprises it than the original. Sampling only the
likeliest fills also raises these scores, so the warm start is also evaluated at a lower temperature. A run with the
judge as its only reward and without KL shows what gaming looks like.

Creating the warm starts and judges takes longer than everything else. If the environment variable
``STEELYARD_BENCHMARKS_KEEP`` names a folder, they are stored there under a name derived from all their settings, and
reused. Use a new folder after changing the code.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress

from benchmarks.framework.parallel_runs import ReportProgress, run_in_parallel
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.training_runs import QUIET_RUN
from steelyard.algorithms.passk import Interval, bootstrap_interval
from steelyard.domains.infill.reward import parses, recovered
from steelyard.types import HOLE, Group, SampleKey, Task

SEEDS = (0, 1, 2)
MINUTES = 45.0
TASKS, SAMPLES = 600, 2
OTHER = 100
"""Seed for all training data of the second judge and the causal model."""
READER: dict[str, Any] = {"layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "max_length": 260}
READER_UPDATES = 400
SHARP = 0.4
"""Lower temperature for a second evaluation of the warm start: half the recipe's."""
GAMED: dict[str, Any] = {
    "run.steps": 150,
    "loss.kl.coefficient": 0.0,
    "domain.options.weights": {"exact": 0.0},
    "optimiser.lr": 1e-3,
    "optimiser.schedule": "constant",
}
"""The judge as the only reward, no KL to the start, and a high learning rate."""
WORSE, MORE_NATS = 0.02, 0.05
"""Largest tolerated drop in the second judge's score and rise in surprise per filled character."""


@dataclass(frozen=True)
class FillScores:
    """Scores of fills of held-out functions, with 95% intervals over functions."""

    judge: Interval
    parses: Interval
    second: Interval
    surprise: Interval
    """Excess surprise over the original under the causal model, in nats per filled character."""
    recovered: float
    distinct: float
    """Distinct fills of a function divided by the total number of its fills."""

    def row(self, name: str, **further: Cell) -> dict[str, Cell]:
        return {
            "run": name,
            **further,
            **{of: _shown(getattr(self, of)) for of in ("judge", "parses", "second", "surprise")},
            "recovered": self.recovered,
            "distinct": self.distinct,
        }


def _shown(found: Interval) -> str:
    return f"{found.mean:.3f} ({found.low:.3f}–{found.high:.3f})"


@dataclass(frozen=True)
class LearningRun:
    """One run: scores at its start, at its start with a lower temperature, and at its end."""

    name: str
    before: FillScores
    sharp: FillScores
    after: FillScores
    accuracy: tuple[float, float]
    """How often the run's judge and the second judge rate a held-out original above a fill from the warm start."""
    warm_minutes: float
    minutes: float
    steps: int
    gamed: bool = False

    def rows(self) -> list[dict[str, Cell]]:
        return [
            self.before.row(self.name, when="before", steps=0, minutes=self.warm_minutes),
            self.sharp.row(self.name, when=f"before, temperature {SHARP}", steps=0, minutes=self.warm_minutes),
            self.after.row(self.name, when="after", steps=self.steps, minutes=self.minutes),
        ]


class IndependentScorers:
    """The second judge and the causal model, which training never uses."""

    def __init__(self, folder: Path) -> None:
        from steelyard.policies.loading import PolicyOptions, pretrained_policy

        self.second = judge_in(folder / "judge")
        self.reader: Any = pretrained_policy(str(folder / "reader"), PolicyOptions(device="cpu"))

    def score(self, groups: Sequence[Group]) -> FillScores:
        """Average over the samples of a function, then compute intervals over functions."""
        texts = [[sample.text for sample in group.samples] for group in groups]
        second = self.second([text for own in texts for text in own])
        nats = self.nats([*(text for own in texts for text in own), *(original(group.task) for group in groups)])
        excess: list[float] = []
        for number, group in enumerate(groups):
            filled = nats[number * len(group.samples) : (number + 1) * len(group.samples)]
            truth = nats[number - len(groups)]
            excess.append((float(np.mean(filled)) - truth) / str(group.task.prompt).count(HOLE))
        return FillScores(
            judge=bootstrap_interval([_mean(verdict.parts["judge"] for verdict in group.verdicts) for group in groups]),
            parses=bootstrap_interval([_mean(map(parses, own)) for own in texts]),
            second=bootstrap_interval([_mean(own) for own in np.reshape(second, (len(groups), -1))]),
            surprise=bootstrap_interval(excess),
            recovered=_mean(
                recovered(str(group.task.prompt), original(group.task), text)
                for group, own in zip(groups, texts, strict=True)
                for text in own
            ),
            distinct=_mean(len(set(own)) / len(own) for own in texts),
        )

    @torch.no_grad()
    def nats(self, texts: Sequence[str]) -> list[float]:
        """Return the negative log-likelihood of each text in nats."""
        self.reader.train(False)
        found: list[float] = []
        for at in range(0, len(texts), 32):
            samples = [
                self.reader.sample_from_text(Task("text", ""), text, SampleKey(0, 0, 0, 0))
                for text in texts[at : at + 32]
            ]
            batch = self.reader.collate(samples)
            logp_N = self.reader.evaluate(batch).logp_N
            found += (-torch.zeros(len(samples), dtype=logp_N.dtype).index_add(0, batch.sample_N, logp_N)).tolist()
        return found


def judge_in(folder: Path) -> Callable[[Sequence[str]], list[float]]:
    """Return a function that scores texts with the judge in a folder."""
    from steelyard.policies.judge import ClassifierJudge
    from steelyard.training.judge_training import logits_of

    judge = ClassifierJudge(str(folder), device="cpu")

    @torch.no_grad()
    def scores(texts: Sequence[str]) -> list[float]:
        parts = [texts[at : at + 16] for at in range(0, len(texts), 16)]
        return torch.cat([logits_of(judge.model, judge.tokenizer, part).sigmoid() for part in parts]).tolist()

    return scores


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def original(task: Task) -> str:
    return str(task.spec["text"])


def pairwise_accuracy(judge: Callable[[Sequence[str]], list[float]], groups: Sequence[Group]) -> float:
    """Return how often an original is rated above one of its fills."""
    originals = judge([original(group.task) for group in groups])
    fills = judge([group.samples[0].text for group in groups])
    return _mean(above > below for above, below in zip(originals, fills, strict=True))


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version trains a small model on short functions, and the reward must rise."""
    if quick:
        return _quick(progress)
    bar = progress.add_task("the second judge and the causal model", total=1)
    with start_folder() as folder:
        scorers = train_scorers(folder)
        progress.advance(bar)
        jobs = {f"seed {seed}": Job(seed, folder, scorers, gamed=seed == SEEDS[0]) for seed in SEEDS}
        runs: list[LearningRun] = []
        for finished in run_in_parallel(learn, jobs, progress, MINUTES):
            runs += finished
            for run in finished:
                progress.console.print(*run.rows(), sep="\n")
    fair = [run for run in runs if not run.gamed]
    (gamed,) = [run for run in runs if run.gamed]
    rows = [row for run in (*fair, gamed) for row in run.rows()]
    return Result("infill-learn", figures(fair, gamed), rows, note(fair, gamed))


@contextmanager
def start_folder() -> Iterator[str]:
    """Yield the folder for warm starts and judges."""
    named = os.environ.get("STEELYARD_BENCHMARKS_KEEP")
    with nullcontext(named) if named else tempfile.TemporaryDirectory() as folder:
        yield folder


@dataclass(frozen=True)
class Job:
    """A run with one seed and, if ``gamed``, a second run from the same start with the judge as the only reward."""

    seed: int
    folder: str
    scorers: str
    gamed: bool = False


def learn(job: Job, report_progress: ReportProgress) -> list[LearningRun]:
    """Make the warm start and the judge; then evaluate, train and evaluate again, for each run of the job."""
    scorers, runs = IndependentScorers(Path(job.scorers)), list[LearningRun]()
    report_progress(0.0, "warm start and judge")
    started, warm_minutes = warm_started(job.folder, load_infill(job.seed, job.folder, "own", {}))
    runs.append(train_and_score(f"seed {job.seed}", started, scorers, report_progress, warm_minutes))
    if job.gamed:
        name = f"seed {job.seed}, judge reward only, no KL, higher learning rate"
        gamed = _changed(started, GAMED)
        runs.append(train_and_score(name, gamed, scorers, report_progress, warm_minutes, same_start=runs[0]))
    return runs


def warm_started(folder: str, config: Any) -> tuple[Any, float]:
    """Return the configuration with its warm start and judge, and the minutes it took to create them."""
    from steelyard.compose import prepare_start
    from steelyard.compose.warmstart import warm_start_settings

    settings = warm_start_settings(config, config.warmstart) + repr((config.judge, config.sampling))
    mark = zlib.crc32(settings.encode())
    own = Path(folder) / f"{config.run.name}-{config.run.seed}-{mark:08x}"
    began = time.perf_counter()
    started, note = prepare_start(_changed(config, {"run.folder": str(own)})), own / "minutes"
    if not note.exists():
        note.write_text(str((time.perf_counter() - began) / 60), encoding="utf-8")
    return started, float(note.read_text(encoding="utf-8"))


def train_and_score(
    name: str,
    config: Any,
    scorers: IndependentScorers,
    report_progress: ReportProgress,
    warm_minutes: float,
    same_start: LearningRun | None = None,
) -> LearningRun:
    """Train and score one run; ``same_start`` marks a gamed run and supplies the scores of its start."""
    from steelyard.compose import build_evaluator, build_trainer, tasks_of_split
    from steelyard.compose.judge import judge_folder

    trainer = build_trainer(config)
    try:
        held_out = tasks_of_split(config, "held_out", TASKS)
        sharper = _changed(config, {"evaluate.temperature": SHARP})
        usual, sharp = (
            build_evaluator(settings, trainer.parts.sampler, trainer.parts.pool, held_out, samples=SAMPLES)
            for settings in (config, sharper)
        )
        if same_start is None:
            report_progress(0.0, "evaluating the start")
            start = usual.run().groups
            accuracy = (
                pairwise_accuracy(judge_in(judge_folder(config)), start),
                pairwise_accuracy(scorers.second, start),
            )
            before, sharpened = scorers.score(start), scorers.score(sharp.run().groups)
        else:
            accuracy, before, sharpened = same_start.accuracy, same_start.before, same_start.sharp
        spent = train(trainer, MINUTES, report_progress)
        after, gamed = scorers.score(usual.run().groups), same_start is not None
        return LearningRun(name, before, sharpened, after, accuracy, warm_minutes, spent / 60, trainer.step, gamed)
    finally:
        trainer.close()


def train_scorers(folder: str) -> str:
    """Train a second judge and a causal model on texts that no run uses, and return their folder."""
    from steelyard.compose.warmstart import write_atomically
    from steelyard.folders import run_folder

    other = {"domain.options.files": str(Path(torch.__file__).parent)}
    config, _ = warm_started(folder, load_infill(OTHER, folder, "other", other))
    own = run_folder(config)
    if not (own / "reader").is_dir():
        write_atomically(own / "reader", reader_of(config, OTHER).save_pretrained)
    return str(own)


def train(trainer: Any, minutes: float, report_progress: ReportProgress) -> float:
    """Train until the run's last step or until ``minutes`` have passed, and return the time in seconds."""
    spent = 0.0
    while spent < 60 * minutes and trainer.step < trainer.settings.steps:
        began = time.perf_counter()
        metrics = trainer.train_step()
        spent += time.perf_counter() - began
        parts = {key: metrics.get(f"parts/{key}/mean", math.nan) for key in ("judge", "program/parses")}
        shown = ", ".join(f"{key} {value:.3f}" for key, value in parts.items())
        report_progress(spent / 60, f"step {trainer.step}, {shown}, KL {metrics.get('kl', math.nan):.3f}")
    return spent


def load_infill(seed: int, scratch: str, name: str, sizes: Mapping[str, Any]) -> Any:
    """Load the shipped recipe with ``QUIET_RUN`` and the sizes."""
    from steelyard import config as configs

    own = {"run.folder": scratch, "run.name": name, "run.seed": seed, "domain.options.seed": seed, "judge.seed": seed}
    return configs.load("infill", {**QUIET_RUN, **own, **sizes})


def _changed(config: Any, changes: Mapping[str, Any]) -> Any:
    from steelyard import config as configs
    from steelyard.config.overrides import apply_overrides

    return configs.build(apply_overrides(config.model_dump(exclude_none=True), dict(changes)), source="infill-learn")


def reader_of(config: Any, seed: int) -> Any:
    """Train a causal character model on the training texts."""
    from steelyard.algorithms.objective import Objective
    from steelyard.algorithms.schedules import Schedule
    from steelyard.algorithms.surrogates import surrogate
    from steelyard.compose import build_domain
    from steelyard.policies.loading import PolicyOptions, from_scratch_policy
    from steelyard.policies.scratch import Architecture
    from steelyard.training.learner import Coefficients, Learner, UpdateRule
    from steelyard.training.optimisers import build_optimiser
    from steelyard.training.warmstart import warm_start

    domain: Any = build_domain(config)
    options = PolicyOptions(device="cpu", seed=seed)
    policy = from_scratch_policy(Architecture(**READER), domain.vocabulary(), options, spaced=False)
    nothing = Schedule("constant", 0.0)
    learner = Learner(
        policy,
        build_optimiser("adamw", [parameter for _, parameter in policy.trainable()], lr=2e-3),
        Objective(surrogate("reinforce")),
        Coefficients(Schedule("cosine", 2e-3, 2e-4, READER_UPDATES, 20), nothing, nothing),
        UpdateRule(microbatch_tokens=16_384, aggregation="token_mean"),
    )
    texts = ((Task("text", ""), text) for _, text in domain.examples(seed=seed))
    for _ in warm_start(learner, texts, steps=READER_UPDATES, batch=32):
        pass
    return policy


def figures(runs: Sequence[LearningRun], gamed: LearningRun) -> tuple[Figure, ...]:
    apart = [
        min(run.after.judge.low - run.before.judge.high, run.after.parses.low - run.before.parses.high) for run in runs
    ]
    fallen, risen = zip(*(worse(run) for run in runs), strict=True)
    return (
        Figure("gap between 95% intervals before and after, smaller of judge and parser", min(apart), ">=", 0.0),
        Figure("drop of the second judge's score", max(fallen), "<=", WORSE),
        Figure("rise in surprise, nats per filled character", max(risen), "<=", MORE_NATS),
        Figure("gamed run: rise of its judge's score", gamed.after.judge.mean - gamed.before.judge.mean, ">=", 0.05),
        Figure("gamed run: drop of the second judge's score or rise in surprise", max(worse(gamed)), ">=", 0.1),
    )


def worse(run: LearningRun) -> tuple[float, float]:
    """Return the drop in the second judge's score and the rise in surprise."""
    return run.before.second.mean - run.after.second.mean, run.after.surprise.mean - run.before.surprise.mean


def note(runs: Sequence[LearningRun], gamed: LearningRun) -> str:
    accuracy = "; ".join(f"{run.accuracy[0]:.2f} and {run.accuracy[1]:.2f}" for run in runs)
    return (
        f"{TASKS} held-out functions, {SAMPLES} fills each. Surprise is the excess over the original under the causal "
        f"model, in nats per filled character. Minutes before training are those of warm start and judge. Share of "
        f"originals rated above a fill of the warm start, by the run's judge and by the second judge: {accuracy}. With "
        f"the judge as the only reward, no KL and a higher learning rate, its score goes from "
        f"{gamed.before.judge.mean:.3f} to {gamed.after.judge.mean:.3f}, while the second judge's goes from "
        f"{gamed.before.second.mean:.3f} to {gamed.after.second.mean:.3f}, the surprise from "
        f"{gamed.before.surprise.mean:.2f} to {gamed.after.surprise.mean:.2f} and the share that parses from "
        f"{gamed.before.parses.mean:.3f} to {gamed.after.parses.mean:.3f}."
    )


SMALL: dict[str, Any] = {
    "model.scratch.layers": 2,
    "model.scratch.width": 64,
    "model.scratch.heads": 4,
    "domain.options.max_length": 80,
    "warmstart.examples": 9600,
    "warmstart.batch": 32,
    "warmstart.lr": 4e-3,
    "warmstart.warmup_steps": 10,
    "judge.examples": 1280,
    "judge.lr": 1e-3,
    "judge.warmup_steps": 5,
    "sampling.tasks_per_step": 16,
    "sampling.group_size": 8,
    "optimiser.lr": 1.5e-3,
    "run.steps": 120,
}
"""Sizes of the quick version."""


def _quick(progress: Progress) -> Result:
    from steelyard.compose import build_evaluator, build_trainer, prepare_start, tasks_of_split

    task = progress.add_task("infill-learn", total=1)
    with tempfile.TemporaryDirectory() as scratch:
        config = load_infill(0, scratch, "own", SMALL)
        trainer = build_trainer(prepare_start(config))
        try:
            held_out = tasks_of_split(config, "held_out", 100)
            evaluator = build_evaluator(config, trainer.parts.sampler, trainer.parts.pool, held_out, samples=4)
            before = evaluator.run()
            train(trainer, MINUTES, lambda _, text: progress.update(task, description=text))
            after = evaluator.run()
        finally:
            trainer.close()
    progress.advance(task)
    rows: list[dict[str, Cell]] = [
        {"when": when, "reward": found.reward.mean, "parses": found.success.mean, "distinct": found.distinct}
        for when, found in (("before", before), ("after", after))
    ]
    gain = after.reward.mean - before.reward.mean
    return Result("infill-learn", (Figure("gain in held-out reward", gain, ">=", 0.05),), rows)
