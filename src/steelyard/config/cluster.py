"""Configuration of the Ray cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from steelyard import defaults
from steelyard.config.base import Section


class LearnersConfig(Section):
    ranks: int = Field(default=1, ge=1, description="Number of learner processes, one per GPU.")
    sharding: Literal["fsdp", "ddp"] = Field(
        default=defaults.SHARDING,
        description="fsdp shards the weights, optimiser state and reference across ranks; ddp replicates them.",
    )
    offload: bool = Field(
        default=False, description="Keep weights, gradients and optimiser state in CPU memory (fsdp only)."
    )
    timeout: float = Field(
        default=defaults.LEARNER_TIMEOUT,
        gt=0,
        description="Timeout in seconds for a rank waiting for the others.",
    )


class SamplersConfig(Section):
    replicas: int = Field(
        default=1,
        ge=1,
        description="Number of vLLM engines that sample in parallel, each with a full copy of the weights.",
    )
    cpus: float = Field(default=1.0, gt=0, description="CPU cores reserved per replica.")
    gpus: float = Field(default=1.0, ge=0, description="GPUs per replica, if the run uses GPUs.")


class ClusterConfig(Section):
    address: str = Field(
        default=defaults.CLUSTER,
        description="Ray cluster to use: local starts one on this machine, auto joins one already running on this "
        "machine, and host:port joins the one at that address.",
        min_length=1,
    )
    samplers: SamplersConfig | None = Field(default=None, description="Run vLLM in separate processes on the cluster.")
    learners: LearnersConfig | None = Field(
        default=None, description="Run the learner as a group of processes on the cluster."
    )
