"""The connection to a Ray cluster; the only place that imports Ray."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar

from steelyard.errors import ConfigError, MissingExtraError

LOCAL = "local"
START_SECONDS = 600.0
"""How long actors may wait for room on the cluster."""


def require_ray() -> Any:
    """The ``ray`` package, or an error that names the extra."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("a Ray cluster", "ray") from None
    return ray


class Connection:
    """Joins a cluster, or starts one on this machine; several share one, and the last leaves it as it was found."""

    users: ClassVar[dict[int, list[float]]] = {}
    """What each open connection wants, in cores an actor."""
    started_here: ClassVar[bool] = False

    def __init__(self, address: str = LOCAL) -> None:
        self.ray = require_ray()
        if not Connection.users:
            Connection.started_here = not self.ray.is_initialized()
            if Connection.started_here:
                self._join(address)
        Connection.users[id(self)] = []

    def _join(self, address: str) -> None:
        try:
            self.ray.init(
                address=address,
                include_dashboard=False if address == LOCAL else None,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        except ConnectionError as error:
            raise ConfigError(
                f"cluster.address = {address!r}: {error}. Start a cluster with `ray start --head`, or use local"
            ) from error

    @property
    def open(self) -> bool:
        return id(self) in Connection.users

    def want(self, cores: Sequence[float]) -> None:
        """Tell an autoscaling cluster what all open connections together want; any other takes no notice."""
        Connection.users[id(self)] = list(cores)
        self._tell()

    def _tell(self) -> None:
        from ray.autoscaler.sdk import request_resources

        request_resources(bundles=[{"CPU": cores} for wanted in Connection.users.values() for cores in wanted if cores])

    def close(self) -> None:
        """Withdraw what was wanted; twice does no harm."""
        if not self.open:
            return
        del Connection.users[id(self)]
        if self.ray.is_initialized():
            self._tell()
            if not Connection.users and Connection.started_here:
                self.ray.shutdown()
