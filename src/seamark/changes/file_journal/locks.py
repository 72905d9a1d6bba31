"""Lock files, held with `flock` as long as their process lives. They show whether the holder of a change is alive.

What excludes concurrent changes is the open change in the journal, whether its holder is alive or not; see
`journal.py`. All functions here run while the gate is held.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from seamark.changes.file_journal.files import FILE_MODE, Layout, open_new, write_all
from seamark.changes.locks import base_name
from seamark.errors import LockedError

# Appending doesn't use the gate. A holder that was suspended (SIGSTOP) during its change doesn't block other processes.

# A begin is about ten fsyncs. At 100 ms each, on a busy disk, that is one second; ten processes may be waiting.
GATE_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.005


@contextmanager
def hold_gate(layout: Layout, *, wait_seconds: float = GATE_WAIT_SECONDS) -> Iterator[None]:
    """Hold the gate. The kernel releases it when this process ends, however it ends."""
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
    """Lock a file without waiting; return False if another process holds it."""
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
                f"another seamark process has been starting a change for more than {wait_seconds:g} s",
                cause=f"process {holder} may be suspended, or its disk may not respond",
                hint=f"continue it (kill -CONT {process}) or end it (kill -9 {process}); both are safe",
            )
        time.sleep(_POLL_SECONDS)


def _sweep_drafts(layout: Layout) -> None:
    """Delete drafts. Only the holder of the gate creates drafts, so these are from a process that ended too early."""
    for path in layout.drafts.iterdir():
        path.unlink(missing_ok=True)


_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class HeldLockFiles:
    """The lock files that one writer holds."""

    fds: list[int]

    def release(self) -> None:
        """Release the locks. The files stay: deleting one while another process opens it would create two locks."""
        while self.fds:
            os.close(self.fds.pop())

    @contextmanager
    def released_on_error(self) -> Iterator[None]:
        """Release the locks if the block fails."""
        try:
            yield
        except BaseException:
            self.release()
            raise


def take_locks(layout: Layout, locks: Iterable[str], *, change: str, by: str, nonce: str) -> HeldLockFiles:
    """Take lock files in sorted order, without waiting.

    Raises:
        LockedError: a live process holds one. The caller has checked for open changes before, so that process has
            closed its change and not yet released its locks.
    """
    hold = HeldLockFiles([])
    with hold.released_on_error():
        for name in _sorted_names(locks):
            fd = os.open(layout.lock_file(name), _FLAGS, FILE_MODE)
            hold.fds.append(fd)
            if not try_flock(fd):
                raise _still_held(name, fd)
            _write_holder(fd, name, change=change, by=by, nonce=nonce)
    return hold


def replace_locks(layout: Layout, locks: Iterable[str], *, change: str, by: str, nonce: str) -> HeldLockFiles:
    """Take lock files over from a holder that may be alive: new files, locked before they replace the old ones.

    The previous holder keeps its lock on an unlinked file, where it blocks no other process.
    """
    hold = HeldLockFiles([])
    with hold.released_on_error():
        for name in _sorted_names(locks):
            target = layout.lock_file(name)
            draft = layout.draft(target)
            fd = open_new(draft)
            hold.fds.append(fd)
            # The file is new and only the holder of the gate knows its name, so no other process can have locked it.
            fcntl.flock(fd, fcntl.LOCK_EX)
            _write_holder(fd, name, change=change, by=by, nonce=nonce)
            draft.replace(target)
    return hold


def find_living_holder(layout: Layout, locks: Iterable[str]) -> str | None:
    """Return the holder of a change's lock files if its process is alive; None if it ended."""
    for name in _sorted_names(locks):
        try:
            fd = os.open(layout.lock_file(name), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            if not try_flock(fd):
                return _read_holder(fd)
        finally:
            os.close(fd)
    return None


def _still_held(name: str, fd: int) -> LockedError:
    return LockedError(
        f"{name} is still locked by a change that has just ended",
        cause=f"held by {_read_holder(fd)}",
        hint="run the command again; if the error persists, that process is suspended: continue it (kill -CONT) or "
        "end it",
        context={"lock": name},
    )


def _sorted_names(locks: Iterable[str]) -> list[str]:
    return sorted({base_name(lock) for lock in locks})


def _write_holder(fd: int, lock: str, *, change: str, by: str, nonce: str) -> None:
    """Write the holder into a lock file. Not synced: a lock doesn't outlive its process, so this need not either."""
    holder = {
        "lock": lock,
        "change": change,
        "by": by,
        "nonce": nonce,
        "pid": os.getpid(),
        "host": socket.gethostname(),
    }
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    write_all(fd, json.dumps(holder, ensure_ascii=False).encode() + b"\n")


def _read_holder(fd: int) -> str:
    try:
        holder = json.loads(os.pread(fd, 10_000, 0))
        return f"{holder['by']}, process {holder['pid']} on {holder['host']}"
    except (ValueError, KeyError, TypeError):
        return "an unknown process"
