"""The complete configuration: all sections, validated together."""

from __future__ import annotations

from typing import Self

from pydantic import ValidationInfo, model_validator

from steelyard.config.problems import config_error
from steelyard.config.rules import broken_rules
from steelyard.config.sections import Sections


class Config(Sections):
    """The configuration of a run. Construction fails with a ``ConfigError`` if the sections are incompatible."""

    @model_validator(mode="after")
    def _can_work(self, info: ValidationInfo) -> Self:
        problems = broken_rules(self)
        if problems:
            context: dict[str, str] = info.context or {}
            raise config_error(context.get("source", "configuration"), problems)
        return self
