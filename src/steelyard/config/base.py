"""Base class and shared types of the configuration sections."""

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
    """A frozen table from a TOML file. Unknown keys are rejected, and values are never converted silently.

    Every optional key defaults to ``None``, because TOML has no null value: ``dump`` omits such keys, and they load
    back as ``None``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


class ScheduleConfig(Section):
    """A value that changes over the run's steps. In TOML, a bare number means a constant."""

    kind: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="Shape of the curve from start to end; with constant, the value stays at start."
    )
    start: float = Field(description="Value at the first step, or after the warm-up if there is one.", ge=0)
    end: float | None = Field(default=None, description="Value at the end; required for linear and cosine.", ge=0)
    steps: int | None = Field(
        default=None, description="Step at which the end value is reached. Default: run.steps.", ge=1
    )
    warmup: int = Field(default=0, description="Number of steps over which the value rises from 0 to start.", ge=0)

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
"""A coefficient, written as a number or a schedule table, and always loaded as a schedule."""


def _checked_import_path(text: str) -> str:
    if not is_import_path(text):
        raise ValueError("must be an import path such as my_module:my_function")
    return text


ImportPath = Annotated[str, AfterValidator(_checked_import_path)]
"""The import path of a Python object, ``module:function``."""
