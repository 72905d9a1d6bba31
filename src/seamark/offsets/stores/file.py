"""Change the offset file of a standalone worker atomically, and only if it is unchanged since it was read."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnknownOutcomeError, UnsettledError
from seamark.kafka.model import RawRecord
from seamark.offsets.codec.java_map import JavaMap, read_java_map
from seamark.offsets.model import StoreReading
from seamark.offsets.stores.topic import build_home, build_reading


class FileStore:
    """One file with the offsets of all connectors of its worker. A running worker rewrites it at every flush."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """Return `file PATH`."""
        return f"file {self._path}"

    def read(self, owners: Collection[str] | None = None) -> StoreReading:
        """Read the current file. A truncated file is rejected, although a worker would treat it as empty."""
        java_map, written_ms = self.read_map()
        return build_file_reading(java_map, store=self.name, owners=owners, written_ms=written_ms)

    def read_map(self) -> tuple[JavaMap, int]:
        """Read the file, and when it was written, in milliseconds since the epoch."""
        try:
            data = self._path.read_bytes()
            written = datetime.fromtimestamp(self._path.stat().st_mtime, tz=UTC)
        except FileNotFoundError:
            raise NotFoundError(
                f"file {self._path} does not exist",
                cause="a worker that has not flushed yet has not written it; it starts without offsets",
                hint="check offset.storage.file.filename of the worker's properties",
                context={"file": str(self._path)},
            ) from None
        except OSError as failure:
            raise SeamarkError(
                f"{self._path} can't be read",
                cause=failure.strerror or type(failure).__name__,
                hint="check your permissions on it",
                context={"file": str(self._path)},
            ) from None
        return read_java_map(data, name=str(self._path)), int(written.timestamp() * 1000)


def build_file_reading(
    java_map: JavaMap, *, store: str, owners: Collection[str] | None = None, written_ms: int = -1
) -> StoreReading:
    """Build the reading of a file's map."""
    # A file has no partitions and no record offsets; all its entries have the time of its last flush.
    records = [RawRecord(-1, -1, written_ms, key, value) for key, value in java_map.entries]
    return build_reading(records, store=store, home=build_home(None), owners=owners, scanned=len(java_map.entries))


# The mode of a file that a worker creates, before the umask.
_NEW_MODE = 0o644
_DRAFT_MODE = 0o600


class FileSwap:
    """One file. Two seamark processes never change it at once: both lock its folder, which needs no lock file.

    A reader without the lock sees the previous file or the new one, never a part. If the process is killed, one of the
    two remains, and at most a draft that the next change removes.
    """

    def __init__(self, path: Path) -> None:
        # A symbolic link is kept: its target is replaced.
        self._path = Path(os.path.realpath(path))

    @property
    def path(self) -> Path:
        """Return the path with links resolved."""
        return self._path

    def read(self) -> bytes | None:
        """Return the bytes of the file, None if it does not exist.

        Raises:
            UnsettledError: Another process is changing it.
        """
        with self._locked(fcntl.LOCK_SH):
            return self._read()

    def swap(self, expected: str | None, content: bytes | None, *, make_sure: Callable[[], None]) -> None:
        """Replace the content whose digest is `expected`; None means no file.

        `make_sure` is called under the lock, and raises if the file is in use.

        Raises:
            RefusedError: The content is not as expected. Nothing was changed.
            UnknownOutcomeError: The file was replaced, but it is unknown whether it was written to disk.
        """
        with self._locked(fcntl.LOCK_EX):
            make_sure()
            if build_digest(self._read()) != expected:
                raise RefusedError(
                    f"{self._path} was written meanwhile; no changes were made",
                    hint="find and stop the other writer; then run the command again",
                )
            with self._errors():
                self._put(content)
            try:
                _sync(self._path.parent)
            except OSError as error:
                raise UnknownOutcomeError(
                    f"{self._path} was replaced, but the disk did not confirm it",
                    cause=error.strerror or type(error).__name__,
                ) from None

    def _put(self, content: bytes | None) -> None:
        if content is None:
            self._path.unlink()
            return
        draft = self._path.with_name(f".{self._path.name}.seamark")
        # A killed process may have left its draft. No other process uses it, because the folder is locked.
        draft.unlink(missing_ok=True)
        former = self._path.stat() if self._path.exists() else None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(draft, flags, _DRAFT_MODE if former else _NEW_MODE), "wb") as file:
                self._dress(file.fileno(), former)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise

    def _dress(self, fd: int, former: os.stat_result | None) -> None:
        """Give the new file the owner and the mode of the previous one, so that its worker can use it."""
        mine = os.fstat(fd)
        # A new file gets the owner of the folder, if the process may set it.
        wanted = former or (self._path.parent.stat() if os.geteuid() == 0 else mine)
        if (wanted.st_uid, wanted.st_gid) != (mine.st_uid, mine.st_gid):
            try:
                os.fchown(fd, wanted.st_uid, wanted.st_gid)
            except PermissionError:
                raise RefusedError(
                    f"{self._path} belongs to user {wanted.st_uid}, group {wanted.st_gid}; no changes were made",
                    cause="the new file would belong to you, and its worker could not write it",
                    hint="run the command as that user",
                ) from None
        if former is not None:
            os.fchmod(fd, stat.S_IMODE(former.st_mode))

    def _read(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as failure:
            raise SeamarkError(
                f"{self._path} can't be read",
                cause=failure.strerror or type(failure).__name__,
                hint="check your permissions on it",
            ) from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SeamarkError(
                f"{self._path} can't be written; no changes were made",
                cause=error.strerror or type(error).__name__,
                hint="check your permissions on its folder, and whether the disk is full",
            ) from None

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        folder = self._path.parent
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SeamarkError(
                f"the folder {folder} can't be opened",
                cause=error.strerror or type(error).__name__,
                hint="check offset.storage.file.filename of the worker's properties",
            ) from None
        try:
            self._lock(fd, how)
            yield
        finally:
            os.close(fd)

    def _lock(self, fd: int, how: int) -> None:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnsettledError(
                f"another seamark process is changing {self._path}", hint="run the command again later"
            ) from None
        except OSError as error:
            raise RefusedError(
                f"the folder of {self._path} can't be locked; no changes were made",
                cause=error.strerror or type(error).__name__,
                hint="copy the file to a file system that supports locks, change it there, and copy it back",
            ) from None


def build_digest(content: bytes | None) -> str | None:
    """Return a digest that identifies the content; None for no file."""
    return None if content is None else f"sha256:{hashlib.sha256(content).hexdigest()}"


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
