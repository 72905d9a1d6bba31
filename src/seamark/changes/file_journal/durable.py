"""Files that are on the disk when a function returns, and errors that say what to type when they can't be."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seamark.errors import JournalError, TamperedJournalError

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def write_all(fd: int, data: bytes) -> None:
    """Write every byte; a disk that is nearly full takes some of them and says so at the next call."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_file(path: Path) -> None:
    """Make a file durable that somebody else has written."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make new, renamed and removed names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(target: Path, data: bytes, *, draft: Path) -> None:
    """Put a file in place whole: a draft, fsync, rename, fsync of the folder."""
    fd = open_new(draft)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.replace(target)
    sync_folder(target.parent)


def open_new(path: Path) -> int:
    """An empty file for writing, its owner's alone whatever the umask says."""
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, FILE_MODE)
    os.fchmod(fd, FILE_MODE)
    return fd


def make_folder(folder: Path) -> None:
    """Make a folder, its owner's alone, if it is not there."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        return
    sync_folder(folder.parent)


def read_owned(path: Path) -> bytes:
    """A file's bytes, if it is ours and nobody else can write it; else it is refused by name."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise TamperedJournalError(f"{path} is a symbolic link; the journal has none") from None
        raise
    with os.fdopen(fd, "rb") as file:
        check_owner(path, os.fstat(fd))
        return file.read()


def check_owner(path: Path, status: os.stat_result) -> None:
    """Refuse what is somebody else's, or what somebody else can write."""
    if status.st_uid != os.geteuid():
        raise TamperedJournalError(
            f"{path} belongs to user {status.st_uid}, and this is user {os.geteuid()}",
            hint=f"find out who put it there; run seamark as user {status.st_uid}, or: chown {os.geteuid()} {path}",
        )
    if status.st_mode & _WRITABLE_BY_OTHERS:
        mode = FOLDER_MODE if stat.S_ISDIR(status.st_mode) else FILE_MODE
        raise TamperedJournalError(
            f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"find out who changed it, then: chmod {mode:o} {path}",
        )


@contextmanager
def journal_errors(doing: str, folder: Path, *, change: str = "") -> Iterator[None]:
    """Turn an error of the file system into one that says what was not done and what to type."""
    try:
        yield
    except OSError as error:
        after = f"; then: seamark journal resume {change}" if change else "; then run the command again"
        raise JournalError(
            f"{doing}: the journal in {folder} can't be used",
            cause=f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}",
            hint=_next_step(error.errno, folder) + after,
            context={"folder": str(folder)} | ({"change": change} if change else {}),
        ) from error


def _next_step(code: int | None, folder: Path) -> str:
    if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"make room on its disk (df -h {folder})"
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"make it writable (ls -ld {folder}; findmnt -T {folder})"
    if code == errno.ENOENT:
        return f"find out who removed it (ls -la {folder})"
    return f"look after its disk (dmesg | tail; findmnt -T {folder})"
