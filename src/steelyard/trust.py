"""List the code that a recipe or run folder would execute, and record which code the user has approved.

Recipes and run folders are data: opening those of someone else executes only code named on the command line. Any other
code named in the configuration is listed without being imported, and requires ``--trust`` once. Agreements are stored
in the user's state folder, which an unpacked archive cannot reach. See docs/security.md for the rules and the reasons
behind them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from steelyard import config as configs
from steelyard.config import Config
from steelyard.config.overrides import parse_overrides
from steelyard.errors import TrustError
from steelyard.import_paths import is_import_path

log = logging.getLogger(__name__)

DOMAIN = frozenset({"domain"})
SAMPLING = DOMAIN | {"model", "tasks", "verify", "constraint", "cluster", "episode"}
TRAINING = SAMPLING | {"credit", "tracking"}
"""Sections that a command builds objects from: the domain alone, everything for sampling, or everything."""


class Reference(NamedTuple):
    """One external effect of a configuration: code to import, a cluster to join, or a file to write."""

    key: str
    value: str
    effect: str
    """Description of the effect and the files involved. It is part of the stored agreement, so do not reword it."""
    sources: tuple[Path, ...] = ()
    """Files and folders that would be imported or written."""

    def __str__(self) -> str:
        return f"{self.key} = {self.value}: {self.effect}"


def require_trusted_run(
    folder: Path, config: Config, typed: Collection[str], *, uses: Collection[str], trust: bool
) -> None:
    """Reject someone else's run that names code, unless ``trust`` is set. ``typed``: keys set on the command line."""
    named = [*_untyped(references(config), typed, uses), *outward_links(folder)]
    about = f"{folder} may be someone else's run: you have neither started it nor agreed to the code it names"
    _require(_owner(folder), named, about, trust=trust)


def require_trusted_recipe(
    recipe: str | Path, config: Config, typed: Collection[str], *, uses: Collection[str], trust: bool
) -> None:
    """Reject a recipe that names code, unless ``trust`` is set.

    Shipped recipes are trusted. A recipe in the working directory may import modules next to it.
    """
    if str(recipe) in configs.recipes():
        return
    path = _real(str(recipe))
    local = path.parent == Path.cwd() and not (path.parent / "config.toml").exists()  # not a run folder
    named = [one for one in _untyped(references(config), typed, uses) if not (local and _is_neighbour(one))]
    named += outward_links(Path(config.run.folder) / config.run.name) if uses == TRAINING else ()
    _require(f"recipe {path}", named, f"{recipe} names code outside the working directory", trust=trust)


def remember_run(folder: Path, config: Config) -> None:
    """Record that the user trusts the code a run names, because they have started or resumed the run."""
    _remember(_owner(folder), [*references(config), *outward_links(folder)])


def load_recipe(
    recipe: str, overrides: Sequence[str], *, uses: Collection[str] = SAMPLING, trust: bool = False
) -> Config:
    """Load a recipe named on the command line, after checking that the code it names is trusted."""
    config = configs.load(recipe, overrides)
    require_trusted_recipe(recipe, config, parse_overrides(overrides), uses=uses, trust=trust)
    return config


# --- what a configuration names --------------------------------------------------------------------------------------


def references(config: Config) -> Iterator[Reference]:
    """Yield everything in a configuration that names code, a cluster to join, or a file to write outside the run."""
    verify, constraint, model = config.verify, config.constraint, config.model
    yield from _domain_references(config)
    yield from _source_references(config)
    if verify.verifier is not None:
        yield _imported("verify.verifier", verify.verifier)
    for index, entry in enumerate(verify.verifiers):
        if entry.function is not None:
            yield _imported(f"verify.verifiers.{index}.function", entry.function)
    for index, tool in enumerate(config.episode.tools):
        if is_import_path(tool):
            yield _imported(f"episode.tools.{index}", tool)
    if constraint is not None and constraint.kind == "automaton":
        yield _imported("constraint.source", str(constraint.source), constraint.options)
    if is_import_path(config.credit.advantage):
        yield _imported("credit.advantage", config.credit.advantage)
    if model.trust_remote_code:
        models = " and ".join(repr(one) for one in _models(config)) or "that it opens"
        yield Reference("model.trust_remote_code", "true", f"runs the Python code that comes with the model {models}")
    on_ray = verify.pool == "ray" or config.cluster.samplers is not None or config.cluster.learners is not None
    if on_ray and config.cluster.address not in ("local", "auto"):
        yield Reference(
            "cluster.address", repr(config.cluster.address), "joins this cluster, which can run code in this process"
        )
    if verify.cache is not None:
        place = _real(verify.cache)
        yield Reference("verify.cache", repr(verify.cache), f"writes {str(place)!r}", (place,))

    if config.tracking.wandb:
        yield Reference("tracking.wandb", "true", "sends samples and metrics to Weights & Biases with your account")


def _domain_references(config: Config) -> Iterator[Reference]:
    if config.domain is None:
        return
    if is_import_path(config.domain.name):
        yield _imported("domain.name", config.domain.name)
    yield from _in_options("domain.options", config.domain.options)


def _source_references(config: Config) -> Iterator[Reference]:
    source = None if config.tasks is None else config.tasks.source
    if source is not None and is_import_path(source.kind):
        yield _imported("tasks.source.kind", source.kind, source.options)
    if source is not None and source.function is not None:
        yield _imported("tasks.source.function", source.function)


def _models(config: Config) -> Iterator[str]:
    """Yield the locations the policy is loaded from: a hub id or folder, and the model of the run's warm start."""
    if (path := config.model.path) is not None:
        yield str(_real(path)) if Path(path).exists() else path
    if config.warmstart is not None:
        yield str(_real(config.run.folder) / config.run.name / "warmstart")


