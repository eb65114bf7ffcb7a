"""The whole configuration: one table a section."""

from __future__ import annotations

from typing import Self

from pydantic import Field, ValidationInfo, model_validator

from steelyard.config.base import Section
from steelyard.config.cluster import ClusterConfig
from steelyard.config.constraint import ConstraintConfig
from steelyard.config.judge import JudgeConfig
from steelyard.config.loss import LossConfig, OptimiserConfig
from steelyard.config.model import ModelConfig, ReferenceConfig
from steelyard.config.problems import config_error
from steelyard.config.rules import broken_rules
from steelyard.config.run import CheckpointConfig, EvaluateConfig, RunConfig, TrackingConfig
from steelyard.config.sampling import CreditConfig, SamplingConfig
from steelyard.config.tasks import DomainConfig, TasksConfig
from steelyard.config.verify import VerifyConfig
from steelyard.config.warmstart import WarmstartConfig


class Config(Section):
    """Everything a run is made from. Construction fails with a ``ConfigError`` if the parts cannot work together."""

    run: RunConfig = Field(default=RunConfig(), description="The run itself.")
    model: ModelConfig = Field(default=ModelConfig(), description="The policy.")
    tasks: TasksConfig | None = Field(default=None, description="Where tasks come from.")
    domain: DomainConfig | None = Field(default=None, description="A domain, instead of tasks and verifier.")
    warmstart: WarmstartConfig | None = Field(
        default=None, description="Supervised training on the domain's examples before the first step."
    )
    judge: JudgeConfig | None = Field(
        default=None,
        description="A model that learns to tell real things from made ones, and judges beside the domain.",
    )
    verify: VerifyConfig = Field(default=VerifyConfig(), description="Who checks the samples.")
    constraint: ConstraintConfig | None = Field(default=None, description="What every sample must look like.")
    sampling: SamplingConfig = Field(default=SamplingConfig(), description="How samples are drawn.")
    credit: CreditConfig = Field(
        default=CreditConfig(), description="How samples are credited relative to their group."
    )
    loss: LossConfig = Field(default=LossConfig(), description="The objective.")
    reference: ReferenceConfig = Field(default=ReferenceConfig(), description="The model KL is measured against.")
    optimiser: OptimiserConfig = Field(default=OptimiserConfig(), description="The optimiser.")
    evaluate: EvaluateConfig = Field(default=EvaluateConfig(), description="Evaluation on held-out tasks.")
    checkpoint: CheckpointConfig = Field(default=CheckpointConfig(), description="What is saved.")
    cluster: ClusterConfig = Field(default=ClusterConfig(), description="The Ray cluster, where one is used.")
    tracking: TrackingConfig = Field(default=TrackingConfig(), description="What is shown and logged.")

    @property
    def has_domain(self) -> bool:
        """Whether a domain brings tasks and verifier: named here, or handed over as a Python object."""
        return self.domain is not None or "domain" in self.run.supplied

    @model_validator(mode="after")
    def _can_work(self, info: ValidationInfo) -> Self:
        problems = broken_rules(self)
        if problems:
            context: dict[str, str] = info.context or {}
            raise config_error(context.get("source", "configuration"), problems)
        return self
