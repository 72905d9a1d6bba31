"""The servers of the demo: started by devstack as a child, ended by its own way to end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from seamark.errors import DevstackError

if TYPE_CHECKING:
    from seamark.devstack import Stack

# devstack's own words for "everything is up": of a supervisor, and of the starter of a detached one.
_READY = ("ready: ", "the stack ")
_DEVSTACK = (sys.executable, "-m", "seamark.devstack")
# Ending takes 1-4 s here; devstack itself gives a supervisor 30 s.
_END_SECONDS = 45.0


@contextlib.contextmanager
def run_servers(file: Path, *, options: Sequence[str], keep: bool, tell: Callable[[str], None]) -> Iterator[Stack]:
    """Start a stack that lives as long as this block; with `keep` it goes on if the block ends well.

    Without `keep` the kernel ends the servers even if this process is killed.
    """
    with _ended_by_signals(), _run_detached(file, options, tell) if keep else _run_tied(file, options, tell):
        from seamark.devstack import load_stack  # noqa: PLC0415

        yield load_stack(file)


@contextlib.contextmanager
def _run_tied(file: Path, options: Sequence[str], tell: Callable[[str], None]) -> Iterator[None]:
    process = _start(["up", "--foreground", *options], file)
    try:
        said = _tell_until_ready(process.stdout, tell)
        if said is not None:
            raise _build_failure(said)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        _await_end(process)


@contextlib.contextmanager
def _run_detached(file: Path, options: Sequence[str], tell: Callable[[str], None]) -> Iterator[None]:
    process = _start(["up", *options], file)
    try:
        _await_started(process, tell)
        yield
    except BaseException:
        # A second signal changes nothing where it has ended.
        process.send_signal(signal.SIGINT)
        _await_end(process)
        if file.exists():
            _await_end(_start(["down"], file))
        raise
    finally:
        _close(process)


def _start(arguments: Sequence[str], file: Path) -> subprocess.Popen[str]:
    environ = {name: value for name, value in os.environ.items() if name != "SEAMARK_DEVSTACK"}
    return subprocess.Popen(
        [*_DEVSTACK, *arguments, "--name", "demo", "--file", str(file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**environ, "PYTHONUNBUFFERED": "1"},
        # Its own session: a Ctrl-C must not end the servers before the command that still talks to them.
        start_new_session=True,
    )


def _await_started(process: subprocess.Popen[str], tell: Callable[[str], None]) -> None:
    said = _tell_until_ready(process.stdout, tell)
    if process.wait(_END_SECONDS):
        raise _build_failure(said or [])


def _tell_until_ready(stream: IO[str] | None, tell: Callable[[str], None]) -> list[str] | None:
    """Pass on what it says. Gives None once it is ready, or all it said if it ended before."""
    said = []
    for line in stream or ():
        if line.startswith(_READY):
            return None
        said.append(line.rstrip())
        tell(line.rstrip())
    return said


def _build_failure(said: Sequence[str]) -> DevstackError:
    return DevstackError(
        "the servers of the demo did not start",
        cause="\n".join(said[-15:]),
        hint="seamark demo again tries again; docs/devstack.md says what is needed",
    )


def _await_end(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    finally:
        _close(process)


def _close(process: subprocess.Popen[str]) -> None:
    if process.stdout:
        process.stdout.close()


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a closed terminal and a plain kill end the servers as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    former = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, disposition in former.items():
            signal.signal(number, disposition)
