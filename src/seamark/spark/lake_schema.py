"""The columns of a landing's table in a lake, as Arrow has them. Needs no Spark itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from seamark.pipelines.lake_column import DATE_COLUMN, DEAD_LETTER, find_lake_type
from seamark.pipelines.landing import Landing, OnError

if TYPE_CHECKING:
    # Executors write files, and have no delta-rs.
    from seamark.lake.table import LakeTable

_TYPES = {
    "string": pa.string(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_LETTER = pa.struct(
    [
        ("reason", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TYPES["timestamp"]),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def build_file_schema(landing: Landing) -> pa.Schema:
    """What stands in the data files."""
    fields = [pa.field(column.name, _find(find_lake_type(column))) for column in landing.columns]
    if landing.on_error is OnError.DEAD_LETTER:
        fields.append(pa.field(DEAD_LETTER, _LETTER))
    return pa.schema(fields)


def build_table_schema(landing: Landing) -> pa.Schema:
    """What the table has: dates that it is parted by stand in no file."""
    fields = list(build_file_schema(landing))
    if landing.date_from:
        fields.append(pa.field(DATE_COLUMN, pa.date32()))
    return pa.schema(fields)


def make_fit(table: LakeTable, landing: Landing) -> None:
    """Make the table, or add the columns that it has not."""
    schema = build_table_schema(landing)
    table.create(schema, partition_by=[DATE_COLUMN] if landing.date_from else [])
    table.add_columns(schema)


def _find(kind: str) -> pa.DataType:
    if found := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _TYPES[kind]
