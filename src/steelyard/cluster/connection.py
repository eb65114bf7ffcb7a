"""The connection to a Ray cluster; the only place that imports Ray."""

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
"""How long actors may wait for room on the cluster."""
AUTH_MODE, AUTH_TOKEN, AUTH_TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
LISTEN_TO_OTHERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""0: Ray's processes listen on loopback alone, which is its default on the systems after which it is named."""
NICENESS = "RAY_worker_niceness"
"""Of Ray's workers; its default of 15 lets them starve next to any busy process, the learner included."""
SET_FOR_LOCAL = (AUTH_MODE, AUTH_TOKEN, AUTH_TOKEN_PATH, LISTEN_TO_OTHERS, NICENESS)


def require_ray() -> Any:
    """The ``ray`` package, or an error that names the extra."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("a Ray cluster", "ray") from None
    return ray


@contextmanager
def local_settings() -> Iterator[None]:
    """A cluster started in here listens on loopback alone and requires a token: whoever reaches a Ray cluster can run
    any code on it. The user's own token is used if there is one, else one that lives as long as this process. Its
    workers run at the priority of this process, unless the user set another.
    """
    from ray._private import ray_constants

    before, listened = {name: os.environ.get(name) for name in SET_FOR_LOCAL}, ray_constants.ENABLE_RAY_CLUSTER
    os.environ |= {AUTH_MODE: "token", LISTEN_TO_OTHERS: "0", NICENESS: before[NICENESS] or "0"}
    if not before[AUTH_TOKEN] and not before[AUTH_TOKEN_PATH]:
        os.environ[AUTH_TOKEN] = _token()
    ray_constants.ENABLE_RAY_CLUSTER = False
    _read_settings_again()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        ray_constants.ENABLE_RAY_CLUSTER = listened
        _read_settings_again()


@cache
def _token() -> str:
    return secrets.token_hex(32)


def _read_settings_again() -> None:
    """Ray reads mode and token once, when it is imported or first needs them."""
    with suppress(ImportError, AttributeError):
        from ray._raylet import AuthenticationTokenLoader, Config  # pyright: ignore[reportAttributeAccessIssue]

        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()


class Connection:
    """Joins a cluster, or starts one on this machine; several share one, and the last leaves it as it was found."""

    users: ClassVar[dict[int, list[float]]] = {}
    """What each open connection wants, in cores an actor."""
    started_here: ClassVar[bool] = False
    settings: ClassVar[ExitStack] = ExitStack()
    """What was set for a cluster that was started here, to be taken back when it ends."""

    def __init__(self, address: str = LOCAL) -> None:
        self.ray = require_ray()
        if not Connection.users:
            Connection.started_here = not self.ray.is_initialized()
            if Connection.started_here:
                self._join(address)
        Connection.users[id(self)] = []

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
                Connection.settings.close()
