"""The types of a lake's columns: PostgreSQL's words and Spark's, as what a table of Delta has."""

from __future__ import annotations

import re

from seamark.errors import UsageError
from seamark.pipelines.land_column import LandColumn

DATE_COLUMN = "event_date"
"""The column that a table is parted by, where a landing names a column for it."""
DEAD_LETTER = "seamark_dead_letter"
"""The column of what became of a record that is no row: why, and what it was."""
DEAD_LETTER_TYPE = (
    "struct<reason:string,topic:string,partition:int,offset:bigint,timestamp:timestamp,key:binary,value:binary>"
)
"""That column's type."""

_DECIMAL = re.compile(r"(?:numeric|decimal) ?\((\d{1,2})(?:, ?(\d{1,2}))?\)")
_TEXT = re.compile(r"(?:varchar|char|character varying|character)(?: ?\(\d+\))?")
_MOST_DIGITS = 38
_WORDS = {
    "string": ("string", "text", "uuid", "json", "jsonb"),
    "smallint": ("smallint", "int2", "short"),
    "int": ("int", "int4", "integer"),
    "bigint": ("bigint", "int8", "long"),
    "float": ("real", "float4", "float"),
    "double": ("double precision", "float8", "double"),
    "boolean": ("boolean", "bool"),
    "date": ("date",),
    "timestamp": ("timestamptz", "timestamp", "timestamp with time zone"),
}
_TYPES = {word: kind for kind, words in _WORDS.items() for word in words}


def find_lake_type(column: LandColumn) -> str:
    """What a table of Delta has for a column, in Spark's words."""
    if column.type in _TYPES:
        return _TYPES[column.type]
    if _TEXT.fullmatch(column.type):
        return "string"
    if found := _DECIMAL.fullmatch(column.type):
        digits, scale = int(found[1]), int(found[2] or 0)
        if scale <= digits <= _MOST_DIGITS:
            return f"decimal({digits},{scale})"
    raise UsageError(
        f"a lake's column {column.name} can't be of type {column.type}",
        hint=f"one of {', '.join(_WORDS)}, decimal(p, s) with up to {_MOST_DIGITS} digits; text keeps anything",
    )
