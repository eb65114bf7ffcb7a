"""Held-out functions with holes come to be filled so that judge and parser approve, and nobody is gamed.

The judge was trained on fills of the warm start and can be led astray. So what it says is held against those that
training never asked, and that were made of other texts (PyTorch's own sources): a second judge, and a causal character
model, which says how much more a filled text surprises it than the original. Writing only what is likeliest raises such
figures too, so the warm start is also looked at with a lower temperature. A run that the judge alone rewards, and that
nothing holds near its start, shows how gaming looks.

Warm starts and judges take longer than what comes after them. With a folder in the environment variable
``STEELYARD_BENCHMARKS_KEEP`` they are kept there, under a name made of all settings they depend on, and taken up again;
other code needs another folder.
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

from benchmarks.framework.parallel_runs import Tell, abreast
from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.framework.training_runs import UNATTENDED
from steelyard.algorithms.passk import Interval, bootstrap_interval
from steelyard.domains.infill.reward import parses, recovered
from steelyard.types import HOLE, Group, SampleKey, Task

SEEDS = (0, 1, 2)
MINUTES = 45.0
TASKS, SAMPLES = 600, 2
OTHER = 100
"""The seed of everything that the second judge and the causal model are made of."""
READER: dict[str, Any] = {"layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "max_length": 260}
READER_UPDATES = 400
SHARP = 0.4
"""A temperature at which the warm start is looked at too, half of the recipe's."""
GAMED: dict[str, Any] = {
    "run.steps": 150,
    "loss.kl.coefficient": 0.0,
    "domain.options.weights": {"exact": 0.0},
    "optimiser.lr": 1e-3,
    "optimiser.schedule": "constant",
}
"""The judge alone, nothing that holds the policy near its start, and a rate that takes it far."""
WORSE, MORE_NATS = 0.02, 0.05
"""By how much the second judge may fall, and the surprise a filled character rise, and still count as no worse."""


@dataclass(frozen=True)
class Look:
    """What held-out functions came to: each with its 95% interval over functions."""

    judge: Interval
    parses: Interval
    second: Interval
    surprise: Interval
    """Nats a filled character under the causal model, beyond those of the original."""
    recovered: float
    distinct: float
    """Different fills among those of one function, over all of them."""

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
class Learnt:
    """One run: its start, the start with a lower temperature, its end."""

    name: str
    before: Look
    sharp: Look
    after: Look
    told_apart: tuple[float, float]
    """How often its judge, and the second one, rate a held-out original above the fill of the warm start."""
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


