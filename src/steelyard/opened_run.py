"""``Run``: a training run as a Python object, with its metrics and its model at any checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard import config as configs
from steelyard import defaults
from steelyard.checkpoint import Store
from steelyard.compose import (
    OpenedPolicy,
    Supplied,
    build_evaluation_decoding,
    build_evaluator,
    build_pool,
    build_sampler,
    build_trial_pool,
    build_verifier,
    default_split,
    open_policy,
    tasks_of_split,
    with_domain,
    with_episodes,
)
from steelyard.config import Config
from steelyard.data import as_tasks
from steelyard.domains.base import Split
from steelyard.errors import ConfigError
from steelyard.folders import run_folder
from steelyard.policies.base import Policy
from steelyard.quiet import quiet_engines
from steelyard.run import run_and_report
from steelyard.text import printable
from steelyard.tracking import read_metrics
from steelyard.tracking.artifacts import verdict_line
from steelyard.tracking.shown import prompt_of, prompt_text
from steelyard.tracking.transcript import limit_note, shown_turns, transcript_lines
from steelyard.training.evaluation import EVALUATION_STEP, Evaluation
from steelyard.training.phases import collect, requests_for
from steelyard.types import Group, Prompt, Task, Verdict
from steelyard.verification import AnyVerifier, InlinePool, Pool, as_verifier

if TYPE_CHECKING:
    import pandas as pd

NOT_VERIFIED = "not verified"


class SampledGroups(tuple[Group, ...]):
    """Groups of samples that print as text: each prompt followed by its samples and their rewards."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n\n".join(map(_shown, self))


