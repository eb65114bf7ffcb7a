"""A digest of a value: the same in every process for equal values of the same types, different for all others.

Plain data, arrays and objects count with their types and contents. Functions, classes and modules count by the name
under which they can be imported; the code behind a name is not read. What has no such name, or cannot say what it
holds, has no fingerprint.
"""

from __future__ import annotations

import copyreg
import hashlib
import struct
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import Any, cast

import numpy as np

from steelyard.verification.transport import importable


class NoFingerprintError(Exception):
    """Says why the value has none."""


def fingerprint(value: object) -> bytes:
    """32 bytes; raises :class:`NoFingerprintError`."""
    try:
        return hashlib.sha256(_encoded(value)).digest()
    except NoFingerprintError:
        raise
    except RecursionError:
        raise NoFingerprintError(f"{type(value).__name__}: nested too deeply, or contains itself") from None
    except Exception as error:  # a user's object may do anything when asked for its state
        raise NoFingerprintError(f"{type(error).__name__}: {error}") from error


def _encoded(value: Any) -> bytes:
    """Bytes that no other value has. Only the built-in types themselves are written as data, since a subclass may hold
    more than its base shows.
    """
    kind = cast("type[Any]", type(value))
    if value is None or kind in (bool, int):
        return _joined(kind.__name__, [str(value).encode()])
    if kind is float:
        return _joined("float", [struct.pack("<d", value)])
    if kind is str:
        return _joined("str", [value.encode(errors="surrogatepass")])
    if kind in (bytes, bytearray):
        return _joined(kind.__name__, [bytes(value)])
    if kind in (list, tuple):
        return _joined(kind.__name__, map(_encoded, value))
    if kind in (set, frozenset):
        return _joined(kind.__name__, sorted(map(_encoded, value)))
    if kind in (dict, MappingProxyType):
        return _joined(kind.__name__, sorted(_joined("", map(_encoded, pair)) for pair in value.items()))
    if kind is np.ndarray and not value.dtype.hasobject:
        return _joined("ndarray", [repr(value.dtype).encode(), repr(value.shape).encode(), value.tobytes()])
    if isinstance(value, FunctionType | BuiltinFunctionType | ModuleType | type):
        return _joined("name", [_name(value).encode()])
    return _joined("object", map(_encoded, _reduced(value)))


def _joined(kind: str, parts: Iterable[bytes]) -> bytes:
    """The parts with their lengths, so that none can pass for two."""
    return b"".join([kind.encode(), b":", *(struct.pack("<Q", len(part)) + part for part in parts), b";"])


def _name(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    if not importable(value):
        raise NoFingerprintError(f"{value.__qualname__} cannot be imported by name; define it at the top of a module")
    return f"{value.__module__}:{value.__qualname__}"


def _reduced(value: Any) -> tuple[object, ...]:
    """What it takes to build the object again, as pickle would: its class, its arguments and its state."""
    reduce = copyreg.dispatch_table.get(cast("type[Any]", type(value)))
    reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
    if isinstance(reduced, str):
        return ("global", _name(value))
    build, arguments, state, items, pairs = cast("tuple[Any, ...]", (*reduced, None, None, None))[:5]
    return build, arguments, state, list(items or ()), list(pairs or ())
