"""Ways out of a sandbox, each actually attempted, but only against targets that the attempt itself sets up.

Listeners are on loopback, files are in the attempt's folder, and the process that is read and signalled is a stand-in.
Every escape also runs without a sandbox: if it does not work there, stopping it elsewhere proves nothing. All attempts
are bounded: at most 128 processes for half a second and 256 MB on disk, and leftover processes are killed.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from steelyard.verification.sandbox import Level, RunLimits, describe_level, level_in_force, run_code

Place = Literal["without", "basic", "bubblewrap"]
MARK = "STEELYARD_ATTEMPT"
"""Environment variable set in all processes that an attempt starts, so that leftover ones can be found."""
REQUIRE = "STEELYARD_REQUIRE_BUBBLEWRAP"
"""If this variable is set, missing bubblewrap is a failure instead of a note."""
LIMITS = RunLimits(seconds=30, cpu_seconds=8, memory=1 << 29, file_size=1 << 26, processes=32)
GENERATIONS = 7
HUGE = 10 << 30
WRITTEN = 256 << 20
NO_RESERVE = 0x4000
"""Linux's ``MAP_NORESERVE`` reserves only address space, so the control also works on small machines."""
PATIENCE = 100.0
BEGUN = "begun"
ADDRESS = "192.0.2.7"
HIT = 7
"""Exit code of a stand-in process that received the signal."""

RAISE_LIMITS = """
import resource
for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_AS):
    try:
        resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        pass
"""
STAND_IN = f"""
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit({HIT}))
print("ready", flush=True)
time.sleep({PATIENCE})
"""


@dataclass(frozen=True)
class Attempt:
    """One attempt at one sandbox level, with a secret word and a folder outside the sandbox."""

    place: Place
    word: str
    outside: Path

    def run(self, code: str) -> str:
        """Run the code and return its output; raise if it never started, because then the sandbox stopped nothing."""
        printed = self._run(f"print({BEGUN!r}, flush=True)\n{code}")
        if not printed.startswith(BEGUN):
            raise RuntimeError(f"the escape program did not start at sandbox level {self.place!r}")
        return printed.removeprefix(BEGUN)

    def _run(self, code: str) -> str:
        if self.place != "without":
            return run_code(code, level=self.place, limits=LIMITS, environment={MARK: self.word}).stdout
        home = self.outside / "home"
        home.mkdir()
        environment = {**os.environ, MARK: self.word}
        command = [sys.executable, "-I", "-c", code]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=PATIENCE, cwd=home, env=environment
        )
        return done.stdout

    def left_running(self) -> list[int]:
        """Return the processes of this attempt that are still running."""
        found: list[int] = []
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"{MARK}={self.word}".encode() in environment.read_bytes().split(b"\0"):
                    found.append(int(environment.parent.name))
        return found


@dataclass(frozen=True)
class Outcome:
    """The result of one attempt."""

    worked: bool
    left_running: int


@dataclass(frozen=True)
class Escape:
    """An attempt to escape; ``works`` attempts it and returns whether it succeeded."""

    name: str
    works: Callable[[Attempt], bool]
    basic_stops: bool = False
    """Whether the basic level is documented to stop this escape."""
    needs_root: bool = False
    """Whether the escape needs root even without a sandbox."""


def attempt_escape(escape: Escape, place: Place) -> Outcome:
    """Attempt an escape once and clean up after it."""
    with tempfile.TemporaryDirectory() as outside:
        attempt = Attempt(place, secrets.token_hex(8), Path(outside))
        worked = escape.works(attempt)
        left = attempt.left_running()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return Outcome(worked, len(left))


def escapes() -> list[Escape]:
    """Return the escapes that this user can attempt."""
    return [escape for escape in ESCAPES if not escape.needs_root or os.geteuid() == 0]


