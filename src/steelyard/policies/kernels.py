"""Rejects models whose files request attention kernels from a hub: kernels are code, and model files are data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from transformers import PreTrainedConfig

from steelyard.errors import PolicyError


def reject_hub_kernels(path: str) -> None:
    """Reject a model whose ``config.json`` names an attention kernel ``owner/name``: transformers would download and
    run it even without ``trust_remote_code``.
    """
    try:
        settings = PreTrainedConfig.get_config_dict(path)[0]
    except (OSError, ValueError):
        return  # loading the model will report the problem
    for key, value in _implementations(settings):
        if "/" in value:
            raise PolicyError(
                f"{path}: config.json sets {key} = {value!r}, a kernel from the hub that would run as code; remove the "
                "key, or set model.trust_remote_code"
            )


def _implementations(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield every ``*_implementation`` entry of a nested configuration; an entry may be a table with several names."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            inner = cast("Mapping[str, Any]", value)
            chosen = key.endswith("_implementation")
            yield from ((key, name) for name in inner.values() if chosen and isinstance(name, str))
            yield from _implementations(inner)
        elif isinstance(value, str) and key.endswith("_implementation"):
            yield key, value
