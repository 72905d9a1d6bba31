"""Housekeeping of Delta tables: which small files become one, which files are unneeded; and which pipelines a lake has.

What is done to files is planned and committed here, and done by Spark's tasks. Neither excludes batches of a pipeline:
a merge is committed only if all of its files are still there, and deletes concern files that no version of the last
hour had.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from seamark.core.refs import build_pipeline_owner, parse_owner
from seamark.core.strict_json import StoredFormat, check_format
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UnreachableError
from seamark.tables.delta.buckets import DEAD_PREFIX, TOMBSTONES, parse_bucket_name
from seamark.tables.delta.files import FILE_BYTES, DataFile, FileWriter, build_file_name, conform
from seamark.tables.delta.location import TableLocation
from seamark.tables.delta.stored_files import Rewrite, StoredFile, list_stored
from seamark.tables.delta.table import LakeTable
from seamark.tables.model import FilePart

# A file above this size isn't worth being read and written again.
_ENOUGH_BYTES = FILE_BYTES * 3 // 4
_READ_ROWS = 64 * 1024
DELETION_SECONDS = 1800.0
"""For how long a vacuum deletes files: no commit brings deleted files back meanwhile. The rest is for the next one."""
# How far the clocks of the driver and of the tasks may differ.
_CLOCKS = 300.0
LEAST_KEEP_SECONDS = 3600
"""A reader needs the files of the version that it has begun to read, and a running batch those that it has written."""


def list_files(table: LakeTable) -> list[FilePart]:
    """How many files each part of the table has, and how large they are together."""
    found: dict[str, list[StoredFile]] = {}
    for file in table.list_files().files:
        day = next(iter(file.partition.values()), None)
        found.setdefault(day or "", []).append(file)
    return [
        FilePart(
            day,
            len(files),
            sum(file.size for file in files),
            fewest=len(files) - sum(len(group.files) - 1 for group in plan_compaction(files)),
        )
        for day, files in sorted(found.items())
    ]


def count_rows(table: LakeTable) -> int | None:
    """Return the rows by the statistics of the log. None without a table, or if a file has no statistics."""
    try:
        rows = [file.rows for file in table.list_files().files]
    except NotFoundError:
        return None
    known = [count for count in rows if count is not None]
    return sum(known) if len(known) == len(rows) else None


class NumberedWriter(Protocol):
    """Does numbered pieces of work, on an executor: rows are their numbers. It is pickled."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> dict[str, Any] | None:
        """Do the pieces of one task, and return a receipt."""


REBUILD = "_seamark_rebuild"
"""The folder with the log of a rebuild. Tools that clean up a table leave out names with an underscore."""
_LOG = "/_delta_log/"
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.(.+\.)?parquet", re.ASCII)
RunTasks = Callable[[int, NumberedWriter], list[dict[str, Any]]]
"""Has tasks do so many pieces of work, and returns their receipts."""


def compact_files(table: LakeTable, run: RunTasks) -> tuple[int, int]:
    """Merge small files of a table.

    Returns:
        How many files became how many.

    Raises:
        StaleFilesError: Another process has replaced or deleted one of them meanwhile. Nothing was changed.
    """
    found = table.list_files()
    groups = tuple(plan_compaction(found.files))
    if not groups:
        return 0, 0
    receipts = run(len(groups), CompactionWriter(table.at, build_stored_schema(table), groups))
    files = [DataFile(**file) for one in receipts for file in one["files"]]
    removed = tuple(file for group in groups for file in group.files)
    kept, written = sum(file.rows or 0 for file in removed), sum(file.rows for file in files)
    if kept != written and all(file.rows is not None for file in removed):
        raise RefusedError(
            f"a compaction of {table.at.url} read {written:,} rows where the log has {kept:,}; no changes were made",
            hint="compare the files of the table with its log, and restore what is missing",
        )
    table.replace_files(files, Rewrite(found.version, removed))
    return len(removed), len(files)


