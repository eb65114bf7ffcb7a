"""A user's own advantage estimator, named by import path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor

from steelyard.algorithms.facts import FACTS, NAMED, RewardParts, requested
from steelyard.errors import ConfigError
from steelyard.import_paths import load_own
from steelyard.suggest import did_you_mean, nearest_or_all


def custom_estimator(path: str, k: int | None = None) -> Callable[..., Tensor]:
    """Load ``"module:function"`` (the working directory counts as importable) and check all that it returns.

    The function gets ``reward_M`` (float64) and ``group_M``, ``k`` as a keyword if one is configured, and those
    `SampleFacts` that it names as further parameters.
    """
    function = _load(path)
    _require_arguments(path, function, k)
    bound = function if k is None else partial(function, k=k)

    @wraps(function)  # so that its parameters can be seen from outside
    def checked(reward_M: Tensor, group_M: Tensor, **facts: Any) -> Tensor:
        return _checked(path, bound, reward_M, group_M, facts)

    return checked


def _load(path: str) -> Callable[..., Any]:
    function = load_own(path, what="advantage estimator")
    if not callable(function):
        raise ConfigError(f"advantage estimator {path!r} is a {type(function).__name__}, not a function")
    return function


def _require_arguments(path: str, function: Callable[..., Any], k: int | None) -> None:
    """Refuse what cannot be called as an estimator before it is called."""
    form = "f(reward_M, group_M)" if k is None else "f(reward_M, group_M, k=k)"
    if isinstance(function, type):
        raise ConfigError(f"advantage estimator {path!r} is a class; name a function {form}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions do not tell
        return
    given = dict.fromkeys((*requested(function), *(() if k is None else ("k",))))
    for parameter in list(signature.parameters.values())[2:]:
        if parameter.kind in NAMED and parameter.default is parameter.empty and parameter.name not in (*given, "k"):
            raise ConfigError(
                f"advantage estimator {path!r} has the parameter {parameter.name!r}; after rewards and groups it can "
                f"request {', '.join(FACTS)}{did_you_mean(parameter.name, FACTS)}"
            )
    try:
        signature.bind(None, None, **given)
    except TypeError as error:
        raise ConfigError(f"advantage estimator {path!r} cannot be called as {form}: {error}") from None


def _checked(
    path: str, function: Callable[..., Any], reward_M: Tensor, group_M: Tensor, facts: Mapping[str, Any]
) -> Tensor:
    """Call the function and refuse what would quietly poison a step."""
    advantage_M = function(reward_M.to(torch.float64), group_M, **facts)
    wanted = f"it must return a tensor of {len(reward_M)} finite advantages, one for each reward"
    if not isinstance(advantage_M, Tensor):
        raise ConfigError(f"advantage estimator {path!r} returned a {type(advantage_M).__name__}: {wanted}")
    if advantage_M.shape != reward_M.shape:
        raise ConfigError(f"advantage estimator {path!r} returned shape {list(advantage_M.shape)}: {wanted}")
    bad_M = ~torch.isfinite(advantage_M)
    if bool(bad_M.any()):
        first = int(bad_M.nonzero()[0])
        given = f"{advantage_M[first].item()} for reward {reward_M[first].item()} (sample {first})"
        raise ConfigError(f"advantage estimator {path!r} returned {given}: {wanted}{_absent(facts.get('parts'))}")
    return advantage_M.detach().to(torch.float64)


def _absent(parts: RewardParts | None) -> str:
    """Reward parts that it looked up and that no sample has."""
    if not parts or not parts.absent:
        return ""
    name = min(parts.absent)
    return f"; no sample has the reward part {name!r}, {nearest_or_all(name, parts)}"
