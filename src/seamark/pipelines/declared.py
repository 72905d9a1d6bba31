"""Pipelines as the files declare them, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.core.files import FileLocation
from seamark.core.refs import build_pipeline_owner
from seamark.errors import NotFoundError, SpecError, UsageError
from seamark.kafka.model import OffsetSpec
from seamark.tables.definition import DEFAULT_MAX, DEFAULT_MAX_DELETE, DeadLetters, Format, LandColumn, Landing, Mode
from seamark.tables.expressions import parse_expression
from seamark.tables.model import DEFAULT_TOMBSTONE_SECONDS, KAFKA_OFFSET, KAFKA_TIMESTAMP
from seamark.tables.registry import PipelineTable, RebuildableTable, Technology, find_technology, open_registry

if TYPE_CHECKING:
    from seamark.context import Context


@dataclass(frozen=True, slots=True)
class DesiredColumn:
    """A column of a landing's table. `source` is where in a record it comes from; empty: the field of its name.

    `from_source`: its name and type were read from the source, and are pinned since.
    """

    name: str
    type: str
    source: str = ""
    sql: str = ""
    epoch: str = ""
    from_source: bool = False


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where names and types of columns come from: a table of a database, or without it the records' Connect schema."""

    database: str = ""
    table: str = ""

    def __str__(self) -> str:
        """As errors and notes name it."""
        return f"table {self.table} of database {self.database}" if self.database else "the Connect schema of records"


class SchemaPolicy(StrEnum):
    """What a plan does with a new column of the source."""

    ADD = "add"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class DesiredDeadLetters:
    """What `on_error.dead_letter` says; an empty word is left to its default."""

    table: str = ""
    max: str = ""


@dataclass(frozen=True, slots=True)
class TargetRef:
    """A store of the context: the key that a file has below `to:`, as `database`, and the name."""

    place: str
    name: str


