"""The file of a standalone worker."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from seamark.errors import NotFoundError, SeamarkError
from seamark.kafka.raw_record import RawRecord
from seamark.offsets.codec.javamap import JavaMap, read_java_map
from seamark.offsets.stored_offset import StoreReading
from seamark.offsets.stores.grouping import build_home, build_reading


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
