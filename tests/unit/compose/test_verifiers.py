"""Verifiers and pools are built with the values documented in the configuration."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from steelyard import compose
from steelyard import config as configs
from steelyard.compose import Supplied
from steelyard.environments import Environment
from steelyard.errors import ConfigError
from steelyard.types import Sample, Task, Verdict
from steelyard.verification import Item
from tests.tiny import sample_of
from tests.verifying import verdicts_of

from .conftest import declared, half, own


def sample(text: str) -> Sample:
    return sample_of([1, 2], text=text)


def verdict_of(config: configs.Config, text: str = "good", supplied: Supplied = compose.NOTHING_SUPPLIED) -> Verdict:
    (verdict,) = verdicts_of(compose.build_verifier(config, supplied), [Item(Task("t", "p"), sample(text), 1)])
    return verdict


SETTINGS = {"floor": -2.0, "success_at": 0.4}


def test_a_plain_function_gets_floor_and_success_from_the_configuration() -> None:
    config = own({"verifier": "user_verifiers:half", **SETTINGS})
    assert verdict_of(config) == Verdict.scored(0.5, success=True)
    assert verdict_of(config, "bad").reward == -2.0


def test_a_supplied_function_gets_floor_and_success_from_the_configuration() -> None:
    config = own(SETTINGS, supplied=("verifier",))
    assert verdict_of(config, supplied=Supplied(verifier=half)) == Verdict.scored(0.5, success=True)
    assert verdict_of(config, "bad", Supplied(verifier=half)).reward == -2.0
    several = Supplied(verifier=[half, (declared, 2.0)])
    assert verdict_of(config, supplied=several).reward == pytest.approx(1.5)
    assert verdict_of(config, "bad", several).reward == -2.0


def pool_of(verify: Mapping[str, Any], supplied: Any = half) -> Any:
    """Build the pool, close it, and return the innermost pool."""
    config = own(verify, supplied=("verifier",))
    pool: Any = compose.build_pool(config, compose.build_verifier(config, Supplied(verifier=supplied)))
    pool.close()
    return pool.pool


def test_where_a_verifier_runs() -> None:
    from steelyard.verification import InlinePool, ProcessPool, WeightedPool, as_verifier

    assert type(pool_of({})) is ProcessPool
    assert type(pool_of({"pool": "inline"})) is InlinePool
    harmless = as_verifier(half, isolate=False)
    assert type(pool_of({}, harmless)) is InlinePool
    assert type(pool_of({"pool": "processes"}, harmless)) is ProcessPool
    both = pool_of({}, {"far": half, "near": harmless})
    assert type(both) is WeightedPool
    assert [type(part.pool) for part in both.pools] == [ProcessPool, InlinePool]


def test_limits_of_zero_are_lifted_and_the_others_reach_the_pool() -> None:
    limits = {"seconds": 0.0, "cpu_seconds": 2.0, "memory_mb": 0, "file_mb": 5, "open_files": 7, "output_kb": 9}
    pool = pool_of({"workers": 3, "limits": limits, "tries": 4, "blame": {"timeout": "unscored"}})
    found = pool.limits
    assert (found.seconds, found.cpu_seconds, found.memory_mb) == (None, 2.0, None)
    assert (found.file_mb, found.open_files, found.output_kb) == (5, 7, 9)
    assert (pool.workers, pool.blame.tries, pool.blame.outcome) == (3, 4, {"timeout": "unscored"})


def test_a_verifier_that_cannot_be_pickled_runs_inline_unless_processes_are_required(
    caplog: pytest.LogCaptureFixture,
) -> None:

    from steelyard.errors import VerifierError
    from steelyard.verification import InlinePool

    lock = threading.Lock()

    def bound(task: Task, text: str) -> float:
        return float(lock.locked())

    assert type(pool_of({}, bound)) is InlinePool
    assert "Until then, the verifier runs in this process" in caplog.text
    with pytest.raises(VerifierError, match="cannot be sent"):
        pool_of({"pool": "processes"}, bound)


def test_a_cache_is_used_only_for_verifiers_that_declare_determinism(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from steelyard.verification import CacheStage, CircuitBreaker, as_verifier

    def stages(supplied: Any) -> list[type]:
        config = own({"pool": "inline", "cache": str(tmp_path / "verdicts.sqlite")}, supplied=("verifier",))
        pool: Any = compose.build_pool(config, compose.build_verifier(config, Supplied(verifier=supplied)))
        pool.close()
        return [type(stage) for stage in pool.stages]

    assert stages(half) == [CircuitBreaker]
    assert "verify.cache does not apply to half: it does not declare itself deterministic" in caplog.text
    assert stages(as_verifier(half, version="1", deterministic=True)) == [CircuitBreaker, CacheStage]


def test_a_verifiers_own_settings_take_precedence() -> None:
    config = own({"verifier": "user_verifiers:declared", **SETTINGS})
    assert verdict_of(config, "bad").reward == -7.0
    assert verdict_of(own({"verifier": "user_verifiers:Whole", **SETTINGS})).reward == 0.25


@pytest.mark.parametrize(("verify", "floor"), [({}, 4 * -7.0), ({"floor": -2.0}, -2.0), ({"floor": 0.0}, 0.0)])
def test_several_verifiers_reject_with_the_sum_of_their_floors(verify: Mapping[str, Any], floor: float) -> None:
    """A reward floor in the configuration takes precedence over the verifier's own."""
    entries = [
        {"function": "user_verifiers:declared", "name": "once"},
        {"function": "user_verifiers:declared", "weight": 3.0},
    ]
    assert verdict_of(own({"verifiers": entries, **verify}), "bad").reward == floor
    supplied = Supplied(verifier={"once": declared, "declared": (declared, 3.0)})
    assert verdict_of(own(verify, supplied=("verifier",)), "bad", supplied).reward == floor


