"""Start a stack, and connect to a running one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from seamark.devstack.stack import Stack, StackSpec, read_stack
from seamark.errors import DevstackError

READY = "ready: "


def load_stack(path: str | Path) -> Stack:
    """Read the file of a running stack."""
    return read_stack(Path(path))


@contextlib.contextmanager
def start_stack(spec: StackSpec | None = None, *, name: str = "test") -> Iterator[Stack]:
    """Start a stack that runs as long as this block, and no longer than this process."""
    with tempfile.TemporaryDirectory(prefix="seamark-stack-") as folder:
        file = Path(folder) / "stack.json"
        process = _spawn(spec or StackSpec(), name=name, file=file)
        try:
            _await_ready(process)
            yield load_stack(file)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
            if process.stdout:
                process.stdout.close()


def _spawn(spec: StackSpec, *, name: str, file: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "seamark.devstack", "up", "--foreground", "--name", name, "--file", str(file)]
    return subprocess.Popen(
        [*command, "--spec", spec.to_json()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def _await_ready(process: subprocess.Popen[str]) -> None:
    said: list[str] = []
    for line in _lines(process.stdout):
        if line.startswith(READY):
            return
        said.append(line)
    raise DevstackError(
        f"the stack did not start: its supervisor ended with exit code {process.wait(10)}", cause="\n".join(said[-20:])
    )


def _lines(stream: IO[str] | None) -> Iterator[str]:
    for line in stream or ():
        yield line.rstrip("\n")


_NAME = "control.sock"
# A restart waits up to 120 s for a worker; the caller waits a little longer.
ANSWER_SECONDS = 150


class ControlSocket:
    """The supervisor's end of the control socket."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _short_path(folder) as path:
            self._socket.bind(path)
        (folder / _NAME).chmod(0o600)
        self._socket.listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def answer(self, obey: Callable[[str, str], dict[str, object]], *, seconds: float) -> None:
        """Wait up to some seconds for one request and answer it."""
        self._socket.settimeout(seconds)
        try:
            peer, _ = self._socket.accept()
        except (TimeoutError, InterruptedError):
            return
        with peer, contextlib.suppress(OSError, ValueError):
            peer.settimeout(5)
            request = json.loads(_read_line(peer))
            peer.sendall(json.dumps(obey(request["command"], request.get("name", ""))).encode() + b"\n")


def ask(folder: Path, command: str, name: str = "") -> dict[str, Any]:
    """Send one request to the supervisor of the stack in that folder and return its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(ANSWER_SECONDS)
        try:
            with _short_path(folder) as path:
                peer.connect(path)
        except OSError as error:
            raise DevstackError("the supervisor of the stack does not respond", cause=str(error)) from None
        peer.sendall(json.dumps({"command": command, "name": name}).encode() + b"\n")
        answer: dict[str, Any] = json.loads(_read_line(peer))
    if not answer.get("ok"):
        raise DevstackError(f"could not {command} {name}: {answer.get('error')}", cause=answer.get("cause", ""))
    return answer


@contextlib.contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    # A socket's path may have 107 bytes; a folder of pytest easily has more. The path through an open folder's
    # descriptor is always short.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{_NAME}"
    finally:
        os.close(descriptor)


def _read_line(peer: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = peer.recv(65536)
        if not part:
            raise DevstackError("the supervisor of the stack ended while it was responding")
        line += part
    return line