def vacuum_files(table: LakeTable, run: RunTasks, *, keep_seconds: float) -> int:
    """Delete the files that no version of the last `keep_seconds` has.

    Returns:
        How many were deleted.

    Raises:
        RefusedError: The time is too short for readers and running batches.
    """
    _check_keep(table, keep_seconds)
    rebuilt = list_rebuilt_files(table)
    until = time.time() + DELETION_SECONDS
    # No other process has the same: it also tells whose deletion it is.
    until_ms = int(until * 1000) - random.randrange(1000)  # noqa: S311
    paths = tuple(
        table.begin_deletion(
            lambda opened: _choose_unneeded(table, opened, rebuilt=rebuilt, keep_seconds=keep_seconds),
            until_ms=until_ms,
        )
    )
    if not paths:
        return 0
    # If it fails, a task may still be deleting: then the time has to pass.
    deleted: int = sum(one["deleted"] for one in run(len(paths), VacuumWriter(table.at, paths, until=until - _CLOCKS)))
    table.end_deletion(until_ms=until_ms)
    return deleted


@dataclass(frozen=True, slots=True)
class CompactionGroup:
    """Small files of one partition of a table that become one file."""

    files: tuple[StoredFile, ...]


def plan_compaction(files: Iterable[StoredFile]) -> list[CompactionGroup]:
    """Plan which files are merged: small ones of the same partition, up to the size that a file is to have.

    The files of buckets stay: each holds the rows of its keys.
    """
    parts: dict[tuple[bool, tuple[tuple[str, str | None], ...]], list[StoredFile]] = {}
    for file in files:
        if file.size < _ENOUGH_BYTES and parse_bucket_name(file.path, size=0) is None:
            key = (file.path.startswith(DEAD_PREFIX), tuple(sorted(file.partition.items())))
            parts.setdefault(key, []).append(file)
    return [CompactionGroup(tuple(group)) for part in parts.values() for group in _pack(part) if len(group) > 1]


def _pack(files: Sequence[StoredFile]) -> Iterator[list[StoredFile]]:
    """Divide files into groups of at most the size of one file, the smallest first."""
    group: list[StoredFile] = []
    size = 0
    for file in sorted(files, key=lambda one: (one.size, one.path)):
        if group and size + file.size > FILE_BYTES:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class CompactionWriter:
    """Merges groups of files, on an executor: a group for each row. `schema` is that of the files."""

    place: TableLocation = field(repr=False)
    schema: pa.Schema
    groups: tuple[CompactionGroup, ...]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> dict[str, Any] | None:
        """Merge the groups of a task.

        Raises:
            UnreachableError: The store could not be read or written.
        """
        try:
            files = [self._merge(self.groups[number]) for batch in iterator for number in batch.column(0).to_pylist()]
        except OSError as error:
            raise _build_error(self.place, error) from error
        return {"files": [file.to_dict() for file in files]}

    def _merge(self, group: CompactionGroup) -> DataFile:
        store, first = self.place.open_files(), group.files[0]
        folder, _, name = first.path.rpartition("/")
        prefix = DEAD_PREFIX if name.startswith(DEAD_PREFIX) else "part-"
        target = f"{folder}/{build_file_name(prefix)}" if folder else build_file_name(prefix)
        writer = FileWriter(self.place, target, self.schema, files=store)
        for file in group.files:
            with store.open_input_file(f"{self.place.path}/{file.path}") as source:
                opened = pq.ParquetFile(source)
                known = [name for name in self.schema.names if name in opened.schema_arrow.names]
                for batch in opened.iter_batches(batch_size=_READ_ROWS, columns=known):
                    writer.append(conform(batch, self.schema))
        return writer.close(first.partition)


def build_stored_schema(table: LakeTable) -> pa.Schema:
    """Return the columns that stand in the files of a table: dates that it is parted by stand in none."""
    with table.telling():
        found = table.refresh()
        parts = set(found.metadata().partition_columns)
        return pa.schema([one for one in pa.schema(found.schema().to_arrow()) if one.name not in parts])


def plan_vacuum(table: LakeTable, *, keep_seconds: float) -> list[str]:
    """Plan which files are deleted: those that no version of the last `keep_seconds` has.

    Args:
        table: The table.
        keep_seconds: How long files are kept after they were replaced, and files that no commit names after they were
            written.

    Returns:
        Their paths below the table.

    Raises:
        RefusedError: Files would be deleted that readers or a running batch may need.
    """
    _check_keep(table, keep_seconds)
    rebuilt = list_rebuilt_files(table)
    with table.telling():
        return _choose_unneeded(table, table.refresh(), rebuilt=rebuilt, keep_seconds=keep_seconds)


