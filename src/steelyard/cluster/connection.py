"""The connection to a Ray cluster; the only place that imports Ray."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
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

    def close(self) -> None:
        if not self.joined_before:
            self.ray.shutdown()


@contextmanager
def connected(address: str = LOCAL) -> Iterator[Any]:
    """The ``ray`` package, connected."""
    connection = Connection(address)
    try:
        yield connection.ray
    finally:
        connection.close()
