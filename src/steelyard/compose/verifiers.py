"""Build verifiers and the pools that run them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from steelyard import config as configs
from steelyard.compose.environments import environment_verifier, inline, reject_environments, with_tools
from steelyard.compose.judge import with_judge
from steelyard.compose.supplied import NOTHING_SUPPLIED, Supplied, build_tools, with_domain
from steelyard.config import Config
from steelyard.environments import EnvironmentVerifier
from steelyard.errors import ConfigError, VerifierError
from steelyard.verification import (
    AnyVerifier,
    Blame,
    CacheStage,
    Cause,
    CircuitBreaker,
    InlinePool,
    Pipeline,
    Pool,
    ProcessPool,
    Recycling,
    RejectTruncated,
    Stage,
    UserFunction,
    VerdictCache,
    Verifier,
    WeightedPart,
    WeightedVerifier,
    WorkerLimits,
    as_verifier,
    describe_level,
    for_run,
    load_function,
    load_verifier,
    pool_for,
    run_code,
    run_command,
    why_not_cached,
)

log = logging.getLogger("steelyard.verification")


def build_pool(config: Config, verifier: AnyVerifier, supplied: Supplied = NOTHING_SUPPLIED) -> Pool:
    """Build the pipeline from sample to verdict: circuit breaker, truncated samples, cache and verifier."""
    verify, sampling = config.verify, config.sampling
    window = verify.window or sampling.tasks_per_step * sampling.group_size
    breaker = CircuitBreaker(verify.max_unscored, window, verify.when_unscored, verify.pause_seconds)
    cached = None if verify.cache is None else cache(partial(VerdictCache, Path(verify.cache)))
    return _pipeline(config, verifier, [breaker, *_truncated(config, verifier, supplied)], cached)


def build_trial_pool(config: Config, verifier: AnyVerifier, supplied: Supplied = NOTHING_SUPPLIED) -> Pool:
    """Build a pipeline for testing the verifier: failures are reported unchanged, and no cache is used."""
    trial = config.verify.model_copy(update={"tries": 1, "blame": dict.fromkeys(Cause, "unscored")})
    config = config.model_copy(update={"verify": trial})
    return _pipeline(config, verifier, _truncated(config, verifier, supplied), None)


def _pipeline(
    config: Config, verifier: AnyVerifier, stages: Sequence[Stage], cached: Callable[[], VerdictCache] | None
) -> Pool:
    """Chain ``stages`` with the cache (opened by ``cached``) and the pool of each verifier."""
    if isinstance(verifier, Verifier):
        return Pipeline([*stages, *_cache(config, verifier, cached)], _engine(config, verifier))
    parts = pool_for(verifier, lambda part: Pipeline(_cache(config, part, cached), _engine(config, part)))
    return Pipeline(stages, parts)


def _truncated(config: Config, verifier: AnyVerifier, supplied: Supplied) -> list[Stage]:
    """Return a stage that rejects truncated samples without running the verifier, if there is a constraint."""
    if isinstance(verifier, EnvironmentVerifier):
        return []  # the environment ends an episode that reaches a limit
    domain = with_domain(config, supplied).domain
    constrained = config.constraint is not None or supplied.constraint is not None
    constrained = constrained or (domain is not None and domain.automaton() is not None)
    return [RejectTruncated(verifier.floor)] if constrained else []


def _cache(config: Config, verifier: Verifier, cached: Callable[[], VerdictCache] | None) -> list[Stage]:
    if cached is None:
        return []
    if reason := why_not_cached(verifier):
        log.warning("verify.cache does not apply to %s: %s", verifier.name, reason)
        return []
    return [CacheStage(verifier, cached(), "" if config.domain is None else config.domain.name)]


def runs_code(verifier: Verifier) -> bool:
    """Whether the verifier may run code: its module imports the sandbox, or its environment keeps processes."""
    if isinstance(verifier, EnvironmentVerifier):
        return verifier.environment.keeps_processes
    if not isinstance(verifier, UserFunction):
        return False
    names: Mapping[str, object] = getattr(verifier.function, "__globals__", {})
    return any(value is run_code or value is run_command for value in names.values())


def _engine(config: Config, verifier: Verifier) -> Pool:
    """Build the pool that runs the verifier: in this process, in separate processes, or on a cluster."""
    if runs_code(verifier):
        log.warning("%s runs code: %s", verifier.name, describe_level())
    verify = config.verify
    blame = Blame(verify.tries, dict(verify.blame))
    if inline(config, verifier):
        return InlinePool(verifier, blame)
    settings: dict[str, Any] = {
        "limits": WorkerLimits(**{name: value or None for name, value in verify.limits}),  # pyright: ignore[reportArgumentType]
        "recycling": Recycling(verify.recycle.items or None, verify.recycle.memory_mb or None),
        "blame": blame,
        "keep_children": verify.keep_children or _keeps_processes(verifier),
        "preload": verify.preload,
    }
    if verify.pool == "ray":
        from steelyard.cluster.pool import RayPool

        shares, address = max(1, len(verify.entries)), config.cluster.address
        kept = reserved_cores(config.cluster)
        return RayPool(verifier, address=address, workers=verify.workers, shares=shares, kept=kept, **settings)
    try:
        return ProcessPool(verifier, workers=verify.workers, **settings)
    except VerifierError as error:
        if verify.pool == "processes":
            raise
        log.warning("%s Until then, the verifier runs in this process, where a crash or hang affects the run.", error)
        return InlinePool(verifier, blame)


def _keeps_processes(verifier: Verifier) -> bool:
    return isinstance(verifier, EnvironmentVerifier) and verifier.environment.keeps_processes


def reserved_cores(cluster: configs.ClusterConfig) -> list[float]:
    """Return the CPU cores that samplers and learners reserve on the cluster, one number per process."""
    samplers, learners = cluster.samplers, cluster.learners
    cores = [] if samplers is None else [samplers.cpus] * samplers.replicas
    return cores + ([] if learners is None else [1.0] * learners.ranks)


def build_verifier(config: Config, supplied: Supplied = NOTHING_SUPPLIED) -> AnyVerifier:
    verifier = for_run(_verifier(config, with_domain(config, supplied)), config.run.steps)
    return with_tools(config, verifier, build_tools(config, supplied))


def _verifier(config: Config, supplied: Supplied) -> AnyVerifier:
    """Return the supplied verifier, the domain's verifier, or the functions and models named in the configuration."""
    verify, domain = config.verify, supplied.domain
    given = supplied.verifier if supplied.verifier is not None or domain is None else domain.verifier()
    environment = environment_verifier(config, verify.verifier if given is None else given)
    if environment is not None:
        return environment
    if supplied.verifier is not None:
        return as_verifier(supplied.verifier, **_defaults(supplied.verifier, verify))
    if domain is not None:
        return with_judge(as_verifier(given, **_defaults(given, verify)), config)
    if verify.verifier is not None:
        return load_verifier(verify.verifier, **_defaults(verify.verifier, verify))
    parts = tuple(_part(entry, verify) for entry in verify.verifiers)
    if not parts:
        raise ConfigError('no verifier specified; set verify.verifier = "my_module:my_function"')
    return WeightedVerifier(parts, **_given(floor=verify.floor))


