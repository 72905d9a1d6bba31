"""Delta as a technology of the registry: its ledgers and the tables of pipelines, in the planning process.

Arrow and delta-rs are imported when a lake is opened: a definition is checked without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from seamark.errors import ConfigurationError, RefusedError, UsageError, format_install_hint
from seamark.tables.model import FilePart, LedgerEntry, TableLayout, TableStatus, format_type, is_nested, parse_type
from seamark.tables.registry import RebuildableTable, Technology

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.context.context import LakeSettings
    from seamark.tables.definition import LandColumn, Landing
    from seamark.tables.delta.location import TableLocation
    from seamark.tables.delta.table import LakeTable

KIND = "delta"
_LAKE_TABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*", re.ASCII)


class DeltaTechnology(Technology):
    """A lake of the section `lakes`, whose tables are Delta's."""

    kind: ClassVar[str] = KIND
    place: ClassVar[str] = "lake"
    place_help: ClassVar[str] = "The name of the lake in the context, instead of a database."
    has_consumers: ClassVar[bool] = False
    dead_letter_table: ClassVar[str] = ""
    has_coordinates: ClassVar[bool] = True
    has_files: ClassVar[bool] = True
    has_structs: ClassVar[bool] = True
    driver: ClassVar[str] = "seamark.pipelines.spark_delta_upsert:open_lake_target"

    def check_definition(self, definition: Landing) -> None:
        """Refuse what a lake's table can't have."""
        check_lake_definition(definition)

    def build_example(self, name: str) -> str:
        """Return a lake of this name, as a context file has it."""
        return f"lakes: {{{name}: {{url: s3://BUCKET/PREFIX, …}}}}"

    def find_settings(self, context: Context) -> Mapping[str, LakeSettings]:
        """Return the lakes of a context."""
        return context.lakes

    def open_store(self, settings: LakeSettings) -> DeltaStore:
        """Return the ledgers of a lake."""
        return DeltaStore(settings)

    def open_table(self, settings: LakeSettings, definition: Landing) -> PlannedDeltaTable:
        """Return the table of a pipeline."""
        return PlannedDeltaTable(settings, definition)

    def open_access(self, settings: LakeSettings) -> TableLocation:
        """Return where the lake is, with its keys."""
        return open_lake(settings)

    def open_rebuildable(self, settings: LakeSettings, table: str, *, owner: str) -> RebuildableTable:
        """Return a table of the lake for its rebuild."""
        check_table_name(table)
        place = open_lake(settings)
        from seamark.tables.delta.maintenance import find_table, list_owners  # noqa: PLC0415
        from seamark.tables.delta.rebuild import DeltaRebuild  # noqa: PLC0415

        # A plan file may name any table: that of another pipeline has other offsets.
        if (own := find_table(place, owner)) != table:
            raise RefusedError(
                f"{table} isn't the table of {owner}",
                cause="the pipeline has not run yet" if own is None else f"its table is {own}",
                hint="run the pipeline first, or create a new plan",
            )

        def list_sharers() -> list[str]:
            others = [found for found in list_owners(place) if found != owner]
            return [found for found in others if find_table(place, found) == table]

        return DeltaRebuild(place.below(table), owner=owner, list_sharers=list_sharers)


def open_lake(settings: LakeSettings) -> TableLocation:
    """Return where a lake is, with its keys."""
    try:
        import deltalake  # noqa: F401, PLC0415

        from seamark.tables.delta.location import TableLocation  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            f"can't open lake {settings.name}: Arrow and delta-rs are not installed",
            cause=str(error),
            hint=format_install_hint("spark"),
        ) from error
    return TableLocation(
        settings.url,
        endpoint=settings.endpoint,
        region=settings.region,
        access_key=settings.access_key.reveal() if settings.access_key else "",
        secret_key=settings.secret_key.reveal() if settings.secret_key else "",
    )


def open_lake_table(settings: LakeSettings, definition: Landing) -> LakeTable:
    """Return the table of a pipeline in a lake."""
    place = open_lake(settings)
    from seamark.tables.delta.table import LakeTable  # noqa: PLC0415

    return LakeTable(place.below(definition.table), owner=definition.owner)


class DeltaStore:
    """The pipelines that a lake knows, each with the table whose commits have its offsets."""

    def __init__(self, settings: LakeSettings) -> None:
        self._settings = settings

    def find(self, owner: str) -> LakeTable | None:
        """Return the table with a pipeline's offsets."""
        lake = open_lake(self._settings)
        from seamark.tables.delta.maintenance import open_landing  # noqa: PLC0415

        return open_landing(lake, owner)

    def begin(self, owner: str) -> None:
        """Return None: only a run knows the table that has the offsets."""

    def list_owners(self, *, prefix: str) -> Sequence[str]:
        """Return the pipelines with that prefix that the lake knows."""
        lake = open_lake(self._settings)
        from seamark.tables.delta.maintenance import list_owners  # noqa: PLC0415

        return [found for found in list_owners(lake) if found.startswith(prefix)]

    def read_identity(self) -> str:
        """Return the lake's URL."""
        return self._settings.url


