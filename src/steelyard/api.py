"""``steelyard.train`` and ``steelyard.open_run``: from Python objects to a configuration and what it cannot name."""

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
from steelyard.import_paths import imported_now
from steelyard.opened_run import Run
from steelyard.run import run_and_report
from steelyard.text import shown
from steelyard.trust import TRAINING, require_trusted_recipe, require_trusted_run
from steelyard.verification import import_path_of

log = logging.getLogger("steelyard")

ROWS = "rows"
"""The key of ``tasks={"rows": [...], "template": ...}``: tasks as objects, next to keys of [tasks]."""
Recipe = str | Path | Mapping[str, Any] | None
Parts = Mapping[str, Any]
"""What may be given as Python objects: model, domain, tasks, eval_tasks, verifier, constraint; None where it is not."""


def train(
    parts: Parts,
    recipe: Recipe,
    sections: Mapping[str, Mapping[str, Any]],
    *,
    resume: bool = False,
    overwrite: bool = False,
    trust: bool = False,
) -> Run:
    """``steelyard.train``: what can be named or written down is; the rest is handed over as objects."""
    if (module := imported_now()) is not None:
        raise ConfigError(
            f'importing {module} calls steelyard.train; put the call under `if __name__ == "__main__":`, so that the '
            "verifier can be imported without starting a run"
        )
    if resume and overwrite:
        raise ConfigError("resume=True continues the run that is there, overwrite=True removes it: choose one")
    data = _tables(recipe)
    for name, part in parts.items():
        if part is not None:
            _forget(data, NAMED_BY[name])
    supplied, unnamed = _lay_parts_over(data, parts)
    for section, table in sections.items():
        _lay_over(data, section, table)
    _lay_over(data, "run", {"supplied": unnamed})
    config = configs.build(data, source="steelyard.train")
    if isinstance(recipe, str | Path):
        given = [key for name, part in parts.items() if part is not None for key in NAMED_BY[name]]
        given += [f"{section}.{key}" for section, table in sections.items() for key in table]
        require_trusted_recipe(recipe, config, given, uses=TRAINING, trust=trust)
    exists = (run_folder(config) / "config.toml").exists()
    if exists and resume:
        _lay_recorded(data, run_folder(config))
        config = configs.build(data, source="steelyard.train")
    elif exists and not overwrite:
        config = _numbered(config)
    supplied = with_domain(config, supplied)
    run_and_report(config, supplied, resume=resume and exists, overwrite=overwrite and exists)
    recorded = read_run(run_folder(config))  # with what the run decided at its start
    return Run(recorded.model_copy(update={"run": config.run}), supplied)


def open_run(
    folder: str | Path, parts: Parts, sections: Mapping[str, Mapping[str, Any]], *, trust: bool = False
) -> Run:
    """``steelyard.open_run``: a run that is there, with the parts that its folder could not hold."""
    found = run_at(Path(folder))
    if found is None:
        raise ConfigError(f"{folder} is not a run folder: it has no config.toml (looked in {Path.cwd()} and in runs/)")
    place, _ = found
    named: dict[str, Any] = {}
    supplied, _ = _lay_parts_over(named, {name: part for name, part in parts.items() if name not in TASK_FILES})
    supplied = replace(supplied, tasks=parts.get("tasks"), eval_tasks=parts.get("eval_tasks"))
    for section, table in sections.items():
        _lay_over(named, section, table)
    typed = {f"{section}.{key}": value for section, table in named.items() for key, value in table.items()}
    stored = run_table(place).get("supplied", [])
    typed["run.supplied"] = [part for part in stored if not any(key.startswith(NAMED_BY[part]) for key in typed)]
    config = read_run(place, typed)
    require_trusted_run(place, config, typed, uses=TRAINING, trust=trust)
    return Run(config, supplied)


