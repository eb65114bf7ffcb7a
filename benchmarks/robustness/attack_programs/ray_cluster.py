"""Strangers connecting to a local Ray cluster's ports: anyone who gets in can run arbitrary code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.robustness.attack_programs import Attack
from steelyard.cluster.connection import AUTH_TOKEN, Connection
from steelyard.verification.sandbox.supervisor import descendants

LISTENING = "0A"
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
METHOD = "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo"


def listening_to_others() -> list[str]:
    """Return the non-loopback addresses on which this process or a descendant listens, in the kernel's format."""
    sockets: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            columns = line.split()
            if columns[3] == LISTENING and columns[1].partition(":")[0] not in LOOPBACK:
                sockets[f"socket:[{columns[9]}]"] = columns[1]
    own: set[str] = set()
    for pid in (os.getpid(), *descendants(os.getpid())):
        with suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    own.add(str(descriptor.readlink()))
    return [address for socket, address in sockets.items() if socket in own]


def refused(address: str, metadata: Sequence[tuple[str, str]]) -> bool:
    """Whether the cluster's head rejects a caller without the right token."""
    import grpc

    with grpc.insecure_channel(address) as channel:
        call: Any = channel.unary_unary(METHOD)
        try:
            call(b"", metadata=metadata, timeout=60)
        except grpc.RpcError as error:
            status: Any = error
            return status.code() == grpc.StatusCode.UNAUTHENTICATED
    return False


def flaw(connection: Connection) -> str | None:
    """Return the problem with a running local cluster, or None."""
    if found := listening_to_others():
        return f"it listens at {', '.join(found)}"
    address, token = connection.ray.get_runtime_context().gcs_address, os.environ.get(AUTH_TOKEN, "")
    for which, metadata in (("without a token", ()), ("with a wrong token", (("authorization", "Bearer guessed"),))):
        if not refused(address, metadata):
            return f"it answers a caller {which}"
    return "it rejects its own token" if refused(address, (("authorization", f"Bearer {token}"),)) else None


def start_a_cluster(_folder: Path) -> str | None:
    connection = Connection()
    try:
        return flaw(connection)
    finally:
        connection.close()


ATTACKS = (Attack("Ray cluster", "connecting from elsewhere, or without its token", start_a_cluster, quick=False),)
