"""Where things stand in the journal's folder.

changes/ID.journal   the entries of a change
changes/ID.torn-N    what was found behind the last whole entry, set aside when the change was taken over
open/ID              the change is open; holds the nonce of whoever may write its next entry
locks/HASH.lock      one a lock, held by `flock`; says inside what it locks and who held it last
drafts/              files before they are renamed into place
gate                 `flock`ed for the moment in which a change is begun or taken over, or the key recorded
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

from seamark.changes.actor import LENGTH
from seamark.changes.journal import KeyRecord, parse_key_record
from seamark.errors import JournalError, NotFoundError, TamperedJournalError, UsageError

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


#     entry 0000000123 <SHA-256 of the entry> <CRC-32 of this line so far>⏎
#     {"at":…}⏎
#
# The line has a checksum of its own: a changed length must not look like an entry that was not written to its end. An
# entry is JSON and holds neither a line break nor a zero byte, so a frame has neither in the wrong place.

_MAGIC = b"entry "
_END = b"\n"
_LENGTH_DIGITS = 10
# Magic, length, SHA-256 and CRC-32 in hexadecimal, two spaces between them, the line's end.
HEADER_BYTES = len(_MAGIC) + _LENGTH_DIGITS + 1 + 64 + 1 + 8 + 1
# What a file system gives for blocks that a power cut left unwritten. One changed bit makes one zero byte at most.
_UNWRITTEN = bytes(16)


@dataclass(frozen=True, slots=True)
class Frames:
    """What stands in a file: each whole entry's place and bytes, then `torn_bytes` of one not written to its end."""

    bodies: tuple[tuple[int, bytes], ...]
    size: int
    torn_bytes: bytes = b""


class DamagedFrameError(Exception):
    """A frame is not as it was written. Internal: the reader turns it into an error that names the file."""

    def __init__(self, reason: str, *, number: int, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.number = number
        self.offset = offset


def build_frame(body: bytes) -> bytes:
    """An entry's bytes as they stand in the file."""
    return _build_header(len(body), hashlib.sha256(body).hexdigest().encode()) + body + _END


def split_frames(data: bytes) -> Frames:
    """The entries in a file's bytes; `size` is where the whole ones end."""
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
    """The length in a frame's first line, if the line is whole and exactly as it was written."""
    header = bytes(rest[:HEADER_BYTES])
    digits = header[len(_MAGIC) : len(_MAGIC) + _LENGTH_DIGITS]
    if len(header) < HEADER_BYTES or not digits.isdigit():
        return None
    digest = header[len(_MAGIC) + _LENGTH_DIGITS + 1 :][:64]
    return int(digits) if _build_header(int(digits), digest) == header else None


def _is_torn(rest: bytes, *, length: int | None) -> bool:
    """Whether the bytes from a bad frame to the file's end are one write that did not finish.

    A killed process or a full disk leaves the beginning of a frame; a power cut may leave unwritten blocks in it.
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
        """The files of the changes."""
        return self.folder / "changes"

    @property
    def open(self) -> Path:
        """The list of open changes: a file each."""
        return self.folder / "open"

    @property
    def locks(self) -> Path:
        """The lock files."""
        return self.folder / "locks"

    @property
    def drafts(self) -> Path:
        """Files before they stand in their place."""
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
        """The file of a change's entries."""
        return self.changes / f"{change}{_SUFFIX}"

    def marker(self, change: str) -> Path:
        """The file that lists a change as open."""
        return self.open / change

    def next_torn_file(self, change: str) -> Path:
        """A name that is not taken, for what is found behind a change's last whole entry."""
        number = 1
        while (path := self.changes / f"{change}.torn-{number}").exists():
            number += 1
        return path

    def lock_file(self, base_name: str) -> Path:
        """Names of things may hold any letter and be long; the file's name is a hash, the name stands inside."""
        return self.locks / f"{hashlib.sha256(base_name.encode()).hexdigest()[:32]}.lock"

    def draft(self, target: Path) -> Path:
        """Only the holder of the gate writes drafts, so that one name for each target is enough."""
        return self.drafts / target.name

    def make(self) -> None:
        """Make what is missing of the folders, and refuse a folder that others can write."""
        missing = [folder for folder in (self.folder, *self.folder.parents) if not folder.is_dir()]
        for folder in reversed(missing):
            make_folder(folder)
        self.check()
        for folder in (self.changes, self.open, self.locks, self.drafts):
            make_folder(folder)

    def check(self) -> None:
        """Refuse a folder of somebody else, or one that others can write."""
        if self.folder.exists():
            check_owner(self.folder, self.folder.stat())

    def change_ids(self) -> list[str]:
        """Every change, the oldest first."""
        return sorted(name.removesuffix(_SUFFIX) for name in _names(self.changes) if name.endswith(_SUFFIX))

    def open_ids(self) -> list[str]:
        """Every change that is listed open, the oldest first."""
        return sorted(name for name in _names(self.open) if is_change_id(name))

    def resolve(self, change: str) -> str:
        """The whole id for one that may be shortened.

        Raises:
            UsageError: it is no id, or it fits several changes.
            NotFoundError: it fits none.
        """
        wanted = change.strip().upper()
        if not wanted.isascii() or not wanted.isalnum() or len(wanted) > LENGTH:
            raise UsageError(f"{change!r} is no change id", hint="seamark journal list shows the ids")
        if is_change_id(wanted) and self.change_file(wanted).exists():
            return wanted
        found = [name for name in self.change_ids() if name.startswith(wanted)]
        if not found:
            raise NotFoundError(
                f"the journal has no change {change}", hint="seamark journal list", context={"change": change}
            )
        if len(found) > 1:
            shown = ", ".join(found[:_SHOWN_CANDIDATES])
            more = f" and {len(found) - _SHOWN_CANDIDATES} more" if len(found) > _SHOWN_CANDIDATES else ""
            raise UsageError(f"{change} fits {len(found)} changes", cause=f"{shown}{more}", hint="give more letters")
        return found[0]

    def read_marker(self, change: str) -> str | None:
        """The nonce of whoever may write the change's next entry; None if the change is not open."""
        try:
            return read_owned(self.marker(change)).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise TamperedJournalError(f"{self.marker(change)} is not as seamark writes it") from None

    def read_key(self) -> KeyRecord | None:
        """Return the record of the journal's key; None where there is none."""
        try:
            return parse_key_record(read_owned(self.key), where=str(self.key))
        except FileNotFoundError:
            return None

    def write_key(self, record: KeyRecord) -> None:
        """Store the record of the journal's key. Only the holder of the gate may."""
        replace_file(self.key, record.to_bytes(), draft=self.draft(self.key))

    def write_marker(self, change: str, nonce: str) -> None:
        """From now on only the holder of this nonce may write the change's next entry."""
        target = self.marker(change)
        replace_file(target, nonce.encode(), draft=self.draft(target))

    def drop_marker(self, change: str) -> None:
        """The change is no longer open."""
        self.marker(change).unlink(missing_ok=True)

    def drop_change(self, change: str) -> None:
        """Take back a change that was never begun: its file first, so that no open change is ever unlisted."""
        self.change_file(change).unlink(missing_ok=True)
        sync_folder(self.changes)
        self.drop_marker(change)


def is_change_id(text: str) -> bool:
    """Whether this can be a change's id, and so a file's name."""
    return len(text) == LENGTH and text.isascii() and text.isalnum() and text == text.upper()


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
