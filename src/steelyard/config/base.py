"""What every section of the configuration is made of."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from steelyard.import_paths import is_import_path


class Section(BaseModel):
    """A frozen table of the TOML file: unknown keys are refused and values are never quietly converted.

    A key that may be left empty is empty by default, since TOML cannot write "nothing": so what ``dump`` leaves out
    comes back the same.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


class ScheduleConfig(Section):
    """A value over the run's steps. In TOML a bare number is the constant one."""

    kind: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="Shape of the way from start to end; constant stays at start."
    )
    start: float = Field(description="Value at the beginning (after the warm-up, if there is one).", ge=0)
    end: float | None = Field(default=None, description="Value at the end; needed by linear and cosine.", ge=0)
    steps: int | None = Field(default=None, description="Step at which end is reached; empty: run.steps.", ge=1)
    warmup: int = Field(default=0, description="Steps over which the value rises from 0 to start.", ge=0)

    @property
    def ever_positive(self) -> bool:
        return self.start > 0 or (self.end or 0.0) > 0

    @model_serializer(mode="wrap")
    def _as_number_if_constant(self, serialise: SerializerFunctionWrapHandler) -> Any:
        return self.start if self == ScheduleConfig(start=self.start) else serialise(self)


def _table_of_number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("must be a number or a schedule table")
    return {"start": value} if isinstance(value, int | float) else value


Coefficient = Annotated[ScheduleConfig, BeforeValidator(_table_of_number)]
"""A coefficient written as a number or as a schedule table; always a schedule once loaded."""


def _checked_import_path(text: str) -> str:
    if not is_import_path(text):
        raise ValueError("must be an import path such as my_module:my_function")
    return text


ImportPath = Annotated[str, AfterValidator(_checked_import_path)]
"""A Python object by name, as ``module:function``."""
