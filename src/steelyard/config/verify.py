"""Who checks the samples, where, within which limits, and what becomes of accidents."""

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
)
"""The accidents of ``steelyard.verification.Cause``, which stands above the configuration."""


class VerifierEntry(Section):
    """One of the verifiers whose weighted rewards are added up."""

    function: ImportPath | None = Field(default=None, description="Your function as module:function.")
    model: str | None = Field(default=None, description="Or a model that scores: hub id or folder.", min_length=1)
    kind: Literal["classifier", "likelihood"] | None = Field(
        default=None, description="How the model scores: a sequence classifier, or a causal model's likelihood."
    )
    weight: float = Field(default=1.0, description="Weight of this reward in the sum.")
    name: str | None = Field(
        default=None, description="Name of the part in metrics; empty: the function's.", min_length=1
    )
    mode: Literal["one", "batch", "group"] | None = Field(
        default=None, description="How the function is called; empty: as it declares itself."
    )
    size: int | None = Field(default=None, description="Samples per call, with mode batch.", ge=1)
    success_at: float | None = Field(
        default=None, description="Reward that counts as success; empty: verify.success_at."
    )


class LimitsConfig(Section):
    """What a worker may use for an item; 0 lifts a limit. A call that judges n items has n times the seconds."""

    seconds: float = Field(
        default=defaults.LIMIT_SECONDS, description="Wall clock; then the worker and all it started are killed.", ge=0
    )
    cpu_seconds: float = Field(default=0.0, description="Processor time, counted anew for every item.", ge=0)
    memory_mb: int = Field(
        default=defaults.LIMIT_MEMORY_MB,
        description="Address space of the worker and of each process it starts.",
        ge=0,
    )
    file_mb: int = Field(default=defaults.LIMIT_FILE_MB, description="Largest file it may write.", ge=0)
    open_files: int = Field(default=defaults.LIMIT_OPEN_FILES, description="Files it may have open.", ge=0)
    output_kb: int = Field(default=defaults.LIMIT_OUTPUT_KB, description="What it may print in a call.", ge=8)


class RecycleConfig(Section):
    """When a worker that did nothing wrong is replaced by a fresh one; 0: never."""

    items: int = Field(default=defaults.RECYCLE_ITEMS, description="After this many items.", ge=0)
    memory_mb: int = Field(default=defaults.RECYCLE_MEMORY_MB, description="Above so much resident memory.", ge=0)


class VerifyConfig(Section):
    verifier: ImportPath | None = Field(
        default=None, description="Your checker as module:function, found from the working directory."
    )
    verifiers: tuple[VerifierEntry, ...] = Field(default=(), strict=False, description="Or several, with weights.")
    floor: float | None = Field(
        default=None,
        description="Reward of a rejected sample; empty: what the verifier declares (several: the weighted sum, if all "
        "declare one and no weight is negative), else 0 or the worst scored reward of the group if that is lower.",
    )
    success_at: float = Field(
        default=defaults.SUCCESS_AT, description="Reward from which a sample counts as a success."
    )
    pool: Literal["auto", "inline", "processes", "ray"] = Field(
        default="auto",
        description="Where it runs: in this process, in processes of its own, or on a Ray cluster. "
        "auto: in processes, unless it says that it can do no harm.",
    )
    workers: int | None = Field(default=None, description="Processes per verifier; empty: one a core.", ge=1)
    limits: LimitsConfig = Field(default=LimitsConfig(), description="What a worker may use.")
    recycle: RecycleConfig = Field(default=RecycleConfig(), description="When workers are replaced.")
    keep_children: bool = Field(
        default=False, description="Let processes that the verifier starts live on after the item."
    )
    preload: bool = Field(
        default=True, description="Import the verifier once and fork workers from there; false: in every worker."
    )
    tries: int = Field(default=defaults.TRIES, description="How often an accident of the checker is tried.", ge=1)
    blame: dict[str, Literal["rejected", "unscored"]] = Field(
        default={},
        description="What an accident that stays means, by its cause; "
        "otherwise the same accident in every try rejects the sample.",
    )
    max_unscored: float = Field(
        default=defaults.MAX_UNSCORED,
        description="Share of accidents among the last samples that trips the breaker.",
        ge=0,
        le=1,
    )
    window: int = Field(default=0, description="How many samples are the last ones; 0: as many as a step has.", ge=0)
    when_unscored: Literal["stop", "go on"] = Field(
        default="stop", description="What the run does when the breaker trips."
    )
    pause_seconds: float = Field(
        default=defaults.PAUSE_SECONDS, description="How long it pauses before it continues.", ge=0
    )
    cache: str | None = Field(
        default=None,
        description="File of verdicts kept between runs, for verifiers that declare a version and determinism and "
        "can be imported by name.",
        min_length=1,
    )

    @field_validator("blame")
    @classmethod
    def _known_causes(cls, value: dict[str, str]) -> dict[str, str]:
        unknown = [cause for cause in value if cause not in CAUSES]
        if unknown:
            raise ValueError(f"must be causes, of {', '.join(CAUSES)}" + did_you_mean(unknown[0], CAUSES))
        return value

    @property
    def entries(self) -> tuple[VerifierEntry, ...]:
        """All verifiers, the short form included."""
        return (VerifierEntry(function=self.verifier), *self.verifiers) if self.verifier else self.verifiers
