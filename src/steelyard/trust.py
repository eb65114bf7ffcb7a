"""What a recipe or a run folder would execute, and what the user has agreed to.

A recipe and a run folder are data: opening one that came from elsewhere executes nothing that the command line does not
name. Whatever else its configuration names is listed, without importing it, and needs ``--trust`` once. Agreements are
kept in the user's state folder, where no archive can put one. docs/security.md has the rules and the reasons.
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
SAMPLING = DOMAIN | {"model", "tasks", "verify", "constraint", "cluster"}
TRAINING = SAMPLING | {"credit", "tracking"}
"""Sections of the configuration that a command makes objects of: a domain alone, a policy and its verifier, or all."""


class Reference(NamedTuple):
    """One thing outside Steelyard that a configuration would have executed, joined or written."""

    key: str
    value: str
    effect: str
    """What would happen, and to which file."""
    sources: tuple[Path, ...] = ()
    """What would be imported (a module's file, or the folders of a package) or written."""

    def __str__(self) -> str:
        return f"{self.key} = {self.value}: {self.effect}"


def require_trusted_run(
    folder: Path, config: Config, typed: Collection[str], *, uses: Collection[str], trust: bool
) -> None:
    """Refuse a run of somebody else's that names code, unless ``trust``; ``typed`` are the keys of the command line."""
    named = [*_untyped(references(config), typed, uses), *outward_links(folder)]
    about = f"{folder} may be somebody else's run: you never started it, nor agreed to what it names"
    _require(_owner(folder), named, about, trust=trust)


def require_trusted_recipe(
    recipe: str | Path, config: Config, typed: Collection[str], *, uses: Collection[str], trust: bool
) -> None:
    """The same for a recipe. A shipped one is trusted; one in the working folder may import modules next to it."""
    if str(recipe) in configs.recipes():
        return
    path = _real(str(recipe))
    beside = path.parent == Path.cwd() and not (path.parent / "config.toml").exists()  # which would be a run folder
    named = [one for one in _untyped(references(config), typed, uses) if not (beside and _is_neighbour(one))]
    named += outward_links(Path(config.run.folder) / config.run.name) if uses == TRAINING else ()
    _require(f"recipe {path}", named, f"{recipe} names more than modules in its own working folder", trust=trust)


def remember_run(folder: Path, config: Config) -> None:
    """The user has started or resumed this run, so the code it names needs no question from now on."""
    _remember(_owner(folder), [*references(config), *outward_links(folder)])


def load_recipe(
    recipe: str, overrides: Sequence[str], *, uses: Collection[str] = SAMPLING, trust: bool = False
) -> Config:
    """The configuration of a recipe on the command line, once what it names is trusted."""
    config = configs.load(recipe, overrides)
    require_trusted_recipe(recipe, config, parse_overrides(overrides), uses=uses, trust=trust)
    return config


# --- what is named ---------------------------------------------------------------------------------------------------


def references(config: Config) -> Iterator[Reference]:
    """Everything in a configuration that names code, a machine to join, or a file to write outside the run."""
    verify, constraint, model = config.verify, config.constraint, config.model
    yield from _domain_references(config)
    yield from _source_references(config)
    if verify.verifier is not None:
        yield _imported("verify.verifier", verify.verifier)
    for index, entry in enumerate(verify.verifiers):
        if entry.function is not None:
            yield _imported(f"verify.verifiers.{index}.function", entry.function)
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
    """What the policy is opened from: a hub id or folder, and the result of the run's own warm start."""
    if (path := config.model.path) is not None:
        yield str(_real(path)) if Path(path).exists() else path
    if config.warmstart is not None:
        yield str(_real(config.run.folder) / config.run.name / "warmstart")


def outward_links(folder: Path) -> list[Reference]:
    """Symbolic links in a run folder that lead out of it: what is written to them lands elsewhere."""
    whole, found = _real(str(folder)), list[Reference]()
    for place, folders, files in os.walk(whole):
        for path in (Path(place) / name for name in sorted([*folders, *files])):
            if path.is_symlink() and not (target := _real(str(path))).is_relative_to(whole):
                key = f"link {str(path.relative_to(whole))!r}"
                found.append(Reference(key, repr(str(target)), "leads out of the run folder"))
    return found


def _in_options(key: str, value: Any) -> Iterator[Reference]:
    """Import paths anywhere in the options of a domain, which reads them as it likes; names of a table count too."""
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
    """Where a module would be imported from, by its outermost package; looking for that executes nothing."""
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
    """The path without links; unlike ``Path.resolve`` it takes links that lead in a circle."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # a null character: no such file can be
        return Path(path)


@contextmanager
def _working_folder_importable() -> Iterator[None]:
    """As while a verifier is loaded (``import_paths.load_own``), but not for longer."""
    before, folder = list(sys.path), str(Path.cwd())
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path[:] = before


def _is_neighbour(reference: Reference) -> bool:
    """Whether a recipe of the working folder may name it: a module or package there, or in ``src``, but nothing that is
    installed; and where to log.
    """
    here = Path.cwd()
    if not reference.effect.startswith("imports ") or not reference.sources:
        return reference.key == "tracking.wandb"
    return all(source.parent in (here, here / "src") for source in reference.sources)


def _is_written_here(reference: Reference) -> bool:
    return reference.key == "verify.cache" and reference.sources[0].is_relative_to(Path.cwd())


def _untyped(found: Iterable[Reference], typed: Collection[str], uses: Collection[str]) -> list[Reference]:
    """Those that the command makes use of and the command line does not name itself. A file of verdicts below the
    working folder is none.
    """
    used = [one for one in found if one.key.partition(".")[0] in uses and not _is_written_here(one)]
    return [one for one in used if not any(one.key == key or one.key.startswith(f"{key}.") for key in typed)]


# --- what was agreed to ----------------------------------------------------------------------------------------------


def _require(owner: str, named: Sequence[Reference], about: str, *, trust: bool) -> None:
    agreed = _agreed() if named else frozenset[str]()
    unknown = [one for one in named if _digest(owner, one) not in agreed]
    if trust:
        _remember(owner, unknown)
    elif unknown:
        lines = "".join(f"\n  {one}" for one in unknown)
        raise TrustError(
            f"{about}. Nothing was executed. It names:{lines}\n"
            "If you trust this, repeat the command with --trust, once (from Python: trust=True); or set these keys on "
            "the command line. See docs/security.md."
        )


def _owner(run: Path) -> str:
    """What an agreement is for: a run by the id it was started with, wherever it has been moved to."""
    try:
        number = json.loads((run / "run.json").read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        number = None
    return f"run {number}" if isinstance(number, str) else f"folder {_real(str(run))}"


def _digest(owner: str, reference: Reference) -> str:
    return hashlib.sha256(json.dumps([owner, *reference[:3]]).encode()).hexdigest()


def _agreements() -> Path | None:
    """The file of agreements; nowhere for a user without a home."""
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
            log.warning("%s can be written by other users and is ignored; delete it, or chmod 600", path)
            return frozenset()
        return frozenset(path.read_text(encoding="ascii").split())
    except (OSError, UnicodeDecodeError):
        return frozenset()


def _remember(owner: str, named: Iterable[Reference]) -> None:
    """Append what is new, in one write, so that runs that start together do not mix their lines."""
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
