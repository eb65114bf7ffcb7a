"""Kernels that a model's own files ask for: they are code from a hub, and a model's files are data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from transformers import PreTrainedConfig

from steelyard.errors import PolicyError


def refuse_hub_kernels(path: str) -> None:
    """transformers loads and runs an attention kernel ``owner/name`` that ``config.json`` names, also without
    ``trust_remote_code``; refuse such a model before it is opened.
    """
    try:
        settings = PreTrainedConfig.get_config_dict(path)[0]
    except (OSError, ValueError):
        return  # whoever opens the model says what is wrong with it
    for key, value in _implementations(settings):
        if "/" in value:
            raise PolicyError(
                f"{path}: its config.json asks for {key} = {value!r}, a kernel from the hub, which is code; remove the "
                "key, or set model.trust_remote_code"
            )


def _implementations(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every ``*_implementation`` of a configuration and of those inside it; one may be a table by part."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            inner = cast("Mapping[str, Any]", value)
            chosen = key.endswith("_implementation")
            yield from ((key, one) for one in inner.values() if chosen and isinstance(one, str))
            yield from _implementations(inner)
        elif isinstance(value, str) and key.endswith("_implementation"):
            yield key, value
