"""Build environments, and samplers of whole episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from steelyard.compose.tasks import positions
from steelyard.config import Config
from steelyard.environments import Environment, EnvironmentVerifier, as_environment
from steelyard.environments.base import name_of
from steelyard.errors import ConfigError, VerifierError
from steelyard.import_paths import is_import_path, load_user_object
from steelyard.policies.base import Policy
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.tokens.conversation import Conversations, require_replies
from steelyard.sampling.base import EpisodeSampler, Sampler
from steelyard.sampling.local import LocalSampler
from steelyard.tools import Tool, tool_environment
from steelyard.training.episodes import EpisodeLimits, Episodes
from steelyard.verification import AnyVerifier, Pool, Verifier


def environment_of(candidate: object) -> Environment | None:
    """Return the environment given as an object, a class or an import path; ``None`` for anything else."""
    found = candidate
    if isinstance(candidate, str) and is_import_path(candidate):
        found = load_user_object(candidate, raises=VerifierError)
    if isinstance(found, Mapping):
        reject_environments(list(cast("Mapping[str, object]", found).values()))
    elif isinstance(found, list | tuple):
        reject_environments(cast("Sequence[object]", found))
    return as_environment(found)


def reject_environments(parts: Sequence[object]) -> None:
    """Raise an error if one of several weighted verifiers is an environment."""
    for part in parts:
        environment = environment_of(cast("tuple[object, ...]", part)[0] if isinstance(part, tuple) and part else part)
        if environment is not None:
            raise ConfigError(
                f"{name_of(environment)} is an environment and cannot be one of several verifiers, because it alone "
                "ends episodes; pass it as the only verifier, and return other scores as Verdict.scored(…, parts={…})"
            )


def environment_verifier(config: Config, candidate: object) -> EnvironmentVerifier | None:
    """Return a verifier that runs the environment given as ``candidate``; ``None`` for anything else."""
    environment = environment_of(candidate)
    return None if environment is None else _run_by(config, environment)


def with_tools(config: Config, verifier: AnyVerifier, tools: Sequence[Tool]) -> AnyVerifier:
    """Return an environment in which the policy calls the tools and ``verifier`` scores its final answer."""
    if not tools:
        return verifier
    if isinstance(verifier, EnvironmentVerifier):
        raise ConfigError(
            f"tools: {verifier.name} is an environment, which answers the policy itself; remove the tools, or pass a "
            "verifier of the final answer instead"
        )
    return _run_by(config, tool_environment(tools, verifier))


def _run_by(config: Config, environment: Environment) -> EnvironmentVerifier:
    if config.judge is not None:
        raise ConfigError("judge: a judge scores single texts, not episodes; remove [judge], or the environment")
    if config.sampling.supports != "stored":
        raise ConfigError(
            f"sampling.supports = {config.sampling.supports!r} does not work with environments, because the constraint "
            "of a turn depends on earlier replies; set it to 'stored'"
        )
    return EnvironmentVerifier(environment, seed=config.run.seed)


def inline(config: Config, verifier: Verifier) -> bool:
    """Return whether the verifier runs in this process."""
    return config.verify.pool == "inline" or (config.verify.pool == "auto" and not verifier.isolate)


def with_episodes(
    config: Config, policy: Policy, verifier: AnyVerifier | None, sampler: Sampler, pool: Pool
) -> tuple[Sampler, Pool]:
    """Return a sampler of episodes and the pool of their verdicts if the verifier is an environment.

    Otherwise return ``sampler`` and ``pool`` unchanged. Closing the returned objects also closes the given ones.
    """
    if not isinstance(verifier, EnvironmentVerifier):
        return sampler, pool
    if not isinstance(sampler, EpisodeSampler) or not isinstance(policy, CausalPolicy):
        raise ConfigError(
            f"{verifier.name} is an environment, but {type(sampler).__name__} samples single turns only; use a causal "
            "model (model.kind = 'causal')"
        )
    if policy.tokenizer.chat_template is not None:
        require_replies(policy.codec)
    episode = config.episode
    limits = EpisodeLimits(episode.max_turns, episode.max_tokens, positions(config, policy) or policy.max_length)
    starts = type(verifier.environment).start is not Environment.start
    fixed_order = config.episode.order == "fixed" and isinstance(sampler, LocalSampler) and not inline(config, verifier)
    episodes = Episodes(sampler, pool, Conversations(policy.codec), limits, starts=starts, fixed_order=fixed_order)
    return episodes, episodes.verdicts
