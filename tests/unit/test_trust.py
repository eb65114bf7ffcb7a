"""Code referenced by a recipe or run folder is found without being executed, and requires the user's consent."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import steelyard
from steelyard import config as configs
from steelyard import trust
from steelyard.config.overrides import apply_overrides
from steelyard.errors import TrustError
from steelyard.trust import DOMAIN, SAMPLING, TRAINING, Reference

BASE: dict[str, Any] = {
    "model": {"path": "some/model"},
    "tasks": {"prompts": ["a"]},
    "verify": {"verifier": "mine:score"},
}
DOMAIN_BASE: dict[str, Any] = {"model": {"path": "some/model"}, "domain": {"name": "theories"}}
MINE = "from pathlib import Path\nPath(__file__).with_name('imported').touch()\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a working directory with a module ``mine``, and a state folder without any recorded consent."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "mine.py").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return work


def config_of(base: dict[str, Any] = BASE, **keys: Any) -> configs.Config:
    return configs.build(apply_overrides(base, {key.replace("__", "."): value for key, value in keys.items()}))


def keys_of(config: configs.Config) -> list[str]:
    return [reference.key for reference in trust.references(config)]


def recipe(config: configs.Config, path: str = "recipe.toml", *, typed: tuple[str, ...] = (), **how: Any) -> None:
    trust.require_trusted_recipe(path, config, typed, uses=how.get("uses", TRAINING), trust=how.get("trust", False))


def run(config: configs.Config, folder: Path, *, typed: tuple[str, ...] = (), **how: Any) -> None:
    trust.require_trusted_run(folder, config, typed, uses=how.get("uses", TRAINING), trust=how.get("trust", False))


def run_folder(here: Path, number: str = "1") -> Path:
    folder = here / "runs" / "theirs"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"id": number}), encoding="utf-8")
    return folder


AUTOMATON = {"kind": "automaton", "source": "mine:Automaton", "options": {"depth": 3}}


@pytest.mark.parametrize(
    ("base", "keys", "found"),
    [
        (BASE, {}, ["verify.verifier"]),
        (
            {**BASE, "verify": {"verifiers": [{"model": "m", "kind": "classifier"}, {"function": "mine:f"}]}},
            {},
            ["verify.verifiers.1.function"],
        ),
        (BASE, {"constraint": AUTOMATON}, ["verify.verifier", "constraint.source"]),
        (BASE, {"constraint": {"kind": "regex", "source": "mine:Automaton"}}, ["verify.verifier"]),
        (BASE, {"credit__advantage": "mine:advantage"}, ["verify.verifier", "credit.advantage"]),
        (BASE, {"credit__advantage": "rloo"}, ["verify.verifier"]),
        (BASE, {"episode__tools": ["calculator", "mine:look_up"]}, ["verify.verifier", "episode.tools.1"]),
        (BASE, {"model__trust_remote_code": True}, ["verify.verifier", "model.trust_remote_code"]),
        (DOMAIN_BASE, {"model": {"scratch": {}, "trust_remote_code": True}}, ["model.trust_remote_code"]),
        (BASE, {"tracking__wandb": True}, ["verify.verifier", "tracking.wandb"]),
        (BASE, {"cluster__address": "host:6379"}, ["verify.verifier"]),
        (BASE, {"cluster__address": "host:6379", "verify__pool": "ray"}, ["verify.verifier", "cluster.address"]),
        (BASE, {"cluster__address": "auto", "verify__pool": "ray"}, ["verify.verifier"]),
        (BASE, {"verify__cache": "verdicts.sqlite"}, ["verify.verifier", "verify.cache"]),
        (BASE, {"verify__cache": "../verdicts.sqlite"}, ["verify.verifier", "verify.cache"]),
        (BASE, {"verify__cache": "a\0b"}, ["verify.verifier", "verify.cache"]),
        (DOMAIN_BASE, {}, []),
        (DOMAIN_BASE, {"domain__name": "mine:Domain"}, ["domain.name"]),
        (DOMAIN_BASE, {"tasks": {"source": {"kind": "mine:Source"}}}, ["tasks.source.kind"]),
        (
            BASE,
            {"tasks": {"source": {"kind": "generated", "function": "mine:make"}}},
            ["tasks.source.function", "verify.verifier"],
        ),
        (BASE, {"tasks__source": {"kind": "dataset"}}, ["verify.verifier"]),
        (
            DOMAIN_BASE,
            {
                "domain__options": {
                    "reward": {"extra": {"standard_model": 1.0, "mine:part": 1.0}},
                    "own": ["x", "mine:f"],
                }
            },
            ["domain.options.reward.extra.mine:part", "domain.options.own.1"],
        ),
    ],
)
def test_all_references_to_code_are_found(base: dict[str, Any], keys: dict[str, Any], found: list[str]) -> None:
    assert keys_of(config_of(base, **keys)) == found
    assert not Path("imported").exists()


def test_every_key_that_takes_an_import_path_is_known() -> None:
    """Every key whose help contains ``module:`` must be listed in ``references``."""
    taking = {key.key for key in configs.describe() if "module:" in key.help}
    assert taking == {
        "domain.name",
        "tasks.source.kind",
        "tasks.source.function",
        "verify.verifier",
        "verify.verifiers[].function",
        "constraint.source",
        "credit.advantage",
        "episode.tools",
    }


def test_a_reference_names_the_file_to_import(here: Path) -> None:
    (found,) = trust.references(config_of())
    assert str(found) == f"verify.verifier = 'mine:score': imports {str(here / 'mine.py')!r}"
    (found,) = trust.references(config_of(verify__verifier="nowhere.at.all:score"))
    assert (found.sources, str(here) in found.effect) == ((), True)
    constraint = list(trust.references(config_of(constraint=AUTOMATON)))[1]
    assert '{"depth": 3}' in constraint.value, "the agreement covers its arguments"
    source = config_of(DOMAIN_BASE, tasks={"source": {"kind": "mine:Source", "options": {"slope": 2}}})
    assert '{"slope": 2}' in next(trust.references(source)).value


def test_finding_a_module_does_not_change_the_search_path(here: Path) -> None:
    before = list(sys.path)
    list(trust.references(config_of(verify__verifier="mine.deeper:f")))
    assert sys.path == before
    assert not (here / "imported").exists()


def test_a_recipe_in_the_working_folder_may_import_neighbouring_modules(here: Path) -> None:
    recipe(config_of())
    (here / "src" / "package").mkdir(parents=True)
    (here / "src" / "package" / "__init__.py").touch()
    sys.path.append(str(here / "src"))
    recipe(config_of(verify__verifier="package.inner:f"))


@pytest.mark.parametrize(
    ("keys", "path", "expected"),
    [
        ({"verify__verifier": "subprocess:Popen"}, "recipe.toml", ["verify.verifier", "subprocess.py"]),
        ({"verify__verifier": "mine:score"}, "below/recipe.toml", ["verify.verifier", "mine.py"]),
        ({"verify__verifier": "mine:score"}, "../recipe.toml", ["verify.verifier", "mine.py"]),
        ({"model__trust_remote_code": True}, "recipe.toml", ["model.trust_remote_code", "some/model"]),
        ({"verify__cache": "/elsewhere/x.pth"}, "recipe.toml", ["verify.cache", "/elsewhere/x.pth"]),
    ],
)
def test_other_code_needs_consent_once(keys: dict[str, Any], path: str, expected: list[str]) -> None:
    config = config_of(**keys)
    with pytest.raises(TrustError) as rejected:
        recipe(config, path)
    assert all(word in str(rejected.value) for word in (*expected, "--trust"))
    recipe(config, path, trust=True)
    recipe(config, path)
    with pytest.raises(TrustError):
        recipe(config, "other/recipe.toml")


def test_a_verdict_cache_in_the_working_folder_needs_no_consent(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(DOMAIN_BASE, verify__cache=str(here / "kept" / "verdicts.sqlite"))
    recipe(config)
    folder = run_folder(here)
    run(config, folder)
    trust.remember_run(folder, config)
    (here.parent / "other").mkdir()
    monkeypatch.chdir(here.parent / "other")
    run(config, folder)
    (folder / "run.json").unlink()
    with pytest.raises(TrustError, match=r"verify\.cache"):
        run(config, folder)


def test_a_configuration_inside_a_run_folder_is_not_a_trusted_recipe(here: Path) -> None:
    (here / "config.toml").touch()
    with pytest.raises(TrustError):
        recipe(config_of(), "config.toml")


def test_shipped_recipes_are_trusted() -> None:
    trust.load_recipe("theories", ["--verify.cache", "/elsewhere/verdicts"], uses=TRAINING)
    recipe(config_of(verify__verifier="subprocess:Popen"), "text")


@pytest.mark.parametrize("typed", ["verify.verifier", "verify"])
def test_code_named_on_the_command_line_is_trusted(here: Path, typed: str) -> None:
    run(config_of(), run_folder(here), typed=(typed,))


def test_a_run_logs_to_the_users_account_only_with_consent(here: Path) -> None:
    config = config_of(DOMAIN_BASE, tracking__wandb=True)
    recipe(config)
    run(config, run_folder(here), uses=SAMPLING)
    with pytest.raises(TrustError, match=r"tracking\.wandb"):
        run(config, here / "runs" / "theirs")


def test_the_code_of_a_warm_start_belongs_to_the_run(here: Path) -> None:
    """The warm-started model replaces the configured one and uses the same settings."""
    config = config_of(DOMAIN_BASE, model={"scratch": {}, "trust_remote_code": True}, warmstart={})
    (found,) = trust.references(config)
    assert str(here / "runs" / "run" / "warmstart") in found.effect


def test_only_code_that_a_command_uses_needs_consent(here: Path) -> None:
    folder = run_folder(here)
    config = config_of(DOMAIN_BASE, credit__advantage="mine:advantage", model__trust_remote_code=True)
    run(config, folder, uses=DOMAIN)
    for uses, asked in ((SAMPLING, {"model"}), (TRAINING, {"model", "credit"})):
        with pytest.raises(TrustError) as rejected:
            run(config, folder, uses=uses)
        assert {key for key in ("model", "credit") if f"\n  {key}." in str(rejected.value)} == asked


def test_the_users_own_run_needs_no_consent_after_a_move(here: Path) -> None:
    folder, config = run_folder(here), config_of()
    with pytest.raises(TrustError):
        run(config, folder)
    trust.remember_run(folder, config)
    run(config, folder)
    moved = folder.rename(here / "moved")
    run(config, moved)


def test_an_agreement_covers_one_run_one_value_and_one_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run_folder(here)
    trust.remember_run(folder, config_of(constraint=AUTOMATON))
    others = config_of(verify__verifier="mine:other"), config_of(constraint={**AUTOMATON, "options": {"depth": 4}})
    for other in others:
        with pytest.raises(TrustError):
            run(other, folder)
    (folder / "run.json").write_text('{"id": "2"}', encoding="utf-8")
    with pytest.raises(TrustError):
        run(config_of(), folder)
    (folder / "run.json").write_text('{"id": "1"}', encoding="utf-8")
    archive = here.parent / "archive"
    archive.mkdir()
    (archive / "mine.py").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(archive)
    with pytest.raises(TrustError, match="archive"):
        run(config_of(), folder)


@pytest.mark.parametrize("about", ["", "[]", '{"id": 5}', "{", "{}"])
def test_a_run_without_an_id_is_identified_by_its_folder(here: Path, about: str) -> None:
    folder, config = run_folder(here), config_of()
    (folder / "run.json").write_text(about, encoding="utf-8")
    trust.remember_run(folder, config)
    run(config, folder)
    moved = folder.rename(here / "moved")
    with pytest.raises(TrustError):
        run(config, moved)


def test_links_out_of_a_run_folder_need_consent(here: Path) -> None:
    folder, config = run_folder(here), config_of(DOMAIN_BASE)
    (folder / "inside").mkdir()
    (folder / "inside" / "latest").symlink_to("../run.json")
    (folder / "inside" / "circle").symlink_to("circle")
    run(config, folder)
    (folder / "inside" / "metrics.jsonl").symlink_to(here.parent / "profile")
    with pytest.raises(TrustError) as rejected:
        run(config, folder)
    assert all(word in str(rejected.value) for word in ("inside/metrics.jsonl", "profile", "--trust"))
    trust.remember_run(folder, config)
    run(config, folder)


def test_a_new_run_does_not_follow_links_either(here: Path) -> None:
    (here / "runs" / "run").mkdir(parents=True)
    (here / "runs" / "run" / "metrics.jsonl").symlink_to(here.parent / "profile")
    with pytest.raises(TrustError, match="metrics"):
        recipe(config_of())
    recipe(config_of(), uses=SAMPLING)


def test_agreements_that_others_can_write_are_ignored(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, config = run_folder(here), config_of()
    trust.remember_run(folder, config)
    kept = here.parent / "state" / "steelyard" / "trusted"
    assert kept.stat().st_mode & 0o777 == 0o600
    lines = kept.read_text(encoding="ascii").splitlines()
    trust.remember_run(folder, config)
    assert kept.read_text(encoding="ascii").splitlines() == lines, "each once"
    kept.chmod(0o666)
    with pytest.raises(TrustError):
        run(config, folder)
    assert "chmod 600" in caplog.text


def test_without_a_writable_state_folder_consent_is_needed_every_time(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder, config = run_folder(here), config_of()
    (here / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "file"))
    run(config, folder, trust=True)
    assert "need --trust" in caplog.text
    with pytest.raises(TrustError):
        run(config, folder)


def test_agreements_in_a_relative_folder_are_ignored(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive could contain its own consent records."""
    folder, config = run_folder(here), config_of()
    trust.remember_run(folder, config)
    monkeypatch.setenv("XDG_STATE_HOME", os.path.relpath(here.parent / "state"))
    monkeypatch.setenv("HOME", str(here.parent / "home"))
    with pytest.raises(TrustError):
        run(config, folder)


def test_control_characters_are_not_printed() -> None:
    shown = "".join(map(str, trust.references(config_of(DOMAIN_BASE, verify__cache="/x\x1b[2J"))))
    assert "x1b" in shown
    assert "\x1b" not in shown
    assert Reference("key", "value", "effect").sources == ()


def test_a_recipe_loaded_from_python_needs_consent_too(here: Path) -> None:
    (here / "below").mkdir()
    (here / "below" / "recipe.toml").write_text(configs.dump(config_of()), encoding="utf-8")
    with pytest.raises(TrustError, match="trust=True"):
        steelyard.train(recipe="below/recipe.toml")
    assert not (here / "imported").exists()