class Witnesses:
    """Those who judge and were never learnt from."""

    def __init__(self, folder: Path) -> None:
        from steelyard.policies.loading import PolicyOptions, pretrained_policy

        self.second = judge_in(folder / "judge")
        self.reader: Any = pretrained_policy(str(folder / "reader"), PolicyOptions(device="cpu"))

    def look(self, groups: Sequence[Group]) -> Look:
        """Means over the samples of a function, then the interval over functions."""
        texts = [[sample.text for sample in group.samples] for group in groups]
        second = self.second([text for own in texts for text in own])
        nats = self.nats([*(text for own in texts for text in own), *(original(group.task) for group in groups)])
        excess: list[float] = []
        for number, group in enumerate(groups):
            filled = nats[number * len(group.samples) : (number + 1) * len(group.samples)]
            truth = nats[number - len(groups)]
            excess.append((float(np.mean(filled)) - truth) / str(group.task.prompt).count(HOLE))
        return Look(
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
        """Of each text as a whole."""
        self.reader.train(False)
        found: list[float] = []
        for at in range(0, len(texts), 32):
            samples = [self.reader.given(Task("text", ""), text, SampleKey(0, 0, 0, 0)) for text in texts[at : at + 32]]
            batch = self.reader.collate(samples)
            logp_N = self.reader.evaluate(batch).logp_N
            found += (-torch.zeros(len(samples), dtype=logp_N.dtype).index_add(0, batch.sample_N, logp_N)).tolist()
        return found


def judge_in(folder: Path) -> Callable[[Sequence[str]], list[float]]:
    """What the judge in a folder says of texts."""
    from steelyard.policies.judge import ClassifierJudge
    from steelyard.training.judging import logits_of

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


def told_apart(judge: Callable[[Sequence[str]], list[float]], groups: Sequence[Group]) -> float:
    """How often an original is rated above a fill of it."""
    real = judge([original(group.task) for group in groups])
    made = judge([group.samples[0].text for group in groups])
    return _mean(above > below for above, below in zip(real, made, strict=True))


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: short functions, a small model, short training; judge and parser together have to have risen."""
    if quick:
        return _quick(progress)
    bar = progress.add_task("the second judge and the causal model", total=1)
    with kept() as folder:
        witnesses = make_witnesses(folder)
        progress.advance(bar)
        asked = {f"seed {seed}": Asked(seed, folder, witnesses, gamed=seed == SEEDS[0]) for seed in SEEDS}
        runs: list[Learnt] = []
        for made in abreast(learn, asked, progress, MINUTES):
            runs += made
            for run in made:
                progress.console.print(*run.rows(), sep="\n")
    fair = [run for run in runs if not run.gamed]
    (gamed,) = [run for run in runs if run.gamed]
    rows = [row for run in (*fair, gamed) for row in run.rows()]
    return Result("infill-learn", figures(fair, gamed), rows, note(fair, gamed))


@contextmanager
def kept() -> Iterator[str]:
    """The folder of what runs begin from."""
    named = os.environ.get("STEELYARD_BENCHMARKS_KEEP")
    with nullcontext(named) if named else tempfile.TemporaryDirectory() as folder:
        yield folder


@dataclass(frozen=True)
class Asked:
    """A seed's run to be made, and from the same start, if ``gamed``, another one without what holds it back."""

    seed: int
    folder: str
    witnesses: str
    gamed: bool = False


def learn(asked: Asked, tell: Tell) -> list[Learnt]:
    """Warm start and judge; then, for each run: looks, training until its steps or minutes are over, another look."""
    witnesses, made = Witnesses(Path(asked.witnesses)), list[Learnt]()
    tell(0.0, "warm start and judge")
    started, warm_minutes = beginning(asked.folder, configured(asked.seed, asked.folder, "own", {}))
    made.append(learnt(f"seed {asked.seed}", started, witnesses, tell, warm_minutes))
    if asked.gamed:
        name = f"seed {asked.seed}, the judge alone, no KL, a higher rate"
        made.append(learnt(name, _changed(started, GAMED), witnesses, tell, warm_minutes, same_start=made[0]))
    return made


def beginning(folder: str, config: Any) -> tuple[Any, float]:
    """The configuration after its warm start and judge, and the minutes that these took when they were made."""
    from steelyard.compose import begun
    from steelyard.compose.warmstart import made_with

    settings = made_with(config, config.warmstart) + repr((config.judge, config.sampling))
    mark = zlib.crc32(settings.encode())
    own = Path(folder) / f"{config.run.name}-{config.run.seed}-{mark:08x}"
    began = time.perf_counter()
    started, note = begun(_changed(config, {"run.folder": str(own)})), own / "minutes"
    if not note.exists():
        note.write_text(str((time.perf_counter() - began) / 60), encoding="utf-8")
    return started, float(note.read_text(encoding="utf-8"))


def learnt(
    name: str, config: Any, witnesses: Witnesses, tell: Tell, warm_minutes: float, same_start: Learnt | None = None
) -> Learnt:
    """A run of training, from where a fair one started if that is given: then it is a gamed one."""
    from steelyard.compose import build_evaluator, build_trainer, tasks_of_split
    from steelyard.compose.judge import own_judge

    trainer = build_trainer(config)
    try:
        held_out = tasks_of_split(config, "held_out", TASKS)
        asked = _changed(config, {"evaluate.temperature": SHARP})
        usual, sharp = (
            build_evaluator(settings, trainer.parts.sampler, trainer.parts.pool, held_out, samples=SAMPLES)
            for settings in (config, asked)
        )
        if same_start is None:
            tell(0.0, "looks at the start")
            start = usual.run().groups
            apart = told_apart(judge_in(own_judge(config)), start), told_apart(witnesses.second, start)
            before, sharpened = witnesses.look(start), witnesses.look(sharp.run().groups)
        else:
            apart, before, sharpened = same_start.told_apart, same_start.before, same_start.sharp
        spent = train(trainer, MINUTES, tell)
        after, gamed = witnesses.look(usual.run().groups), same_start is not None
        return Learnt(name, before, sharpened, after, apart, warm_minutes, spent / 60, trainer.step, gamed)
    finally:
        trainer.close()


def make_witnesses(folder: str) -> str:
    """The folder of a second judge, and of a causal model beside it, made of other texts than any run's."""
    from steelyard.compose.warmstart import written_beside
    from steelyard.folders import run_folder

    other = {"domain.options.files": str(Path(torch.__file__).parent)}
    config, _ = beginning(folder, configured(OTHER, folder, "other", other))
    own = run_folder(config)
    if not (own / "reader").is_dir():
        written_beside(own / "reader", reader_of(config, OTHER).save_pretrained)
    return str(own)


def train(trainer: Any, minutes: float, tell: Tell) -> float:
    """Steps until the minutes or the run's steps are over; gives the seconds."""
    spent = 0.0
    while spent < 60 * minutes and trainer.step < trainer.settings.steps:
        began = time.perf_counter()
        metrics = trainer.train_step()
        spent += time.perf_counter() - began
        parts = {key: metrics.get(f"parts/{key}/mean", math.nan) for key in ("judge", "program/parses")}
        said = ", ".join(f"{key} {value:.3f}" for key, value in parts.items())
        tell(spent / 60, f"step {trainer.step}, {said}, KL {metrics.get('kl', math.nan):.3f}")
    return spent


def configured(seed: int, scratch: str, name: str, sizes: Mapping[str, Any]) -> Any:
    """The shipped recipe, without what the benchmark does itself."""
    from steelyard import config as configs

    own = {"run.folder": scratch, "run.name": name, "run.seed": seed, "domain.options.seed": seed, "judge.seed": seed}
    return configs.load("infill", {**UNATTENDED, **own, **sizes})


def _changed(config: Any, changes: Mapping[str, Any]) -> Any:
    from steelyard import config as configs
    from steelyard.config.overrides import apply_overrides

    return configs.build(apply_overrides(config.model_dump(exclude_none=True), dict(changes)), source="infill-learn")


def reader_of(config: Any, seed: int) -> Any:
    """A causal model of characters, trained on the training texts as they are."""
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


def figures(runs: Sequence[Learnt], gamed: Learnt) -> tuple[Figure, ...]:
    apart = [
        min(run.after.judge.low - run.before.judge.high, run.after.parses.low - run.before.parses.high) for run in runs
    ]
    fallen, risen = zip(*(worse(run) for run in runs), strict=True)
    return (
        Figure("gap between the intervals of judge and parser, before and after", min(apart), ">=", 0.0),
        Figure("fall of the second judge", max(fallen), "<=", WORSE),
        Figure("rise of the surprise, nats a filled character", max(risen), "<=", MORE_NATS),
        Figure("the gamed run: rise of its judge", gamed.after.judge.mean - gamed.before.judge.mean, ">=", 0.05),
        Figure("the gamed run: fall of the second judge or rise of the surprise", max(worse(gamed)), ">=", 0.1),
    )


def worse(run: Learnt) -> tuple[float, float]:
    """By how much the second judge fell and the surprise rose."""
    return run.before.second.mean - run.after.second.mean, run.after.surprise.mean - run.before.surprise.mean


def note(runs: Sequence[Learnt], gamed: Learnt) -> str:
    apart = "; ".join(f"{run.told_apart[0]:.2f} and {run.told_apart[1]:.2f}" for run in runs)
    return (
        f"{TASKS} held-out functions, {SAMPLES} fills each. The surprise is in nats a filled character under the "
        f"causal model beyond the original's. The minutes before training are those of warm start and judge. How often "
        f"the judge of a run, and the second one, rate an original above a fill of the warm start: {apart}. With the "
        f"judge alone, no KL and a higher rate its score goes from {gamed.before.judge.mean:.3f} to "
        f"{gamed.after.judge.mean:.3f}, while the second judge goes from {gamed.before.second.mean:.3f} to "
        f"{gamed.after.second.mean:.3f}, the surprise from {gamed.before.surprise.mean:.2f} to "
        f"{gamed.after.surprise.mean:.2f} and the share that parses from {gamed.before.parses.mean:.3f} to "
        f"{gamed.after.parses.mean:.3f}."
    )


SMALL: dict[str, Any] = {
    "model.scratch.layers": 2,
    "model.scratch.width": 64,
    "model.scratch.heads": 4,
    "domain.options.longest": 80,
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
"""The quick form's sizes."""


def _quick(progress: Progress) -> Result:
    from steelyard.compose import begun, build_evaluator, build_trainer, tasks_of_split

    task = progress.add_task("infill-learn", total=1)
    with tempfile.TemporaryDirectory() as scratch:
        config = configured(0, scratch, "own", SMALL)
        trainer = build_trainer(begun(config))
        try:
            held_out = tasks_of_split(config, "held_out", 100)
            judged = build_evaluator(config, trainer.parts.sampler, trainer.parts.pool, held_out, samples=4)
            before = judged.run()
            train(trainer, MINUTES, lambda _, text: progress.update(task, description=text))
            after = judged.run()
        finally:
            trainer.close()
    progress.advance(task)
    rows: list[dict[str, Cell]] = [
        {"when": when, "reward": found.reward.mean, "parses": found.success.mean, "distinct": found.distinct}
        for when, found in (("before", before), ("after", after))
    ]
    gain = after.reward.mean - before.reward.mean
    return Result("infill-learn", (Figure("gain of held-out reward", gain, ">=", 0.05),), rows)
