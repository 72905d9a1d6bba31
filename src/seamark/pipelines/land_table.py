"""What is missing in the database before a landing can run, as statements. A column is only ever added."""

from __future__ import annotations

from collections.abc import Collection

from seamark.errors import RefusedError
from seamark.pipelines.lake_column import DATE_COLUMN, DEAD_LETTER, find_lake_type
from seamark.pipelines.landing import Landing, OnError


def build_statements(landing: Landing, existing: Collection[str] | None) -> tuple[str, ...]:
    """The statements that make the table fit. `existing` are the columns that it has; None: there is no table."""
    table = ".".join(_quote(part) for part in landing.table.split("."))
    if existing is None:
        lines = [f"{_quote(column.name)} {column.type}" for column in landing.columns]
        if landing.key:
            lines.append(f"PRIMARY KEY ({', '.join(_quote(name) for name in landing.key)})")
        return (f"CREATE TABLE {table} ({', '.join(lines)})",)
    return tuple(
        f"ALTER TABLE {table} ADD COLUMN {_quote(column.name)} {column.type}"
        for column in landing.columns
        if column.name not in existing
    )


def build_lake_statements(landing: Landing, existing: Collection[str] | None) -> tuple[str, ...]:
    """The same for a lake's table, in Spark's words. They are shown; nobody runs them as SQL."""
    wanted = {column.name: find_lake_type(column) for column in landing.columns}
    if landing.on_error is OnError.DEAD_LETTER:
        wanted[DEAD_LETTER] = "struct"
    parted = f" PARTITIONED BY ({DATE_COLUMN})" if landing.date_from else ""
    if landing.date_from:
        wanted[DATE_COLUMN] = "date"
    if existing is None:
        lines = ", ".join(f"{name} {kind}" for name, kind in wanted.items())
        return (f"CREATE TABLE {landing.table} ({lines}) USING delta{parted}",)
    if landing.date_from and DATE_COLUMN not in existing:
        raise RefusedError(
            f"the table {landing.table} is not parted by {DATE_COLUMN}, and to.date asks for it",
            cause="Delta parts a table when it is made, and never again",
            hint="leave to.date out, or land in another table",
        )
    return tuple(
        f"ALTER TABLE {landing.table} ADD COLUMN {name} {kind}" for name, kind in wanted.items() if name not in existing
    )


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
