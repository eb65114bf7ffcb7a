"""Hash the source files of a verifier, so that a resumed run can detect changes."""

from __future__ import annotations

import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from steelyard.compose.supplied import Supplied, build_domain, build_tools
from steelyard.config import Config
from steelyard.verification import importable_name, load_function


def verifier_code(config: Config, supplied: Supplied) -> dict[str, str]:
    """Hash the user's source files that determine rewards, tools included; return the hashes by module name."""
    tools = source_hashes(*(tool.function for tool in build_tools(config, supplied)))
    return tools | _verifier_hashes(config, supplied)


def _verifier_hashes(config: Config, supplied: Supplied) -> dict[str, str]:
    if supplied.verifier is not None:
        return source_hashes(supplied.verifier)
    if (domain := build_domain(config, supplied)) is not None:
        return source_hashes(type(domain))
    named = [config.verify.verifier, *(entry.function for entry in config.verify.verifiers)]
    return source_hashes(*(load_function(path) for path in named if path is not None))


def source_hashes(*objects: object) -> dict[str, str]:
    """Return the SHA-256 of the source files that define these functions, classes or verifiers, by module name.

    Imported modules are included if they belong to the same package or are in or below the same folder. Steelyard and
    installed packages are excluded. Lists and mappings are searched; objects without a file (such as those from a
    notebook) are skipped.
    """
    found: dict[str, str] = {}
    for given in objects:
        if isinstance(given, Mapping):
            found |= source_hashes(*given.values())
        elif isinstance(given, list | tuple):
            found |= source_hashes(*given)
        elif (module := _module_of(getattr(given, "function", given))) is not None:
            found |= {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in _files_of(module).items()}
    return found


def _files_of(module: ModuleType) -> dict[str, Path]:
    """Return the source files of a module and of the user's modules that it imports, by name."""
    start, found, waiting = _file(module), dict[str, Path](), [module]
    while start is not None and waiting:
        one = waiting.pop()
        file = _file(one)
        if file is None or _name(one) in found or _package(one) == "steelyard":
            continue
        if _package(one) == _package(module) or (file.is_relative_to(start.parent) and not _installed(file)):
            found[_name(one)] = file
            waiting.extend(_used_by(one))
    return found


def _package(module: ModuleType) -> str:
    return _name(module).partition(".")[0]


def _name(module: ModuleType) -> str:
    """Return the same name for a script as main program and as imported module, so that both have the same hashes."""
    return importable_name(module) or module.__name__


def _installed(file: Path) -> bool:
    """Whether a file belongs to Python or an installed package, even in a virtualenv inside the user's folder."""
    return file.is_relative_to(sysconfig.get_path("stdlib")) or not {"site-packages", "dist-packages"}.isdisjoint(
        file.parts
    )


def _used_by(module: ModuleType) -> Iterator[ModuleType]:
    for value in list(vars(module).values()):
        if (used := _module_of(value)) is not None:
            yield used


def _module_of(value: object) -> ModuleType | None:
    if isinstance(value, ModuleType):
        return value
    name = getattr(value, "__module__", None)
    return sys.modules.get(name) if isinstance(name, str) else None


def _file(module: ModuleType) -> Path | None:
    try:
        found = inspect.getsourcefile(module)
    except TypeError:  # built in
        return None
    return Path(found).resolve() if found and Path(found).is_file() else None
