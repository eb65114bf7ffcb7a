"""Which source files a verifier is written in, so that a resumed run can tell that they have changed."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from steelyard.compose.supplied import Supplied
from steelyard.config import Config
from steelyard.domains.registry import domain_paths
from steelyard.verification import load_function


def verifier_code(config: Config, supplied: Supplied) -> dict[str, str]:
    """Digests of the source files that decide on rewards, by module: the user's own, not Steelyard's."""
    if supplied.verifier is not None:
        return code_of(supplied.verifier)
    if config.domain is not None:
        return code_of(load_function(domain_paths()[config.domain.name]))
    named = [config.verify.verifier, *(entry.function for entry in config.verify.verifiers)]
    return code_of(*(load_function(path) for path in named if path is not None))


def code_of(*things: object) -> dict[str, str]:
    """SHA-256 of the source file of each module that these functions, classes or verifiers are written in, by its name.

    Modules that such a module imports count too if they lie in its folder or below; Steelyard's own do not, since the
    run keeps its version. A list or mapping stands for what is in it; what has no file (a notebook) is left out.
    """
    found: dict[str, str] = {}
    for thing in things:
        if isinstance(thing, Mapping):
            found |= code_of(*thing.values())
        elif isinstance(thing, list | tuple):
            found |= code_of(*thing)
        elif (module := _module_of(getattr(thing, "function", thing))) is not None and (file := _file(module)):
            _collect(module, file.parent, found)
    return found


def _collect(module: ModuleType, folder: Path, found: dict[str, str]) -> None:
    file = _file(module)
    own = module.__name__.partition(".")[0] == "steelyard"
    if own or module.__name__ in found or file is None or not file.is_relative_to(folder):
        return
    found[module.__name__] = hashlib.sha256(file.read_bytes()).hexdigest()
    for other in _used_by(module):
        _collect(other, folder, found)


def _used_by(module: ModuleType) -> Iterator[ModuleType]:
    for value in list(vars(module).values()):
        if (used := _module_of(value)) is not None:
            yield used


def _module_of(thing: object) -> ModuleType | None:
    if isinstance(thing, ModuleType):
        return thing
    name = getattr(thing, "__module__", None)
    return sys.modules.get(name) if isinstance(name, str) else None


def _file(module: ModuleType) -> Path | None:
    try:
        found = inspect.getsourcefile(module)
    except TypeError:  # built in
        return None
    return Path(found).resolve() if found and Path(found).is_file() else None
