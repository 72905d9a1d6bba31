"""The columns of a Delta table, in Spark's words."""

from __future__ import annotations

import json
from typing import Any

from deltalake import DeltaTable

from seamark.tables.table_layout import TableLayout

# Delta has its own words for whole numbers. All others are the same.
_WORDS = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def build_layout(table: DeltaTable) -> TableLayout:
    """What the table has."""
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
