"""Digests of values: equal in every process for equal values of the same types, and different otherwise.

The digest of data, arrays and objects covers their types and contents. The digest of functions, classes and modules
covers their import path, not their code. Objects that cannot be imported or do not expose their state have no
fingerprint.
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
    """The value has no fingerprint; the message says why."""


def fingerprint(value: object) -> bytes:
    """Return a digest of 32 bytes. Raises :class:`NoFingerprintError`."""
    try:
        return hashlib.sha256(_encoded(value)).digest()
    except NoFingerprintError:
        raise
    except RecursionError:
        raise NoFingerprintError(f"{type(value).__name__}: nested too deeply, or contains itself") from None
    except Exception as error:  # pickling a user-defined object may raise anything
        raise NoFingerprintError(f"{type(error).__name__}: {error}") from error


def _encoded(value: Any) -> bytes:
    """Encode a value as unique bytes. Subclasses of built-in types are encoded as objects: they may hold more state."""
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
    """Join the parts with their lengths, so that the encoding is unambiguous."""
    return b"".join([kind.encode(), b":", *(struct.pack("<Q", len(part)) + part for part in parts), b";"])


def _name(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    if not importable(value):
        raise NoFingerprintError(f"{value.__qualname__} cannot be imported: define it at the top level of a module")
    return f"{value.__module__}:{value.__qualname__}"


def _reduced(value: Any) -> tuple[object, ...]:
    """Return the data that pickle would need to rebuild the object: its class, its arguments and its state."""
    reduce = copyreg.dispatch_table.get(cast("type[Any]", type(value)))
    reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
    if isinstance(reduced, str):
        return ("global", _name(value))
    build, arguments, state, items, pairs = cast("tuple[Any, ...]", (*reduced, None, None, None))[:5]
    return build, arguments, state, list(items or ()), list(pairs or ())
