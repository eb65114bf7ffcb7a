"""Which source files a verifier is written in, so that a resumed run can tell that they have changed."""

from __future__ import annotations

import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from steelyard.compose.supplied import Supplied, build_domain
from steelyard.config import Config
from steelyard.verification import load_function


def verifier_code(config: Config, supplied: Supplied) -> dict[str, str]:
    """Digests of the source files that decide on rewards, by module: the user's own, not Steelyard's."""
    if supplied.verifier is not None:
        return code_of(supplied.verifier)
    if (domain := build_domain(config, supplied)) is not None:
        return code_of(type(domain))
    named = [config.verify.verifier, *(entry.function for entry in config.verify.verifiers)]
    return code_of(*(load_function(path) for path in named if path is not None))


def code_of(*things: object) -> dict[str, str]:
    """SHA-256 of the source file of each module that these functions, classes or verifiers are written in, by its name.

    Modules that it imports count too, if they are of the same package or lie in its folder or below; Steelyard's own
    and other installed packages do not. A list or mapping stands for what is in it; what has no file (a notebook) is
    left out.
    """
    found: dict[str, str] = {}
    for thing in things:
        if isinstance(thing, Mapping):
            found |= code_of(*thing.values())
        elif isinstance(thing, list | tuple):
            found |= code_of(*thing)
        elif (module := _module_of(getattr(thing, "function", thing))) is not None:
            found |= {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in _files_of(module).items()}
    return found


def _files_of(module: ModuleType) -> dict[str, Path]:
    """Source files of a module and of what it uses of its own surroundings, by name."""
    start, found, waiting = _file(module), dict[str, Path](), [module]
    while start is not None and waiting:
        one = waiting.pop()
        file = _file(one)
        if file is None or one.__name__ in found or _package(one) == "steelyard":
            continue
        if _package(one) == _package(module) or (file.is_relative_to(start.parent) and not _installed(file)):
            found[one.__name__] = file
            waiting.extend(_used_by(one))
    return found


def _package(module: ModuleType) -> str:
    return module.__name__.partition(".")[0]


def _installed(file: Path) -> bool:
    """Whether it belongs to Python or to a package that was installed, maybe in an environment inside the folder."""
    return file.is_relative_to(sysconfig.get_path("stdlib")) or not {"site-packages", "dist-packages"}.isdisjoint(
        file.parts
    )


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