def _defaults(verifier: Any, verify: configs.VerifyConfig) -> dict[str, Any]:
    """Return the floor and success threshold from the configuration, unless the verifier declares its own."""
    found = load_function(verifier) if isinstance(verifier, str) else verifier
    if isinstance(found, AnyVerifier) or (isinstance(found, type) and issubclass(found, Verifier)):
        return {}
    several = isinstance(found, list | tuple | Mapping)  # for a weighted sum, the parts determine success
    return _given(floor=verify.floor) | ({} if several else {"success_at": verify.success_at})


def _given(**settings: Any) -> dict[str, Any]:
    """Return the settings that are not None."""
    return {name: value for name, value in settings.items() if value is not None}


def _part(entry: configs.VerifierEntry, verify: configs.VerifyConfig) -> WeightedPart:
    if entry.function is not None:
        reject_environments([entry.function])
        settings = _given(mode=entry.mode, size=entry.size, success_at=entry.success_at)
        verifier = load_verifier(entry.function, **(_defaults(entry.function, verify) | settings))
    elif entry.model is None or entry.kind is None:
        raise ConfigError("an entry of verify.verifiers needs a function, or a model and its kind")
    else:
        from steelyard.policies.judge import build_judge

        settings = {"name": entry.name, "size": entry.size, "success_at": entry.success_at}
        verifier = build_judge(entry.model, entry.kind, **settings, **_given(floor=verify.floor))
    return WeightedPart(verifier, entry.weight, name=entry.name or "")
