"""The files of a version of a Delta table, how a commit adds them, and what one that replaces some must check."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, RemoveAction

from seamark.errors import StaleFilesError
from seamark.tables.delta.commits import CommitOffsets
from seamark.tables.delta.files import DataFile, spell_statistic
from seamark.tables.model import TableLayout


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that a version of a table has. `rows` is None where the log has no statistics of it."""

    path: str
    size: int
    rows: int | None
    partition: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files of a table at one version."""

    version: int
    files: tuple[StoredFile, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files that a commit replaces. delta-rs (1.6) removes a file twice without an error, so we check it ourselves.

    A commit is tried for one number only, and this is checked for the version before it: a commit in between takes the
    number.

    Attributes:
        version: The version of the table at which they were read.
        removed: The files that are removed.
        known: All files that were read, where no other one may have come meanwhile: it could have rows of the same
            keys. None where only those that are removed count.
    """

    version: int
    removed: tuple[StoredFile, ...]
    known: frozenset[str] | None = None

    def check(self, table: DeltaTable) -> None:
        """Check that the files are still those that were read.

        Raises:
            StaleFilesError: They aren't.
        """
        if table.version() == self.version:
            return
        now = {file.path for file in list_stored(table).files}
        gone = sorted({file.path for file in self.removed} - now)
        if self.known is not None:
            gone += sorted(now - self.known)
        if gone:
            raise StaleFilesError(
                f"another process changed {len(gone)} files of the table in the meantime; no changes were made",
                cause=f"for example {gone[0]}",
                hint="try again",
            )


@dataclass(frozen=True, slots=True)
class TableContents:
    """All that a table has at one version: its files as a commit adds them, its columns, and the offsets.

    `made_at_ms` is when the offsets were committed; 0 if that isn't known.
    """

    version: int
    files: tuple[AddAction, ...]
    schema: Schema
    vector: CommitOffsets
    made_at_ms: int = 0


def list_stored(table: DeltaTable) -> StoredFiles:
    """List the files of a table at the version that was opened."""
    told = pa.table(table.get_add_actions(flatten=True))
    parts = {name.removeprefix("partition."): name for name in told.column_names if name.startswith("partition.")}
    columns = {key: told.column(name).to_pylist() for key, name in parts.items()}
    paths, sizes = told.column("path").to_pylist(), told.column("size_bytes").to_pylist()
    rows = told.column("num_records").to_pylist() if "num_records" in told.column_names else [None] * len(paths)
    files = tuple(
        StoredFile(
            path,
            sizes[place],
            rows[place],
            {key: None if (value := found[place]) is None else str(value) for key, found in columns.items()},
        )
        for place, path in enumerate(paths)
    )
    return StoredFiles(table.version(), files)


def list_adds(table: DeltaTable) -> Iterator[AddAction]:
    """List the files of a table as a commit adds them, with their statistics."""
    told = pa.table(table.get_add_actions(flatten=False)).to_pylist()
    for one in told:
        stats = {
            "numRecords": one.get("num_records"),
            "minValues": _spell_values(one.get("min")),
            "maxValues": _spell_values(one.get("max")),
            "nullCount": {name: count for name, count in (one.get("null_count") or {}).items() if count is not None},
        }
        parts = {name: None if value is None else str(value) for name, value in (one.get("partition") or {}).items()}
        yield AddAction(
            path=one["path"],
            size=one["size_bytes"],
            partition_values=parts,
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=json.dumps({name: value for name, value in stats.items() if value is not None}),
        )


def _spell_values(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """The least or the largest values of a file, as `build_stats` spells them; what can't be spelled is left out."""
    spelled = {name: spell_statistic(value, is_most=False) for name, value in (values or {}).items()}
    return {name: value for name, value in spelled.items() if value is not None}


def build_add(file: DataFile, *, is_change: bool = True) -> AddAction:
    """Return the part of a commit that adds a file."""
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=dict(file.partition),
        modification_time=int(time.time() * 1000),
        data_change=is_change,
        stats=file.stats,
    )


def build_remove(file: StoredFile, *, is_change: bool = True) -> RemoveAction:
    """Return the part of a commit that removes a file."""
    return RemoveAction(
        path=file.path,
        data_change=is_change,
        deletion_timestamp=int(time.time() * 1000),
        size=file.size,
        partition_values=dict(file.partition),
    )


# Delta has its own words for whole numbers. All others are the same.
_WORDS = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def build_layout(table: DeltaTable) -> TableLayout:
    """Return the columns of a table, in Spark's words, and those that it is partitioned by."""
    columns = {field.name: _spell(json.loads(field.type.to_json())) for field in table.schema().fields}
    return TableLayout(columns, tuple(table.metadata().partition_columns))


def _spell(kind: Any) -> str:
    """A type of Delta's JSON, as Spark spells it."""
    if isinstance(kind, str):
        return _WORDS.get(kind, kind)
    if kind["type"] == "struct":
        return f"struct<{','.join(one['name'] + ':' + _spell(one['type']) for one in kind['fields'])}>"
    if kind["type"] == "array":
        return f"array<{_spell(kind['elementType'])}>"
    return f"map<{_spell(kind['keyType'])},{_spell(kind['valueType'])}>"
