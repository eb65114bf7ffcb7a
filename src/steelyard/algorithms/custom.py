"""Custom advantage estimators, loaded from an import path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor

from steelyard.algorithms.facts import FACTS, NAMED, RewardParts, requested_facts
from steelyard.errors import ConfigError
from steelyard.import_paths import load_user_object
from steelyard.suggest import did_you_mean, nearest_or_all


def custom_estimator(path: str, k: int | None = None) -> Callable[..., Tensor]:
    """Load ``"module:function"`` and check every result it returns. Modules in the working directory can be imported.

    The function receives ``reward_M`` (float64) and ``group_M``, ``k`` as a keyword argument if configured, and each
    field of `SampleFacts` that it names as an additional parameter.
    """
    function = _load(path)
    _require_arguments(path, function, k)
    bound = function if k is None else partial(function, k=k)

    @wraps(function)  # keeps the signature visible to requested_facts
    def checked(reward_M: Tensor, group_M: Tensor, **facts: Any) -> Tensor:
        return _checked(path, bound, reward_M, group_M, facts)

    return checked


def _load(path: str) -> Callable[..., Any]:
    function = load_user_object(path, what="advantage estimator")
    if not callable(function):
        raise ConfigError(f"advantage estimator {path!r} must be a function, not {type(function).__name__}")
    return function


def _require_arguments(path: str, function: Callable[..., Any], k: int | None) -> None:
    """Raise an error if the function cannot be called as an estimator."""
    form = "f(reward_M, group_M)" if k is None else "f(reward_M, group_M, k=k)"
    if isinstance(function, type):
        raise ConfigError(f"advantage estimator {path!r} is a class; use a function {form}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return
    given = dict.fromkeys((*requested_facts(function), *(() if k is None else ("k",))))
    for parameter in list(signature.parameters.values())[2:]:
        if parameter.kind in NAMED and parameter.default is parameter.empty and parameter.name not in (*given, "k"):
            raise ConfigError(
                f"advantage estimator {path!r} has an unknown parameter {parameter.name!r}; after rewards and groups "
                f"it can request {', '.join(FACTS)}{did_you_mean(parameter.name, FACTS)}"
            )
    try:
        signature.bind(None, None, **given)
    except TypeError as error:
        raise ConfigError(f"advantage estimator {path!r} cannot be called as {form}: {error}") from None


def _checked(
    path: str, function: Callable[..., Any], reward_M: Tensor, group_M: Tensor, facts: Mapping[str, Any]
) -> Tensor:
    """Call the function and raise an error unless it returns one finite advantage per reward."""
    advantage_M = function(reward_M.to(torch.float64), group_M, **facts)
    wanted = f"it must return a tensor of {len(reward_M)} finite advantages, one per reward"
    if not isinstance(advantage_M, Tensor):
        raise ConfigError(f"advantage estimator {path!r} returned a {type(advantage_M).__name__}: {wanted}")
    if advantage_M.shape != reward_M.shape:
        raise ConfigError(f"advantage estimator {path!r} returned shape {list(advantage_M.shape)}: {wanted}")
    bad_M = ~torch.isfinite(advantage_M)
    if bool(bad_M.any()):
        first = int(bad_M.nonzero()[0])
        given = f"{advantage_M[first].item()} for reward {reward_M[first].item()} (sample {first})"
        raise ConfigError(f"advantage estimator {path!r} returned {given}: {wanted}{_missing_part(facts.get('parts'))}")
    return advantage_M.detach().to(torch.float64)


def _missing_part(parts: RewardParts | None) -> str:
    """Return a hint if the function looked up a reward part that no sample has."""
    if not parts or not parts.missing:
        return ""
    name = min(parts.missing)
    return f"; no sample has the reward part {name!r}, {nearest_or_all(name, parts)}"
