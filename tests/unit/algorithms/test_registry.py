"""Estimators loaded by name and by import path, and the errors for invalid input."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from steelyard import algorithms
from steelyard.algorithms.advantages import ESTIMATORS, estimator
from steelyard.algorithms.subsets import max_at_k, pass_at_k
from steelyard.algorithms.surrogates import SURROGATES, surrogate
from steelyard.errors import ConfigError

pytestmark = pytest.mark.unit

REWARD = torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
GROUP = torch.tensor([0, 0, 1, 1])

CUSTOM = """
import torch
seen = []
def own(reward_M, group_M):
    seen.append((reward_M, group_M))
    return (reward_M - 0.5).to(torch.float32).requires_grad_()
def with_k(reward_M, group_M, k):
    return reward_M * k
def as_list(reward_M, group_M):
    return reward_M.tolist()
def too_short(reward_M, group_M):
    return reward_M[:-1]
def column(reward_M, group_M):
    return reward_M[:, None]
def not_finite(reward_M, group_M):
    return torch.log(1 - reward_M)
def alone(reward_M):
    return reward_M
class Bystander:
    def __init__(self, *given):
        raise AssertionError("it was built")
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's module in the working directory, which is not yet on the import path."""
    (tmp_path / "users_own_credit.py").write_text(CUSTOM)
    (tmp_path / "users_broken_credit.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "users_own_credit", raising=False)
    return "users_own_credit"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_plain_names(name: str) -> None:
    assert estimator(name) is ESTIMATORS[name]


@pytest.mark.parametrize(("name", "function", "k"), [("pass_at_k", pass_at_k, 1), ("max_at_k", max_at_k, 2)])
def test_names_with_k(name: str, function: object, k: int) -> None:
    reward_M, group_M = torch.tensor([0.0, 1.0, 0.0, 0.0]), torch.zeros(4, dtype=torch.int64)
    for kk in (k, 3):
        assert torch.equal(estimator(name, kk)(reward_M, group_M), function(reward_M, group_M, k=kk))  # type: ignore[operator]


def test_a_wrong_name_gets_a_suggestion() -> None:
    known = "group_norm, group_mean, rloo, batch_norm, best_of_group, pass_at_k, max_at_k"
    with pytest.raises(ConfigError) as caught:
        estimator("grup_norm")
    assert str(caught.value) == (
        "unknown advantage estimator 'grup_norm': did you mean 'group_norm'? valid names are "
        + known
        + "; or pass your own function as 'module:function'"
    )
    with pytest.raises(ConfigError) as caught:
        surrogate("zzz")
    assert str(caught.value) == "unknown surrogate 'zzz': valid names are ppo_clip, gspo, cispo, reinforce"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_k_is_rejected_where_it_is_not_used(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        estimator(name, 4)
    assert str(caught.value) == f"advantage estimator {name!r} does not use k (got k = 4): remove k, or use 'max_at_k'"


@pytest.mark.parametrize(
    ("name", "k", "text"),
    [
        ("pass_at_k", None, "advantage estimator 'pass_at_k' needs k >= 1, got k = None"),
        ("pass_at_k", 0, "advantage estimator 'pass_at_k' needs k >= 1, got k = 0"),
        ("max_at_k", None, "advantage estimator 'max_at_k' needs k >= 2 (k = 1 is 'rloo'), got k = None"),
        ("max_at_k", 1, "advantage estimator 'max_at_k' needs k >= 2 (k = 1 is 'rloo'), got k = 1"),
    ],
)
def test_k_out_of_range(name: str, k: int | None, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        estimator(name, k)
    assert str(caught.value) == text


def test_direct_calls_check_k_and_rewards() -> None:
    with pytest.raises(ValueError, match=r"^pass_at_k needs k >= 1, got k = 0$"):
        pass_at_k(REWARD, GROUP, k=0)
    with pytest.raises(ValueError, match=r"^max_at_k needs k >= 2 .*got k = 1$"):
        max_at_k(REWARD, GROUP, k=1)
    text = r"^pass_at_k needs rewards of 0 or 1, got 0\.5: use max_at_k for other rewards$"
    with pytest.raises(ConfigError, match=text):
        pass_at_k(torch.tensor([0.0, 1.0, 0.5, 2.0]), GROUP, k=2)


@pytest.mark.parametrize("name", [*ESTIMATORS, "pass_at_k", "max_at_k"])
def test_bad_input(name: str) -> None:
    function = estimator(name, 2 if name.endswith("k") else None)
    with pytest.raises(ValueError, match=r"equal length, got reward_M \[4\], group_M \[3\]$"):
        function(REWARD, GROUP[:3])
    with pytest.raises(ValueError, match=r"got reward_M \[2, 2\], group_M \[2, 2\]"):
        function(REWARD.view(2, 2), GROUP.view(2, 2))
    for bad in (torch.nan, torch.inf):
        with pytest.raises(ValueError, match="reward_M contains non-finite values: remove unscored samples"):
            function(torch.tensor([0.0, 1.0, 1.0, bad]), GROUP)


@pytest.mark.parametrize("name", [*ESTIMATORS, "pass_at_k", "max_at_k"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_advantages_are_float64_whatever_the_rewards_are(name: str, dtype: torch.dtype) -> None:
    function = estimator(name, 2 if name.endswith("k") else None)
    assert function(torch.tensor([0, 1, 1, 0], dtype=dtype), GROUP).dtype == torch.float64
    empty = function(torch.tensor([], dtype=dtype), torch.tensor([], dtype=torch.int64))
    assert (empty.shape, empty.dtype) == ((0,), torch.float64)


def test_custom_estimator(module: str) -> None:
    advantage_M = estimator(f"{module}:own")(REWARD.to(torch.float32), GROUP)
    assert advantage_M.tolist() == [-0.5, 0.5, 0.5, -0.5]
    assert advantage_M.dtype == torch.float64
    assert not advantage_M.requires_grad
    given, group_M = sys.modules[module].seen[0]
    assert given.dtype == torch.float64
    assert group_M is GROUP


def test_custom_estimator_receives_k(module: str) -> None:
    assert estimator(f"{module}:with_k", 3)(REWARD, GROUP).tolist() == [0.0, 3.0, 3.0, 0.0]


@pytest.mark.parametrize(
    ("function", "given"),
    [
        ("as_list", "returned a list"),
        ("too_short", "returned shape [3]"),
        ("column", "returned shape [4, 1]"),
        ("not_finite", "returned -inf for reward 1.0 (sample 1)"),
    ],
)
def test_custom_estimator_with_an_invalid_result(module: str, function: str, given: str) -> None:
    own = estimator(f"{module}:{function}")
    with pytest.raises(ConfigError) as caught:
        own(REWARD, GROUP)
    assert str(caught.value) == (
        f"advantage estimator '{module}:{function}' {given}:"
        " it must return a tensor of 4 finite advantages, one per reward"
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "users_own_credit:nothing",
            "advantage estimator 'users_own_credit:nothing': users_own_credit has no 'nothing'",
        ),
        (
            "users_own_credit:own:more",
            "advantage estimator 'users_own_credit:own:more' is not an import path",
        ),
        ("users_own_credit:number", "advantage estimator 'users_own_credit:number' must be a function, not int"),
        (
            "no_such_module:f",
            "advantage estimator 'no_such_module:f': no module 'no_such_module'",
        ),
        (
            "users_broken_credit:f",
            ("advantage estimator 'users_broken_credit:f': users_broken_credit imports 'a_package_that_is_not_there'"),
        ),
        (":f", "advantage estimator ':f' is not an import path"),
    ],
)
def test_custom_estimator_that_cannot_be_loaded(module: str, path: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        estimator(path)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("function", "k", "message"),
    [
        ("alone", None, "cannot be called as f(reward_M, group_M)"),
        ("own", 2, "cannot be called as f(reward_M, group_M, k=k)"),
        ("Bystander", None, "is a class"),
    ],
)
def test_invalid_custom_estimator_is_not_called(module: str, function: str, k: int | None, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        estimator(f"{module}:{function}", k)


def test_the_working_directory_is_added_once(module: str) -> None:
    before = len(sys.path)
    estimator(f"{module}:own")
    estimator(f"{module}:with_k", 2)
    assert len(sys.path) == before + 1
    assert sys.path[0] == str(Path.cwd())


def test_surrogates_by_name() -> None:
    for name, function in SURROGATES.items():
        assert surrogate(name).func is function  # type: ignore[attr-defined]
    assert surrogate("ppo_clip", clip_low=0.1).keywords == {"clip_low": 0.1}  # type: ignore[attr-defined]


def test_surrogate_options_that_do_not_exist() -> None:
    with pytest.raises(ConfigError) as caught:
        surrogate("gspo", clip_low=0.1, ratio_cap=5.0)
    assert str(caught.value) == "surrogate 'gspo' has no option 'ratio_cap': valid options are clip_low, clip_high"
    with pytest.raises(ConfigError) as caught:
        surrogate("reinforce", inp=0.1)
    assert str(caught.value) == "surrogate 'reinforce' has no option 'inp': valid options are none"


def test_surrogate_input_must_be_flat() -> None:
    one, two = torch.zeros(1), torch.zeros(2)
    text = r"logp_N \[2\], old_logp_N \[2\], advantage_N \[2\], sample_N \[1\]"
    with pytest.raises(ValueError, match=text):
        algorithms.SurrogateInput(two, two, two, one)


def test_public_names_exist() -> None:
    assert sorted(algorithms.__all__) == algorithms.__all__
    assert all(hasattr(algorithms, name) for name in algorithms.__all__)


def test_an_estimator_is_a_function_of_two_tensors() -> None:
    own: algorithms.Estimator = lambda reward_M, group_M: reward_M  # noqa: E731
    result: Tensor = own(REWARD, GROUP)
    assert result is REWARD
