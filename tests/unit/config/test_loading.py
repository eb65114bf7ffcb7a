from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from steelyard.config import Config, build, describe, dump, load, recipes
from steelyard.errors import ConfigError

MINIMAL = {"model": {"path": "some/model"}, "tasks": {"prompts": ["1 + 1 ="]}, "verify": {"verifier": "checker:verify"}}


def saved(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_loads_and_round_trips(name: str, tmp_path: Path) -> None:
    config = load(name)
    assert config.run.name == name
    assert load(saved(tmp_path, dump(config))) == config


def test_the_first_run_and_the_template_are_shipped() -> None:
    assert {"sequences", "text"} <= set(recipes())


def test_a_file_with_every_kind_of_value_round_trips(tmp_path: Path) -> None:
    data = {
        "run": {"seed": 2**62, "supplied": ["eval_tasks"]},
        "model": {"scratch": {"vocabulary": ["a", 'quote"', "\n", "é"]}, "lora": {"targets": ["q_proj"], "alpha": 16}},
        "tasks": {"file": "tasks.jsonl", "limit": 3},
        "verify": {"verifiers": [{"function": "m:f", "weight": -0.5}, {"model": "x", "kind": "likelihood"}]},
        "credit": {"length_penalty": {"start": 10, "limit": 20}},
        "loss": {
            "kl": {"coefficient": {"kind": "cosine", "start": 0.1, "end": 0.0, "steps": 30}},
            "entropy": {"coefficient": 0.001},
        },
        "optimiser": {"betas": [0.9, 0.95], "lr": 3.0000000000000004e-5},
        "evaluate": {"samples": 8, "ks": [1, 4, 8]},
    }
    config = build(data)
    again = load(saved(tmp_path, dump(config)))
    assert again == config
    assert again.loss.kl.coefficient.kind == "cosine"
    assert again.optimiser.lr == 3.0000000000000004e-5


def test_an_empty_key_is_not_written_and_empty_by_default() -> None:
    assert "clip_low" not in dump(build(MINIMAL))
    optional = [key.key for key in describe() if key.default == ""]
    assert "loss.clip_low" in optional


def test_every_key_that_may_be_empty_is_empty_by_default() -> None:
    """``dump`` omits keys that are None, so None must also be the default of every such key."""

    def offenders(schema: dict, names: dict) -> list[str]:
        found = []
        for section, body in {"Config": schema, **names}.items():
            for name, field in body.get("properties", {}).items():
                may_be_empty = {"type": "null"} in field.get("anyOf", [])
                if may_be_empty and field.get("default") is not None:
                    found.append(f"{section}.{name}")
        return found

    schema = Config.model_json_schema()
    assert len(schema["$defs"]) > 15
    assert offenders(schema, schema["$defs"]) == []


def test_a_bare_number_is_a_constant_schedule() -> None:
    config = build({**MINIMAL, "loss": {"kl": {"coefficient": 0.05}}})
    assert config.loss.kl.coefficient.start == 0.05
    assert config.loss.kl.coefficient.kind == "constant"
    assert config.loss.kl.active
    assert "coefficient = 0.05" in dump(config)


def test_a_configuration_is_frozen() -> None:
    config = build(MINIMAL)
    with pytest.raises(ValidationError, match="frozen"):
        config.run.steps = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_an_unknown_recipe_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no recipe 'sequence'; did you mean sequences\? \(recipes: .*text"):
        load("sequence")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"there is no file nowhere/run\.toml"):
        load("nowhere/run.toml")


def test_broken_toml_names_file_and_line(tmp_path: Path) -> None:
    path = saved(tmp_path, "[run]\nsteps = = 3\n")
    with pytest.raises(ConfigError, match=r"config\.toml: not valid TOML: .*line 2"):
        load(path)


def test_surrogate_options_fill_in_each_surrogates_own_defaults() -> None:
    def options(**loss: object) -> dict[str, float | None]:
        return build({**MINIMAL, "loss": loss}).loss.surrogate_options()

    assert options() == {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": None}
    assert options(clip_high=0.28, dual_clip=3.0) == {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 3.0}
    assert options(surrogate="gspo") == {"clip_low": 3e-4, "clip_high": 4e-4}
    assert options(surrogate="cispo") == {"ratio_cap": 5.0}
    assert options(surrogate="cispo", ratio_cap=2.0) == {"ratio_cap": 2.0}
    assert options(surrogate="reinforce") == {}


def test_a_single_verifier_is_listed_as_an_entry() -> None:
    (entry,) = build(MINIMAL).verify.entries
    assert (entry.function, entry.weight) == ("checker:verify", 1.0)