class PlannedDeltaTable:
    """The table of one pipeline."""

    def __init__(self, settings: LakeSettings, definition: Landing) -> None:
        self._definition = definition
        self._table = open_lake_table(settings, definition)

    def read_offsets(self) -> dict[tuple[str, int], LedgerEntry]:
        """Return what the last commit says."""
        return self._table.read_position().entries

    def read_status(self) -> TableStatus:
        """Return what the last commit says, and the rows by the statistics of the log."""
        from seamark.tables.delta.maintenance import count_rows  # noqa: PLC0415

        position = self._table.read_position()
        committed_at = position.made_at_ms / 1000 if position.made_at_ms else None
        return TableStatus(position.entries, rows=count_rows(self._table), committed_at=committed_at)

    def plan_layout(self) -> tuple[str, ...]:
        """Return what is missing, in Spark's words."""
        return build_lake_statements(self._definition, self._table.read_layout())

    def apply_layout(self, statements: Sequence[str]) -> None:
        """Create the table, or add the columns that it lacks."""
        from seamark.tables.delta.files import make_fit  # noqa: PLC0415

        make_fit(self._table, self._definition)

    def list_files(self) -> list[FilePart]:
        """Return the files of each date."""
        from seamark.tables.delta.maintenance import list_files  # noqa: PLC0415

        return list_files(self._table)

    def list_unneeded(self, *, keep_seconds: float) -> list[str]:
        """Return the files that no version of the last `keep_seconds` has."""
        from seamark.tables.delta.maintenance import plan_vacuum  # noqa: PLC0415

        return plan_vacuum(self._table, keep_seconds=keep_seconds)


DATE_COLUMN = "event_date"
"""The column that a table is parted by, where a landing names a column for it."""
DEAD_LETTER = "seamark_dead_letter"
"""The column of a record that can't be a row: the reason, and the record."""
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
    if is_nested(column.type):
        return format_type(parse_type(column.type), lambda kind: _find_inner_type(kind, column.name))
    return _find_word(column.type, column.name)


def _find_inner_type(kind: str, column: str) -> str:
    if (found := _find_word(kind, column)) in {"date", "timestamp"}:
        raise UsageError(
            f"invalid type {kind} within column {column}", hint="use bigint or text within structs and arrays"
        )
    return found


def _find_word(kind: str, column: str) -> str:
    if kind in _TYPES:
        return _TYPES[kind]
    if _TEXT.fullmatch(kind):
        return "string"
    if found := _DECIMAL.fullmatch(kind):
        digits, scale = int(found[1]), int(found[2] or 0)
        if scale <= digits <= _MOST_DIGITS:
            return f"decimal({digits},{scale})"
    raise UsageError(
        f"invalid type {kind} of column {column} in a lake",
        hint=f"use one of {', '.join(_WORDS)}, or decimal(p, s) with up to {_MOST_DIGITS} digits, struct<…> or "
        "array<…>; text stores any value",
    )


def check_table_name(table: str) -> None:
    """Check that a name is that of a table below the lake.

    Raises:
        UsageError: It isn't.
    """
    if not _LAKE_TABLE.fullmatch(table):
        raise UsageError(f"invalid table name {table!r} in a lake", hint="use letters, digits, . - _ and /")


def check_lake_definition(definition: Landing) -> None:
    """Check that a lake's table can hold a definition.

    Raises:
        UsageError: Its mode, name, types or keys are not those of a lake's table.
    """
    if definition.mode.has_key and definition.date_from:
        raise UsageError(
            f"to.date can't be used with mode: {definition.mode}",
            cause="a changed row would move to another partition of the table",
            hint="remove to.date, or set mode: append",
        )
    if computed := sorted({column.name for column in definition.columns if column.sql} & set(definition.order)):
        raise UsageError(
            f"to.order contains {computed[0]}, which is computed by sql", hint="use columns that come from the record"
        )
    if definition.dead_letters is not None and definition.dead_letters.table:
        raise UsageError(
            "on_error.dead_letter.table is not supported in a lake",
            hint="remove it: in a lake, dead letters are rows of the same table, with column seamark_dead_letter",
        )
    check_table_name(definition.table)
    kinds = {column.name: find_lake_type(column) for column in definition.columns}
    if DATE_COLUMN in kinds and definition.date_from:
        raise UsageError(f"column {DATE_COLUMN} is reserved: to.date creates it")
    moments = [name for name in kinds if kinds[name] in {"timestamp", "date"}]
    if definition.date_from and definition.date_from not in moments:
        raise UsageError(
            f"invalid value {definition.date_from} for to.date: expected a timestamp or date column",
            hint=f"use one of {', '.join(moments)}" if moments else "add a column of type timestamp or date",
        )


def build_lake_statements(landing: Landing, existing: TableLayout | None) -> tuple[str, ...]:
    """Build what is missing in a lake's table, in Spark's words, to be shown.

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
            f"table {landing.table} does not match pipeline {landing.name}: {'; '.join(differences)}",
            cause="types and partition columns of a Delta table can't be changed",
            hint="restore the settings that match the table in the spec file; or, to change types, write the table "
            f"again: seamark pipelines rebuild {landing.name}; or set another to.table, with another name",
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
    """List the differences that a new column would not fix. Columns that only the table has do no harm."""
    for name, kind in wanted.columns.items():
        if (found := existing.columns.get(name, kind)) != kind:
            yield f"column {name} is {found}, and the pipeline has {kind}"
    if existing.parted_by != wanted.parted_by:
        has = f"partitioned by {', '.join(existing.parted_by)}" if existing.parted_by else "not partitioned"
        yield f"it is {has}, and the pipeline has {'a' if wanted.parted_by else 'no'} to.date"