def outward_links(folder: Path) -> list[Reference]:
    """Find symbolic links that lead out of a run folder; writing to them would change other files."""
    root, found = _real(str(folder)), list[Reference]()
    for place, folders, files in os.walk(root):
        for path in (Path(place) / name for name in sorted([*folders, *files])):
            if path.is_symlink() and not (target := _real(str(path))).is_relative_to(root):
                key = f"link {str(path.relative_to(root))!r}"
                found.append(Reference(key, repr(str(target)), "leads out of the run folder"))
    return found


def _in_options(key: str, value: Any) -> Iterator[Reference]:
    """Yield import paths anywhere in a domain's options, table keys included; the domain may import any of them."""
    if isinstance(value, str) and is_import_path(value):
        yield _imported(key, value)
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, Any]", value).items():
            if is_import_path(name):
                yield _imported(f"{key}.{name}", name)
            yield from _in_options(f"{key}.{name}", inner)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("Sequence[Any]", value)):
            yield from _in_options(f"{key}.{index}", inner)


def _imported(key: str, path: str, arguments: Mapping[str, Any] | None = None) -> Reference:
    sources = _sources(path.partition(":")[0])
    shown = ", ".join(repr(str(source)) for source in sources)
    value = repr(path) if not arguments else f"{path!r} with {json.dumps(arguments, default=str)}"
    effect = f"imports {shown}" if sources else f"imports no file that is found from {str(Path.cwd())!r}"
    return Reference(key, value, effect, sources)


def _sources(module: str) -> tuple[Path, ...]:
    """Find where a module's outermost package would be imported from, without executing anything."""
    top = module.partition(".")[0]
    with _working_folder_importable():
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            spec = None
        if spec is not None and spec.submodule_search_locations is not None:
            return tuple(_real(place) for place in spec.submodule_search_locations)
    return (_real(spec.origin),) if spec is not None and spec.has_location and spec.origin else ()


def _real(path: str) -> Path:
    """Resolve symbolic links; unlike ``Path.resolve``, this accepts circular links."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # the path contains a null character, so no such file can exist
        return Path(path)


@contextmanager
def _working_folder_importable() -> Iterator[None]:
    """Temporarily make the working directory importable, as ``import_paths.load_user_object`` does."""
    before, folder = list(sys.path), str(Path.cwd())
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path[:] = before


def _is_neighbour(reference: Reference) -> bool:
    """Whether a recipe in the working directory may use this reference without asking: a module or package there or in
    ``src`` (but not an installed one), or ``tracking.wandb``.
    """
    here = Path.cwd()
    if not reference.effect.startswith("imports ") or not reference.sources:
        return reference.key == "tracking.wandb"
    return all(source.parent in (here, here / "src") for source in reference.sources)


def _is_written_here(reference: Reference) -> bool:
    return reference.key == "verify.cache" and reference.sources[0].is_relative_to(Path.cwd())


def _untyped(found: Iterable[Reference], typed: Collection[str], uses: Collection[str]) -> list[Reference]:
    """Keep the references that the command uses but the command line does not name.

    A verdict cache below the working directory needs no agreement.
    """
    used = [one for one in found if one.key.partition(".")[0] in uses and not _is_written_here(one)]
    return [one for one in used if not any(one.key == key or one.key.startswith(f"{key}.") for key in typed)]


# --- the user's agreements --------------------------------------------------------------------------------------------


def _require(owner: str, named: Sequence[Reference], about: str, *, trust: bool) -> None:
    agreed = _agreed() if named else frozenset[str]()
    unknown = [one for one in named if _digest(owner, one) not in agreed]
    if trust:
        _remember(owner, unknown)
    elif unknown:
        lines = "".join(f"\n  {one}" for one in unknown)
        raise TrustError(
            f"{about}. Nothing was executed. It names:{lines}\n"
            "If you trust this, repeat the command once with --trust (from Python: trust=True), or set these keys on "
            "the command line. See docs/security.md."
        )


def _owner(run: Path) -> str:
    """Identify a run in agreements by the id it received at its start, so that the folder can be moved."""
    try:
        number = json.loads((run / "run.json").read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        number = None
    return f"run {number}" if isinstance(number, str) else f"folder {_real(str(run))}"


def _digest(owner: str, reference: Reference) -> str:
    return hashlib.sha256(json.dumps([owner, *reference[:3]]).encode()).hexdigest()


def _agreements() -> Path | None:
    """Return the file that stores agreements, or ``None`` for a user without a home directory."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        try:
            state = Path.home() / ".local" / "state"
        except RuntimeError:
            return None
    return state / "steelyard" / "trusted" if state.is_absolute() else None


def _agreed() -> frozenset[str]:
    path = _agreements()
    try:
        if path is None:
            return frozenset()
        if path.stat().st_mode & 0o022:
            log.warning("%s is ignored because other users can write to it; delete it, or run chmod 600 on it", path)
            return frozenset()
        return frozenset(path.read_text(encoding="ascii").split())
    except (OSError, UnicodeDecodeError):
        return frozenset()


def _remember(owner: str, named: Iterable[Reference]) -> None:
    """Append new agreements in a single write, so that runs starting at the same time do not interleave lines."""
    wanted = {_digest(owner, one) for one in named}
    new = sorted(wanted - _agreed()) if wanted else []
    path = _agreements()
    if not new or path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, "".join(f"{one}\n" for one in new).encode("ascii"))
        finally:
            os.close(descriptor)
    except OSError as error:
        log.warning("%s cannot be written (%s): resuming this run will need --trust", path, error.strerror)
