"""The cluster that parts of a run may use."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from steelyard import defaults
from steelyard.config.base import Section


class LearnersConfig(Section):
    ranks: int = Field(default=1, ge=1, description="Processes that update the policy together, one a GPU.")
    sharding: Literal["fsdp", "ddp"] = Field(
        default=defaults.SHARDING,
        description="fsdp divides weights, optimiser and reference among ranks; ddp copies them.",
    )
    offload: bool = Field(
        default=False, description="Weights, gradients and optimiser state of fsdp rest in the CPU's memory."
    )
    timeout: float = Field(
        default=defaults.LEARNER_TIMEOUT, gt=0, description="Seconds a rank waits for the others before it gives up."
    )


class SamplersConfig(Section):
    replicas: int = Field(default=1, ge=1, description="Engines that sample side by side, each with all weights.")
    cpus: float = Field(default=1.0, gt=0, description="Cores that are kept free for each of them.")
    gpus: float = Field(default=1.0, ge=0, description="GPUs of each, if the run has any.")


class ClusterConfig(Section):
    address: str = Field(
        default=defaults.CLUSTER,
        description="Ray: local starts one on this machine, auto joins the one that runs here, or host:port.",
        min_length=1,
    )
    samplers: SamplersConfig | None = Field(
        default=None, description="vLLM in processes on the cluster, instead of in this one."
    )
    learners: LearnersConfig | None = Field(
        default=None, description="The learner as a group of processes on the cluster, instead of in this one."
    )
