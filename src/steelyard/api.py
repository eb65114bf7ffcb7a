"""``steelyard.train`` and ``steelyard.open_run``: split Python arguments into a configuration and supplied objects."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from steelyard import config as configs
from steelyard.compose import Supplied, with_domain
from steelyard.config import Config
from steelyard.config.schema import keys_named
from steelyard.data import as_jsonl
from steelyard.domains import Domain
from steelyard.errors import ConfigError
from steelyard.folders import (
    IN_RUN,
    NAMED_BY,
    TASK_FILES,
    read_run,
    recorded_chat,
    recorded_dtype,
    run_at,
    run_folder,
    run_table,
)
from steelyard.import_paths import module_being_imported
from steelyard.opened_run import Run
from steelyard.run import run_and_report
from steelyard.text import shown
from steelyard.tools import tool_path
from steelyard.trust import TRAINING, require_trusted_recipe, require_trusted_run
from steelyard.verification import import_path_of

log = logging.getLogger("steelyard")

ROWS = "rows"
"""Key that holds the task objects in ``tasks={"rows": [...], "template": ...}``; the other keys belong to [tasks]."""
Recipe = str | Path | Mapping[str, Any] | None
Parts = Mapping[str, Any]
"""Arguments that may be Python objects, by name: model, domain, tasks, eval_tasks, verifier, constraint, tools (any of
them may be None)."""


def train(
    parts: Parts,
    recipe: Recipe,
    sections: Mapping[str, Mapping[str, Any]],
    *,
    resume: bool = False,
    overwrite: bool = False,
    trust: bool = False,
) -> Run:
    """Implement ``steelyard.train``: put everything possible into the configuration and pass the rest as objects."""
    if (module := module_being_imported()) is not None:
        raise ConfigError(
            f'importing {module} calls steelyard.train; put the call under `if __name__ == "__main__":`, so that the '
            "verifier can be imported without starting a run"
        )
    if resume and overwrite:
        raise ConfigError("resume=True continues the existing run, and overwrite=True replaces it; choose one")
    data = _tables(recipe)
    for name, part in parts.items():
        if part is not None:
            _drop_keys(data, NAMED_BY[name])
    supplied, unnamed = _merge_parts(data, parts)
    for section, table in sections.items():
        _merge(data, section, table)
    _merge(data, "run", {"supplied": unnamed})
    config = configs.build(data, source="steelyard.train")
    if isinstance(recipe, str | Path):
        given = [key for name, part in parts.items() if part is not None for key in NAMED_BY[name]]
        given += [f"{section}.{key}" for section, table in sections.items() for key in table]
        require_trusted_recipe(recipe, config, given, uses=TRAINING, trust=trust)
    exists = (run_folder(config) / "config.toml").exists()
    if exists and resume:
        _merge_recorded(data, run_folder(config))
        config = configs.build(data, source="steelyard.train")
    elif exists and not overwrite:
        config = _renamed(config)
    supplied = with_domain(config, supplied)
    run_and_report(config, supplied, resume=resume and exists, overwrite=overwrite and exists)
    recorded = read_run(run_folder(config))  # includes values chosen when the run started
    return Run(recorded.model_copy(update={"run": config.run}), supplied)


def open_run(
    folder: str | Path, parts: Parts, sections: Mapping[str, Mapping[str, Any]], *, trust: bool = False
) -> Run:
    """Implement ``steelyard.open_run``: open an existing run, given the objects that its folder cannot store."""
    found = run_at(Path(folder))
    if found is None:
        raise ConfigError(
            f"{folder} is not a run folder: it has no config.toml (searched {Path.cwd()} and runs/); pass a run's path"
        )
    place, _ = found
    named: dict[str, Any] = {}
    supplied, _ = _merge_parts(named, {name: part for name, part in parts.items() if name not in TASK_FILES})
    supplied = replace(supplied, tasks=parts.get("tasks"), eval_tasks=parts.get("eval_tasks"))
    for section, table in sections.items():
        _merge(named, section, table)
    typed = {f"{section}.{key}": value for section, table in named.items() for key, value in table.items()}
    stored = run_table(place).get("supplied", [])
    typed["run.supplied"] = [part for part in stored if not any(key.startswith(NAMED_BY[part]) for key in typed)]
    config = read_run(place, typed)
    require_trusted_run(place, config, typed, uses=TRAINING, trust=trust)
    return Run(config, supplied)


def _merge_parts(data: dict[str, Any], parts: Parts) -> tuple[Supplied, list[str]]:
    """Merge every part that the configuration can name into it.

    Return the other parts as objects, with the names of those that exist only in this process because they are neither
    named in the configuration nor stored as a file of the run.
    """
    objects: dict[str, Any] = {}
    unnamed: list[str] = []
    files: dict[str, str] = {}
    for name, given in parts.items():
        if given is None:
            continue
        part = _prepared(data, name, given)
        if (named := _as_keys(name, part)) is not None:
            _merge(data, *named)
            continue
        objects[name] = part
        if name == "tools" and (paths := _tool_paths(part)) is not None:
            _merge(data, "episode", {"tools": paths})
        elif name == "verifier" and (path := import_path_of(part)) is not None:
            _merge(data, "verify", {"verifier": path})
        elif name in TASK_FILES and "domain" not in data and (text := as_jsonl(part, _prompt_column(data))) is not None:
            section, _, key = NAMED_BY[name][0].partition(".")
            _merge(data, section, {key: TASK_FILES[name], "limit": None})
            files[TASK_FILES[name].removeprefix(IN_RUN)] = text
        else:
            unnamed.append(name)
    return Supplied(**objects, files=files), sorted(unnamed)


def _tool_paths(tools: Any) -> list[str] | None:
    """Return the tools as configuration entries, or ``None`` if the configuration cannot name all of them."""
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise ConfigError(f"tools = {shown(tools)} must be a list of functions, names or import paths")
    paths = [tool_path(tool) for tool in cast("Sequence[Any]", tools)]
    return None if None in paths else [path for path in paths if path is not None]


def _prepared(data: dict[str, Any], name: str, given: Any) -> Any:
    """Merge the part's keys, if any, into the configuration and return the part."""
    if name == "tasks":
        return _rows_of(data, given)
    return _domain(given) if name == "domain" else given


