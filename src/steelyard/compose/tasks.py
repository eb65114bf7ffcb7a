"""Where tasks come from, by split."""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Sequence
from typing import Any

from steelyard import config as configs
from steelyard.compose.constraint import check_budgets
from steelyard.compose.sources import build_source
from steelyard.compose.supplied import NOTHING, Supplied, build_domain
from steelyard.config import Config
from steelyard.data import Source, as_tasks, domain_tasks, load_tasks, split
from steelyard.domains.base import Split
from steelyard.errors import ConfigError, ConstraintError, PolicyError
from steelyard.folders import in_run, run_folder
from steelyard.policies.base import Policy
from steelyard.policies.masked import MaskedPolicy
from steelyard.text import shown
from steelyard.types import Prompt, SampleKey, Task

log = logging.getLogger("steelyard")

FIRST = 64
"""How many tasks of a domain are looked at before anything is trained."""
CHECKED = 20_000
"""How many listed tasks are checked before the run."""


def build_tasks(config: Config, supplied: Supplied = NOTHING) -> tuple[Source, list[Task]]:
    """Where training tasks come from, and the tasks for evaluation (may be empty)."""
    wanted = config.evaluate.tasks
    domain = build_domain(config, supplied)
    if domain is not None:
        validation = domain_tasks(domain, "validation", wanted)
        if config.evaluate.every and not validation:
            raise ConfigError(
                f"the domain {domain.name!r} has no task for validation with these options: change domain.options, or "
                "train without evaluation (evaluate.every = 0)"
            )
        return build_source(config, (), domain), validation
    tasks = located_tasks(config)
    held_out = as_tasks(supplied.eval_tasks, **_columns(tasks)) if supplied.eval_tasks is not None else []
    if tasks is not None and supplied.eval_tasks is not None:
        tasks = tasks.model_copy(update={"eval_file": None})
    if isinstance(supplied.tasks, Source):
        if tasks is not None and tasks.template is not None:
            raise ConfigError(
                f"tasks.template = {shown(tasks.template, 120)} cannot be filled in for a Source, which makes its "
                "prompts itself; remove it, or hand over the rows"
            )
        if tasks is not None and tasks.held_out:
            raise ConfigError(
                "tasks.held_out cannot divide a Source, which draws its tasks itself; hand over eval_tasks instead"
            )
        return supplied.tasks, held_out[:wanted]
    rows, listed = divided_tasks(tasks, supplied.tasks)
    return build_source(config, rows, None), (listed or held_out)[:wanted]


def check_tasks(config: Config, policy: Policy, training: Sequence[Task], held_out: Sequence[Task]) -> None:
    """Fail before the run if a listed task cannot be answered within its token limit, or if its prompt leaves no room
    for that many tokens; held-out tasks have a limit of their own. Of a long list only some prompts are encoded here;
    the others, and tasks drawn without end, are checked when they are drawn.
    """
    tokens, own = config.sampling.max_new_tokens, config.evaluate.max_new_tokens
    _check(config, policy, training, tokens)
    try:
        _check(config, policy, held_out, own or tokens)
    except (ConstraintError, PolicyError) as error:
        if own is not None:
            error.add_note("The task is held out: its limit is evaluate.max_new_tokens.")
        raise