def _lay_parts_over(data: dict[str, Any], parts: Parts) -> tuple[Supplied, list[str]]:
    """Lay what can be named over the configuration. Returns the objects, and the names of those that only this process
    has: every other one is named in the configuration or kept as a file of the run.
    """
    objects: dict[str, Any] = {}
    unnamed: list[str] = []
    files: dict[str, str] = {}
    for name, given in parts.items():
        if given is None:
            continue
        part = _prepared(data, name, given)
        if (named := _as_keys(name, part)) is not None:
            _lay_over(data, *named)
            continue
        objects[name] = part
        if name == "verifier" and (path := import_path_of(part)) is not None:
            _lay_over(data, "verify", {"verifier": path})
        elif name in TASK_FILES and "domain" not in data and (text := as_jsonl(part, _prompt_column(data))) is not None:
            section, _, key = NAMED_BY[name][0].partition(".")
            _lay_over(data, section, {key: TASK_FILES[name], "limit": None})
            files[TASK_FILES[name].removeprefix(IN_RUN)] = text
        else:
            unnamed.append(name)
    return Supplied(**objects, files=files), sorted(unnamed)


def _prepared(data: dict[str, Any], name: str, given: Any) -> Any:
    """The part itself, its keys laid over the configuration where it has some."""
    if name == "tasks":
        return _rows_of(data, given)
    return _domain(given) if name == "domain" else given


def _domain(given: Any) -> Any:
    """A domain's name, table or object; of a class its import path, or an object of it if it has none."""
    if isinstance(given, type) and issubclass(given, Domain):
        return import_path_of(given) or given()
    if isinstance(given, str | Mapping | Domain):
        return cast("Any", given)
    raise ConfigError(
        f"domain = {shown(given)} is not a domain: give an object or a subclass of steelyard.domains.Domain, a name or "
        "'module:Class'"
    )


def _rows_of(data: dict[str, Any], tasks: Any) -> Any:
    """The rows of ``tasks={"rows": […], "template": …}``, whose other keys are laid over the configuration; anything
    else as it is. Either way there is a [tasks] table, so that the run folder says how prompts are sent.
    """
    if isinstance(tasks, Mapping) and ROWS in tasks:
        table = cast("Mapping[str, Any]", tasks)
        _lay_over(data, "tasks", {key: value for key, value in table.items() if key != ROWS})
        return table[ROWS]
    _lay_over(data, "tasks", {})
    return cast("Any", tasks)


def _prompt_column(data: Mapping[str, Any]) -> str:
    return data.get("tasks", {}).get("prompt_column", "prompt")


def _numbered(config: Config) -> Config:
    """The same run under the next free name."""
    names = (f"{config.run.name}-{number}" for number in itertools.count(2))
    name = next(name for name in names if not (Path(config.run.folder) / name).exists())
    log.warning(
        "%s holds a run already, so this one is %s (resume=True continues the old one, overwrite=True replaces it)",
        run_folder(config),
        Path(config.run.folder) / name,
    )
    return config.model_copy(update={"run": config.run.model_copy(update={"name": name})})


def _lay_recorded(data: dict[str, Any], folder: Path) -> None:
    """What a run decided for itself at its start holds when it is resumed: how prompts are sent, and in which type of
    weights.
    """
    chat, dtype = recorded_chat(folder), recorded_dtype(folder)
    if chat is not None and "chat" not in data.get("tasks", {}):
        _lay_over(data, "tasks", {"chat": chat})
    if dtype is not None and data.get("model", {}).get("dtype") == "auto":
        _lay_over(data, "model", {"dtype": dtype})


def _forget(data: dict[str, Any], keys: Sequence[str]) -> None:
    """What is handed over stands in for what the recipe names."""
    for key in keys:
        section, _, name = key.partition(".")
        if not name:
            data.pop(section, None)
        elif section in data:
            data[section] = {other: value for other, value in data[section].items() if other != name}


def _lay_over(data: dict[str, Any], section: str, table: Mapping[str, Any]) -> None:
    data[section] = {**data.get(section, {}), **_table(section, table)}


def _as_keys(name: str, part: Any) -> tuple[str, Mapping[str, Any]] | None:
    """(section, keys) of a part that the configuration can name, so that the run folder says it all; else nothing."""
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
    """A table of the configuration, handed over as a mapping."""
    if isinstance(table, Mapping):
        return dict(cast("Mapping[str, Any]", table))
    if keys := [key.split(".") for key in keys_named(name)]:
        ways = " or ".join(f'{section}={{"{key}": {shown(table)}}}' for section, key in keys)
        raise ConfigError(f"{name} = {shown(table)} is not a section of the configuration; did you mean {ways}?")
    section, _, key = name.partition(".")
    raise ConfigError(
        f"{name} = {shown(table)} is not a table; write {{{section!r}: {{{key or 'key'!r}: {shown(table)}}}}}"
    )
