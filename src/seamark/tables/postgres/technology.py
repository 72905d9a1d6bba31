"""PostgreSQL as a technology of the registry: its ledgers and the tables of pipelines, in the planning process.

psycopg is imported when a database is opened, because it loads a C library and may be missing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn

from seamark.context.layer import Origin, OriginKind
from seamark.context.reference import SecretReferences
from seamark.core.refs import build_pipeline_owner
from seamark.errors import ConfigurationError, RefusedError, UsageError, format_install_hint
from seamark.tables.model import ORDER_COLUMN, LedgerEntry, TableStatus, is_nested
from seamark.tables.registry import DEFAULT_KIND, Technology

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.context.context import DatabaseSettings
    from seamark.tables.definition import Landing
    from seamark.tables.postgres.table import LandingTable
    from seamark.tables.postgres.writer import LandingDatabase

# Spark does not show options whose names have this word.
URL_OPTION = "database.url"
# Arrays compare term by term, and numeric holds bigint and microseconds exactly.
_ORDER_TYPE = "numeric[]"


class PostgresTechnology(Technology):
    """A database of the section `databases`."""

    kind: ClassVar[str] = DEFAULT_KIND
    place: ClassVar[str] = "database"
    place_help: ClassVar[str] = "The name of the database in the context."
    has_consumers: ClassVar[bool] = True
    dead_letter_table: ClassVar[str] = "seamark_dead_letters"
    has_coordinates: ClassVar[bool] = False
    has_files: ClassVar[bool] = False
    widen_hint: ClassVar[str] = (
        "run ALTER TABLE {table} ALTER COLUMN {column} TYPE {type}, and add {column}: {type} beside source in columns "
        "(columns: {{source: {{}}, {column}: {type}}})"
    )
    driver: ClassVar[str] = "seamark.pipelines.spark_postgres:TableTarget"

    def check_definition(self, definition: Landing) -> None:
        """Refuse keys of a lake."""
        if definition.expire_seconds:
            raise UsageError(
                "mode: snapshot is supported only in a lake",
                hint="set mode: upsert, or use a lake instead of a database",
            )
        if definition.date_from:
            raise UsageError("to.date is supported only in a lake")
        if definition.has_expressions:
            raise UsageError(
                "where and sql are supported only in a lake",
                hint="use a view or a generated column in PostgreSQL",
            )

        if nested := [column.name for column in definition.columns if is_nested(column.type)]:
            raise UsageError(
                f"invalid type of column {nested[0]}: structs and arrays are supported only in a lake", hint="use jsonb"
            )

    def build_example(self, name: str) -> str:
        """Return a database of this name, as a context file has it."""
        return f"databases: {{{name}: {{jdbc_url: …, dsn: secret://…}}}}"

    def find_settings(self, context: Context) -> Mapping[str, DatabaseSettings]:
        """Return the databases of a context."""
        return context.databases

    def open_store(self, settings: DatabaseSettings) -> PostgresStore:
        """Return the ledgers of a database."""
        return PostgresStore(settings)

    def open_table(self, settings: DatabaseSettings, definition: Landing) -> PlannedPostgresTable:
        """Return the table of a pipeline."""
        return PlannedPostgresTable(settings, definition)

    def open_access(self, settings: DatabaseSettings) -> str:
        """Return the DSN, not to be shown."""
        return settings.dsn.reveal()

    def read_columns(self, settings: DatabaseSettings, table: str) -> Mapping[str, str]:
        """Read the types of a table from the catalog."""
        with _naming_driver():
            from seamark.tables.postgres.connection import read_column_types  # noqa: PLC0415
        return read_column_types(settings.dsn.reveal(), settings.name, table=table)


class PostgresStore:
    """The table `seamark_ledger` of a database."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self._settings = settings

    def find(self, owner: str) -> LandingDatabase | None:
        """Return the ledger of an owner that has entries."""
        database = self._open(owner)
        return database if database.read_if_any() else None

    def begin(self, owner: str) -> LandingDatabase:
        """Create the table of ledgers where it is missing."""
        database = self._open(owner)
        database.prepare()
        return database

    def list_owners(self, *, prefix: str) -> Sequence[str]:
        """Return the owners with that prefix; none where no ledger was created."""
        with _naming_driver():
            from seamark.tables.postgres.connection import read_owners  # noqa: PLC0415
        return read_owners(self._settings.dsn.reveal(), self._settings.name, prefix=prefix)

    def read_identity(self) -> str:
        """Return the name of the database, and when its server was started."""
        return self._open(build_pipeline_owner("")).read_place()

    def _open(self, owner: str) -> LandingDatabase:
        with _naming_driver():
            from seamark.tables.postgres.table import LandingTable  # noqa: PLC0415
            from seamark.tables.postgres.writer import LandingDatabase  # noqa: PLC0415
        return LandingDatabase(self._settings.dsn.reveal(), LandingTable(self._settings.name, ()), owner=owner)


