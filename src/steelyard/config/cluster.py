"""The cluster that parts of a run may use."""

from __future__ import annotations

from pydantic import Field

from steelyard.config.base import Section


class ClusterConfig(Section):
    address: str = Field(
        default="local",
        description="Ray: local starts one on this machine, auto joins the one that runs here, or host:port.",
        min_length=1,
    )
