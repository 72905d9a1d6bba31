"""The columns of a landing's table in a lake, as Arrow has them. Needs no Spark itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from seamark.errors import RefusedError
from seamark.tables.definition import Landing
from seamark.tables.delta.technology import (
    DATE_COLUMN,
    DEAD_LETTER,
    build_lake_layout,
    build_lake_statements,
    find_lake_type,
)
from seamark.tables.model import ArrayShape, StructShape, TypeShape, parse_type

if TYPE_CHECKING:
    # Executors write files, and have no delta-rs.
    from seamark.tables.delta.table import LakeTable

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
    if landing.dead_letters is not None:
        fields.append(pa.field(DEAD_LETTER, _LETTER))
    return pa.schema(fields)


def build_table_schema(landing: Landing) -> pa.Schema:
    """What the table has: dates that it is parted by stand in no file."""
    fields = list(build_file_schema(landing))
    if landing.date_from:
        fields.append(pa.field(DATE_COLUMN, pa.date32()))
    return pa.schema(fields)


def make_fit(table: LakeTable, landing: Landing) -> None:
    """Make the table, or add the columns that it has not.

    Raises:
        RefusedError: the table has a column of another type, or is parted otherwise.
    """
    schema = build_table_schema(landing)
    table.create(schema, partition_by=build_lake_layout(landing).parted_by)
    # Another process may have made it, by another file.
    build_lake_statements(landing, table.read_layout())
    table.add_columns(schema)


def require_fit(table: LakeTable, landing: Landing) -> None:
    """Look at the table before rows are landed in it: files that do not fit it would move the offsets all the same.

    Raises:
        RefusedError: something is missing, or is otherwise.
    """
    if missing := build_lake_statements(landing, table.read_layout()):
        raise RefusedError(
            f"table {landing.table} does not match pipeline {landing.name}",
            cause=f"missing: {missing[0]}",
            hint=f"run seamark pipelines run {landing.name}, or call seamark.tables.delta.schema.make_fit",
        )


def _find(kind: str) -> pa.DataType:
    return _build(parse_type(kind))


def _build(kind: TypeShape) -> pa.DataType:
    if isinstance(kind, ArrayShape):
        return pa.list_(_build(kind.item))
    if isinstance(kind, StructShape):
        return pa.struct([(name, _build(one)) for name, one in kind.fields])
    if found := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _TYPES[kind]