def _check_keep(table: LakeTable, keep_seconds: float) -> None:
    if keep_seconds < LEAST_KEEP_SECONDS:
        raise RefusedError(
            f"files of {table.at.url} must be kept for at least {LEAST_KEEP_SECONDS // 3600} h",
            cause="readers use the version that they began to read, and a running batch has files without a commit",
            hint="use a longer duration, such as 7d",
        )


def _choose_unneeded(table: LakeTable, opened: DeltaTable, *, rebuilt: set[str], keep_seconds: float) -> list[str]:
    """Choose files by one version of the table.

    A file that is replaced between the reading of two lists would be in none of them, and look as if no commit had ever
    named it. For the same reason the files of a rebuild, which are part of no version until they are swapped in, are
    listed before the version is read.
    """
    before = time.time() - keep_seconds
    active = {file.path for file in list_stored(opened).files} | rebuilt
    replaced = Counter(_list_replaced(opened, 0))
    # Of what was replaced, Delta's log says when; and of what was never committed, the store says when. delta-rs (1.6)
    # lists a file that was restored and replaced again once for each time: the last one counts.
    expired = {path for path, times in Counter(_list_replaced(opened, keep_seconds)).items() if times == replaced[path]}
    found = sorted(_list_unneeded(table.at, active=active, replaced=set(replaced), expired=expired, before=before))
    if any(_find_data(path) not in replaced for path in found):
        # After delta.deletedFileRetentionDuration, by default a week, Delta's log no longer says when.
        kept = {file.path for file in list_stored(_open_at(table, before)).files}
        found = [path for path in found if (data := _find_data(path)) in replaced or data not in kept]
    return found


def _open_at(table: LakeTable, moment: float) -> DeltaTable:
    """Return a table as it was at a moment, or first in what is left of its log."""
    opened = DeltaTable(table.log.table_url, storage_options=table.log.build_options())
    try:
        opened.load_as_version(datetime.fromtimestamp(moment, UTC))
    except (DeltaError, FileNotFoundError):
        # Where the log was cleaned, its first version that can be read is one with a checkpoint.
        selector = pafs.FileSelector(f"{table.log.path}/_delta_log")
        names = [info.base_name for info in table.log.open_files().get_file_info(selector)]
        versions = [int(name.partition(".")[0]) for name in names if _CHECKPOINT.fullmatch(name)]
        if not versions:
            raise
        return table.open_version(min(versions))
    return opened


def open_rebuild(table: LakeTable, *, rebuild: str = "") -> LakeTable:
    """Return a table's rebuild: its files are in the folder of the table, and its log is in a folder below.

    Args:
        table: The table.
        rebuild: The ID that the rebuild must have, if that matters.
    """
    return LakeTable(table.at, owner=table.owner, log=table.at.below(REBUILD), table_id=rebuild)


def list_rebuilt_files(table: LakeTable) -> set[str]:
    """List the files of a table's rebuild; none if there is no rebuild.

    Raises:
        RefusedError: The log of the rebuild can't be read, so that its files aren't known.
    """
    rebuild = open_rebuild(table)
    try:
        return {file.path for file in rebuild.list_files().files}
    except NotFoundError:
        return set()
    except UnreachableError as error:
        raise explain_unreadable(rebuild, error) from error


def explain_unreadable(rebuild: LakeTable, error: UnreachableError) -> SeamarkError:
    """Return the error of a rebuild whose log can't be read: how to discard it, if the store can be read."""
    try:
        found = rebuild.log.open_files().get_file_info(pafs.FileSelector(rebuild.log.path, allow_not_found=True))
    except OSError:
        return error
    if not found:
        return error
    name = parse_owner(rebuild.owner).name
    return RefusedError(
        f"the log of the rebuild of {rebuild.at.url} is damaged; no changes were made",
        cause=error.cause,
        hint=f"discard the rebuild: seamark pipelines rebuild {name} --discard",
    )


