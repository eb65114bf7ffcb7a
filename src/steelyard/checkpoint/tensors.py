"""State dicts without pickle: tensors go to safetensors, everything else to a JSON skeleton that points at them.

The round trip is bitwise (a Python NaN comes back as some NaN). JSON alone would turn integer keys into strings and
tuples into lists and has no word for NaN, so what it cannot say is tagged: ``{"$items": [[key, value], ...]}`` for a
dict with other than plain string keys, ``{"$tuple": [...]}``, ``{"$float": "nan"}`` and ``{"$tensor": name}``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from steelyard.errors import CheckpointError

Tree = Any
"""A tensor, None, bool, int, float or str, or a dict, list or tuple of trees."""

_SKELETON = "skeleton"


def flatten(tree: Tree) -> tuple[dict[str, Tensor], Any]:
    """Split a state dict into named tensors that safetensors takes and a skeleton that JSON takes.

    A tensor that occurs several times is stored once and is shared again after :func:`unflatten`; tensors that
    only overlap (views of one storage) are copied apart.
    """
    found: dict[str, Tensor] = {}
    name_of: dict[tuple[Any, ...], str] = {}

    def note(tensor: Tensor, path: str) -> Any:
        same = _identity(tensor)
        if same not in name_of:
            name = _free(path or "value", found)
            found[name] = tensor
            name_of[same] = name
        return {"$tensor": name_of[same]}

    skeleton = _encode(tree, "", note)
    return _apart(found), skeleton


def unflatten(tensors: Mapping[str, Tensor], skeleton: Any) -> Tree:
    """Inverse of :func:`flatten`."""

    def fetch(name: str) -> Tensor:
        if name not in tensors:
            raise CheckpointError(f"the skeleton names tensor {name!r}, which the file does not hold")
        return tensors[name]

    return _decode(skeleton, fetch)


def save_tree(path: Path, tree: Tree) -> None:
    """Write a state dict as one safetensors file, its skeleton in the file's metadata."""
    tensors, skeleton = flatten(tree)
    save_file(tensors, path, metadata={_SKELETON: json.dumps(skeleton, allow_nan=False)})


def load_tree(path: Path) -> Tree:
    """Read back what :func:`save_tree` wrote, on the CPU, in memory of its own (not mapped from the file)."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read as safetensors ({error})") from error
    if _SKELETON not in metadata:
        return tensors
    return unflatten(tensors, json.loads(metadata[_SKELETON]))


def to_json(tree: Tree, *, what: str) -> str:
    """A tree without tensors as text; plain data stays plain JSON."""

    def refuse(_: Tensor, path: str) -> Any:
        raise CheckpointError(f"{what}: {path or 'the value'} is a tensor; hand it to the store under `tensors`")

    return json.dumps(_encode(tree, "", refuse, what), indent=1, allow_nan=False)


def from_json(text: str) -> Tree:
    """Inverse of :func:`to_json`; raises ``ValueError`` on text that is no JSON."""

    def refuse(name: str) -> Tensor:
        raise CheckpointError(f"a JSON state points at tensor {name!r}")

    return _decode(json.loads(text), refuse)


def _encode(tree: Tree, path: str, note: Callable[[Tensor, str], Any], what: str = "state") -> Any:
    match tree:
        case Tensor():
            return note(tree.detach(), path)
        case None | bool() | str():
            return tree
        case int():
            return int(tree)
        case float():
            return float(tree) if math.isfinite(tree) else {"$float": repr(float(tree))}
        case Mapping():
            values = [(key, _encode(value, _join(path, key), note, what)) for key, value in tree.items()]
            if all(isinstance(key, str) and not key.startswith("$") for key in tree):
                return dict(values)
            return {"$items": [[_encode_key(key, path, what), value] for key, value in values]}
        case list() | tuple():
            items = [_encode(value, _join(path, index), note, what) for index, value in enumerate(tree)]
            return items if isinstance(tree, list) else {"$tuple": items}
        case _:
            raise CheckpointError(
                f"{what}: {path or 'the value'} is a {type(tree).__module__}.{type(tree).__qualname__}, which cannot "
                "be saved without pickle; use tensors, None, bool, int, float, str, dict, list or tuple"
            )


def _encode_key(key: Any, path: str, what: str) -> Any:
    if isinstance(key, str | int | bool):
        return key
    raise CheckpointError(f"{what}: {path or 'the value'} has the key {key!r}; keys must be str, int or bool")


def _decode(data: Any, fetch: Callable[[str], Tensor]) -> Tree:
    match data:
        case {"$tensor": str(name)}:
            return fetch(name)
        case {"$float": str(text)}:
            return float(text)
        case {"$tuple": list(items)}:
            return tuple(_decode(item, fetch) for item in items)
        case {"$items": list(items)}:
            return {key: _decode(value, fetch) for key, value in items}
        case dict():
            return {key: _decode(value, fetch) for key, value in data.items()}
        case list():
            return [_decode(item, fetch) for item in data]
        case _:
            return data


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _free(path: str, taken: Mapping[str, Tensor]) -> str:
    """The path itself, or numbered where two paths read alike (``{"a.b": …, "a": {"b": …}}``)."""
    name, number = path, 2
    while name in taken:
        name, number = f"{path}#{number}", number + 1
    return name


def _identity(tensor: Tensor) -> tuple[Any, ...]:
    """Equal for two tensors that are the same memory read the same way."""
    return tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, contiguous, and no two in one storage."""
    seen: set[int] = set()
    apart: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        packed = tensor.to("cpu").contiguous()
        storage = packed.untyped_storage().data_ptr()
        if storage in seen:
            packed = packed.clone()
            storage = packed.untyped_storage().data_ptr()
        seen.add(storage)
        apart[name] = packed
    return apart
