"""The gate: one process at a time begins a change or takes one over. Between them the check and the act are one.

Appending does not pass the gate. A holder that was stopped (SIGSTOP) in the middle of its change holds nobody up.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from seamark.changes.file_journal.durable import FILE_MODE, write_all
from seamark.changes.file_journal.layout import Layout
from seamark.errors import LockedError

# A begin is about ten fsyncs. At 100 ms each, on a busy disk, that is one second; ten may stand in line.
GATE_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.005


@contextmanager
def hold_gate(layout: Layout, *, wait_seconds: float = GATE_WAIT_SECONDS) -> Iterator[None]:
    """Hold the gate. The kernel opens it when this process ends, however it ends."""
    fd = os.open(layout.gate, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        _wait_for(fd, wait_seconds=wait_seconds)
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        write_all(fd, f"{os.getpid()} on {socket.gethostname()}\n".encode())
        _sweep_drafts(layout)
        yield
    finally:
        os.close(fd)


def try_flock(fd: int) -> bool:
    """Lock a file without waiting; False if somebody else has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for(fd: int, *, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while not try_flock(fd):
        if time.monotonic() >= deadline:
            holder = os.pread(fd, 200, 0).decode(errors="replace").strip()
            process = holder.partition(" ")[0]
            raise LockedError(
                f"another seamark has been beginning a change for more than {wait_seconds:g} s",
                cause=f"it is process {holder}; it may be stopped, or its disk may hang",
                hint=f"let it go on (kill -CONT {process}) or end it (kill -9 {process}); nothing is lost by either",
            )
        time.sleep(_POLL_SECONDS)


def _sweep_drafts(layout: Layout) -> None:
    """Drafts are made by the holder of the gate only, so these are of one that ended before it renamed them."""
    for path in layout.drafts.iterdir():
        path.unlink(missing_ok=True)
