"""Build environments, and samplers of whole episodes."""

from __future__ import annotations

from steelyard.compose.tasks import positions
from steelyard.config import Config
from steelyard.environments import Environment, EnvironmentVerifier
from steelyard.errors import ConfigError
from steelyard.import_paths import is_import_path
from steelyard.policies.base import Policy
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.tokens.conversation import Conversations, require_replies
from steelyard.sampling.base import EpisodeSampler, Sampler
from steelyard.sampling.local import LocalSampler
from steelyard.training.episodes import EpisodeLimits, Episodes
from steelyard.verification import AnyVerifier, Pool, Verifier, load_function


def environment_of(candidate: object) -> Environment | None:
    """Return the environment that an object, a class or an import path stands for, or ``None`` for anything else."""
    found = load_function(candidate) if isinstance(candidate, str) and is_import_path(candidate) else candidate
    if isinstance(found, type) and issubclass(found, Environment):
        return found()
    return found if isinstance(found, Environment) else None


def environment_verifier(config: Config, candidate: object) -> EnvironmentVerifier | None:
    """Return a verifier that runs the environment given as ``candidate``, or ``None`` for anything else."""
    environment = environment_of(candidate)
    if environment is None:
        return None
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

    Otherwise return ``sampler`` and ``pool`` themselves. Closing the returned ones closes the given ones.
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
