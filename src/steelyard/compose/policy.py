"""Build the policy and its reference model."""

from __future__ import annotations

import logging

import torch

from steelyard.compose.constraint import build_constraint
from steelyard.compose.precision import resolve_dtype
from steelyard.compose.prompting import build_prompting
from steelyard.compose.supplied import NOTHING_SUPPLIED, Supplied, build_domain
from steelyard.config import Config
from steelyard.errors import ConfigError
from steelyard.policies.adapters import Lora
from steelyard.policies.base import Policy
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.loading import PolicyOptions, from_scratch_policy, pretrained_policy
from steelyard.policies.reference import Ema, Periodic, Reference, Renewal, build_reference, static
from steelyard.policies.scratch import Architecture
from steelyard.policies.tokens.excluded import describe_excluded

log = logging.getLogger("steelyard.policies")


def build_policy(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> Policy:
    """Build the initial policy of the run, with its constraint and prompt format."""
    policy = supplied.model if isinstance(supplied.model, Policy) else build_model(config, supplied)
    log.info("tokens never sampled (model.excluded_tokens): %s", ", ".join(never_sampled(policy)) or "none")
    if isinstance(policy, CausalPolicy):
        policy.prompting = build_prompting(config, policy, supplied)
    constraint = build_constraint(config, policy, supplied)
    policy.constraint = policy.constraint if constraint is None else constraint
    return policy


def never_sampled(policy: Policy) -> list[str]:
    """Return the names of tokens that the policy never samples."""
    return describe_excluded(policy.tokenizer, policy.excluded)


def build_model(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> Policy:
    """Build the model named in the configuration, without a constraint."""
    if config.model.threads is not None:
        torch.set_num_threads(config.model.threads)
    model, lora = resolve_dtype(config).model, config.model.lora
    options = PolicyOptions(
        kind=model.kind,
        dtype=model.dtype,
        autocast=model.autocast,
        device=model.device,
        attention=model.attention,
        gradient_checkpointing=model.gradient_checkpointing,
        quantize=model.quantize,
        chunk=model.chunk_tokens,
        trust_remote_code=model.trust_remote_code,
        excluded=model.excluded_tokens,
        lora=None if lora is None else Lora(lora.rank, lora.alpha, lora.targets),
        adapter=None if lora is None else lora.adapter,
        seed=config.run.seed,
    )
    if model.path is not None:
        return pretrained_policy(model.path, options)
    if model.scratch is None:
        raise ConfigError("no model specified; set model.path or model.scratch")
    scratch, domain = model.scratch, build_domain(config, supplied)
    words = scratch.vocabulary or (domain.vocabulary() if domain is not None else None)
    if words is None:
        raise ConfigError("model.scratch.vocabulary is empty, and no domain provides a vocabulary; set it")
    shape = scratch.model_dump(exclude={"vocabulary", "spaced"})
    return from_scratch_policy(Architecture(**shape), words, options, spaced=scratch.spaced)


def build_reference_of(config: Config, policy: Policy) -> Reference | None:
    """Build the reference model, if KL is used."""
    kl, reference = config.loss.kl, config.reference
    if not kl.coefficient.ever_positive and kl.adaptive is None:
        return None
    renewal: Renewal = static
    if reference.mode == "ema" and reference.ema_decay is not None:
        renewal = Ema(reference.ema_decay)
    if reference.mode == "periodic" and reference.every is not None:
        renewal = Periodic(reference.every)
    device = torch.device("cpu") if reference.device == "cpu" else None
    return build_reference(policy, _storage(config), renewal, device)


def _storage(config: Config) -> str:
    """Resolve ``reference.storage = "auto"``.

    Without LoRA, or on another device, the reference is a copy. A static reference to a policy with a new adapter is
    the same model with the adapter disabled. In all other cases, the reference is a second adapter.
    """
    reference, lora = config.reference, config.model.lora
    if reference.storage != "auto":
        return reference.storage
    if lora is None or reference.device == "cpu":
        return "copy"
    return "adapter_off" if reference.mode == "static" and lora.adapter is None else "adapter"
