"""Configuration of verification: the verifiers, where they run, their limits, and how failures are handled."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from steelyard import defaults
from steelyard.config.base import ImportPath, Section
from steelyard.suggest import did_you_mean

CAUSES = (
    "exception",
    "bad return",
    "no score",
    "timeout",
    "cpu limit",
    "exited",
    "killed by signal",
    "out of memory",
    "output overflow",
    "lost worker",
    "not reproducible",
)
"""Values of ``steelyard.verification.Cause``, which cannot be imported here."""


class VerifierEntry(Section):
    """One of several verifiers whose weighted rewards are summed."""

    function: ImportPath | None = Field(default=None, description="Verifier function as module:function.")
    model: str | None = Field(
        default=None, description="Hub id or folder of a scoring model; replaces function.", min_length=1
    )
    kind: Literal["classifier", "likelihood"] | None = Field(
        default=None,
        description="How the model scores: as a sequence classifier, or by likelihood as a causal model.",
    )
    weight: float = Field(default=1.0, description="Weight of this reward in the sum.")
    name: str | None = Field(
        default=None, description="Name of this reward in the metrics. Default: the function's name.", min_length=1
    )
    mode: Literal["one", "batch", "group"] | None = Field(
        default=None,
        description="Call the function with one sample, a batch or a group. Default: the mode the function declares.",
    )
    size: int | None = Field(default=None, description="Samples per call for mode = batch.", ge=1)
    success_at: float | None = Field(
        default=None, description="Minimum reward that counts as a success. Default: verify.success_at."
    )


class LimitsConfig(Section):
    """Resource limits of a verification worker; 0 means no limit. A call with n items may take n times ``seconds``."""

    seconds: float = Field(
        default=defaults.LIMIT_SECONDS,
        description="Maximum wall-clock seconds per item, after which the worker and its child processes are killed.",
        ge=0,
    )
    cpu_seconds: float = Field(default=0.0, description="Maximum CPU seconds per item.", ge=0)
    memory_mb: int = Field(
        default=defaults.LIMIT_MEMORY_MB,
        description="Maximum address space of the worker and of each child process.",
        ge=0,
    )
    file_mb: int = Field(
        default=defaults.LIMIT_FILE_MB, description="Maximum size of any file the worker writes.", ge=0
    )
    open_files: int = Field(default=defaults.LIMIT_OPEN_FILES, description="Maximum number of open files.", ge=0)
    output_kb: int = Field(default=defaults.LIMIT_OUTPUT_KB, description="Maximum output size per call.", ge=8)


class RecycleConfig(Section):
    """When a healthy worker is replaced with a new one; 0: never."""

    items: int = Field(default=defaults.RECYCLE_ITEMS, description="Replace a worker after this many items.", ge=0)
    memory_mb: int = Field(
        default=defaults.RECYCLE_MEMORY_MB,
        description="Replace a worker when its resident memory exceeds this value.",
        ge=0,
    )


class VerifyConfig(Section):
    verifier: ImportPath | None = Field(
        default=None, description="Your verifier as module:function, importable from the working directory."
    )
    verifiers: tuple[VerifierEntry, ...] = Field(
        default=(), strict=False, description="Several weighted verifiers; replaces verifier."
    )
    floor: float | None = Field(
        default=None,
        description="Reward of a rejected sample. Default: the floor declared by the verifier (for several verifiers, "
        "the weighted sum, if all declare one and no weight is negative), otherwise 0 or the lowest scored reward "
        "of the group, whichever is lower.",
    )
    success_at: float = Field(default=defaults.SUCCESS_AT, description="Minimum reward that counts as a success.")
    pool: Literal["auto", "inline", "processes", "ray"] = Field(
        default="auto",
        description="Where the verifier runs: in this process, in separate processes, or on a Ray cluster. auto: in "
        "separate processes, unless the verifier declares that it is safe to run inline.",
    )
    workers: int | None = Field(
        default=None, description="Number of processes per verifier. Default: one per core.", ge=1
    )
    limits: LimitsConfig = Field(default=LimitsConfig(), description="Resource limits for each worker.")
    recycle: RecycleConfig = Field(default=RecycleConfig(), description="When workers are replaced.")
    keep_children: bool = Field(
        default=False,
        description="Allow processes started by the verifier to keep running after the item is verified.",
    )
    preload: bool = Field(
        default=True, description="Import the verifier once and fork the workers; if false, import it in every worker."
    )
    tries: int = Field(
        default=defaults.TRIES, description="Maximum number of attempts when the verifier fails on a sample.", ge=1
    )
    blame: dict[str, Literal["rejected", "unscored"]] = Field(
        default={},
        description="Verdict for persistent failures, by cause. Default: a sample is rejected if every attempt fails "
        "the same way; otherwise it is unscored.",
    )
    max_unscored: float = Field(
        default=defaults.MAX_UNSCORED,
        description="Fraction of failures among recent samples that trips the circuit breaker.",
        ge=0,
        le=1,
    )
    window: int = Field(
        default=0,
        description="Number of recent samples that the circuit breaker considers; 0: the samples of one step.",
        ge=0,
    )
    when_unscored: Literal["stop", "continue"] = Field(
        default="stop", description="Whether the run stops or continues when the circuit breaker trips."
    )
    pause_seconds: float = Field(
        default=defaults.PAUSE_SECONDS,
        description="Seconds to pause after the circuit breaker trips before the run continues.",
        ge=0,
    )
    cache: str | None = Field(
        default=None,
        description="File that caches verdicts between runs. The verifier must be importable by name, declare a "
        "version and be declared deterministic.",
        min_length=1,
    )

    @field_validator("blame")
    @classmethod
    def _known_causes(cls, value: dict[str, str]) -> dict[str, str]:
        unknown = [cause for cause in value if cause not in CAUSES]
        if unknown:
            raise ValueError(
                f"unknown cause {unknown[0]!r}; use {', '.join(CAUSES)}" + did_you_mean(unknown[0], CAUSES)
            )
        return value

    @property
    def entries(self) -> tuple[VerifierEntry, ...]:
        """All verifiers, including the one in ``verifier``."""
        return (VerifierEntry(function=self.verifier), *self.verifiers) if self.verifier else self.verifiers
