"""One server as a child process that can't outlive its supervisor."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pwd
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seamark.errors import DevstackError

# A port that is free now can be in use a second later. Two measures prevent that: ports are below the kernel's
# ephemeral range (32768 up), so no outgoing connection gets one by chance; and each is held by a file lock as long as
# the supervisor lives, so no other stack chooses it.

FIRST, LAST = 15000, 32000


class PortReservation:
    """Ports reserved for one stack until the process ends."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.gettempdir()) / "seamark-ports"
        self._folder.mkdir(mode=0o1777, exist_ok=True)
        self._held: list[int] = []

    def take(self) -> int:
        """Reserve one more free port."""
        for port in random.sample(range(FIRST, LAST), 500):
            if _is_free(port) and self._hold(port):
                return port
        raise DevstackError(
            "no free port found in 500 attempts", hint=f"check which processes listen on ports {FIRST}-{LAST}"
        )

    def _hold(self, port: int) -> bool:
        file = os.open(self._folder / str(port), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._held.append(file)
        return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def answers(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether the port accepts connections."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Server:
    """How a server is started and how its readiness is detected."""

    name: str
    kind: str
    command: tuple[str, ...]
    log: Path
    data: Path
    port: int
    is_ready: Callable[[RunningServer], bool]
    version: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    after: tuple[str, ...] = ()
    # Ready took 5-10 s here with every server starting at once on 2 cores; after six times that, a server hangs.
    ready_seconds: float = 60


class RunningServer:
    """A started server. Its log is appended to, so only the output since the start is read."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._log_start = server.log.stat().st_size if server.log.exists() else 0
        with server.log.open("ab") as log:
            self.process = subprocess.Popen(
                server.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_scrubbed_environment() | dict(server.env),
                cwd=server.data,
                user=server.user,
                group=pwd.getpwnam(server.user).pw_gid if server.user else None,
                extra_groups=[] if server.user else None,
                # Its own session: a Ctrl-C in the terminal ends the supervisor, which then ends the servers in order.
                start_new_session=True,
                preexec_fn=_leash(os.getpid()),  # noqa: PLW1509 - the supervisor has one thread
            )

    @property
    def pid(self) -> int:
        """Return the process ID."""
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self.process.poll()

    def log_says(self, text: str) -> bool:
        """Return whether the log of this run contains a text."""
        return text.encode() in self._log_bytes()

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines of this run's log."""
        return "\n".join(self._log_bytes().decode(errors="replace").splitlines()[-lines:])

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the server only."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def end(self, *, grace_seconds: float) -> None:
        """End it: terminate first if there is a grace period, then kill, and read its exit code."""
        if self.exit_code is None and grace_seconds:
            self.send(signal.SIGCONT)
            self.send(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_seconds)
        self.send(signal.SIGKILL)
        self.process.wait(10)

    def _log_bytes(self) -> bytes:
        with self.server.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read()


def state_of(pid: int) -> str:
    """Return the kernel's state of a process: "running", "stopped" (SIGSTOP), or "gone"."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return {"T": "stopped", "Z": "gone", "X": "gone"}.get(letter, "running")


def tie_to_parent(number: signal.Signals) -> None:
    """Make the kernel send this process a signal when its parent dies."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0):
        raise DevstackError("this kernel can't tie a process to its parent", cause=os.strerror(ctypes.get_errno()))


def _leash(supervisor: int) -> Callable[[], None]:
    # Runs in the child after the change of user: that change would clear the parent-death signal.
    libc = ctypes.CDLL(None)

    def apply() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(1)

    return apply


def _scrubbed_environment() -> dict[str, str]:
    # A server must not get the caller's secrets, nor be affected by the caller's JVM or PG settings.
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME")
    return {name: os.environ[name] for name in kept if name in os.environ}


def wait_until(
    check: Callable[[], bool], sentence: str, *, seconds: float, every_seconds: float = 0.1, hint: str = ""
) -> float:
    """Wait until `check` holds and return the seconds it took; otherwise raise with the sentence."""
    start = time.monotonic()
    while not check():
        if time.monotonic() - start > seconds:
            raise DevstackError(f"timed out after {seconds:.0f} s of waiting until {sentence}", hint=hint)
        time.sleep(every_seconds)
    return time.monotonic() - start
