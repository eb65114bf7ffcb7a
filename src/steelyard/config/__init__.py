"""Configuration: pydantic schemas, TOML files with dotted overrides, and recipes. Imports no torch.

``load`` reads a recipe or a file, ``build`` takes nested tables from Python, ``dump`` writes the resolved TOML, and
``describe`` lists every key. Other packages never read the configuration: ``steelyard.compose`` maps it to constructor
arguments.
"""

from __future__ import annotations

from steelyard.config.base import ScheduleConfig
from steelyard.config.cluster import ClusterConfig, LearnersConfig, SamplersConfig
from steelyard.config.constraint import ConstraintConfig
from steelyard.config.judge import JudgeConfig
from steelyard.config.loading import build, dump, load, read_recipe, read_tables, recipes
from steelyard.config.loss import AdaptiveKlConfig, EntropyConfig, KlConfig, LossConfig, OptimiserConfig
from steelyard.config.model import LoraConfig, ModelConfig, ReferenceConfig, ScratchConfig
from steelyard.config.removed import with_new_names
from steelyard.config.root import Config
from steelyard.config.run import CheckpointConfig, EvaluateConfig, RunConfig, TrackingConfig
from steelyard.config.sampling import CreditConfig, LengthPenaltyConfig, SamplingConfig, VllmConfig
from steelyard.config.schema import Key, describe
from steelyard.config.tasks import DomainConfig, MixturePart, SourceConfig, TasksConfig
from steelyard.config.verify import LimitsConfig, RecycleConfig, VerifierEntry, VerifyConfig
from steelyard.config.warmstart import WarmstartConfig

__all__ = [
    "AdaptiveKlConfig",
    "CheckpointConfig",
    "ClusterConfig",
    "Config",
    "ConstraintConfig",
    "CreditConfig",
    "DomainConfig",
    "EntropyConfig",
    "EvaluateConfig",
    "JudgeConfig",
    "Key",
    "KlConfig",
    "LearnersConfig",
    "LengthPenaltyConfig",
    "LimitsConfig",
    "LoraConfig",
    "LossConfig",
    "MixturePart",
    "ModelConfig",
    "OptimiserConfig",
    "RecycleConfig",
    "ReferenceConfig",
    "RunConfig",
    "SamplersConfig",
    "SamplingConfig",
    "ScheduleConfig",
    "ScratchConfig",
    "SourceConfig",
    "TasksConfig",
    "TrackingConfig",
    "VerifierEntry",
    "VerifyConfig",
    "VllmConfig",
    "WarmstartConfig",
    "build",
    "describe",
    "dump",
    "load",
    "read_recipe",
    "read_tables",
    "recipes",
    "with_new_names",
]
