"""Changing the file of a standalone worker: whole or not at all, and only if it is still what somebody looked at."""

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
    """One file, with the offsets of all connectors of its worker. A worker that runs writes it whole at every flush."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """`file PATH`."""
        return f"file {self._path}"

    def read(self, owners: Collection[str] | None = None) -> StoreReading:
        """What the file holds as it is now. A file that was cut off is refused, where a worker would begin anew."""
        java_map, written_ms = self.read_map()
        return build_file_reading(java_map, store=self.name, owners=owners, written_ms=written_ms)

    def read_map(self) -> tuple[JavaMap, int]:
        """The file as it is, and when it was written, in milliseconds since the epoch."""
        try:
            data = self._path.read_bytes()
            written = datetime.fromtimestamp(self._path.stat().st_mtime, tz=UTC)
        except FileNotFoundError:
            raise NotFoundError(
                f"there is no file {self._path}",
                cause="a worker that has not flushed yet has written none; it begins without offsets",
                hint="check offset.storage.file.filename of the worker's properties",
                context={"file": str(self._path)},
            ) from None
        except OSError as failure:
            raise SeamarkError(
                f"{self._path} can't be read",
                cause=failure.strerror or type(failure).__name__,
                hint="look whether you may read it",
                context={"file": str(self._path)},
            ) from None
        return read_java_map(data, name=str(self._path)), int(written.timestamp() * 1000)


def build_file_reading(
    java_map: JavaMap, *, store: str, owners: Collection[str] | None = None, written_ms: int = -1
) -> StoreReading:
    """What the map of a file holds."""
    # A file has no partitions and no offsets; all its entries are of the time of its last flush.
    records = [RawRecord(-1, -1, written_ms, key, value) for key, value in java_map.entries]
    return build_reading(records, store=store, home=build_home(None), owners=owners, scanned=len(java_map.entries))


# As a worker makes a new one, less what the umask takes away.
_NEW_MODE = 0o644
_DRAFT_MODE = 0o600


class FileSwap:
    """One file. Two programs of ours never change it at once: both lock its folder, which leaves no lock file behind.

    A reader that does not lock sees the former file or the new one, never a part. A process that is killed leaves the
    one or the other, and at most a draft that the next change takes away.
    """

    def __init__(self, path: Path) -> None:
        # A name that is a link stays one: what it leads to is replaced.
        self._path = Path(os.path.realpath(path))

    @property
    def path(self) -> Path:
        """The file, links followed."""
        return self._path

    def read(self) -> bytes | None:
        """The bytes that stand there, None where there is no file.

        Raises:
            UnsettledError: somebody is changing it just now.
        """
        with self._locked(fcntl.LOCK_SH):
            return self._read()

    def swap(self, expected: str | None, content: bytes | None, *, make_sure: Callable[[], None]) -> None:
        """Put other content in the place of that whose digest is `expected`; None is no file.

        `make_sure` is called under the lock, and raises where the file is in use.

        Raises:
            RefusedError: it is not what was expected. Nothing was changed.
            UnknownOutcomeError: it was replaced, and nobody can tell whether that is on the disk.
        """
        with self._locked(fcntl.LOCK_EX):
            make_sure()
            if build_digest(self._read()) != expected:
                raise RefusedError(
                    f"{self._path} was written meanwhile; nothing was changed",
                    hint="find out who writes it; then repeat the command",
                )
            with self._errors():
                self._put(content)
            try:
                _sync(self._path.parent)
            except OSError as error:
                raise UnknownOutcomeError(
                    f"{self._path} is replaced, but its disk did not confirm it",
                    cause=error.strerror or type(error).__name__,
                ) from None

    def _put(self, content: bytes | None) -> None:
        if content is None:
            self._path.unlink()
            return
        draft = self._path.with_name(f".{self._path.name}.seamark")
        # One that was killed may have left its draft. Nobody else has it: the folder is locked.
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
        """Give the new file the owner and the mode of the former one: its worker must be able to go on with it."""
        mine = os.fstat(fd)
        # A new one belongs to whom the folder belongs, where that is in our power.
        wanted = former or (self._path.parent.stat() if os.geteuid() == 0 else mine)
        if (wanted.st_uid, wanted.st_gid) != (mine.st_uid, mine.st_gid):
            try:
                os.fchown(fd, wanted.st_uid, wanted.st_gid)
            except PermissionError:
                raise RefusedError(
                    f"{self._path} belongs to user {wanted.st_uid}, group {wanted.st_gid}; nothing was changed",
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
                hint="look whether you may read it",
            ) from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SeamarkError(
                f"{self._path} can't be written; nothing was changed",
                cause=error.strerror or type(error).__name__,
                hint="look whether you may write in its folder, and whether the disk is full",
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
                f"somebody changes {self._path} just now", hint="another seamark; try again in a moment"
            ) from None
        except OSError as error:
            raise RefusedError(
                f"the folder of {self._path} can't be locked; nothing was changed",
                cause=error.strerror or type(error).__name__,
                hint="its file system knows no locks: copy the file elsewhere, change it there, and copy it back",
            ) from None


def build_digest(content: bytes | None) -> str | None:
    """A name for content by which it is known again; None for no file."""
    return None if content is None else f"sha256:{hashlib.sha256(content).hexdigest()}"


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
