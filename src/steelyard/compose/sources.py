"""Build the source of training tasks: the default for [tasks] or the domain, or the one in [tasks.source]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from steelyard import config as configs
from steelyard.config import Config
from steelyard.data import (
    GeneratedSource,
    ListSource,
    MixtureSource,
    Source,
    SourceContext,
    as_tasks,
    domain_source,
    domain_tasks,
    load_tasks,
)
from steelyard.domains.base import Domain
from steelyard.errors import ConfigError
from steelyard.import_paths import load_user_object
from steelyard.types import Task

METHODS = "draw, observe, state_dict and load_state_dict"


def build_source(config: Config, listed: Sequence[Task], domain: Domain | None) -> Source:
    """Build the source of training tasks. ``listed``: the tasks of [tasks]; empty for a domain."""
    tasks, seed = config.tasks, config.run.seed
    table = None if tasks is None else tasks.source
    if table is None or table.kind == "dataset":
        return _dataset(config, listed, domain)
    if table.kind == "generated":
        return GeneratedSource(_from_function(table.function) if table.function else _from_domain(domain))
    if table.kind == "mixture":
        sources = {part.name: _part(config, part, domain) for part in table.parts}
        return MixtureSource(sources, {part.name: part.weight for part in table.parts}, seed=seed)
    return _own(table, SourceContext(listed, domain, seed))


def _dataset(config: Config, listed: Sequence[Task], domain: Domain | None) -> Source:
    tasks, seed = config.tasks, config.run.seed
    if domain is None:
        return ListSource(listed, seed=seed, shuffle=tasks is None or tasks.shuffle)
    table = None if tasks is None else tasks.source
    if table is None:
        return domain_source(domain, "train", seed=seed)
    if domain.size("train") is None and table.limit is None:
        raise ConfigError(
            f"tasks.source.kind = 'dataset': the domain {domain.name!r} generates unlimited training tasks; set "
            "tasks.source.limit, or remove [tasks.source]"
        )
    return ListSource(domain_tasks(domain, "train", table.limit), seed=seed)


def _from_domain(domain: Domain | None) -> Callable[[int], Task]:
    """Return a function from index to training task; a finite split is repeated."""
    if domain is None:
        raise ConfigError("tasks.source.kind = 'generated' needs tasks.source.function or a [domain]; set one of them")
    size = domain.size("train")
    return lambda index: domain.task("train", index if size is None else index % size)


def _from_function(path: str) -> Callable[[int], Task]:
    function = load_user_object(path, what="tasks.source.function:")

    def generate(index: int) -> Task:
        generated = function(index)
        if isinstance(generated, Task):
            return generated
        row: Any = {"prompt": generated} if isinstance(generated, str) else generated
        (task,) = as_tasks([{"id": str(index), **row} if isinstance(row, dict) else row])
        return task

    return generate


def _part(config: Config, part: configs.MixturePart, domain: Domain | None) -> Source:
    """Build the source for one part of a mixture."""
    tasks, seed = config.tasks or configs.TasksConfig(), config.run.seed
    split = part.domain_split
    if domain is not None and split is not None and part.limit is None and domain.size(split) is None:
        return domain_source(domain, split, seed=seed)
    rows = _part_tasks(tasks, part, domain)
    if not rows:
        raise ConfigError(
            f"tasks.source.parts: the part {part.name!r} has no tasks; remove it, or change its file, dataset or split"
        )
    return ListSource(rows, seed=seed, shuffle=tasks.shuffle)


def _part_tasks(tasks: configs.TasksConfig, part: configs.MixturePart, domain: Domain | None) -> list[Task]:
    if domain is not None and part.domain_split is not None:
        return domain_tasks(domain, part.domain_split, part.limit)
    columns = {"prompt_column": part.prompt_column or tasks.prompt_column, "template": part.template or tasks.template}
    if part.prompts is not None:
        return as_tasks(part.prompts[: part.limit], **columns)
    where = part.file if part.file is not None else f"hf:{part.dataset}"
    return load_tasks(where, **columns, split=part.split, subset=part.subset, limit=part.limit)


def _own(table: configs.SourceConfig, context: SourceContext) -> Source:
    """Build a user-defined source. The class must have the methods of ``Source``."""
    found = load_user_object(table.kind, what="tasks.source.kind:")
    if not (isinstance(found, type) and issubclass(found, Source)):
        raise ConfigError(
            f"tasks.source.kind = {table.kind!r} must be a class with the methods of steelyard.data.Source: {METHODS}; "
            "add them"
        )
    own = cast("Callable[..., Source]", found)
    try:
        return own(context, **table.options)
    except TypeError as error:
        raise ConfigError(
            f"tasks.source.kind = {table.kind!r}: {error}; the class must accept a steelyard.data.SourceContext and "
            "tasks.source.options as keyword arguments"
        ) from error
