"""Where an intent goes when the journal can't take it.

If the journal fails after a stop, the connector must not stay stopped because of it: the intent to restore it is made
durable in a local file, then it is restored. Nothing is read back from these files; they tell the operator what was
done without the journal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from seamark.core.format_version import StoredFormat
from seamark.errors import JournalError

FORMAT = StoredFormat("spooled intent", 1)


class Spool(Protocol):
    """A place on this machine for the intents of a change whose journal failed."""

    def write(self, change: str, number: int, record: Mapping[str, Any]) -> str:
        """Make the record of one step durable and say where it is. JournalError if that fails; then nothing is done."""
        ...


class FileSpool:
    """A folder of small JSON files that only their owner can read."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder).expanduser().absolute()

    def write(self, change: str, number: int, record: Mapping[str, Any]) -> str:
        """See `Spool.write`. An older file of the same step is never written over."""
        data = json.dumps(
            {**FORMAT.field, "change": change, "step": number, **record},
            indent=1,
            sort_keys=True,
            ensure_ascii=False,
        ).encode()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._write_new(f"{change}.{number}", data)
            _sync_folder(self._folder)
        except OSError as error:
            raise JournalError(
                f"neither the journal nor {self._folder} can be written",
                cause=error.strerror or str(error),
                context={"change": change},
            ) from error
        return str(path)

    def _write_new(self, stem: str, data: bytes) -> Path:
        for attempt in range(1000):
            path = self._folder / (f"{stem}.json" if attempt == 0 else f"{stem}.{attempt}.json")
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            return path
        raise FileExistsError(17, "too many files of one step", str(self._folder / stem))


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
