"""All sections of a configuration, one TOML table each, before the cross-section rules are applied."""

from __future__ import annotations

from pydantic import Field

from steelyard.config.base import Section
from steelyard.config.cluster import ClusterConfig
from steelyard.config.constraint import ConstraintConfig
from steelyard.config.judge import JudgeConfig
from steelyard.config.loss import LossConfig, OptimiserConfig
from steelyard.config.model import ModelConfig, ReferenceConfig
from steelyard.config.run import CheckpointConfig, EvaluateConfig, RunConfig, TrackingConfig
from steelyard.config.sampling import CreditConfig, EpisodeConfig, SamplingConfig
from steelyard.config.tasks import DomainConfig, TasksConfig
from steelyard.config.verify import VerifyConfig
from steelyard.config.warmstart import WarmstartConfig


class Sections(Section):
    """The sections of a configuration; each is valid on its own, but the combination may not be."""

    run: RunConfig = Field(default=RunConfig(), description="Name, folder, seed and length of the run.")
    model: ModelConfig = Field(default=ModelConfig(), description="The model to train.")
    tasks: TasksConfig | None = Field(default=None, description="The tasks and how their prompts are sent.")
    domain: DomainConfig | None = Field(default=None, description="A domain that provides the tasks and the verifier.")
    warmstart: WarmstartConfig | None = Field(
        default=None, description="Supervised training on the domain's examples before the first step."
    )
    judge: JudgeConfig | None = Field(
        default=None,
        description="A classifier that distinguishes real from generated text; its score is added to the "
        "domain's reward.",
    )
    verify: VerifyConfig = Field(default=VerifyConfig(), description="The verifier and how it is run.")
    constraint: ConstraintConfig | None = Field(
        default=None, description="A grammar or automaton that every sample must follow."
    )
    sampling: SamplingConfig = Field(default=SamplingConfig(), description="How the policy is sampled.")
    episode: EpisodeConfig = Field(
        default=EpisodeConfig(), description="Limits on episodes, if the verifier is an environment."
    )
    credit: CreditConfig = Field(default=CreditConfig(), description="How rewards become advantages within a group.")
    loss: LossConfig = Field(default=LossConfig(), description="The training objective.")
    reference: ReferenceConfig = Field(default=ReferenceConfig(), description="The model against which KL is measured.")
    optimiser: OptimiserConfig = Field(default=OptimiserConfig(), description="The optimiser.")
    evaluate: EvaluateConfig = Field(default=EvaluateConfig(), description="Evaluation on held-out tasks.")
    checkpoint: CheckpointConfig = Field(
        default=CheckpointConfig(), description="When checkpoints are saved and which are kept."
    )
    cluster: ClusterConfig = Field(default=ClusterConfig(), description="The Ray cluster, if one is used.")
    tracking: TrackingConfig = Field(
        default=TrackingConfig(), description="Display and logging of metrics and samples."
    )

    @property
    def has_domain(self) -> bool:
        """Whether a domain, named here or passed as a Python object, provides the tasks and the verifier."""
        return self.domain is not None or "domain" in self.run.supplied
