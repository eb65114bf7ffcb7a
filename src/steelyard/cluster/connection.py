"""The connection to a Ray cluster. No other module imports Ray."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import Any, ClassVar

from steelyard import defaults
from steelyard.errors import ConfigError, MissingExtraError

LOCAL = defaults.CLUSTER
START_SECONDS = 600.0
"""How long actors may wait for free resources on the cluster."""
AUTH_MODE, AUTH_TOKEN, AUTH_TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
NETWORK_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""With 0, Ray listens on the loopback interface only. This is Ray's default on Windows and macOS."""
NICENESS = "RAY_worker_niceness"
"""Niceness of Ray's workers. With Ray's default of 15, any busy process, including the learner, starves the workers."""
LOCAL_VARIABLES = (AUTH_MODE, AUTH_TOKEN, AUTH_TOKEN_PATH, NETWORK_CLUSTER, NICENESS)
"""Environment variables that are set while a local cluster runs."""


def require_ray() -> Any:
    """Import and return ``ray``; if it is missing, raise an error that names the extra to install."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("a Ray cluster", "ray") from None
    return ray


@contextmanager
def local_settings() -> Iterator[None]:
    """Set the environment for a cluster on this machine, and restore it afterwards.

    Anyone who can reach a Ray cluster can run code on it, so a local one listens on loopback only and requires a token:
    the user's, or a random one for the lifetime of this process. Workers run at the priority of this process unless the
    user set a different one.
    """
    from ray._private import ray_constants

    before, network = {name: os.environ.get(name) for name in LOCAL_VARIABLES}, ray_constants.ENABLE_RAY_CLUSTER
    os.environ |= {AUTH_MODE: "token", NETWORK_CLUSTER: "0", NICENESS: before[NICENESS] or "0"}
    if not before[AUTH_TOKEN] and not before[AUTH_TOKEN_PATH]:
        os.environ[AUTH_TOKEN] = _token()
    ray_constants.ENABLE_RAY_CLUSTER = False
    _reload_settings()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        ray_constants.ENABLE_RAY_CLUSTER = network
        _reload_settings()


@cache
def _token() -> str:
    return secrets.token_hex(32)


def _reload_settings() -> None:
    """Make Ray read the authentication mode and token again; it caches them on first use."""
    with suppress(ImportError, AttributeError):
        from ray._raylet import AuthenticationTokenLoader, Config  # pyright: ignore[reportAttributeAccessIssue]

        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()


class Connection:
    """Joins a cluster or starts one on this machine.

    All connections of a process share one cluster. Closing the last connection shuts the cluster down if it was started
    here.
    """

    requested: ClassVar[dict[int, list[float]]] = {}
    """Cores per actor requested by each open connection."""
    started_here: ClassVar[bool] = False
    settings: ClassVar[ExitStack] = ExitStack()
    """Restores the environment when a cluster that was started here ends."""

    def __init__(self, address: str = LOCAL) -> None:
        self.ray = require_ray()
        if not Connection.requested:
            Connection.started_here = not self.ray.is_initialized()
            if Connection.started_here:
                self._join(address)
        Connection.requested[id(self)] = []

    def _join(self, address: str) -> None:
        try:
            if address == LOCAL:
                Connection.settings.enter_context(local_settings())
            self.ray.init(
                address=address,
                include_dashboard=False if address == LOCAL else None,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        except BaseException as error:
            Connection.settings.close()
            if not isinstance(error, ConnectionError):
                raise
            raise ConfigError(
                f"cluster.address = {address!r}: {error}. Start a cluster with `ray start --head`, or use 'local'"
            ) from error

    @property
    def open(self) -> bool:
        return id(self) in Connection.requested

    def request(self, cores: Sequence[float]) -> None:
        """Request cores for this connection's actors from an autoscaling cluster; other clusters ignore it."""
        Connection.requested[id(self)] = list(cores)
        self._send_requests()

    def _send_requests(self) -> None:
        from ray.autoscaler.sdk import request_resources

        bundles = [{"CPU": cores} for actors in Connection.requested.values() for cores in actors if cores]
        request_resources(bundles=bundles)

    def close(self) -> None:
        """Withdraw the requests. Closing twice is harmless."""
        if not self.open:
            return
        del Connection.requested[id(self)]
        if self.ray.is_initialized():
            self._send_requests()
            if not Connection.requested and Connection.started_here:
                self.ray.shutdown()
                Connection.settings.close()
