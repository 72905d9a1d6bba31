"""The process that owns a stack's servers.

It has one thread, so that the kernel's parent-death signal refers to this process and not to a thread. It starts the
servers, answers on a control socket, and ends everything on request, when its caller dies (foreground), or by its own
death.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from seamark.devstack.client import ControlSocket
from seamark.devstack.layout import StackLayout
from seamark.devstack.process import RunningServer, Server, state_of, wait_until
from seamark.devstack.stack import ServerEntry, Stack, write_stack
from seamark.errors import DevstackError, SeamarkError

Say = Callable[[str], None]


class Supervisor:
    """Starts, monitors and ends the servers of one stack."""

    def __init__(self, layout: StackLayout, *, stack_file: Path, say: Say) -> None:
        self._layout = layout
        self._stack_file = stack_file
        self._say = say
        self._running: dict[str, RunningServer] = {}
        self._ending = False
        # Created before the stack's file can be read: an early request waits instead of being refused.
        self._control = ControlSocket(Path(layout.stack.folder))

    @property
    def stack(self) -> Stack:
        """Return the current stack, with the newest process IDs."""
        entries = tuple(_entry(running) for running in self._running.values())
        return dataclasses.replace(self._layout.stack, servers=entries)

    def start(self) -> None:
        """Start every server after those that it needs, and wait until all are ready."""
        begin = time.monotonic()
        waiting = list(self._layout.servers)
        starting: dict[str, float] = {}
        while (waiting or starting) and not self._ending:
            for server in [server for server in waiting if self._may_start(server, waiting, starting)]:
                waiting.remove(server)
                self._running[server.name] = RunningServer(server)
                starting[server.name] = time.monotonic()
            for name in [name for name in starting if self._is_ready(name, since=starting[name])]:
                self._say(f"{name} ready after {time.monotonic() - begin:.1f} s")
                del starting[name]
            time.sleep(0.1)
        write_stack(self.stack, self._stack_file)

    def serve(self) -> None:
        """Answer the control socket until the end is requested."""
        with self._control as control, _on_signal(self._end_soon):
            while not self._ending:
                control.answer(self._obey, seconds=0.5)
                for running in self._running.values():
                    # Reads the exit code, so that a dead server does not stay as a zombie.
                    running.process.poll()

    def end(self, *, keep_data: bool = False) -> None:
        """End every server, the newest first, and remove their data."""
        for running in reversed(self._running.values()):
            running.end(grace_seconds=_grace(running.server))
        self._stack_file.unlink(missing_ok=True)
        if not keep_data:
            shutil.rmtree(self._layout.stack.folder, ignore_errors=True)

    def _may_start(self, server: Server, waiting: list[Server], starting: dict[str, float]) -> bool:
        unready = {s.kind for s in waiting if s is not server} | {self._running[name].server.kind for name in starting}
        return not unready & set(server.after)

    def _is_ready(self, name: str, *, since: float) -> bool:
        running = self._running[name]
        if running.exit_code is not None:
            raise DevstackError(
                f"{name} ended with exit code {running.exit_code} during its start", cause=running.log_tail()
            )
        if running.server.is_ready(running):
            return True
        if time.monotonic() - since > running.server.ready_seconds:
            raise DevstackError(
                f"timed out after {running.server.ready_seconds:.0f} s of waiting until {name} was ready",
                cause=running.log_tail(),
            )
        return False

    def _obey(self, command: str, name: str) -> dict[str, object]:
        if command == "down":
            self._ending = True
            return {"ok": True}
        running = self._running.get(name)
        if running is None:
            return {"ok": False, "error": f"no server {name!r}; the servers are: {', '.join(self._running)}"}
        try:
            pid = self._act(command, running)
        except SeamarkError as error:
            return {"ok": False, "error": error.message, "cause": error.cause}
        return {"ok": True, "pid": pid}

    def _act(self, command: str, running: RunningServer) -> int:
        name = running.server.name
        if command == "restart":
            running.end(grace_seconds=_grace(running.server))
            self._running[name] = running = RunningServer(running.server)
            begin = time.monotonic()
            wait_until(
                lambda: self._is_ready(name, since=begin), f"{name} was ready", seconds=running.server.ready_seconds
            )
            write_stack(self.stack, self._stack_file)
            return running.pid
        number, state = {
            "kill": (signal.SIGKILL, "gone"),
            "stop": (signal.SIGSTOP, "stopped"),
            "cont": (signal.SIGCONT, "running"),
        }[command]
        if running.exit_code is not None:
            raise DevstackError(f"{name} is not running: it ended with exit code {running.exit_code}")
        running.send(number)
        # The kernel acts on the signal slightly later; the caller must be able to rely on the new state.
        wait_until(lambda: state_of(running.pid) == state, f"{name} was {state}", seconds=10, every_seconds=0.02)
        running.process.poll()
        return running.pid

    def _end_soon(self) -> None:
        self._ending = True


def _grace(server: Server) -> float:
    """Return how long a server may take to end. PostgreSQL and Spark workers leave something behind when killed.

    PostgreSQL leaves a shared memory segment, a Spark worker its executors, until they notice.
    """
    return 3 if server.kind in {"postgres", "spark-worker"} else 0


def _entry(running: RunningServer) -> ServerEntry:
    server = running.server
    return ServerEntry(
        server.name,
        kind=server.kind,
        pid=running.pid,
        port=server.port,
        log=str(server.log),
        data=str(server.data),
        version=server.version,
    )


@contextlib.contextmanager
def _on_signal(act: Callable[[], None]) -> Iterator[None]:
    def note(_number: int, _frame: FrameType | None) -> None:
        act()

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    former = {number: signal.signal(number, note) for number in numbers}
    try:
        yield
    finally:
        for number, disposition in former.items():
            signal.signal(number, disposition)


def is_alive(pid: int) -> bool:
    """Return whether a process of that ID runs."""
    return state_of(pid) != "gone" and _is_devstack(pid)


def _is_devstack(pid: int) -> bool:
    # Process IDs are reused: an old file must not match another process.
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"seamark.devstack" in words