class Run:
    """A training run: its folder, configuration and metrics, and its model at any checkpoint.

    Returned by ``steelyard.train`` and ``steelyard.open_run``.
    """

    def __init__(self, config: Config, supplied: Supplied) -> None:
        self.config, self._supplied = config, supplied
        self._opened: tuple[str, OpenedPolicy] | None = None

    @property
    def folder(self) -> Path:
        return run_folder(self.config)

    @property
    def step(self) -> int:
        """Step of the newest checkpoint, or 0."""
        return max(Store(self.folder / "checkpoints").steps(), default=0)

    @property
    def policy(self) -> Policy:
        """The model with the weights of the newest checkpoint, its tokenizer and its constraint."""
        return self._open(defaults.CHECKPOINT).policy

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The metrics, one dict per step (docs/metrics.md)."""
        path = self.folder / "metrics.jsonl"
        return list(read_metrics(path)) if path.exists() else []

    @property
    def metrics(self) -> pd.DataFrame | list[dict[str, Any]]:
        """:attr:`rows` as a data frame indexed by step, or as a list of dicts if pandas is not installed."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            return self.rows
        rows = self.rows
        return pd.DataFrame(rows).set_index("step") if rows else pd.DataFrame()

    def sample(
        self,
        prompt: Prompt | Task | Sequence[Any] | None = None,
        *,
        n: int = defaults.SHOWN_SAMPLES,
        tasks: int = defaults.SHOWN_TASKS,
        split: Split | None = None,
        spec: Mapping[str, Any] | None = None,
        checkpoint: str = defaults.CHECKPOINT,
        temperature: float | None = None,
    ) -> SampledGroups:
        """Draw ``n`` samples for a prompt, or for each of the first ``tasks`` tasks of a split.

        The default is the held-out split, or the training split if no tasks are held out. Samples for tasks are
        verified. Samples for a prompt are verified only if ``spec`` provides the columns that the verifier needs.
        ``temperature`` defaults to the evaluation temperature.
        """
        config = self.config
        chosen = self._tasks(split or self._default_split(), tasks) if prompt is None else _own_tasks(prompt, spec)
        verified = prompt is None or spec is not None or isinstance(prompt, Task)
        verifier = build_verifier(config, self._parts) if verified and not self._missing("verifier", "tools") else None
        with quiet_engines(), closing(self._trial_pool(verifier)) as opened:
            policy = self._open(checkpoint).policy
            sampler, pool = with_episodes(config, policy, verifier, build_sampler(config, policy), opened)
            requests = requests_for(chosen, EVALUATION_STEP, n)
            return SampledGroups(collect(sampler, pool, requests, build_evaluation_decoding(config, temperature)))

    def evaluate(
        self,
        *,
        k: Sequence[int] = defaults.REPORTED_KS,
        samples: int | None = None,
        tasks: int | None = None,
        split: Split | None = None,
        checkpoint: str = defaults.CHECKPOINT,
    ) -> Evaluation:
        """Measure reward, success and pass@k on a split (default: held-out tasks if any, otherwise training tasks)."""
        config, wanted = self.config, samples or max(k)
        self._require("domain", "verifier", "tools")
        split = split or self._default_split()
        chosen = self._tasks(split, tasks or config.evaluate.tasks)
        verifier = build_verifier(config, self._parts)
        with quiet_engines():
            policy = self._open(checkpoint).policy
            with closing(build_pool(config, verifier, self._parts)) as opened:
                sampler, pool = with_episodes(config, policy, verifier, build_sampler(config, policy), opened)
                return replace(build_evaluator(config, sampler, pool, chosen, samples=wanted, ks=k).run(), split=split)

    def resume(self, steps: int | None = None) -> Run:
        """Continue from the newest checkpoint up to ``steps`` steps in total (default: ``run.steps``)."""
        self._require("model", "domain", "tasks", "verifier", "constraint", "tools")
        config = self.config
        if steps is not None:
            data = config.model_dump(exclude_none=True)
            config = configs.build({**data, "run": {**data["run"], "steps": steps}}, source="Run.resume")
        self._opened = None
        run_and_report(config, self._parts, resume=True)
        self.config = config
        return self

    def __repr__(self) -> str:
        words = [repr(str(self.folder)), f"step {self.step} of {self.config.run.steps}"]
        last: dict[str, Any] = {}
        for row in self.rows:
            last |= row
        for name, form in (("reward/mean", "reward {:.3f}"), ("eval/success", "eval success {:.1%}")):
            if isinstance(value := last.get(name), int | float):
                words.append(form.format(value))
        return f"Run({', '.join(words)})"

    def _open(self, checkpoint: str) -> OpenedPolicy:
        """Load the model at a checkpoint; the most recently opened model stays loaded."""
        self._require("model", "domain", "constraint", "tools")
        if self._opened is None or self._opened[0] != checkpoint:
            self._opened = None  # free the old model first: two models may not fit in memory
            self._opened = (checkpoint, open_policy(self.config, self.folder, checkpoint, self._parts))
        return self._opened[1]

    def _default_split(self) -> Split:
        self._require("domain")
        return default_split(self.config, self._parts)

    def _tasks(self, split: Split, count: int) -> list[Task]:
        self._require("domain", "tasks")
        return tasks_of_split(self.config, split, count, self._parts)

    def _trial_pool(self, verifier: AnyVerifier | None) -> Pool:
        if verifier is not None:
            return build_trial_pool(self.config, verifier, self._parts)
        return InlinePool(as_verifier(lambda _task, _text: Verdict.unscored(NOT_VERIFIED)))

    @property
    def _parts(self) -> Supplied:
        """The supplied objects, including the domain, which is built only once."""
        self._supplied = with_domain(self.config, self._supplied)
        return self._supplied

    def _missing(self, *parts: str) -> list[str]:
        return [part for part in parts if part in self.config.run.supplied and getattr(self._supplied, part) is None]

    def _require(self, *parts: str) -> None:
        if missing := self._missing(*parts):
            given = ", ".join(f"{part}=…" for part in missing)
            raise ConfigError(
                f"{self.folder} was started with a {' and a '.join(missing)} that the run folder cannot store: open it "
                f"with steelyard.open_run({str(self.folder)!r}, {given})"
            )


def _own_tasks(prompt: Prompt | Task | Sequence[Any], spec: Mapping[str, Any] | None) -> list[Task]:
    """Convert a prompt (a string, chat messages or a task), or a list of prompts and tasks, to tasks."""
    if isinstance(prompt, Task):
        return [prompt]
    messages = not isinstance(prompt, str) and all(isinstance(one, Mapping) and "role" in one for one in prompt)
    if isinstance(prompt, str) or messages:
        return as_tasks([{**(spec or {}), "id": "prompt", "prompt": prompt}])
    return as_tasks(prompt)


def _shown(group: Group) -> str:
    lines = [printable(prompt_text(prompt_of(group.task, group.samples[0])))]
    for number, (sample, verdict) in enumerate(zip(group.samples, group.verdicts, strict=True), start=1):
        if turns := shown_turns(sample, verdict):
            notes = [printable(verdict_line(verdict)), limit_note(turns, sample.finish, verdict)]
            lines.append(f"  {number}  {' · '.join(filter(None, notes))}")
            lines += [f"  {line}" for line in transcript_lines(turns)]
            continue
        result = "" if verdict.cause == NOT_VERIFIED else f"  ({printable(verdict_line(verdict))})"
        text = printable(sample.text).replace("\n", "\n    ") or "(empty)"
        lines.append(f"  │ {text}{result}")
    return "\n".join(lines)