def _list_replaced(opened: DeltaTable, seconds: float) -> list[str]:
    hours = int(-(-seconds // 3600))
    return list(opened.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False, full=False))


def _list_unneeded(
    place: TableLocation, *, active: set[str], replaced: set[str], expired: set[str], before: float
) -> Iterator[str]:
    selector = pafs.FileSelector(place.path, recursive=True, allow_not_found=True)
    found = {info.path.removeprefix(f"{place.path}/"): info for info in place.open_files().get_file_info(selector)}
    # Names of tables may contain slashes: `raw/orders` is a table of its own below `raw`.
    tables = {path.partition(_LOG)[0] for path in found if _LOG in path}
    for path, info in found.items():
        if info.type is not pafs.FileType.File or not path.endswith(".parquet"):
            continue
        data = _find_data(path)
        if data == path and path.startswith("_"):
            continue
        if data in active or any(one in tables for one in _list_folders(path)):
            continue
        is_old = info.mtime is not None and info.mtime.timestamp() < before
        if data in expired or (data not in replaced and is_old):
            yield path


def _find_data(path: str) -> str:
    """Return the file that a file belongs to: the tombstones of a bucket are needed as long as its file."""
    return path.removeprefix(f"{TOMBSTONES}/")


def _list_folders(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


@dataclass(frozen=True, slots=True)
class VacuumWriter:
    """Deletes files, on an executor: a file for each row."""

    place: TableLocation = field(repr=False)
    paths: tuple[str, ...]
    until: float = math.inf

    def write(self, iterator: Iterator[pa.RecordBatch]) -> dict[str, Any] | None:
        """Delete the files of a task, until the time is over. One that is gone already is what is wanted."""
        store, count = self.place.open_files(), 0
        try:
            for batch in iterator:
                for number in batch.column(0).to_pylist():
                    if time.time() >= self.until:
                        break
                    try:
                        store.delete_file(f"{self.place.path}/{self.paths[number]}")
                        count += 1
                    except FileNotFoundError:
                        continue
        except OSError as error:
            raise _build_error(self.place, error) from error
        return {"deleted": count}


FORMAT = StoredFormat("lake pipeline", 1)

_FOLDER, _ENDING = "_seamark/landings", ".json"


def enter_landing(lake: TableLocation, owner: str, *, table: str) -> None:
    """Write down that a landing has its offsets in a table. One that is at another table is refused."""
    known = find_table(lake, owner)
    if known == table:
        return
    if known is not None and LakeTable(lake.below(known), owner=owner).read_position().vector.entries:
        raise RefusedError(
            f"{owner} has its offsets in table {known}, and can't write to table {table}",
            cause="a pipeline has one table",
            hint="use another name for the pipeline; or, to start from the beginning, delete its offsets: "
            f"seamark offsets reset {owner}",
        )
    files, path = lake.open_files(), _build_path(lake, owner)
    try:
        if isinstance(files, pafs.LocalFileSystem):
            files.create_dir(path.rpartition("/")[0], recursive=True)
        with files.open_output_stream(path) as file:
            file.write(json.dumps({**FORMAT.field, "table": table}).encode())
    except OSError as error:
        raise _build_error(lake, error) from error


def find_table(lake: TableLocation, owner: str) -> str | None:
    """The table that a landing has its offsets in; None where the lake knows no such landing."""
    if "/" in parse_owner(owner).name:
        # No landing is named so, and no path is to be made of it.
        return None
    try:
        with lake.open_files().open_input_stream(_build_path(lake, owner)) as file:
            found = json.loads(file.read())
        check_format(FORMAT, found, where=f"{_FOLDER}/{parse_owner(owner).name}{_ENDING} in {lake.url}")
        return str(found["table"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _build_error(lake, error) from error


def list_owners(lake: TableLocation) -> list[str]:
    """Every landing that the lake knows."""
    folder = f"{lake.path}/{_FOLDER}"
    try:
        found = lake.open_files().get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    except OSError as error:
        raise _build_error(lake, error) from error
    names = sorted(one.base_name for one in found if one.base_name.endswith(_ENDING))
    return [build_pipeline_owner(name.removesuffix(_ENDING)) for name in names]


def open_landing(lake: TableLocation, owner: str) -> LakeTable | None:
    """The table with a landing's offsets; None where the lake knows no such landing."""
    table = find_table(lake, owner)
    return None if table is None else LakeTable(lake.below(table), owner=owner)


def _build_path(lake: TableLocation, owner: str) -> str:
    return f"{lake.path}/{_FOLDER}/{parse_owner(owner).name}{_ENDING}"


def _build_error(lake: TableLocation, error: Exception) -> UnreachableError:
    return UnreachableError(
        f"could not read or write the lake at {lake.url}",
        cause=" ".join(str(error).split())[:300],
        hint="check url, endpoint and keys of the lake in the context, and that its storage is reachable",
    )
