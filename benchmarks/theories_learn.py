"""From random theories, of which few succeed, a policy comes to write consistent ones for gauge groups never seen.

What a success is, the domain's verifier says (``success.py``); nothing is counted differently here.
Training stops when its steps or its time are over; the held-out groups are looked at before, after and, for the curve
alone, on the way. What counts beside success is how many of a thousand samples are successes that really differ, with
and without vector-like pairs. A second run extends the Standard Model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.progress import Progress

from benchmarks.abreast import Tell, abreast
from benchmarks.result import Cell, Figure, Result
from benchmarks.watched import Look, Watch, configured, watched_run
from steelyard.domains.theories.comparison.canonical_form import canonical
from steelyard.domains.theories.comparison.catalogue import distinct, group_name
from steelyard.domains.theories.grammar.starting_points import standard_model_text
from steelyard.domains.theories.grammar.text import laid_out, read
from steelyard.domains.theories.model.known_models import standard_model
from steelyard.domains.theories.model.theory import Theory
from steelyard.domains.theories.physics.mass_spectrum import spectrum
from steelyard.training.evaluation import Evaluation
from steelyard.types import Group

SEEDS = (0, 1, 2)
MINUTES = 50.0
"""Of training, a seed, if its steps are not over before; two seeds at once, a core each. The warm start is extra."""
EXTENSION_MINUTES = 30.0
LOOK_EVERY = 20
SAMPLES = 1000
"""Of the held-out groups together, at the end."""
WATCHED = 128
"""Of them together, on the way."""
BEGIN, REACH, DISTINCT, EXTENSIONS, SHOWN = 0.05, 0.8, 300, 100, 10
EXTENDING: dict[str, Any] = {
    "domain.options.kinds": ["model"],
    "domain.options.containing": [],
    "domain.options.rising": 0,
    "domain.options.limits.abelian": 1,
    "domain.options.limits.dimension": 15,
    "domain.options.limits.states": 24,
    "domain.options.limits.scalars": 3,
    "domain.options.limits.multiplets": 11,
    "domain.options.limits.terms": 9,
    "domain.options.longest_example": 110,
    "domain.options.reward.long": 110,
    "domain.options.reward.variety": 5,
    "domain.options.reward.vector_like": True,
    "evaluate.temperature": 1.0,
    "loss.entropy.coefficient": 0.05,
    "model.scratch.max_length": 160,
    "sampling.max_new_tokens": 130,
    "sampling.tasks_per_step": 4,
}
"""What the Standard Model needs other than in the recipe."""


@dataclass(frozen=True)
class Learnt:
    """One run: what was found before and after, and the way between."""

    seed: int
    before: Evaluation
    after: Evaluation
    curve: list[dict[str, Cell]]
    warm_minutes: float

    @property
    def different(self) -> tuple[int, int]:
        """Distinct successes among the samples at the end, and without their vector-like pairs."""
        found = successes(self.after.groups)
        return distinct(found), distinct(found, vector_like=False)

    @property
    def samples(self) -> int:
        return sum(len(group.samples) for group in self.after.groups)

    @property
    def reached(self) -> float:
        """The share of successes among the samples at the end."""
        return len(successes(self.after.groups)) / self.samples


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: few and small gauge groups, a short warm start, a few steps; the held-out reward has to have risen."""
    if quick:
        return _quick(progress)
    longest = {"extensions": Asked(0, EXTENDING, EXTENSION_MINUTES)}
    asked = longest | {f"seed {seed}": Asked(seed) for seed in SEEDS}
    every: list[Learnt] = []
    for run in abreast(learn_asked, asked, progress, MINUTES):
        every.append(run)
        progress.console.print(summary(run))
    extended, *runs = every
    rows = [{"run": name, **row} for name, run in zip(asked, every, strict=True) for row in run.curve]
    return Result("theories-learn", figures(runs, extended), rows, note(runs, extended))


@dataclass(frozen=True)
class Asked:
    """A run to be made."""

    seed: int
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    minutes: float = MINUTES


def learn_asked(asked: Asked, tell: Tell) -> Learnt:
    with tempfile.TemporaryDirectory() as scratch:
        return learn(asked.seed, scratch, asked.changes, asked.minutes, tell)