def test_without_all_floors_declared_the_group_settles_the_floor() -> None:
    supplied = Supplied(verifier=[half, (declared, 3.0)])
    verdict = verdict_of(own({}, supplied=("verifier",)), "bad", supplied)
    assert (verdict.reward, verdict.open_floor) == (0.0, True)


def test_several_verifiers_with_their_own_weights_and_settings() -> None:
    entries = [
        {"function": "user_verifiers:half", "weight": 2.0},
        {"function": "user_verifiers:Whole", "weight": 4.0, "name": "w"},
    ]
    config = own({"verifiers": entries, **SETTINGS})
    verdict = verdict_of(config)
    assert verdict.reward == pytest.approx(2 * 0.5 + 4 * 0.25)
    assert verdict.parts == {"half": 0.5, "w": 0.25}
    assert verdict_of(own({"verifiers": entries[:1], **SETTINGS})).success, "0.5 >= verify.success_at"
    strict = own({"verifiers": [{**entries[0], "success_at": 0.6}], **SETTINGS})
    assert not verdict_of(strict).success


class Echo(Environment):
    def reply(self, task: Task, turns: Any) -> Any:
        return "again"


class Configured(Echo):
    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize("several", [[half, Echo], {"a": half, "b": (Echo(), 2.0)}])
def test_an_environment_among_several_verifiers_is_rejected(several: Any) -> None:
    config = own({}, supplied=("verifier",))
    with pytest.raises(ConfigError, match=r"Echo is an environment .* as the only verifier"):
        compose.build_verifier(config, Supplied(verifier=several))


def test_an_environment_among_the_entries_of_the_configuration_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    import user_verifiers  # type: ignore[import-not-found]

    monkeypatch.setattr(user_verifiers, "Echo", Echo, raising=False)
    config = own({"verifiers": [{"function": "user_verifiers:half"}, {"function": "user_verifiers:Echo"}]})
    with pytest.raises(ConfigError, match=r"Echo is an environment .* as the only verifier"):
        compose.build_verifier(config)


def test_an_environment_class_that_needs_arguments_is_rejected() -> None:
    config = own({}, supplied=("verifier",))
    with pytest.raises(ConfigError, match=r"Configured cannot be created .*'size'.* pass an instance"):
        compose.build_verifier(config, Supplied(verifier=Configured))
    assert compose.build_verifier(config, Supplied(verifier=Configured(3))).name == "Configured"
