"""Keys and values of earlier versions that are gone, each answered with its replacement or the reason."""

from __future__ import annotations

from typing import Any

REMOVED_KEYS = {
    "model.scratch.architecture": "was removed: model.kind decides, 'causal' builds a Llama and 'masked' a ModernBERT; "
    "remove the key",
}
"""Dotted key, without indices of lists -> answer."""

REMOVED_VALUES: dict[tuple[str, Any], str] = {
    ("sampling.fill_order", "confidence"): "was removed: the model would choose which holes come first, a decision "
    "whose log-prob nobody knows; use random or left_to_right, which do not depend on it",
}
"""(dotted key, value) -> answer."""