def levels() -> tuple[Level, ...]:
    """Return the levels available here; raise if bubblewrap is required but missing."""
    if level_in_force() == "bubblewrap":
        return "basic", "bubblewrap"
    if os.environ.get(REQUIRE):
        raise RuntimeError(f"{REQUIRE} is set, but the sandbox level is {describe_level()}; install bubblewrap")
    return ("basic",)


def reach_by_tcp(attempt: Attempt) -> bool:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        attempt.run(_send("AF_INET", "SOCK_STREAM", listener.getsockname(), attempt.word))
        return _heard(listener) == attempt.word


def reach_by_udp(attempt: Attempt) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        attempt.run(_send("AF_INET", "SOCK_DGRAM", listener.getsockname(), attempt.word))
        return _heard(listener) == attempt.word


def reach_by_unix_socket(attempt: Attempt) -> bool:
    return _reach_by_unix_socket(attempt, str(attempt.outside / "socket"))


def reach_by_abstract_socket(attempt: Attempt) -> bool:
    return _reach_by_unix_socket(attempt, f"\0steelyard-{secrets.token_hex(8)}")


def look_up_a_name(attempt: Attempt) -> bool:
    """Send a DNS query whose name contains the word to the attempt's own resolver."""
    with resolver() as (port, queried):
        printed = attempt.run(f"""
import socket, struct
name = b"".join(bytes([len(part)]) + part for part in ({attempt.word.encode()!r}, b"example")) + b"\\0"
query = struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0) + name + struct.pack(">2H", 1, 1)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.settimeout(5)
    client.sendto(query, ("127.0.0.1", {port}))
    print(socket.inet_ntoa(client.recv(512)[-4:]))
""")
    return attempt.word in queried and ADDRESS in printed


def read_outside(attempt: Attempt) -> bool:
    secret = attempt.outside / "secret"
    secret.write_text(attempt.word, encoding="ascii")
    return attempt.word in attempt.run(f"print(open({str(secret)!r}).read())")


def write_outside(attempt: Attempt) -> bool:
    target = attempt.outside / "written"
    attempt.run(f"open({str(target)!r}, 'w').write({attempt.word!r})")
    return target.exists()


def write_through_a_link(attempt: Attempt) -> bool:
    attempt.run(f"""
import os
os.symlink({str(attempt.outside)!r}, "link")
open("link/written", "w").write({attempt.word!r})
""")
    return (attempt.outside / "written").exists()


def read_the_parents_environment(attempt: Attempt) -> bool:
    with stand_in({"SECRET": attempt.word}) as parent:
        return attempt.word in attempt.run(f"print(open('/proc/{parent.pid}/environ').read())")


def signal_the_parent(attempt: Attempt) -> bool:
    with stand_in({}) as parent:
        if "sent" in attempt.run(f"import os, signal; os.kill({parent.pid}, signal.SIGUSR1); print('sent')"):
            with suppress(subprocess.TimeoutExpired):
                return parent.wait(PATIENCE) == HIT
        return parent.poll() is not None


def change_kernel_settings(attempt: Attempt) -> bool:
    """Whether a kernel setting could be opened for writing; nothing is written."""
    path = "/proc/sys/kernel/core_pattern"
    return "open" in attempt.run(f"import os; os.close(os.open({path!r}, os.O_WRONLY)); print('open')")


def bomb_with_forks(attempt: Attempt) -> bool:
    """Fork seven times in a row; succeeds if all 128 processes live for half a second. The first process exits last."""
    printed = attempt.run(f"""
import os, time
children = 0
for generation in range({GENERATIONS}):
    children = children + 1 if os.fork() else 0
time.sleep(0.5)
os.write(1, b"x")
for child in range(children):
    os.wait()
""")
    return printed.count("x") == 2**GENERATIONS


