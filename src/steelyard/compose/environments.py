"""Build environments, and samplers of whole episodes."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.compose.tasks import positions
from steelyard.config import Config
from steelyard.environments import Environment, EnvironmentVerifier
from steelyard.errors import ConfigError
from steelyard.import_paths import is_import_path
from steelyard.policies.base import Policy
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.tokens.conversation import Conversations, require_replies
from steelyard.sampling.base import EpisodeSampler, Sampler
from steelyard.tools import Tool, tool_environment
from steelyard.training.episodes import EpisodeLimits, Episodes
from steelyard.verification import AnyVerifier, Pool, load_function


def environment_of(candidate: object) -> Environment | None:
    """Return the environment that an object, a class or an import path stands for, or ``None``."""
    found = load_function(candidate) if isinstance(candidate, str) and is_import_path(candidate) else candidate
    if isinstance(found, type) and issubclass(found, Environment):
        return found()
    return found if isinstance(found, Environment) else None


def environment_verifier(config: Config, candidate: object) -> EnvironmentVerifier | None:
    """Return a verifier that runs the environment given as ``candidate``, or ``None``."""
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
    episodes = Episodes(sampler, pool, Conversations(policy.codec), limits, starts=starts)
    return episodes, episodes.verdicts
