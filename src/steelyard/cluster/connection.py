"""The connection to a Ray cluster; the only place that imports Ray."""

from __future__ import annotations

import logging
from typing import Any

from steelyard.errors import ConfigError, MissingExtraError

LOCAL = "local"


def require_ray() -> Any:
    """The ``ray`` package, or an error that names the extra."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("a Ray cluster", "ray") from None
    return ray


class Connection:
    """Joins a cluster, or starts one on this machine; leaves it as it was found."""

    def __init__(self, address: str = LOCAL) -> None:
        self.ray = require_ray()
        self.joined_before = bool(self.ray.is_initialized())
        if self.joined_before:
            return
        try:
            self.ray.init(
                address=LOCAL if address == LOCAL else address,
                include_dashboard=False if address == LOCAL else None,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        except ConnectionError as error:
            raise ConfigError(
                f"cluster.address = {address!r}: {error}. Start a cluster with `ray start --head`, or use local"
            ) from error

    def want_cores(self, count: int) -> None:
        """Tell an autoscaling cluster how many are wanted; any other takes no notice."""
        from ray.autoscaler.sdk import request_resources

        request_resources(num_cpus=count)

    def close(self) -> None:
        if not self.joined_before:
            self.ray.shutdown()
