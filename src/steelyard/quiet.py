"""Silence the log messages of transformers and bitsandbytes while Steelyard displays a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_engines() -> Iterator[None]:
    """Log only errors from transformers and bitsandbytes, and hide progress bars for loading and saving weights.

    Download progress bars stay visible, because downloads can take a long time. Previous settings are restored on exit.
    """
    quantiser = logging.getLogger("bitsandbytes")
    level = quantiser.level
    quantiser.setLevel(logging.ERROR)  # must precede the imports, which emit warnings
    from huggingface_hub.utils import are_progress_bars_disabled, enable_progress_bars
    from transformers.utils import logging as engine

    verbosity, bars = engine.get_verbosity(), engine.is_progress_bar_enabled()
    without_downloads = are_progress_bars_disabled()
    engine.set_verbosity_error()
    engine.disable_progress_bar()
    if not without_downloads:
        enable_progress_bars()
    try:
        yield
    finally:
        quantiser.setLevel(level)
        engine.set_verbosity(verbosity)
        if bars:
            engine.enable_progress_bar()
