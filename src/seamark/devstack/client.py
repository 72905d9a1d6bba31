"""Starting a stack and reaching a running one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from seamark.devstack.spec import StackSpec
from seamark.devstack.stack import Stack, read_stack
from seamark.errors import DevstackError

READY = "ready: "


def load_stack(path: str | Path) -> Stack:
    """Read the file of a running stack."""
    return read_stack(Path(path))


@contextlib.contextmanager
def start_stack(spec: StackSpec | None = None, *, name: str = "test") -> Iterator[Stack]:
    """Start a stack that lives as long as this block, and no longer than this process."""
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
        f"the stack did not start: its supervisor ended with {process.wait(10)}", cause="\n".join(said[-20:])
    )


def _lines(stream: IO[str] | None) -> Iterator[str]:
    for line in stream or ():
        yield line.rstrip("\n")