def learn(
    seed: int, scratch: str, overrides: Mapping[str, Any], minutes: float, tell: Tell, *, samples: int = SAMPLES
) -> Learnt:
    """Warm start, then training until the steps or the minutes are over."""
    from steelyard.compose import tasks_of_split

    config = configured("theories", seed, scratch, overrides)
    tasks = len(tasks_of_split(config, "held_out"))
    watch = Watch(-(-samples // tasks), -(-WATCHED // tasks), LOOK_EVERY, "held_out")
    run = watched_run(config, watch, minutes, tell)
    return Learnt(seed, run.before, run.after, [point(seed, look) for look in run.looks], run.warm_minutes)


def share_distinct(found: Evaluation) -> float:
    """Distinct successes over all samples, vector-like pairs not counted."""
    samples = sum(len(group.samples) for group in found.groups)
    return distinct(successes(found.groups), vector_like=False) / samples


def point(seed: int, look: Look) -> dict[str, Cell]:
    return look.row(seed, "held-out success") | {
        "distinct successes": share_distinct(look.found),
        "fermion contents": contents(look.found.groups),
        "entropy": look.metrics.get("entropy", float("nan")),
        "reward": look.found.reward.mean,
    }


def successes(groups: Sequence[Group]) -> list[Theory]:
    """The theories that the verifier counts as successes."""
    return [
        read(sample.text)
        for group in groups
        for sample, verdict in zip(group.samples, group.verdicts, strict=True)
        if verdict.success
    ]


def contents(groups: Sequence[Group]) -> int:
    """How many contents of chiral fermions the successes have: what differs beside is scalars, vacuum and terms."""
    return len({canonical(own, vector_like=False, scalars=False, terms=False) for own in successes(groups)})


def figures(runs: Sequence[Learnt], extended: Learnt) -> tuple[Figure, ...]:
    begins = [run.before.success.mean for run in runs]
    ends = [run.reached for run in runs]
    different = {
        "distinct successes in 1,000 samples": [run.different[0] * SAMPLES / run.samples for run in runs],
        "the same without vector-like pairs": [run.different[1] * SAMPLES / run.samples for run in runs],
    }
    return (
        Figure("held-out success before", max(begins), "<=", BEGIN, spread=max(begins) - min(begins)),
        Figure("held-out success", min(ends), ">=", REACH, spread=max(ends) - min(ends)),
        *(Figure(name, min(own), ">=", DISTINCT, spread=max(own) - min(own)) for name, own in different.items()),
        Figure(
            "distinct extensions of the Standard Model", float(len(extensions(extended.after.groups))), ">=", EXTENSIONS
        ),
    )


def summary(run: Learnt) -> str:
    """A line of a run, with 95% intervals over gauge groups."""
    before, after = (
        f"{e.success.mean:.3f} ({e.success.low:.3f}–{e.success.high:.3f})" for e in (run.before, run.after)
    )
    whole, chiral = run.different
    return (
        f"seed {run.seed}: {before} to {after} after {float(run.curve[-1]['minutes']):.1f} minutes and "
        f"{run.curve[-1]['step']} steps (warm start {run.warm_minutes:.1f}); of {run.samples} samples {whole} distinct "
        f"successes, {chiral} without vector-like pairs, {contents(run.after.groups)} if chiral fermions alone are "
        f"compared ({by_gauge_group(run.after.groups)})"
    )


def by_gauge_group(groups: Sequence[Group]) -> str:
    """The share of successes for each gauge group."""
    return ", ".join(
        f"{group_name(canonical(read(group.samples[0].text)))} {len(successes([group])) / len(group.samples):.3f}"
        for group in groups
    )


def note(runs: Sequence[Learnt], extended: Learnt) -> str:
    """A line for each run, and a table of the shortest extensions."""
    return "\n".join(
        [
            "Held-out success before and after:",
            "",
            *(f"- {summary(run)}" for run in runs),
            f"- extensions of the Standard Model, {summary(extended)}",
            "",
            f"The {SHOWN} shortest extensions, by what they add; states with charge or colour that are new:",
            "",
            "| added | lightest new state |",
            "|---|---|",
            *(f"| {added(text)} | {lightest_exotic(text)} |" for text in extensions(extended.after.groups)[:SHOWN]),
        ]
    )


def added(text: str) -> str:
    """The multiplets and terms that the Standard Model has not."""
    known = laid_out(standard_model_text()).splitlines()
    return ", ".join(f"`{line}`" for line in laid_out(text).splitlines() if line not in known)


def lightest_exotic(text: str) -> str:
    masses = [state.mass for state in spectrum(read(text)).states if state.exotic]
    return f"{min(masses):.0f} GeV" if masses else "none"


def extensions(groups: Sequence[Group]) -> list[str]:
    """A text for each success that really differs from the others and from the Standard Model, the shortest first; a
    singlet alone makes no difference.
    """
    texts = {
        sample.text
        for group in groups
        for sample, verdict in zip(group.samples, group.verdicts, strict=True)
        if verdict.success
    }
    shortest_last = sorted(texts, key=lambda text: (len(text.split()), text), reverse=True)
    kept = {canonical(read(text)): text for text in shortest_last}
    kept.pop(canonical(standard_model()), None)
    return sorted(kept.values(), key=lambda text: (len(text.split()), text))


def _quick(progress: Progress) -> Result:
    small = {
        "warmstart.examples": 2560,
        "warmstart.batch": 32,
        "model.scratch.width": 64,
        "sampling.tasks_per_step": 4,
        "domain.options.limits.groups": 2,
        "domain.options.limits.largest": 6,
        "domain.options.limits.multiplets": 5,
        "domain.options.longest_example": 50,
        "sampling.max_new_tokens": 60,
    }
    task = progress.add_task("theories-learn", total=1)
    with tempfile.TemporaryDirectory() as scratch:
        run = learn(0, scratch, small, 0.4, lambda _, text: progress.update(task, description=text), samples=128)
    progress.advance(task)
    gain = run.after.reward.mean - run.before.reward.mean
    return Result("theories-learn", (Figure("gain of held-out reward", gain, ">=", 0.05),), run.curve, summary(run))
