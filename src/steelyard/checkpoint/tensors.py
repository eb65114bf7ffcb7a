"""State dicts without pickle: tensors go to safetensors, everything else to a JSON skeleton that refers to them.

The round trip is bit-exact, except for the payload of a Python NaN. JSON alone would turn integer keys into
strings and tuples into lists, and it has no NaN, so such values are tagged: ``{"$items": [[key, value], ...]}`` for a
dict whose keys are not all plain strings, ``{"$tuple": [...]}``, ``{"$float": "nan"}`` and ``{"$tensor": name}``.
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
    """Split a state dict into named tensors for safetensors and a skeleton for JSON.

    A tensor that occurs several times is stored once and is shared again after :func:`unflatten`. Tensors that merely
    overlap (views of one storage) are stored as separate copies.
    """
    found: dict[str, Tensor] = {}
    name_of: dict[tuple[Any, ...], str] = {}

    def note(tensor: Tensor, path: str) -> Any:
        same = _identity(tensor)
        if same not in name_of:
            name = _unique_name(path or "value", found)
            found[name] = tensor
            name_of[same] = name
        return {"$tensor": name_of[same]}

    skeleton = _encode(tree, "", note)
    return _separate(found), skeleton


def unflatten(tensors: Mapping[str, Tensor], skeleton: Any) -> Tree:
    """Inverse of :func:`flatten`."""

    def fetch(name: str) -> Tensor:
        if name not in tensors:
            raise CheckpointError(f"the skeleton refers to the tensor {name!r}, which the file does not contain")
        return tensors[name]

    return _decode(skeleton, fetch)


def save_tree(path: Path, tree: Tree) -> None:
    """Write a state dict as one safetensors file, with its skeleton in the file's metadata."""
    tensors, skeleton = flatten(tree)
    save_file(tensors, path, metadata={_SKELETON: json.dumps(skeleton, allow_nan=False)})


def load_tree(path: Path) -> Tree:
    """Load a state dict written by :func:`save_tree` onto the CPU; the tensors are copies, not views of the file."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}") from error
    if _SKELETON not in metadata:
        return tensors
    return unflatten(tensors, json.loads(metadata[_SKELETON]))


def to_json(tree: Tree, *, what: str) -> str:
    """Serialise a tree without tensors; plain data stays plain JSON."""

    def reject(_: Tensor, path: str) -> Any:
        raise CheckpointError(f"{what}: {path or 'the value'} is a tensor; pass it to Store.save as `tensors`")

    return json.dumps(_encode(tree, "", reject, what), indent=1, allow_nan=False)


def from_json(text: str) -> Tree:
    """Inverse of :func:`to_json`; raises ``ValueError`` if the text is not JSON."""

    def reject(name: str) -> Tensor:
        raise CheckpointError(f"the JSON state refers to the tensor {name!r}, but it cannot contain tensors")

    return _decode(json.loads(text), reject)


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


def _unique_name(path: str, taken: Mapping[str, Tensor]) -> str:
    """Return the path, with a number appended if another path has the same text (``{"a.b": …, "a": {"b": …}}``)."""
    name, number = path, 2
    while name in taken:
        name, number = f"{path}#{number}", number + 1
    return name


def _identity(tensor: Tensor) -> tuple[Any, ...]:
    """Return a key that is equal for two tensors with the same memory, type and layout."""
    return tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def _separate(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Make all tensors contiguous on the CPU, each with its own storage."""
    seen: set[int] = set()
    separate: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        packed = tensor.to("cpu").contiguous()
        storage = packed.untyped_storage().data_ptr()
        if storage in seen:
            packed = packed.clone()
            storage = packed.untyped_storage().data_ptr()
        seen.add(storage)
        separate[name] = packed
    return separate
