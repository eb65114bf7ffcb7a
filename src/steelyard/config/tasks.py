"""Where tasks come from."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from steelyard import defaults
from steelyard.config.base import ImportPath, Section
from steelyard.config.prompt_template import parts_of
from steelyard.import_paths import is_import_path
from steelyard.suggest import did_you_mean

SOURCES = ("dataset", "generated", "mixture")
"""Kinds of sources that are built in."""


class MixturePart(Section):
    """One source of a mixture. Its tasks come from exactly one of file, dataset, prompts and domain_split."""

    name: str = Field(description="Name of the part; task ids start with it.", pattern=r"^[^/]+$")
    weight: float = Field(default=1.0, description="How often a task comes from it, relative to the others.", gt=0)
    file: str | None = Field(default=None, description="JSONL, JSON or parquet file of tasks.", min_length=1)
    dataset: str | None = Field(default=None, description="Hub data set (extra data).", min_length=1)
    subset: str | None = Field(default=None, description="Named configuration of the hub data set.", min_length=1)
    split: str = Field(default="train", description="Split of the hub data set.", min_length=1)
    prompts: tuple[str, ...] | None = Field(
        default=None, strict=False, description="Prompts written out here.", min_length=1
    )
    domain_split: Literal["train", "validation", "held_out"] | None = Field(
        default=None, description="Tasks of this split of the [domain]."
    )
    prompt_column: str | None = Field(default=None, description="As tasks.prompt_column; empty: that.", min_length=1)
    template: str | None = Field(default=None, description="As tasks.template; empty: that.", min_length=1)
    limit: int | None = Field(default=None, description="Use only this many tasks, the first ones.", ge=1)

    @property
    def origins(self) -> list[str]:
        """Which keys say where its tasks come from."""
        return [key for key in ("file", "dataset", "prompts", "domain_split") if getattr(self, key) is not None]


class SourceConfig(Section):
    """How training tasks are drawn. Evaluation tasks are those of [tasks] or of the domain in any case."""

    kind: str = Field(
        description="dataset: listed tasks in shuffled epochs; generated: made one after the other, by the domain or a "
        "function; mixture: from parts, by weight; or a class of yours as module:Class."
    )
    function: ImportPath | None = Field(
        default=None, description="Of generated: module:function of a running number; it returns a task."
    )
    limit: int | None = Field(
        default=None, description="Of dataset: how many tasks of an endless domain to use, the first ones.", ge=1
    )
    parts: tuple[MixturePart, ...] = Field(default=(), strict=False, description="Of mixture: where tasks come from.")
    options: dict[str, Any] = Field(default={}, description="Keyword arguments of a class of yours.")

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
        """Whether it needs no list of tasks in [tasks]."""
        return self.kind != "dataset"


class TasksConfig(Section):
    """Tasks from exactly one of file, dataset, prompts or a source. Relative paths start at the working directory."""

    file: str | None = Field(default=None, description="JSONL, JSON or parquet file of tasks.", min_length=1)
    dataset: str | None = Field(default=None, description="Hub data set (extra data).", min_length=1)
    subset: str | None = Field(default=None, description="Named configuration of the hub data set.", min_length=1)
    split: str = Field(default=defaults.DATASET_SPLIT, description="Split of the hub data set.", min_length=1)
    prompts: tuple[str, ...] | None = Field(
        default=None, strict=False, description="Prompts written out here.", min_length=1
    )
    prompt_column: str = Field(
        default=defaults.PROMPT_COLUMN,
        description="Column with the prompt: a string or chat messages.",
        min_length=1,
    )
    template: str | None = Field(
        default=None,
        description="Prompt built from columns of the task, such as 'What is {a} plus {b}?', instead of prompt_column.",
        min_length=1,
    )
    system: str | None = Field(
        default=None, description="System message before every prompt; needs a chat template.", min_length=1
    )
    chat: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether a prompt that is a string is sent as a user message through the model's chat template: "
        "auto does if there is a template, and leaves the prompts of a domain as they are.",
    )
    shuffle: bool = Field(default=True, description="Draw in a new order every epoch.")
    limit: int | None = Field(default=None, description="Use only this many tasks, the first ones.", ge=1)
    held_out: float = Field(
        default=0.0, description="Tasks kept back for evaluation: a number, or a fraction below 1.", ge=0
    )
    eval_file: str | None = Field(
        default=None, description="File of evaluation tasks, instead of held_out.", min_length=1
    )
    source: SourceConfig | None = Field(default=None, description="How training tasks are drawn, if not as listed.")

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
            raise ValueError("must be a whole number of tasks or a fraction below 1")
        return value

    @property
    def brings_tasks(self) -> bool:
        """Whether it lists tasks. How prompts are sent and tasks are drawn can be set for a domain too."""
        return self.model_copy(update={"system": None, "chat": "auto", "source": None}) != TasksConfig()


class DomainConfig(Section):
    """A domain brings its own tasks, vocabulary and verifier, and stands in for [tasks] and the verifier."""

    name: str = Field(
        description="Name of the domain (`steelyard doctor` lists them), or a class of yours as module:Class.",
        min_length=1,
    )
    options: dict[str, Any] = Field(default={}, description="Options of the domain; it checks them itself.")

    @field_validator("options")
    @classmethod
    def _writable(cls, value: dict[str, Any]) -> dict[str, Any]:
        return writable(value)


def writable(options: dict[str, Any]) -> dict[str, Any]:
    """The options, if TOML can write them."""
    if empty := [key for key, item in options.items() if item is None]:
        raise ValueError(f"TOML cannot write an empty value: leave out {', '.join(empty)}")
    return options
