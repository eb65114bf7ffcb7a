"""Where tasks come from."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from steelyard.config.base import Section
from steelyard.config.prompt_template import parts_of


class TasksConfig(Section):
    """Tasks from exactly one of file, dataset or prompts. Relative paths start at the working directory."""

    file: str | None = Field(default=None, description="JSONL, JSON or parquet file of tasks.", min_length=1)
    dataset: str | None = Field(default=None, description="Hub data set (extra data).", min_length=1)
    subset: str | None = Field(default=None, description="Named configuration of the hub data set.", min_length=1)
    split: str = Field(default="train", description="Split of the hub data set.", min_length=1)
    prompts: tuple[str, ...] | None = Field(
        default=None, strict=False, description="Prompts written out here.", min_length=1
    )
    prompt_column: str = Field(
        default="prompt", description="Column with the prompt: a string or chat messages.", min_length=1
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
    limit: int | None = Field(default=None, description="Use only the first so many tasks.", ge=1)
    held_out: float = Field(
        default=0.0, description="Tasks kept back for evaluation: a number, or a fraction below 1.", ge=0
    )
    eval_file: str | None = Field(
        default=None, description="File of evaluation tasks, instead of held_out.", min_length=1
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
            raise ValueError("must be a whole number of tasks or a fraction below 1")
        return value

    @property
    def brings_tasks(self) -> bool:
        """Whether it says more than how prompts are sent, which a domain's prompts can be told too."""
        return self.model_copy(update={"system": None, "chat": "auto"}) != TasksConfig()


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
        empty = [key for key, item in value.items() if item is None]
        if empty:
            raise ValueError(f"TOML cannot write an empty value: leave out {', '.join(empty)}")
        return value
