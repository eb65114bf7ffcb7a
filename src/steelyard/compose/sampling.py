"""The sampler that the configuration names, with the policy's weights, and how it draws."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor

from steelyard import config as configs
from steelyard.compose.opening import closed_on_error
from steelyard.config import Config
from steelyard.constraints.base import Constraint
from steelyard.errors import ConfigError
from steelyard.policies import adapters
from steelyard.policies.base import Policy
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.masked import MaskedPolicy
from steelyard.policies.tokens.codec import Codec
from steelyard.sampling.base import Decoding, Sampler
from steelyard.sampling.fill import FillSampler
from steelyard.sampling.local import LocalSampler
from steelyard.sampling.twin import TwinSampler
from steelyard.types import CutRule


def build_decoding(config: Config) -> Decoding:
    sampling = config.sampling
    rule = CutRule(sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
    return Decoding(rule, sampling.max_new_tokens, sampling.supports)


def build_evaluation_decoding(config: Config, temperature: float | None = None) -> Decoding:
    """How evaluations and the commands that show samples draw: as in training, except for what [evaluate] sets, and for
    ``temperature`` if it is given.
    """
    evaluate, training = config.evaluate, build_decoding(config)
    rule = replace(training.rule, temperature=temperature or evaluate.temperature or training.rule.temperature)
    return Decoding(rule, evaluate.max_new_tokens or training.max_new_tokens, training.supports)


def build_sampler(config: Config, policy: Policy) -> Sampler:
    """The sampler for the kind of policy."""
    if isinstance(policy, MaskedPolicy):
        return _fill_sampler(config, policy)
    if isinstance(policy, CausalPolicy):
        return _causal_sampler(config, policy)
    raise ConfigError(f"there is no sampler for {type(policy).__name__}")


def _fill_sampler(config: Config, policy: MaskedPolicy) -> Sampler:
    sampling = config.sampling
    return FillSampler(
        policy, seed=config.run.seed, steps=sampling.fill_steps, order=sampling.fill_order, max_rows=sampling.max_rows
    )


def _causal_sampler(config: Config, policy: CausalPolicy) -> Sampler:
    """vLLM beside the policy, or the policy itself; a twin of it if sampling goes on while the policy learns."""
    sampling = config.sampling
    if sampling.engine == "local":
        kind = TwinSampler if sampling.staleness else LocalSampler
        return kind(policy, seed=config.run.seed, max_rows=sampling.max_rows)
    settings = sampling.vllm or configs.VllmConfig()
    if config.cluster.samplers is not None:
        return _replicas(config, config.cluster.samplers, settings, policy)
    return _vllm_sampler(config, settings, policy)


def _vllm_sampler(config: Config, settings: configs.VllmConfig, policy: CausalPolicy) -> Sampler:
    """vLLM in this process, beside the learner."""
    from steelyard.sampling.vllm import EngineOptions, VllmSampler, engine

    served = isinstance(policy.model, PeftModel) and (settings.lora or _handover(policy.model)) == "serve"
    options = EngineOptions(
        **_options(config, settings, policy), adapter_rank=adapters.rank_of(policy.model) if served else None
    )
    opened = engine.open_engine(shape_of(policy.model), options)
    source = AdapterFolder(policy) if served else lambda: adapters.plain_tensors(policy.model)
    sampler = VllmSampler(opened, policy.codec, policy.constraint, seed=config.run.seed, weights=source)
    with closed_on_error(sampler):
        opened.load(adapters.plain_tensors(policy.model, merged=not served))
        if served:
            sampler.publish(0)
    return sampler


def _replicas(
    config: Config, samplers: configs.SamplersConfig, settings: configs.VllmConfig, policy: CausalPolicy
) -> Sampler:
    """vLLM in processes on the cluster, which get their weights from ``policy``, merged."""
    from steelyard.cluster.samplers import RaySampler

    options = _options(config, settings, policy)
    build = partial(build_engine, shape_of(policy.model), options, policy.codec, policy.constraint, config.run.seed)
    on_gpus = policy.device.type == "cuda"
    sampler = RaySampler(
        build,
        partial(shipped, policy, getattr(torch, options["dtype"])),
        replicas=samplers.replicas,
        address=config.cluster.address,
        cpus=samplers.cpus,
        gpus=samplers.gpus if on_gpus else 0.0,
        environment={} if on_gpus else {"OMP_NUM_THREADS": str(max(1, int(samplers.cpus)))},
    )
    with closed_on_error(sampler):
        sampler.publish(0)
    return sampler


def shipped(policy: CausalPolicy, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Merged weights for engines of ``dtype`` in other processes: on the CPU, one after the other, and rounded as the
    engine would.
    """
    for name, tensor in adapters.plain_tensors(policy.model, rounded=dtype):
        yield name, tensor.cpu()


def build_engine(shape: Any, options: dict[str, Any], codec: Codec, constraint: Constraint | None, seed: int) -> Any:
    """A sampler in another process, whose weights are random until they are handed over."""
    from steelyard.sampling.vllm import EngineOptions, VllmSampler, engine

    opened = engine.open_engine(shape, EngineOptions(**options))
    return VllmSampler(opened, codec, constraint, seed=seed)


def _options(config: Config, settings: configs.VllmConfig, policy: CausalPolicy) -> dict[str, Any]:
    return {
        "dtype": settings.dtype or str(next(policy.model.parameters()).dtype).removeprefix("torch."),
        "memory": settings.memory,
        "cache_gib": settings.cache_gib,
        "max_length": settings.max_length,
        "max_rows": config.sampling.max_rows,
        "eager": settings.eager,
    }


def _handover(model: PeftModel) -> str:
    """On a CPU an adapter served beside the weights makes every token several times as slow; DoRA cannot be served."""
    from steelyard.sampling.vllm import engine

    return "merge" if engine.on_cpu() or adapters.is_dora(model) else "serve"


def shape_of(model: Any) -> Any:
    """The configuration of a model, with the architecture that another engine builds it by."""
    base = adapters.base_model(model)
    shape = copy.deepcopy(base.config)
    shape.architectures = [type(base).__name__]
    return shape


class AdapterFolder:
    """The policy's adapter, written anew each time it is asked for."""

    def __init__(self, policy: CausalPolicy) -> None:
        self.policy = policy
        self._folder = tempfile.TemporaryDirectory()

    def __call__(self) -> Path:
        folder = Path(self._folder.name)
        self.policy.model.save_pretrained(folder, **adapters.save_options(self.policy.model))
        return folder