@dataclass(frozen=True, slots=True)
class DesiredLanding:
    """A topic that is to be landed in a table. The words are those of the file, and not checked yet.

    `every` is how often a batch is landed, in seconds; None: once. `application` names the Spark application that runs
    it, if there are several. `coordinates` are columns for topic, partition, offset and timestamp, where the target has
    them by default. `expire_after`, in seconds, and `max_delete` are for snapshots.
    `compact` is how often small files are merged, 0 for never, and `vacuum` how long replaced files are kept, both in
    seconds.
    Without `dead_letters`, a record that can't be a row stops the run. With a `column_source`, names and types are read
    from there when a plan is created; `columns` are then the columns that the file declares itself, and after that all.
    `is_resolved` tells both apart, and `notes` are what a plan found there.
    """

    name: str
    place: FileLocation
    topic: str
    table: str
    columns: tuple[DesiredColumn, ...]
    target: TargetRef
    date: str = ""
    mode: str = "append"
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    tombstones: float | None = None
    format: str = "json"
    schemas: bool = False
    start: str = "earliest"
    dead_letters: DesiredDeadLetters | None = None
    every: float | None = None
    records: int | None = None
    application: str = ""
    where: str = ""
    coordinates: bool = True
    expire_after: float | None = None
    max_delete: str = ""
    compact: float | None = None
    vacuum: float | None = None
    column_source: ColumnSource | None = None
    schema: str = SchemaPolicy.ADD.value
    is_resolved: bool = field(default=False, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def is_unresolved(self) -> bool:
        """Whether its columns must be read from their source first."""
        return self.column_source is not None and not self.is_resolved


DEFAULT_COMPACT_SECONDS = 3600.0
LEAST_VACUUM_SECONDS = 3600
_COORDINATES = (
    ("_topic", "text", "kafka.topic"),
    ("_partition", "int", "kafka.partition"),
    ("_offset", "bigint", "kafka.offset"),
    ("_timestamp", "timestamp", "kafka.timestamp"),
)
# The tables behind source connectors are in databases.
_SOURCE_PLACE = "database"
_ANY_NAME = "columns of the source"
Word = TypeVar("Word", bound=StrEnum)


class _Start(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A landing, and how it is run. `where` is the name of its store in the context, and `settings` are the store's."""

    landing: Landing
    place: FileLocation
    where: str
    settings: Any = field(repr=False)
    start: OffsetSpec = OffsetSpec.EARLIEST
    every_seconds: float | None = None
    records: int | None = None
    application: str = ""
    compact_seconds: float | None = None
    vacuum_seconds: float | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def technology(self) -> Technology:
        """The technology of its table."""
        return find_technology(self.landing.store)

    def open_table(self) -> PipelineTable:
        """Return its table, for plans. Secrets are looked up when the table is read."""
        return self.technology.open_table(self.settings, self.landing)


ResolveColumns = Callable[[Sequence[DesiredLanding]], Sequence[DesiredLanding]]
"""Reads the columns of those pipelines that take them from their source."""


def choose_declared(
    context: Context,
    landings: Iterable[DesiredLanding],
    *,
    names: Sequence[str],
    missing: str,
    hint: str,
    resolve: ResolveColumns = tuple,
) -> tuple[PipelineSpec, ...]:
    """Those of the landings that are named, or all, each checked. `missing` and `hint` say that one is not there."""
    known = {one.name: one for one in landings}
    for name in names:
        if name not in known:
            cause = f"found: {', '.join(known)}" if known else "no pipeline was found"
            raise NotFoundError(f"{missing} {name}", cause=cause, hint=hint)
    chosen = [known[name] for name in (names or known)]
    check_landings(context, [one for one in chosen if one.is_unresolved])
    return tuple(build_declared(context, one) for one in resolve(chosen))


def build_declared(context: Context, desired: DesiredLanding) -> PipelineSpec:
    """A landing of a file, with every word checked. An error says where it stands."""
    if desired.is_unresolved:
        raise RuntimeError(f"the columns of pipeline {desired.name} were not read from their source")
    try:
        technology = open_registry().find_place(desired.target.place)
        settings = _find_settings(context, technology, desired.target.name)
        _check_maintenance(desired, technology)
        landing = Landing(
            desired.name,
            topic=desired.topic,
            table=desired.table,
            columns=_build_columns(desired, technology),
            where=desired.where,
            mode=_read_word(desired.mode, Mode, what="mode"),
            key=desired.key,
            format=_read_word(desired.format, Format, what="format"),
            schemas=desired.schemas,
            dead_letters=_build_letters(desired.dead_letters),
            store=technology.kind,
            date_from=desired.date,
            order=desired.order,
            tombstone_seconds=DEFAULT_TOMBSTONE_SECONDS if desired.tombstones is None else int(desired.tombstones),
            expire_seconds=int(desired.expire_after or 0),
            max_delete=desired.max_delete or DEFAULT_MAX_DELETE,
        )
        start = OffsetSpec(_read_word(desired.start, _Start, what="start"))
        _read_word(desired.schema, SchemaPolicy, what="schema")
    except UsageError as error:
        raise SpecError(
            f"pipeline {desired.name}: {error.message}", cause=str(desired.place), hint=error.hint
        ) from None
    return PipelineSpec(
        landing,
        desired.place,
        desired.target.name,
        settings,
        start=start,
        every_seconds=desired.every,
        records=desired.records,
        application=desired.application,
        compact_seconds=_find_compaction(desired, technology),
        vacuum_seconds=desired.vacuum,
        notes=desired.notes,
    )


def _build_columns(desired: DesiredLanding, technology: Technology) -> tuple[LandColumn, ...]:
    """Return the columns, in a lake with the coordinates of the record: they make every row traceable to its record."""
    columns = tuple(LandColumn(one.name, one.type, one.source, one.sql, one.epoch) for one in desired.columns)
    if not (technology.has_coordinates and desired.coordinates):
        return columns
    known = {one.name for one in columns}
    return columns + tuple(LandColumn(*one) for one in _COORDINATES if one[0] not in known)


def _find_compaction(desired: DesiredLanding, technology: Technology) -> float | None:
    if desired.compact is None:
        return DEFAULT_COMPACT_SECONDS if technology.has_files else None
    return desired.compact or None


def _check_maintenance(desired: DesiredLanding, technology: Technology) -> None:
    if not technology.has_files and (desired.compact is not None or desired.vacuum is not None):
        raise UsageError("maintain is supported only in a lake", hint="remove maintain: PostgreSQL vacuums its tables")
    if desired.vacuum is not None and desired.vacuum < LEAST_VACUUM_SECONDS:
        raise UsageError(
            f"maintain.vacuum must be at least {LEAST_VACUUM_SECONDS // 3600}h",
            cause="readers need the files of the version that they have begun to read",
            hint="use a duration such as vacuum: 7d",
        )


def _find_settings(context: Context, technology: Technology, name: str) -> Any:
    settings = technology.find_settings(context).get(name)
    if settings is None:
        raise UsageError(
            f"context {context.name} has no {technology.place} {name}",
            hint=f"add it to the context: {technology.build_example(name)}",
        )
    return settings


def open_rebuildable(context: Context, name: str, *, place: str, store: str, table: str) -> RebuildableTable:
    """Return the table of a pipeline for its rebuild, from what a step names.

    Raises:
        UsageError: The context has no such store, or its tables can't be rebuilt.
    """
    technology = open_registry().find_place(place)
    owner = build_pipeline_owner(name)
    return technology.open_rebuildable(_find_settings(context, technology, store), table, owner=owner)


def check_landings(context: Context, landings: Iterable[DesiredLanding]) -> tuple[str, ...]:
    """Refuse a pipeline that could not be run. Returns their names. Sends no request and resolves no secret."""
    return tuple(build_declared(context, _fill_columns(context, one)).landing.name for one in landings)


def find_source_settings(context: Context, source: ColumnSource) -> tuple[Technology, Any]:
    """Return the technology and the settings of the database that a source names.

    Raises:
        UsageError: The context doesn't have it.
    """
    technology = open_registry().find_place(_SOURCE_PLACE)
    return technology, _find_settings(context, technology, source.database)


def _fill_columns(context: Context, desired: DesiredLanding) -> DesiredLanding:
    """Put a column for each name that a pipeline refers to, so that the rest of it is checked without its source."""
    if desired.column_source is None or not desired.is_unresolved:
        return desired
    try:
        if desired.column_source.database:
            find_source_settings(context, desired.column_source)
        texts = [column.sql for column in desired.columns if column.sql] + [desired.where] * bool(desired.where)
        named = dict.fromkeys((name for text in texts for name in parse_expression(text, what="sql").columns), "text")
    except UsageError as error:
        raise SpecError(
            f"pipeline {desired.name}: {error.message}", cause=str(desired.place), hint=error.hint
        ) from None
    named |= dict.fromkeys(desired.key, "text")
    named |= {name: "bigint" for name in desired.order if name not in {KAFKA_OFFSET, KAFKA_TIMESTAMP}}
    named |= {desired.date: "timestamp"} if desired.date else {}
    known = {column.name for column in desired.columns}
    filled = [DesiredColumn(name, kind) for name, kind in named.items() if name not in known]
    # Without any name, one stands for all.
    return replace(
        desired, columns=(*desired.columns, *filled) or (DesiredColumn(_ANY_NAME, "text"),), is_resolved=True
    )


def _build_letters(desired: DesiredDeadLetters | None) -> DeadLetters | None:
    return None if desired is None else DeadLetters(desired.table, desired.max or DEFAULT_MAX)


def _read_word(word: str, words: type[Word], *, what: str) -> Word:
    if word not in set(words):
        raise UsageError(f"invalid value {word!r} for {what}", hint=f"use one of {', '.join(words)}")
    return words(word)