def likely_too_long(tasks: Sequence[Task]) -> Sequence[Task]:
    """All tasks, or of a long list the half of ``CHECKED`` with the longest prompts, by characters, and as many others
    at even distances: to encode a million prompts takes longer than many a run.
    """
    if len(tasks) <= CHECKED:
        return tasks
    longest = heapq.nlargest(CHECKED // 2, tasks, key=lambda task: _characters(task.prompt))
    log.info("checking the length of %d of %d prompts before the run, of the others when drawn", CHECKED, len(tasks))
    return [*longest, *tasks[:: -(-len(tasks) // (CHECKED // 2))]]


def _characters(prompt: Prompt) -> int:
    return len(prompt) if isinstance(prompt, str) else sum(len(message["content"]) for message in prompt)


def check_beginning(config: Config, policy: Policy, supplied: Supplied = NOTHING) -> None:
    """Fail before a warm start and a judge are trained if a masked model cannot do the domain's first tasks, or if its
    tokens are not what holes stand for there.
    """
    domain = build_domain(config, supplied)
    if domain is None or not isinstance(policy, MaskedPolicy):
        return
    held_out = domain_tasks(domain, "validation", FIRST) if config.evaluate.every else ()
    check_tasks(config, policy, domain_tasks(domain, "train", FIRST), held_out)
    for slot, (task, text) in enumerate(itertools.islice(domain.examples(seed=config.run.seed), FIRST)):
        try:
            policy.given(task, text, SampleKey(0, slot, 0, 0))
        except PolicyError as error:
            error.add_note(
                "If the model's tokens are longer than characters, holes must be made for them: "
                "domain.options.tokenizer names its folder or hub id."
            )
            raise


def _check(config: Config, policy: Policy, tasks: Sequence[Task], tokens: int) -> None:
    if isinstance(policy, MaskedPolicy):
        for task in likely_too_long(tasks):
            policy.fillable(task, tokens)
        return
    check_budgets(policy.constraint, tasks, tokens)
    limit = _positions(config, policy)
    if limit is None:
        return
    for task in likely_too_long(tasks):
        prompt = len(policy.encode(task.prompt))
        if prompt + tokens > limit:
            raise PolicyError(
                f"task {task.id}: its prompt of {prompt} tokens and {tokens} after it pass the {limit} positions that "
                f"there are; shorten the prompt or lower sampling.max_new_tokens"
            )


def _positions(config: Config, policy: Policy) -> int | None:
    """How many tokens the sampler can hold, as far as it is known before it is built."""
    if config.sampling.engine == "vllm":
        return None if config.sampling.vllm is None else config.sampling.vllm.max_length
    return policy.longest


def divided_tasks(tasks: configs.TasksConfig | None, given: Any = None) -> tuple[list[Task], list[Task]]:
    """(training, held-out) tasks, listed by the [tasks] table or ``given``; the second is empty unless asked for."""
    if tasks is None:
        if given is None:
            raise ConfigError("there are no tasks: give [tasks] or [domain]")
        return as_tasks(given), []
    rows = _listed_tasks(tasks) if given is None else as_tasks(given, **_columns(tasks))
    if tasks.eval_file is not None:
        return rows, load_tasks(tasks.eval_file, **_columns(tasks))
    if tasks.held_out:
        return split(rows, tasks.held_out if tasks.held_out < 1 else int(tasks.held_out), seed=0)
    return rows, []


def located_tasks(config: Config) -> configs.TasksConfig | None:
    """The [tasks] table with the paths of this run."""
    tasks = config.tasks
    if tasks is None:
        return None
    named = {key: getattr(tasks, key) for key in ("file", "eval_file")}
    folder = run_folder(config)
    return tasks.model_copy(update={key: in_run(path, folder) for key, path in named.items() if path is not None})


def tasks_of_split(config: Config, name: Split, count: int | None = None, supplied: Supplied = NOTHING) -> list[Task]:
    """The first tasks of one split. A [tasks] table has two: what is not ``train`` is held out."""
    domain = build_domain(config, supplied)
    if domain is not None:
        if not (found := domain_tasks(domain, name, count)):
            raise ConfigError(f"the domain {domain.name!r} has no task in the split {name!r} with these options")
        return found
    if isinstance(supplied.tasks, Source) and name == "train":
        return supplied.tasks.draw(0, count or FIRST)
    given = None if isinstance(supplied.tasks, Source) else supplied.tasks
    if name != "train" and supplied.eval_tasks is not None:
        return as_tasks(supplied.eval_tasks, **_columns(config.tasks))[:count]
    training, held_out = divided_tasks(located_tasks(config), given)
    if name == "train" and not training:  # a source of its own
        return build_source(config, (), None).draw(0, count or FIRST)
    found = training if name == "train" else held_out
    if not found:
        raise ConfigError(
            "no tasks are held out: set tasks.held_out (a number or a share) or tasks.eval_file, "
            "or take the training tasks with --split train"
        )
    return found[:count]


def default_split(config: Config, supplied: Supplied = NOTHING) -> Split:
    """Held-out tasks, or training tasks where none are held out."""
    tasks = config.tasks
    listed = tasks is not None and (tasks.held_out > 0 or tasks.eval_file is not None)
    return "held_out" if config.has_domain or listed or supplied.eval_tasks is not None else "train"


def _listed_tasks(tasks: configs.TasksConfig) -> list[Task]:
    if tasks.prompts is not None:
        return as_tasks(tasks.prompts[: tasks.limit], **_columns(tasks))
    if tasks.file is None and tasks.dataset is None:
        return []
    where = tasks.file if tasks.file is not None else f"hf:{tasks.dataset}"
    return load_tasks(where, **_columns(tasks), split=tasks.split, subset=tasks.subset, limit=tasks.limit)


def _columns(tasks: configs.TasksConfig | None) -> dict[str, Any]:
    """Which columns become the prompt."""
    return {} if tasks is None else {"prompt_column": tasks.prompt_column, "template": tasks.template}
