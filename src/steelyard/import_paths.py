"""Python objects by name, as ``module:name``."""

from __future__ import annotations


def is_import_path(text: str) -> bool:
    """Whether a text is ``module:name``, both of them dotted identifiers. Nothing else is ever imported by name."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))
