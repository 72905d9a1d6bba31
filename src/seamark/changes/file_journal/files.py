"""The layout of the journal's folder.

changes/ID.journal   the entries of a change
changes/ID.torn-N    bytes after the last whole entry, moved here when the change was taken over
open/ID              the change is open; contains the nonce of the process that may write its next entry
locks/HASH.lock      one file per lock, held with `flock`; names the locked resource and the last holder
drafts/              files before they are renamed into place
gate                 held with `flock` while a change is begun or taken over, or the key is recorded
key                  the record of the journal's key: its fingerprint
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from seamark.changes.journal import KeyRecord, choose_change, is_change_id, parse_change_id, parse_key_record
from seamark.errors import JournalError, TamperedJournalError

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. A nearly full disk accepts some of them and reports the error at the next call."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_file(path: Path) -> None:
    """Make a file durable that another process has written."""
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
    """Replace a file atomically: write a draft, fsync, rename, fsync of the folder."""
    fd = open_new(draft)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.replace(target)
    sync_folder(target.parent)


def open_new(path: Path) -> int:
    """Open a new, empty file for writing that only its owner can access, regardless of the umask."""
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, FILE_MODE)
    os.fchmod(fd, FILE_MODE)
    return fd


def make_folder(folder: Path) -> None:
    """Create a folder that only its owner can access, if it doesn't exist."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        return
    sync_folder(folder.parent)


def read_owned(path: Path) -> bytes:
    """Read a file that belongs to this user and that no other user can write.

    Raises:
        TamperedJournalError: the file has another owner, is writable by others, or is a symbolic link.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise TamperedJournalError(f"{path} is a symbolic link, and a journal never contains any") from None
        raise
    with os.fdopen(fd, "rb") as file:
        check_owner(path, os.fstat(fd))
        return file.read()


def check_owner(path: Path, status: os.stat_result) -> None:
    """Refuse a file of another user, or one that other users can write."""
    if status.st_uid != os.geteuid():
        raise TamperedJournalError(
            f"{path} belongs to user {status.st_uid}, but seamark runs as user {os.geteuid()}",
            hint=f"find out who created it; then run seamark as user {status.st_uid}, or: chown {os.geteuid()} {path}",
        )
    if status.st_mode & _WRITABLE_BY_OTHERS:
        mode = FOLDER_MODE if stat.S_ISDIR(status.st_mode) else FILE_MODE
        raise TamperedJournalError(
            f"other users can write to {path} (mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"find out who changed it, then: chmod {mode:o} {path}",
        )


@contextmanager
def journal_errors(doing: str, folder: Path, *, change: str = "") -> Iterator[None]:
    """Convert an error of the file system into one that names the failed operation and the next command."""
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
        return f"free space on its disk (df -h {folder})"
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"make it writable (ls -ld {folder}; findmnt -T {folder})"
    if code == errno.ENOENT:
        return f"find out who removed it (ls -la {folder})"
    return f"check its disk (dmesg | tail; findmnt -T {folder})"


#     entry 0000000123 <SHA-256 of the entry> <CRC-32 of this line so far>⏎
#     {"at":…}⏎
#
# The line has its own checksum, because a changed length must not look like an entry that was written only partly. An
# entry is JSON and contains neither a line break nor a zero byte, so a frame has neither in the wrong position.

_MAGIC = b"entry "
_END = b"\n"
_LENGTH_DIGITS = 10
# Magic, length, SHA-256 and CRC-32 in hexadecimal, two spaces between them, the line's end.
HEADER_BYTES = len(_MAGIC) + _LENGTH_DIGITS + 1 + 64 + 1 + 8 + 1
# What a file system returns for blocks that a power failure left unwritten. One flipped bit makes at most one zero
# byte.
_UNWRITTEN = bytes(16)


@dataclass(frozen=True, slots=True)
class Frames:
    """The content of a file: offset and bytes of each whole entry, then `torn_bytes` of a partly written one."""

    bodies: tuple[tuple[int, bytes], ...]
    size: int
    torn_bytes: bytes = b""


class DamagedFrameError(Exception):
    """A frame differs from what was written. Internal: the reader converts it into an error that names the file."""

    def __init__(self, reason: str, *, number: int, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.number = number
        self.offset = offset


def build_frame(body: bytes) -> bytes:
    """Build the frame of an entry as it is stored in the file."""
    return _build_header(len(body), hashlib.sha256(body).hexdigest().encode()) + body + _END


def split_frames(data: bytes) -> Frames:
    """Split a file's bytes into entries; `size` is the end of the last whole entry."""
    bodies: list[tuple[int, bytes]] = []
    offset = 0
    while offset < len(data):
        rest = memoryview(data)[offset:]
        length = _read_length(rest)
        if length is not None and len(rest) >= (total := HEADER_BYTES + length + len(_END)):
            body = bytes(rest[HEADER_BYTES : total - len(_END)])
            if build_frame(body) == rest[:total]:
                bodies.append((offset, body))
                offset += total
                continue
        if not _is_torn(bytes(rest), length=length):
            reason = "its bytes do not match its checksum" if length is not None else "its first line is damaged"
            raise DamagedFrameError(reason, number=len(bodies), offset=offset)
        break
    return Frames(bodies=tuple(bodies), size=offset, torn_bytes=data[offset:])


def _build_header(length: int, digest: bytes) -> bytes:
    line = _MAGIC + str(length).zfill(_LENGTH_DIGITS).encode() + b" " + digest + b" "
    return line + f"{zlib.crc32(line):08x}".encode() + _END


