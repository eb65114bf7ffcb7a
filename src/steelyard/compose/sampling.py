"""Build the sampler and its decoding settings."""

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
from steelyard.compose.cleanup import closed_on_error
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
from steelyard.sampling.snapshot import SnapshotSampler
from steelyard.types import CutRule


def build_decoding(config: Config) -> Decoding:
    sampling = config.sampling
    rule = CutRule(sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
    return Decoding(rule, sampling.max_new_tokens, sampling.supports)


def build_evaluation_decoding(config: Config, temperature: float | None = None) -> Decoding:
    """Build the decoding settings for evaluations and for commands that show samples.

    These settings match those of training, except for values set in [evaluate] and for ``temperature``, if given.
    """
    evaluate, training = config.evaluate, build_decoding(config)
    rule = replace(training.rule, temperature=temperature or evaluate.temperature or training.rule.temperature)
    return Decoding(rule, evaluate.max_new_tokens or training.max_new_tokens, training.supports)


def build_sampler(config: Config, policy: Policy) -> Sampler:
    """Build the sampler for this kind of policy."""
    if isinstance(policy, MaskedPolicy):
        return _fill_sampler(config, policy)
    if isinstance(policy, CausalPolicy):
        return _causal_sampler(config, policy)
    raise ConfigError(f"no sampler supports {type(policy).__name__}; use a CausalPolicy or MaskedPolicy")


def _fill_sampler(config: Config, policy: MaskedPolicy) -> Sampler:
    sampling = config.sampling
    return FillSampler(
        policy, seed=config.run.seed, steps=sampling.fill_steps, order=sampling.fill_order, max_rows=sampling.max_rows
    )


def _causal_sampler(config: Config, policy: CausalPolicy) -> Sampler:
    """Build a vLLM sampler, or a local one: a copy of the policy if sampling continues during updates."""
    sampling = config.sampling
    if sampling.engine == "local":
        kind = SnapshotSampler if sampling.staleness else LocalSampler
        return kind(policy, seed=config.run.seed, max_rows=sampling.max_rows)
    settings = sampling.vllm or configs.VllmConfig()
    if config.cluster.samplers is not None:
        return _replicas(config, config.cluster.samplers, settings, policy)
    return _vllm_sampler(config, settings, policy)


def _vllm_sampler(config: Config, settings: configs.VllmConfig, policy: CausalPolicy) -> Sampler:
    """Build a vLLM sampler in this process, next to the learner."""
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
    """Build vLLM samplers on the cluster; they receive the merged weights of ``policy``."""
    from steelyard.cluster.samplers import RaySampler

    options = _options(config, settings, policy)
    build = partial(build_engine, shape_of(policy.model), options, policy.codec, policy.constraint, config.run.seed)
    on_gpus = policy.device.type == "cuda"
    sampler = RaySampler(
        build,
        partial(merged_cpu_weights, policy, getattr(torch, options["dtype"])),
        replicas=samplers.replicas,
        address=config.cluster.address,
        cpus=samplers.cpus,
        gpus=samplers.gpus if on_gpus else 0.0,
        environment={} if on_gpus else {"OMP_NUM_THREADS": str(max(1, int(samplers.cpus)))},
    )
    with closed_on_error(sampler):
        sampler.publish(0)
    return sampler


def merged_cpu_weights(policy: CausalPolicy, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Yield merged weights for engines in other processes: one tensor at a time, on the CPU, rounded to ``dtype``."""
    for name, tensor in adapters.plain_tensors(policy.model, rounded=dtype):
        yield name, tensor.cpu()


def build_engine(shape: Any, options: dict[str, Any], codec: Codec, constraint: Constraint | None, seed: int) -> Any:
    """Build a sampler in another process; its weights are random until the first publication."""
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
    """Choose ``merge`` for DoRA and on a CPU, where serving an adapter is several times slower; else ``serve``."""
    from steelyard.sampling.vllm import engine

    return "merge" if engine.on_cpu() or adapters.is_dora(model) else "serve"


def shape_of(model: Any) -> Any:
    """Copy a model's configuration, with the architecture name that another engine needs to build it."""
    base = adapters.base_model(model)
    shape = copy.deepcopy(base.config)
    shape.architectures = [type(base).__name__]
    return shape


class AdapterFolder:
    """Writes the policy's adapter to a temporary folder on each call."""

    def __init__(self, policy: CausalPolicy) -> None:
        self.policy = policy
        self._folder = tempfile.TemporaryDirectory()

    def __call__(self) -> Path:
        folder = Path(self._folder.name)
        self.policy.model.save_pretrained(folder, **adapters.save_options(self.policy.model))
        return folder
