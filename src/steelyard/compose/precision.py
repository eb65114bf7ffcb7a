"""What ``model.dtype = "auto"`` stands for on this machine."""

from __future__ import annotations

import logging

import torch

from steelyard.config import Config
from steelyard.errors import PolicyError
from steelyard.memory.footprint import ROOM, Training, footprint
from steelyard.memory.model_shape import find_shape
from steelyard.policies.device import choose_device, main_memory

log = logging.getLogger("steelyard.policies")


def settled(config: Config) -> Config:
    """The configuration with the type of the weights by its name, so that a run keeps it wherever it is resumed."""
    if config.model.dtype != "auto":
        return config
    dtype = automatic_dtype(config)
    log.info("model.dtype = 'auto' is %s on this machine", dtype)
    return config.model_copy(update={"model": config.model.model_copy(update={"dtype": dtype})})


def automatic_dtype(config: Config) -> str:
    """bfloat16 on a GPU that computes in it. On a CPU float32, which is faster there, unless a pretrained model would
    then not fit into main memory.
    """
    device = choose_device(config.model.device)
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    memory = main_memory()
    if device.type != "cpu" or config.model.path is None or memory is None:
        return "float32"
    return "float32" if _weights(config) <= ROOM * memory else "bfloat16"


def _weights(config: Config) -> float:
    """Bytes of a float32 model with what is trained beside it; 0 if its size cannot be read."""
    lora = config.model.lora
    training = Training(4, 0 if lora is None else lora.rank, reference=config.loss.kl.active)
    try:
        return footprint(find_shape(config.model.path or ""), training).peak
    except PolicyError:
        return 0.0
