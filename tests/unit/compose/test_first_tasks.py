"""Before the first step of an infill run, errors are reported early, and a finished warm start is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from steelyard import compose
from steelyard.compose import runs
from steelyard.compose.judge import _classifier, judge_folder
from steelyard.compose.warmstart import MADE_WITH, warm_start_folder
from steelyard.errors import ConfigError, PolicyError
from tests.small_infill import TABLES, config_of


@pytest.mark.parametrize(
    ("tables", "error", "message"),
    [
        ({"judge": {"folder": "nowhere"}}, ConfigError, "steelyard judge train"),
        ({"domain": {"name": "infill", "options": {"max_length": 200}}}, PolicyError, "the model has 64 positions"),
        (
            {
                "domain": {"name": "infill", "options": {"max_length": 60, "ratio": 0.4}},
                "sampling": {"max_new_tokens": 20},
            },
            PolicyError,
            r"holes, more than sampling\.max_new_tokens = 20",
        ),
    ],
)
def test_errors_are_reported_before_the_warm_start(
    tables: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    config = config_of(tmp_path, **tables)
    with pytest.raises(error, match=message):
        compose.start_run(config)
    assert not warm_start_folder(config).exists()


def test_a_finished_warm_start_is_kept_for_the_next_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> float:
        raise KeyboardInterrupt

    config = config_of(tmp_path)
    whole = runs.make_judge
    monkeypatch.setattr(runs, "make_judge", stop)
    with pytest.raises(KeyboardInterrupt):
        compose.start_run(config)
    made = warm_start_folder(config) / "model.safetensors"
    before = made.stat().st_mtime_ns
    with pytest.raises(KeyboardInterrupt):
        compose.start_run(config_of(tmp_path, sampling={"tasks_per_step": 1, "group_size": 2}))
    assert made.stat().st_mtime_ns == before
    with pytest.raises(KeyboardInterrupt):
        compose.start_run(config_of(tmp_path, warmstart={**TABLES["warmstart"], "lr": 1e-4}))
    assert made.stat().st_mtime_ns != before, "its settings differ"
    (warm_start_folder(config) / MADE_WITH).unlink()
    monkeypatch.setattr(runs, "make_judge", whole)
    trainer = compose.start_run(config)
    trainer.close()
    assert (warm_start_folder(config) / MADE_WITH).is_file()


def test_a_judge_starts_from_the_merged_adapter(tmp_path: Path) -> None:
    plain = compose.build_policy(config_of(tmp_path))
    plain.save_pretrained(tmp_path / "model")
    model = {"kind": "masked", "device": "cpu", "path": str(tmp_path / "model"), "lora": {"rank": 2, "alpha": 4}}
    policy: Any = compose.build_policy(config_of(tmp_path, model=model))
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.normal_()
    ids = torch.tensor([policy.encode("x = 1\n").tolist()])
    with torch.no_grad():
        expected = policy.body(input_ids=ids).last_hidden_state
        assert not torch.allclose(plain.body(input_ids=ids).last_hidden_state, expected, atol=1e-2)
        assert torch.allclose(_classifier(policy, 0).base_model(input_ids=ids).last_hidden_state, expected, atol=1e-4)
    config = config_of(tmp_path, model=model)
    trainer = compose.start_run(config)
    assert "parts/judge/mean" in trainer.train_step()
    trainer.close()
    assert (judge_folder(config) / "config.json").is_file()
    with pytest.raises(ConfigError, match="must not be quantised"):
        config_of(tmp_path, model={**model, "quantize": "8bit"})