def outlive_the_run(attempt: Attempt) -> bool:
    """Start a grandchild in its own session, detached from all streams."""
    attempt.run(f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        nowhere = os.open("/dev/null", os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        time.sleep({PATIENCE})
    os._exit(0)
os.wait()
""")
    return bool(attempt.left_running())


def make_a_huge_sparse_file(attempt: Attempt) -> bool:
    printed = attempt.run(f"""{RAISE_LIMITS}
import os
with open("huge", "wb") as file:
    file.truncate({HUGE})
print(os.stat("huge").st_size)
""")
    return str(HUGE) in printed


def write_a_large_file(attempt: Attempt) -> bool:
    printed = attempt.run(f"""{RAISE_LIMITS}
import os
with open("large", "wb", buffering=0) as file:
    while file.tell() < {WRITTEN}:
        file.write(bytes(1 << 20))
print(os.stat("large").st_size)
""")
    return str(WRITTEN) in printed


def take_much_memory(attempt: Attempt) -> bool:
    """Map 10 GB of memory and touch both ends."""
    printed = attempt.run(f"""{RAISE_LIMITS}
import mmap
memory = mmap.mmap(-1, {HUGE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | {NO_RESERVE})
memory[0] = memory[-1] = 1
print(len(memory))
""")
    return str(HUGE) in printed


ESCAPES = (
    Escape("TCP to a listener on loopback", reach_by_tcp),
    Escape("UDP to a listener on loopback", reach_by_udp),
    Escape("DNS query to a resolver on loopback", look_up_a_name),
    Escape("Unix socket by path", reach_by_unix_socket),
    Escape("Unix socket by abstract name", reach_by_abstract_socket),
    Escape("reading a file outside", read_outside),
    Escape("writing a file outside", write_outside),
    Escape("writing outside through a symbolic link", write_through_a_link),
    Escape("reading /proc/PARENT/environ", read_the_parents_environment),
    Escape("signal to the parent", signal_the_parent),
    Escape("opening /proc/sys for writing, as root", change_kernel_settings, needs_root=True),
    Escape("fork bomb (128 processes)", bomb_with_forks, basic_stops=True),
    Escape("grandchild with setsid outlives the run", outlive_the_run, basic_stops=True),
    Escape("file of 10 GB, sparse, limits raised first", make_a_huge_sparse_file, basic_stops=True),
    Escape("file of 256 MB, written, limits raised first", write_a_large_file, basic_stops=True),
    Escape("memory of 10 GB, limits raised first", take_much_memory, basic_stops=True),
)


def _send(family: str, kind: str, address: object, word: str) -> str:
    return f"""
import socket
with socket.socket(socket.{family}, socket.{kind}) as client:
    client.settimeout(5)
    client.connect({address!r})
    client.sendall({word.encode()!r})
"""


def _reach_by_unix_socket(attempt: Attempt, address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen()
        attempt.run(_send("AF_UNIX", "SOCK_STREAM", address, attempt.word))
        return _heard(listener) == attempt.word


def _heard(listener: socket.socket) -> str:
    """Return the data that reached the listener; the sender has exited, so the kernel has already queued it."""
    listener.settimeout(0.2)
    with suppress(TimeoutError):
        if listener.type == socket.SOCK_DGRAM:
            return listener.recv(100).decode()
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(0.2)
            return connection.recv(100).decode()
    return ""


@contextmanager
def resolver() -> Iterator[tuple[int, list[str]]]:
    """Run a loopback name server that returns the same address for every name; yield its port and the queried names."""
    queried: list[str] = []

    def answer() -> None:
        with suppress(OSError):
            while True:
                query, client = server.recvfrom(512)
                if not query:
                    return
                queried.append(query[13 : 13 + query[12]].decode())
                head = query[:2] + struct.pack(">5H", 0x8180, 1, 1, 0, 0)
                record = struct.pack(">3HIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(ADDRESS)
                server.sendto(head + query[12:] + record, client)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1], queried
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", server.getsockname())
        thread.join(5)


@contextmanager
def stand_in(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a process that stands in for the trainer: it has an environment, and exits with ``HIT`` when signalled."""
    with subprocess.Popen(
        [sys.executable, "-I", "-c", STAND_IN], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()
