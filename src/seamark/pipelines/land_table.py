"""What is missing in the database before a landing can run, as statements. A column is only ever added."""

from __future__ import annotations

from collections.abc import Collection

from seamark.pipelines.landing import Landing


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


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
