"""What is missing in the database before a landing can run, as statements. A column is only ever added."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from seamark.errors import RefusedError
from seamark.pipelines.definition import DATE_COLUMN, DEAD_LETTER, DEAD_LETTER_TYPE, Landing, find_lake_type
from seamark.tables.model import ORDER_COLUMN, TableLayout

# Arrays compare term by term, and numeric holds bigint and microseconds exactly.
_ORDER_TYPE = "numeric[]"


def build_statements(landing: Landing, existing: Collection[str] | None) -> tuple[str, ...]:
    """Build the statements that make the table fit.

    Args:
        landing: The pipeline.
        existing: The columns that the table has; None where there is no table.

    Returns:
        What PostgreSQL has to run, in this sequence.

    Raises:
        RefusedError: The table keeps an order that the pipeline would not maintain.
    """
    table = ".".join(_quote(part) for part in landing.table.split("."))
    wanted = {column.name: column.type for column in landing.columns}
    if landing.order:
        wanted[ORDER_COLUMN] = _ORDER_TYPE
    elif existing is not None and ORDER_COLUMN in existing and landing.key:
        raise RefusedError(
            f"{landing.table} keeps the order of its rows, and {landing.name} has no to.order",
            cause=f"rows that are replaced without an order would keep the former one in {ORDER_COLUMN}",
            hint=f"put to.order back, or give the order up: ALTER TABLE {table} DROP COLUMN {ORDER_COLUMN}",
        )
    if existing is None:
        lines = [f"{_quote(name)} {kind}" for name, kind in wanted.items()]
        if landing.key:
            lines.append(f"PRIMARY KEY ({', '.join(_quote(name) for name in landing.key)})")
        return (f"CREATE TABLE {table} ({', '.join(lines)})",)
    return tuple(
        f"ALTER TABLE {table} ADD COLUMN {_quote(name)} {kind}" for name, kind in wanted.items() if name not in existing
    )


def build_lake_statements(landing: Landing, existing: TableLayout | None) -> tuple[str, ...]:
    """The same for a lake's table, in Spark's words. They are shown; nobody runs them as SQL.

    Raises:
        RefusedError: the table has a column of another type, or is parted otherwise.
    """
    wanted = build_lake_layout(landing)
    # What stands within a structure would fill the screen.
    lines = {name: f"{name} {kind.partition('<')[0]}" for name, kind in wanted.columns.items()}
    if existing is None:
        parted = f" PARTITIONED BY ({', '.join(wanted.parted_by)})" if wanted.parted_by else ""
        return (f"CREATE TABLE {landing.table} ({', '.join(lines.values())}) USING delta{parted}",)
    if differences := list(_list_differences(wanted, existing)):
        raise RefusedError(
            f"the table {landing.table} is not as {landing.name} would make it: {'; '.join(differences)}",
            cause="Delta knows types and parts from when a table is made: files of others could not be read with it",
            hint="put back in the file what the table has, or land in a new table: "
            "another to.table, by another name of the landing",
        )
    return tuple(
        f"ALTER TABLE {landing.table} ADD COLUMN {line}" for name, line in lines.items() if name not in existing.columns
    )


def build_lake_layout(landing: Landing) -> TableLayout:
    """What a landing's table in a lake has at least."""
    columns = {column.name: find_lake_type(column) for column in landing.columns}
    if landing.dead_letters is not None:
        columns[DEAD_LETTER] = DEAD_LETTER_TYPE
    if landing.date_from:
        columns[DATE_COLUMN] = "date"
    return TableLayout(columns, (DATE_COLUMN,) if landing.date_from else ())


def _list_differences(wanted: TableLayout, existing: TableLayout) -> Iterator[str]:
    """What no new column would mend. Columns that only the table has do no harm."""
    for name, kind in wanted.columns.items():
        if (found := existing.columns.get(name, kind)) != kind:
            yield f"its {name} is {found}, and the landing has {kind}"
    if existing.parted_by != wanted.parted_by:
        has = f"parted by {', '.join(existing.parted_by)}" if existing.parted_by else f"not parted by {DATE_COLUMN}"
        yield f"it is {has}, and the landing has {'a' if wanted.parted_by else 'no'} to.date"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
