"""A checkpoint that cannot be resumed is rejected before anything is loaded or written."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from steelyard.checkpoint.manifest import require_intact
from steelyard.compose.judge import with_judge
from steelyard.compose.runs import prepare_start
from steelyard.compose.verifier_code import source_hashes
from steelyard.errors import CheckpointError
from steelyard.verification import as_verifier
from tests.small_infill import config_of
from tests.tiny import WORDS, tiny_policy, tiny_trainer, weights_of


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_another_order_of_the_vocabulary(tmp_path: Path) -> None:
    first = tiny_trainer(tmp_path, steps=1)
    first.train()
    policy = tiny_policy(words=(WORDS[1], WORDS[0], *WORDS[2:]))
    second, weights, before = tiny_trainer(tmp_path, policy=policy), weights_of(policy), files_of(tmp_path)
    checkpoint = second.store.latest()
    assert checkpoint is not None
    with pytest.raises(CheckpointError, match="a different vocabulary"):
        second.restore(checkpoint)
    assert all(bool((weights[name] == weight).all()) for name, weight in weights_of(policy).items())
    assert files_of(tmp_path) == before


def test_another_optimiser(tmp_path: Path) -> None:
    first = tiny_trainer(tmp_path, steps=1)
    first.train()
    pytest.importorskip("bitsandbytes")
    second = tiny_trainer(tmp_path, learner={"optimiser": "adamw_8bit"})
    checkpoint = second.store.latest()
    assert checkpoint is not None
    with pytest.raises(CheckpointError, match=r"AdamW; .*AdamW8bit.*optimiser\.name"):
        second.restore(checkpoint)


def test_another_shape_of_the_weights(tmp_path: Path) -> None:
    tiny_policy().save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="does not match the model"):
        tiny_policy(words=WORDS[:5]).load_weights(tmp_path)


def test_the_code_of_a_verifier_includes_its_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_rules.py").write_text("LETTER = 'a'\n")
    (tmp_path / "own_verifier.py").write_text(
        "import os\nimport own_rules\ndef score(task, text):\n    return own_rules.LETTER in text\n"
    )
    own = importlib.import_module("own_verifier")
    try:
        before = source_hashes(own.score)
        assert before.keys() == {"own_verifier", "own_rules"}
        assert source_hashes(as_verifier(own.score)) == before
        assert source_hashes({"a": (own.score, 0.5)}) == before
        assert source_hashes(len, files_of, 3).keys() >= {__name__}
        (tmp_path / "own_rules.py").write_text("LETTER = 'b'\n")
        after = source_hashes(own.score)
        assert {name for name in before if before[name] != after[name]} == {"own_rules"}
    finally:
        for name in ("own_verifier", "own_rules"):
            sys.modules.pop(name, None)


def test_a_modified_judge_is_rejected(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    prepare_start(config)
    judge = tmp_path / "run" / "judge"
    require_intact(judge, "train another")
    with (judge / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    with pytest.raises(CheckpointError, match=r"model\.safetensors does not match its hash"):
        with_judge(as_verifier(len_of), config)


def len_of(task: object, text: str) -> float:
    return float(len(text))
