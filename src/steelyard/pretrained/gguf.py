"""Loads models from GGUF files with dequantised weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steelyard.errors import MissingExtraError, PolicyError


def is_gguf(path: str) -> bool:
    return path.endswith(".gguf")


def open_gguf(path: str, auto: Any, dtype: Any) -> tuple[Any, Any]:
    """Load a file with a transformers ``AutoModel`` class; return the tokenizer and the model. The weights are
    dequantised to ``dtype`` and moved into a new model, because transformers marks models loaded from GGUF as
    quantised, and quantised models can be neither fully trained nor saved.
    """
    from transformers import AutoTokenizer, GenerationConfig

    file = Path(path)
    if not file.is_file():
        raise PolicyError(
            f"model.path = {path!r}: no such file in {Path.cwd()}; download a GGUF file from a hub with "
            "hf download OWNER/NAME FILE --local-dir ."
        )
    if find_spec("gguf") is None:
        raise MissingExtraError(f"model.path = {path!r}", "gguf")
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer.name_or_path = path
    with _bar_on_terminals_only():
        packed = auto.from_pretrained(file.parent, gguf_file=file.name, dtype=dtype)
    model = auto.from_config(plain_config(packed.config, path), dtype=dtype)
    model.load_state_dict(packed.state_dict())
    model.tie_weights()
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    model.generation_config = GenerationConfig(**ends, pad_token_id=tokenizer.pad_token_id)
    return tokenizer, model


@contextmanager
def _bar_on_terminals_only() -> Iterator[None]:
    """Hide the transformers progress bar in logs, where it is shown by default."""
    reader: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    bar = reader.tqdm
    reader.tqdm = partial(bar, disable=None)
    try:
        yield
    finally:
        reader.tqdm = bar


def plain_config(config: Any, path: str) -> Any:
    """Return the configuration without its quantisation settings."""
    plain = copy.deepcopy(config)
    if hasattr(plain, "quantization_config"):
        del plain.quantization_config
    plain._name_or_path = path
    return plain
