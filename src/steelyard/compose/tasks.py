"""Build a run's tasks by split, and check them before training."""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Sequence
from typing import Any

from steelyard import config as configs
from steelyard.compose.constraint import check_budgets
from steelyard.compose.sources import build_source
from steelyard.compose.supplied import NOTHING_SUPPLIED, Supplied, build_domain
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
"""Number of domain tasks that are checked before training."""
CHECKED = 20_000
"""Maximum number of listed tasks whose length is checked before training."""


def build_tasks(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> tuple[Source, list[Task]]:
    """Return the source of training tasks, and the evaluation tasks, which may be empty."""
    wanted = config.evaluate.tasks
    domain = build_domain(config, supplied)
    if domain is not None:
        validation = domain_tasks(domain, "validation", wanted)
        if config.evaluate.every and not validation:
            raise ConfigError(
                f"the domain {domain.name!r} has no validation tasks with these options; change domain.options, or "
                "train without evaluation (evaluate.every = 0)"
            )
        return build_source(config, (), domain), validation
    tasks = with_run_paths(config)
    held_out = as_tasks(supplied.eval_tasks, **_columns(tasks)) if supplied.eval_tasks is not None else []
    if tasks is not None and supplied.eval_tasks is not None:
        tasks = tasks.model_copy(update={"eval_file": None})
    if isinstance(supplied.tasks, Source):
        if tasks is not None and tasks.template is not None:
            raise ConfigError(
                f"tasks.template = {shown(tasks.template, 120)} does not apply to a Source, which builds its own "
                "prompts; remove it, or pass rows instead of a Source"
            )
        if tasks is not None and tasks.held_out:
            raise ConfigError(
                "tasks.held_out does not apply to a Source, which draws its own tasks; pass eval_tasks instead"
            )
        return supplied.tasks, held_out[:wanted]
    rows, listed = split_tasks(tasks, supplied.tasks)
    return build_source(config, rows, None), (listed or held_out)[:wanted]


def check_tasks(config: Config, policy: Policy, training: Sequence[Task], held_out: Sequence[Task]) -> None:
    """Raise before training if a listed task cannot be completed within its token limit, or if its prompt is too long.

    Held-out tasks may have a separate limit. In a long list, only some prompts are encoded here; the others, and
    generated tasks, are checked when they are drawn.
    """
    tokens, own = config.sampling.max_new_tokens, config.evaluate.max_new_tokens
    _check(config, policy, training, tokens)
    try:
        _check(config, policy, held_out, own or tokens)
    except (ConstraintError, PolicyError) as error:
        if own is not None:
            error.add_note("The task is held out, so its limit is evaluate.max_new_tokens.")
        raise


def likely_too_long(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return all tasks, or ``CHECKED`` of a long list, because encoding a million prompts may take longer than the run.

    Half of these have the longest prompts (in characters); the other half are evenly spaced.
    """
    if len(tasks) <= CHECKED:
        return tasks
    longest = heapq.nlargest(CHECKED // 2, tasks, key=lambda task: _characters(task.prompt))
    log.info(
        "checking the length of %d of %d prompts before the run, and of the others when drawn", CHECKED, len(tasks)
    )
    return [*longest, *tasks[:: -(-len(tasks) // (CHECKED // 2))]]


def _characters(prompt: Prompt) -> int:
    return len(prompt) if isinstance(prompt, str) else sum(len(message["content"]) for message in prompt)


def check_first_tasks(config: Config, policy: Policy, supplied: Supplied = NOTHING_SUPPLIED) -> None:
    """Raise, before a warm start or judge is trained, if a masked model cannot fill in the domain's first tasks and
    examples, for instance because its tokens do not match the holes.
    """
    domain = build_domain(config, supplied)
    if domain is None or not isinstance(policy, MaskedPolicy):
        return
    held_out = domain_tasks(domain, "validation", FIRST) if config.evaluate.every else ()
    check_tasks(config, policy, domain_tasks(domain, "train", FIRST), held_out)
    for slot, (task, text) in enumerate(itertools.islice(domain.examples(seed=config.run.seed), FIRST)):
        try:
            policy.sample_from_text(task, text, SampleKey(0, slot, 0, 0))
        except PolicyError as error:
            error.add_note(
                "If the model's tokens are longer than one character, the holes must match its tokenizer: set "
                "domain.options.tokenizer to its folder or hub id."
            )
            raise


def _check(config: Config, policy: Policy, tasks: Sequence[Task], tokens: int) -> None:
    if isinstance(policy, MaskedPolicy):
        for task in likely_too_long(tasks):
            policy.encode_task(task, tokens)
        return
    check_budgets(policy.constraint, tasks, tokens)
    limit = positions(config, policy)
    if limit is None:
        return
    for task in likely_too_long(tasks):
        prompt = len(policy.encode(task.prompt))
        if prompt + tokens > limit:
            raise PolicyError(
                f"task {task.id}: its prompt ({prompt} tokens) plus {tokens} new tokens exceeds the maximum length of "
                f"{limit} tokens; shorten the prompt or lower sampling.max_new_tokens"
            )


def positions(config: Config, policy: Policy) -> int | None:
    """Return the sampler's maximum sequence length, if it is known before the sampler is built."""
    if config.sampling.engine == "vllm":
        return None if config.sampling.vllm is None else config.sampling.vllm.max_length
    return policy.max_length


def split_tasks(tasks: configs.TasksConfig | None, given: Any = None) -> tuple[list[Task], list[Task]]:
    """Return (training, held-out) tasks from [tasks] or ``given``; no tasks are held out unless configured."""
    if tasks is None:
        if given is None:
            raise ConfigError("no tasks specified; set [tasks] or [domain]")
        return as_tasks(given), []
    rows = _listed_tasks(tasks) if given is None else as_tasks(given, **_columns(tasks))
    if tasks.eval_file is not None:
        return rows, load_tasks(tasks.eval_file, **_columns(tasks))
    if tasks.held_out:
        return split(rows, tasks.held_out if tasks.held_out < 1 else int(tasks.held_out), seed=0)
    return rows, []


def with_run_paths(config: Config) -> configs.TasksConfig | None:
    """Return [tasks] with the paths of this run resolved."""
    tasks = config.tasks
    if tasks is None:
        return None
    named = {key: getattr(tasks, key) for key in ("file", "eval_file")}
    folder = run_folder(config)
    return tasks.model_copy(update={key: in_run(path, folder) for key, path in named.items() if path is not None})


def tasks_of_split(
    config: Config, name: Split, count: int | None = None, supplied: Supplied = NOTHING_SUPPLIED
) -> list[Task]:
    """Return the first tasks of a split.

    [tasks] has two splits: ``train`` and, under any other name, the held-out tasks.
    """
    domain = build_domain(config, supplied)
    if domain is not None:
        if not (found := domain_tasks(domain, name, count)):
            raise ConfigError(
                f"the domain {domain.name!r} has no tasks in the split {name!r}; change domain.options or --split"
            )
        return found
    if isinstance(supplied.tasks, Source) and name == "train":
        return supplied.tasks.draw(0, count or FIRST)
    given = None if isinstance(supplied.tasks, Source) else supplied.tasks
    if name != "train" and supplied.eval_tasks is not None:
        return as_tasks(supplied.eval_tasks, **_columns(config.tasks))[:count]
    training, held_out = split_tasks(with_run_paths(config), given)
    if name == "train" and not training:  # user-defined or generated source
        return build_source(config, (), None).draw(0, count or FIRST)
    found = training if name == "train" else held_out
    if not found:
        raise ConfigError(
            "no tasks are held out; set tasks.held_out (a number or a fraction) or tasks.eval_file, "
            "or use the training tasks with --split train"
        )
    return found[:count]


def default_split(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> Split:
    """Return the held-out split, or the training split if no tasks are held out."""
    domain, tasks = build_domain(config, supplied), config.tasks
    if domain is not None:
        return "train" if domain.size("held_out") == 0 else "held_out"
    listed = tasks is not None and (tasks.held_out > 0 or tasks.eval_file is not None)
    return "held_out" if listed or supplied.eval_tasks is not None else "train"


def _listed_tasks(tasks: configs.TasksConfig) -> list[Task]:
    if tasks.prompts is not None:
        return as_tasks(tasks.prompts[: tasks.limit], **_columns(tasks))
    if tasks.file is None and tasks.dataset is None:
        return []
    where = tasks.file if tasks.file is not None else f"hf:{tasks.dataset}"
    return load_tasks(where, **_columns(tasks), split=tasks.split, subset=tasks.subset, limit=tasks.limit)


def _columns(tasks: configs.TasksConfig | None) -> dict[str, Any]:
    """Return the settings that build the prompt from columns."""
    return {} if tasks is None else {"prompt_column": tasks.prompt_column, "template": tasks.template}