def _domain(given: Any) -> Any:
    """Return a domain's name, table or object.

    A class is replaced by its import path, or by an instance if it has no import path.
    """
    if isinstance(given, type) and issubclass(given, Domain):
        return import_path_of(given) or given()
    if isinstance(given, str | Mapping | Domain):
        return cast("Any", given)
    raise ConfigError(
        f"domain = {shown(given)} is not a domain: pass an instance or a subclass of steelyard.domains.Domain, a name, "
        "or 'module:Class'"
    )


def _rows_of(data: dict[str, Any], tasks: Any) -> Any:
    """Return the rows of ``tasks={"rows": […], "template": …}`` and merge its other keys into the configuration. Any
    other value is returned unchanged. The configuration always gets a [tasks] table, so that the run folder records how
    prompts are sent.
    """
    if isinstance(tasks, Mapping) and ROWS in tasks:
        table = cast("Mapping[str, Any]", tasks)
        _merge(data, "tasks", {key: value for key, value in table.items() if key != ROWS})
        return table[ROWS]
    _merge(data, "tasks", {})
    return cast("Any", tasks)


def _prompt_column(data: Mapping[str, Any]) -> str:
    return data.get("tasks", {}).get("prompt_column", "prompt")


def _renamed(config: Config) -> Config:
    """Rename the run to the next free name."""
    names = (f"{config.run.name}-{number}" for number in itertools.count(2))
    name = next(name for name in names if not (Path(config.run.folder) / name).exists())
    log.warning(
        "%s already contains a run, so this run is written to %s (resume=True continues the old run, and "
        "overwrite=True replaces it)",
        run_folder(config),
        Path(config.run.folder) / name,
    )
    return config.model_copy(update={"run": config.run.model_copy(update={"name": name})})


def _merge_recorded(data: dict[str, Any], folder: Path) -> None:
    """Apply the prompt format and weight dtype chosen when the run started, so that a resumed run keeps them."""
    chat, dtype = recorded_chat(folder), recorded_dtype(folder)
    if chat is not None and "chat" not in data.get("tasks", {}):
        _merge(data, "tasks", {"chat": chat})
    if dtype is not None and data.get("model", {}).get("dtype") == "auto":
        _merge(data, "model", {"dtype": dtype})


def _drop_keys(data: dict[str, Any], keys: Sequence[str]) -> None:
    """Remove the recipe's keys for a part passed as an argument."""
    for key in keys:
        section, _, name = key.partition(".")
        if not name:
            data.pop(section, None)
        elif section in data:
            data[section] = {other: value for other, value in data[section].items() if other != name}


def _merge(data: dict[str, Any], section: str, table: Mapping[str, Any]) -> None:
    data[section] = {**data.get(section, {}), **_table(section, table)}


def _as_keys(name: str, part: Any) -> tuple[str, Mapping[str, Any]] | None:
    """Return (section, keys) for a part that the configuration can name, else ``None``."""
    if isinstance(part, Mapping) and name in ("model", "domain", "tasks", "constraint"):
        return name, part
    if not isinstance(part, str | Path) or name == "constraint":
        return None
    if name == "tasks" and str(part).startswith("hf:"):
        return "tasks", {"dataset": str(part).removeprefix("hf:")}
    section, _, key = NAMED_BY[name][0].partition(".")
    return section, {key: str(part)}


def _tables(recipe: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    if recipe is None:
        return {}
    if isinstance(recipe, Mapping):
        return {name: _table(name, table) for name, table in recipe.items()}
    return configs.read_tables(recipe)


def _table(name: str, table: Any) -> dict[str, Any]:
    """Copy a configuration table; if it is not a mapping, raise an error that explains how to write it."""
    if isinstance(table, Mapping):
        return dict(cast("Mapping[str, Any]", table))
    if keys := [key.split(".") for key in keys_named(name)]:
        ways = " or ".join(f'{section}={{"{key}": {shown(table)}}}' for section, key in keys)
        raise ConfigError(f"{name} = {shown(table)} is not a section of the configuration; did you mean {ways}?")
    section, _, key = name.partition(".")
    raise ConfigError(
        f"{name} = {shown(table)} is not a table; write {{{section!r}: {{{key or 'key'!r}: {shown(table)}}}}}"
    )