def _read_length(rest: memoryview) -> int | None:
    """Return the length in a frame's first line; None unless the line is complete and unchanged."""
    header = bytes(rest[:HEADER_BYTES])
    digits = header[len(_MAGIC) : len(_MAGIC) + _LENGTH_DIGITS]
    if len(header) < HEADER_BYTES or not digits.isdigit():
        return None
    digest = header[len(_MAGIC) + _LENGTH_DIGITS + 1 :][:64]
    return int(digits) if _build_header(int(digits), digest) == header else None


def _is_torn(rest: bytes, *, length: int | None) -> bool:
    """Return whether the bytes from a bad frame to the file's end are one incomplete write.

    A killed process or a full disk leaves the beginning of a frame; a power failure may leave unwritten blocks in it.
    Anything else was changed after it was written.
    """
    if _has_later_frame(rest):
        return False
    if _UNWRITTEN in rest:
        return True
    if length is not None:
        return len(rest) < HEADER_BYTES + length + len(_END)
    return len(rest) < HEADER_BYTES and _MAGIC.startswith(rest[: len(_MAGIC)])


def _has_later_frame(rest: bytes) -> bool:
    at = rest.find(_END + _MAGIC)
    while at >= 0:
        if _read_length(memoryview(rest)[at + 1 :]) is not None:
            return True
        at = rest.find(_END + _MAGIC, at + 1)
    return False


_SUFFIX = ".journal"
_SHOWN_CANDIDATES = 5


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below one journal folder."""

    folder: Path

    @property
    def changes(self) -> Path:
        """The folder of the changes' files."""
        return self.folder / "changes"

    @property
    def open(self) -> Path:
        """The folder that lists open changes, one file each."""
        return self.folder / "open"

    @property
    def locks(self) -> Path:
        """The folder of lock files."""
        return self.folder / "locks"

    @property
    def drafts(self) -> Path:
        """The folder for files that aren't renamed into place yet."""
        return self.folder / "drafts"

    @property
    def gate(self) -> Path:
        """The file that is locked while a change is begun or taken over."""
        return self.folder / "gate"

    @property
    def key(self) -> Path:
        """The record of the journal's key."""
        return self.folder / "key"

    def change_file(self, change: str) -> Path:
        """Return the file of a change's entries."""
        return self.changes / f"{change}{_SUFFIX}"

    def marker(self, change: str) -> Path:
        """Return the file that lists a change as open."""
        return self.open / change

    def next_torn_file(self, change: str) -> Path:
        """Return an unused file name for bytes found after a change's last whole entry."""
        number = 1
        while (path := self.changes / f"{change}.torn-{number}").exists():
            number += 1
        return path

    def lock_file(self, base_name: str) -> Path:
        """Return the file of a lock. Its name is a hash, because lock names may be long and contain any character."""
        return self.locks / f"{hashlib.sha256(base_name.encode()).hexdigest()[:32]}.lock"

    def draft(self, target: Path) -> Path:
        """Return the draft of a file. One name per target suffices: only the holder of the gate writes drafts."""
        return self.drafts / target.name

    def make(self) -> None:
        """Create the missing folders, and refuse a folder that others can write."""
        missing = [folder for folder in (self.folder, *self.folder.parents) if not folder.is_dir()]
        for folder in reversed(missing):
            make_folder(folder)
        self.check()
        for folder in (self.changes, self.open, self.locks, self.drafts):
            make_folder(folder)

    def check(self) -> None:
        """Refuse a folder that belongs to another user or that others can write."""
        if self.folder.exists():
            check_owner(self.folder, self.folder.stat())

    def change_ids(self) -> list[str]:
        """Return every change, the oldest first."""
        return sorted(name.removesuffix(_SUFFIX) for name in _names(self.changes) if name.endswith(_SUFFIX))

    def open_ids(self) -> list[str]:
        """Return every change that is listed as open, the oldest first."""
        return sorted(name for name in _names(self.open) if is_change_id(name))

    def resolve(self, change: str) -> str:
        """Return the full ID for an ID that may be shortened.

        Raises:
            UsageError: it is not an ID, or it matches several changes.
            NotFoundError: it matches none.
        """
        wanted = parse_change_id(change)
        if is_change_id(wanted) and self.change_file(wanted).exists():
            return wanted
        return choose_change(change, [name for name in self.change_ids() if name.startswith(wanted)])

    def read_marker(self, change: str) -> str | None:
        """Return the nonce of the process that may write the change's next entry; None if the change isn't open."""
        try:
            return read_owned(self.marker(change)).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise TamperedJournalError(f"{self.marker(change)} is damaged: it is not UTF-8") from None

    def read_key(self) -> KeyRecord | None:
        """Return the record of the journal's key; None if there is none."""
        try:
            return parse_key_record(read_owned(self.key), where=str(self.key))
        except FileNotFoundError:
            return None

    def write_key(self, record: KeyRecord) -> None:
        """Store the record of the journal's key. Only the holder of the gate may do this."""
        replace_file(self.key, record.to_bytes(), draft=self.draft(self.key))

    def write_marker(self, change: str, nonce: str) -> None:
        """Allow only the holder of this nonce to write the change's next entry."""
        target = self.marker(change)
        replace_file(target, nonce.encode(), draft=self.draft(target))

    def drop_marker(self, change: str) -> None:
        """Remove a change from the list of open ones."""
        self.marker(change).unlink(missing_ok=True)

    def drop_change(self, change: str) -> None:
        """Remove a change that was never begun. Its file goes first, so that no open change is ever unlisted."""
        self.change_file(change).unlink(missing_ok=True)
        sync_folder(self.changes)
        self.drop_marker(change)


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
