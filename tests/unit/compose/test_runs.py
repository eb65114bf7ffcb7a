"""Starting, saving and resuming a run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steelyard import compose
from steelyard import config as configs
from steelyard.checkpoint import Store
from steelyard.compose import runs
from steelyard.errors import CheckpointError, ConfigError, DataError
from steelyard.folders import read_run
from steelyard.verification.processes.descendants import children

from .conftest import config_of, own


def test_the_default_metric_of_the_best_checkpoint_matches_the_documentation(tmp_path: Path) -> None:
    run = {"folder": str(tmp_path)}
    plain = compose.build_trainer(config_of({"run": run}))
    evaluated = compose.build_trainer(config_of({"run": run, "evaluate": {"every": 5, "tasks": 2}}))
    chosen = compose.build_trainer(config_of({"run": run, "checkpoint": {"best_metric": "success"}}))
    assert plain.settings.best_metric == "reward/mean"
    assert evaluated.settings.best_metric == "eval/success"
    assert chosen.settings.best_metric == "success"


def test_evaluations_sample_as_in_training_except_for_their_own_keys() -> None:
    sampling = {"temperature": 0.8, "top_k": 5, "max_new_tokens": 6}
    same = config_of({"sampling": sampling})
    assert compose.build_evaluation_decoding(same) == compose.build_decoding(same)
    own = compose.build_evaluation_decoding(
        config_of({"sampling": sampling, "evaluate": {"temperature": 0.3, "max_new_tokens": 4}})
    )
    assert (own.rule.temperature, own.rule.top_k, own.max_new_tokens) == (0.3, 5, 4)


def test_a_run_with_only_damaged_checkpoints_does_not_silently_start_over(tmp_path: Path) -> None:
    config = config_of({"run": {"folder": str(tmp_path / "run"), "steps": 1}})
    trainer = compose.start_run(config)
    trainer.save()
    (state,) = tmp_path.rglob("state.json")
    state.write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"has no complete checkpoint"):
        compose.resume_run(config)


def test_without_a_score_the_latest_checkpoint_counts_as_the_best(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that was stopped before its first evaluation has a complete checkpoint without a score."""
    store = Store(tmp_path / "checkpoints")
    with pytest.raises(CheckpointError, match="none was written"):
        compose.find_checkpoint(tmp_path, "best")
    store.save(3, state={})
    assert compose.find_checkpoint(tmp_path, "best").step == 3
    assert "has a score" in caplog.text
    assert "using the latest (step 3)" in caplog.text
    (tmp_path / "checkpoints/step-00000003/state.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no complete checkpoint .step-00000003: "):
        compose.find_checkpoint(tmp_path, "best")


def test_overrides_on_resume_are_kept_by_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "moved" / "run"

    def resumed(**overrides: Any) -> configs.Config:
        with closing(compose.resume_run(read_run(folder, overrides))) as trainer:
            trainer.train()
        return read_run(folder)

    with closing(compose.start_run(config_of({"run": {"folder": str(tmp_path), "steps": 1}}))) as trainer:
        trainer.train()
    folder.parent.mkdir()
    (tmp_path / "run").rename(folder)
    text = (folder / "config.toml").read_text(encoding="utf-8")
    again = resumed()
    assert (folder / "config.toml").read_text(encoding="utf-8") == text, "moving the folder changes nothing"
    longer = resumed(**{"run.steps": 2, "optimiser.lr": 0.5})
    assert (again.run.steps, longer.run.steps, longer.optimiser.lr) == (1, 2, 0.5)
    assert resumed() == longer, "the next resume needs no overrides"
    (before,) = folder.glob("config-*")
    assert (before.name, before.read_text(encoding="utf-8")) == ("config-until-step-00000001.toml", text)


def test_a_run_that_cannot_be_resumed_leaves_no_workers(tmp_path: Path) -> None:
    verify = {"verifier": "user_verifiers:declared", "pool": "processes", "workers": 1}
    tables = own(verify, folder=str(tmp_path), steps=1).model_dump(exclude_none=True)
    with closing(compose.start_run(configs.build(tables, source="test"))) as trainer:
        trainer.save()
    tables["tasks"]["prompts"], before = ["a", "b"], children()
    with pytest.raises(DataError, match="the tasks changed"):
        compose.resume_run(configs.build(tables, source="test"))
    assert children() <= before


@pytest.mark.parametrize("broken", ["build_any_learner", "build_trackers"])
def test_parts_opened_before_a_failure_are_closed(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise ConfigError("the trainer cannot be built")

    closed: list[str] = []
    monkeypatch.setattr(runs, "build_pool", lambda *_: SimpleNamespace(close=lambda: closed.append("pool")))
    monkeypatch.setattr(runs, broken, fails)
    with pytest.raises(ConfigError, match="the trainer cannot be built"):
        compose.build_trainer(own({"verifier": "user_verifiers:half"}))
    assert closed == ["pool"]