class PlannedPostgresTable:
    """The table of one pipeline."""

    def __init__(self, settings: DatabaseSettings, definition: Landing) -> None:
        self._definition = definition
        self._settings = settings

    def read_offsets(self) -> dict[tuple[str, int], LedgerEntry]:
        """Return what the ledger says."""
        return self._database.read_if_any()

    def read_status(self) -> TableStatus:
        """Return what the ledger says, and the planner's estimate of the rows."""
        with _naming_driver():
            from seamark.tables.postgres.counting import read_table_status  # noqa: PLC0415
        dsn, definition = self._settings.dsn.reveal(), self._definition
        return read_table_status(dsn, definition.table, owner=definition.owner)

    def plan_layout(self) -> tuple[str, ...]:
        """Return the statements that make the table fit."""
        return build_statements(self._definition, self._database.read_columns())

    def apply_layout(self, statements: Sequence[str]) -> None:
        """Run the statements, all or none."""
        self._database.change_table(statements)

    def list_files(self) -> NoReturn:
        """Refuse: the files of a database are its own affair."""
        raise UsageError(
            f"pipeline {self._definition.name} can't be compacted: its table is in PostgreSQL", hint="use VACUUM"
        )

    def list_unneeded(self, *, keep_seconds: float) -> NoReturn:
        """Refuse, as `list_files` does."""
        self.list_files()

    @cached_property
    def _database(self) -> LandingDatabase:
        return open_landing_database(self._definition, self._settings.dsn.reveal())


def open_landing_database(definition: Landing, url: str) -> LandingDatabase:
    """Return the database behind a DSN. A reference to a secret is resolved in the process that calls this."""
    with _naming_driver():
        from seamark.tables.postgres.writer import LandingDatabase  # noqa: PLC0415
    origin = Origin(OriginKind.OVERRIDE, "the database of a pipeline")
    dsn = SecretReferences(os.environ).resolve(url, key=URL_OPTION, origin=origin, folder=Path.cwd())
    return LandingDatabase(dsn, build_landing_table(definition), owner=definition.owner)


def build_landing_table(definition: Landing) -> LandingTable:
    """Build what statements need to know of the pipeline's table."""
    from seamark.tables.postgres.table import LandingTable  # noqa: PLC0415

    return LandingTable(
        definition.table,
        tuple(column.name for column in definition.columns),
        key=definition.key,
        times=tuple(column.name for column in definition.columns if column.type.startswith("timestamp")),
        order=definition.order_terms,
        tombstone_seconds=definition.tombstone_seconds,
        dead_letters=definition.dead_letter_table,
    )


@contextmanager
def _naming_driver() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        # Missing whole, or without the C library that it needs.
        raise ConfigurationError(
            "the PostgreSQL driver is not installed", cause=str(error), hint=format_install_hint("postgres")
        ) from error


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
            f"table {landing.table} stores the order of its rows, but pipeline {landing.name} has no to.order",
            cause=f"rows replaced without an order would keep the previous value in {ORDER_COLUMN}",
            hint=f"restore to.order, or remove the order: ALTER TABLE {table} DROP COLUMN {ORDER_COLUMN}",
        )
    if existing is None:
        lines = [f"{_quote(name)} {kind}" for name, kind in wanted.items()]
        if landing.key:
            lines.append(f"PRIMARY KEY ({', '.join(_quote(name) for name in landing.key)})")
        return (f"CREATE TABLE {table} ({', '.join(lines)})",)
    return tuple(
        f"ALTER TABLE {table} ADD COLUMN {_quote(name)} {kind}" for name, kind in wanted.items() if name not in existing
    )


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
