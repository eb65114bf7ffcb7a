"""Rules for the sampling engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steelyard.config.problems import Problem

if TYPE_CHECKING:
    from steelyard.config.sections import Sections


def settings(config: Sections) -> Iterator[Problem]:
    sampling = config.sampling
    if sampling.vllm is None:
        return
    if sampling.engine != "vllm":
        reason = (
            f"applies only to sampling.engine = 'vllm', but it is '{sampling.engine}'; remove the table or set engine"
        )
        yield Problem("sampling.vllm", None, reason)
    longest = sampling.vllm.max_length
    if longest is not None and longest <= sampling.max_new_tokens:
        reason = f"leaves no room for a prompt: it must exceed sampling.max_new_tokens ({sampling.max_new_tokens})"
        yield Problem("sampling.vllm.max_length", longest, reason)
    if sampling.vllm.lora is not None and config.model.lora is None:
        yield Problem(
            "sampling.vllm.lora",
            sampling.vllm.lora,
            "applies only to LoRA, but there is no [model.lora]; remove the key",
        )


def replicas(config: Sections) -> Iterator[Problem]:
    sampling = config.sampling
    if config.cluster.samplers is None:
        return
    if sampling.engine != "vllm":
        reason = f"replicas run vLLM, but sampling.engine is '{sampling.engine}'; set it to vllm"
        yield Problem("cluster.samplers", None, reason)
    if sampling.vllm is not None and sampling.vllm.lora == "serve":
        reason = "replicas on the cluster can only receive merged weights; use lora = 'merge'"
        yield Problem("sampling.vllm.lora", "serve", reason)


def weights(config: Sections) -> Iterator[Problem]:
    if config.sampling.engine == "vllm" and config.model.quantize is not None:
        reason = "vLLM would not sample from the quantised weights; use sampling.engine = 'local', or remove quantize"
        yield Problem("model.quantize", config.model.quantize, reason)
