"""Keys and values that earlier versions accepted, with the message that explains their replacement."""

from __future__ import annotations

from typing import Any

REMOVED_KEYS = {
    "model.scratch.architecture": "was removed: model.kind selects it (causal: Llama, masked: ModernBERT); "
    "remove the key",
}
"""Dotted key, without list indices -> message."""

REMOVED_VALUES: dict[tuple[str, Any], str] = {
    ("sampling.fill_order", "confidence"): "was removed: the order would depend on the model, so the choice of holes "
    "would be a decision without a known log-prob; use random or left_to_right",
}
"""(dotted key, value) -> message."""
