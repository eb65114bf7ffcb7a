"""Configuration of tasks, task sources and domains."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from steelyard import defaults
from steelyard.config.base import ImportPath, Section
from steelyard.config.prompt_template import parts_of
from steelyard.import_paths import is_import_path
from steelyard.suggest import did_you_mean

SOURCES = ("dataset", "generated", "mixture")
"""Built-in kinds of task sources."""


class MixturePart(Section):
    """One part of a mixture. Set exactly one of file, dataset, prompts and domain_split."""

    name: str = Field(description="Name of the part, used as a prefix for its task ids.", pattern=r"^[^/]+$")
    weight: float = Field(default=1.0, description="Relative frequency of tasks from this part.", gt=0)
    file: str | None = Field(
        default=None, description="JSONL, JSON or Parquet file containing the tasks.", min_length=1
    )
    dataset: str | None = Field(
        default=None, description="Name of a hub dataset (requires the data extra).", min_length=1
    )
    subset: str | None = Field(default=None, description="Configuration name of the hub dataset.", min_length=1)
    split: str = Field(default="train", description="Split of the hub dataset.", min_length=1)
    prompts: tuple[str, ...] | None = Field(default=None, strict=False, description="List of prompts.", min_length=1)
    domain_split: Literal["train", "validation", "held_out"] | None = Field(
        default=None, description="Use the tasks from this split of the [domain]."
    )
    prompt_column: str | None = Field(
        default=None, description="Column containing the prompt. Default: tasks.prompt_column.", min_length=1
    )
    template: str | None = Field(default=None, description="Prompt template. Default: tasks.template.", min_length=1)
    limit: int | None = Field(default=None, description="Use at most this many tasks from the list.", ge=1)

    @property
    def origins(self) -> list[str]:
        """The keys set in this part that specify where its tasks come from."""
        return [key for key in ("file", "dataset", "prompts", "domain_split") if getattr(self, key) is not None]


class SourceConfig(Section):
    """How training tasks are drawn. Evaluation tasks always come from [tasks] or the domain."""

    kind: str = Field(
        description="dataset: listed tasks in shuffled epochs; generated: tasks generated in order by the domain or a "
        "function; mixture: weighted parts; or your own class as module:Class."
    )
    function: ImportPath | None = Field(
        default=None, description="For kind = generated: module:function that returns the task with a given index."
    )
    limit: int | None = Field(
        default=None,
        description="For kind = dataset: number of tasks to use from a domain that generates unlimited tasks.",
        ge=1,
    )
    parts: tuple[MixturePart, ...] = Field(
        default=(), strict=False, description="For kind = mixture: the parts of the mixture."
    )
    options: dict[str, Any] = Field(default={}, description="Keyword arguments passed to your own class.")

    @field_validator("kind")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in SOURCES and not is_import_path(value):
            known = ", ".join(SOURCES)
            raise ValueError(f"must be one of {known}, or a class as module:Class{did_you_mean(value, SOURCES)}")
        return value

    @field_validator("options")
    @classmethod
    def _writable(cls, value: dict[str, Any]) -> dict[str, Any]:
        return writable(value)

    @property
    def brings_tasks(self) -> bool:
        """Whether the source provides its own tasks, without a list in [tasks]."""
        return self.kind != "dataset"


class TasksConfig(Section):
    """Set exactly one of file, dataset, prompts and source. Paths are relative to the working directory."""

    file: str | None = Field(
        default=None, description="JSONL, JSON or Parquet file containing the tasks.", min_length=1
    )
    dataset: str | None = Field(
        default=None, description="Name of a hub dataset (requires the data extra).", min_length=1
    )
    subset: str | None = Field(default=None, description="Configuration name of the hub dataset.", min_length=1)
    split: str = Field(default=defaults.DATASET_SPLIT, description="Split of the hub dataset.", min_length=1)
    prompts: tuple[str, ...] | None = Field(default=None, strict=False, description="List of prompts.", min_length=1)
    prompt_column: str = Field(
        default=defaults.PROMPT_COLUMN,
        description="Column containing the prompt: a string or chat messages.",
        min_length=1,
    )
    template: str | None = Field(
        default=None,
        description="Prompt template, such as 'What is {a} plus {b}?'; replaces prompt_column.",
        min_length=1,
    )
    system: str | None = Field(
        default=None,
        description="System message before every prompt; requires a model with a chat template.",
        min_length=1,
    )
    chat: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether string prompts are sent as user messages through the model's chat template. auto: only if "
        "the model has one, and never for the prompts of a domain.",
    )
    shuffle: bool = Field(default=True, description="Shuffle the tasks in every epoch.")
    limit: int | None = Field(default=None, description="Use at most this many tasks from the list.", ge=1)
    held_out: float = Field(
        default=0.0, description="Tasks held out for evaluation, as a number of tasks or a fraction below 1.", ge=0
    )
    eval_file: str | None = Field(
        default=None, description="File containing evaluation tasks; replaces held_out.", min_length=1
    )
    source: SourceConfig | None = Field(
        default=None, description="How training tasks are drawn. Default: from the listed tasks or the domain."
    )

    @field_validator("template")
    @classmethod
    def _plain_columns(cls, value: str | None) -> str | None:
        if value is not None:
            parts_of(value)
        return value

    @field_validator("held_out")
    @classmethod
    def _whole_or_fraction(cls, value: float) -> float:
        if value >= 1 and not value.is_integer():
            raise ValueError("must be an integer or a fraction below 1")
        return value

    @property
    def brings_tasks(self) -> bool:
        """Whether the table lists tasks. For a domain, the table may only set ``system``, ``chat`` and ``source``."""
        return self.model_copy(update={"system": None, "chat": "auto", "source": None}) != TasksConfig()


class DomainConfig(Section):
    """A domain provides the tasks, vocabulary and verifier, and replaces [tasks] and verify.verifier."""

    name: str = Field(
        description="Name of the domain (`steelyard doctor` lists them), or your own class as module:Class.",
        min_length=1,
    )
    options: dict[str, Any] = Field(
        default={}, description="Keyword arguments passed to the domain, which validates them."
    )

    @field_validator("options")
    @classmethod
    def _writable(cls, value: dict[str, Any]) -> dict[str, Any]:
        return writable(value)


def writable(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options; raise ``ValueError`` if TOML cannot represent them."""
    if empty := [key for key, item in options.items() if item is None]:
        raise ValueError(f"TOML cannot represent an empty value; remove {', '.join(empty)}")
    return options
