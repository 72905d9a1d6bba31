"""Columns that a pipeline takes from its source: from the Connect schema of records, or from the table behind them.

They are read when a plan is created, and pinned: the journal stores them with the pipeline. Later plans compare them
with the source, and show new columns.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from seamark.core.readings import fan_out
from seamark.core.refs import Port
from seamark.errors import RefusedError, SeamarkError
from seamark.pipelines.actions import read_body
from seamark.pipelines.declared import DesiredColumn, DesiredLanding, SchemaPolicy, find_source_settings
from seamark.tables.registry import open_registry

if TYPE_CHECKING:
    from seamark.context import Context
    from seamark.kafka.api import BrokersPort
    from seamark.kafka.model import TopicPartition, WholeRecord

ReadSource = Callable[[DesiredLanding], "tuple[DesiredColumn, ...] | None"]
"""Reads the columns of a pipeline's source; None if no record with a schema was found."""
SOURCE_COLUMNS: Port[ReadSource] = Port("source-columns")

# The newest records may be tombstones, and marks of transactions have offsets, too.
_LAST_OFFSETS = 20
_MOST_PARTITIONS = 32
_JSON, _TEXT = "jsonb", "text"
_SIMPLE = {
    "int8": "smallint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "real",
    "float32": "real",
    "double": "double precision",
    "float64": "double precision",
    "boolean": "boolean",
    "string": _TEXT,
    # Connect's JSON has bytes in base64.
    "bytes": _TEXT,
}
_NESTED = ("struct", "array", "map")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Types by the names of logical types, with the unit of numbers since 1970.
_LOGICAL = {
    "org.apache.kafka.connect.data.Timestamp": ("timestamp", "millis"),
    "org.apache.kafka.connect.data.Date": ("date", "days"),
    "org.apache.kafka.connect.data.Time": ("bigint", ""),
    "io.debezium.time.Timestamp": ("timestamp", "millis"),
    "io.debezium.time.MicroTimestamp": ("timestamp", "micros"),
    "io.debezium.time.NanoTimestamp": ("timestamp", "nanos"),
    "io.debezium.time.Date": ("date", "days"),
    "io.debezium.time.ZonedTimestamp": ("timestamptz", ""),
    "io.debezium.data.Json": (_JSON, ""),
    "io.debezium.data.Uuid": ("uuid", ""),
}
_MOST_DIGITS, _SCALE = 38, 18
_NUMERIC = re.compile(r"numeric\((\d+), ?(\d+)\)")
_WIDER = {"smallint": ("int", "bigint"), "int": ("bigint",), "real": ("double precision",)}


class RecordSource(Protocol):
    """Reads records by their offsets: `seamark.kafka.records.RecordReader`."""

    def read(self, spot: TopicPartition, start: int | None = None) -> Iterator[WholeRecord]: ...


class SourceReader:
    """Reads the columns of sources, in the planning process."""

    def __init__(
        self,
        context: Context,
        *,
        kafka: Callable[[], BrokersPort],
        open_records: Callable[[], AbstractContextManager[RecordSource]] | None = None,
    ) -> None:
        self._context = context
        self._kafka = kafka
        self._open_records = open_records or self._open_reader

    def read(self, desired: DesiredLanding) -> tuple[DesiredColumn, ...] | None:
        """Read the columns that a pipeline doesn't declare itself.

        Raises:
            RefusedError: A column can't be read as its source writes it.
        """
        source = desired.column_source
        if source is None:
            return desired.columns
        if source.database:
            technology, settings = find_source_settings(self._context, source)
            types = technology.read_columns(settings, source.table)
            columns = build_table_columns(types, is_debezium=_is_debezium(desired))
        else:
            samples = self._read_samples(desired)
            if not samples:
                return None
            columns = build_schema_columns(desired, samples)
        declared = {column.name for column in desired.columns}
        return tuple(column for column in columns if column.name not in declared)

    def _read_samples(self, desired: DesiredLanding) -> list[SchemaSample]:
        """Read the newest records of the topic that have a schema, the newest first."""
        spots = self._find_spots(desired)
        found = []
        with self._open_records() as records:
            for spot, start in spots.items():
                found += [sample for record in records.read(spot, start) if (sample := parse_sample(record, desired))]
        return sorted(found, key=lambda sample: sample.place, reverse=True)

    def _find_spots(self, desired: DesiredLanding) -> dict[TopicPartition, int]:
        """Find the partitions that have records, and where their newest records begin."""
        kafka = self._kafka()
        reading = kafka.read_topics([desired.topic])
        for error in reading.failures.values():
            error.hint = f"check from.topic at {desired.place}: columns: source needs a topic with records"
            raise error
        spots = [(desired.topic, one.id) for one in reading.items[0].partitions]
        bounds = kafka.read_bounds(spots).require_complete(what=f"the topic {desired.topic}")
        filled = {spot: held for spot, held in sorted(bounds.items()) if held.latest > held.earliest}
        some = list(filled.items())[:_MOST_PARTITIONS]
        return {spot: max(held.earliest, held.latest - _LAST_OFFSETS) for spot, held in some}

    def _open_reader(self) -> AbstractContextManager[RecordSource]:
        from seamark.kafka.records import RecordReader  # noqa: PLC0415

        return RecordReader(self._context.kafka.client_config(), committed=True)


@dataclass(frozen=True, slots=True)
class SchemaSample:
    """The row of a record, with the fields of its Connect schema. `place` is greater for a newer record."""

    fields: tuple[Mapping[str, Any], ...]
    row: Mapping[str, Any] = field(repr=False)
    place: tuple[int, int, int]


def parse_sample(record: WholeRecord, desired: DesiredLanding) -> SchemaSample | None:
    """Parse the schema of a record; None if it has none, such as a tombstone."""
    try:
        found = json.loads(record.value or b"null")
    except ValueError:
        return None
    schema, row = (found.get("schema"), found.get("payload")) if isinstance(found, dict) else (None, None)
    if _is_debezium(desired):
        schema = next((one for one in _list_fields(schema) if one.get("field") == "after"), None)
        row = (row.get("after") or row.get("before")) if isinstance(row, dict) else None
    fields = tuple(_list_fields(schema))
    if not fields:
        return None
    place = (record.timestamp_ms, record.place.offset, record.place.partition)
    return SchemaSample(fields, row if isinstance(row, dict) else {}, place)


def _list_fields(schema: object) -> Iterator[Mapping[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    for one in fields if isinstance(fields, list) else ():
        if isinstance(one, dict) and isinstance(one.get("field"), str):
            yield one


def _is_debezium(desired: DesiredLanding) -> bool:
    return desired.format == "debezium"


def build_schema_columns(desired: DesiredLanding, samples: Sequence[SchemaSample]) -> tuple[DesiredColumn, ...]:
    """Build the columns of a Connect schema, that of the newest record.

    Raises:
        RefusedError: Decimals are in base64, or no record shows how they are written.
    """
    declared = {column.name for column in desired.columns}
    fields = [one for one in samples[0].fields if one["field"] not in declared]
    if decimals := [str(one["field"]) for one in fields if one.get("name") == _DECIMAL]:
        _check_decimals(desired, decimals, samples)
    return tuple(_build_column(one) for one in fields)


def _check_decimals(desired: DesiredLanding, names: Sequence[str], samples: Iterable[SchemaSample]) -> None:
    """Check that decimals are numbers. The converter writes all of them in one way, so that one value tells it."""
    values = [value for sample in samples for name in names if (value := sample.row.get(name)) is not None]
    if values and not any(_is_base64(value) for value in values):
        return
    problem = "in base64" if values else "in a form that can't be determined: no recent record has a value"
    first = names[0]
    raise RefusedError(
        f"pipeline {desired.name} can't use columns: source: decimals of topic {desired.topic} are {problem}",
        cause=f"decimal columns: {', '.join(names)}",
        hint="set value.converter.decimal.format=NUMERIC on the source connector, or declare these columns: "
        f"columns: {{source: {{}}, {first}: {_TEXT if values else 'numeric(12, 2)'}}}",
    )


def _is_base64(value: object) -> bool:
    """Whether a value is not a number. Digits that may be base64 count as base64: they would be other numbers."""
    if not isinstance(value, str):
        return False
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _build_column(schema: Mapping[str, Any]) -> DesiredColumn:
    name = str(schema["field"])
    if schema.get("name") == _DECIMAL:
        return DesiredColumn(name, _build_decimal(schema.get("parameters")), from_source=True)
    if logical := _LOGICAL.get(str(schema.get("name"))):
        kind, epoch = logical
        return DesiredColumn(name, kind, epoch=epoch, from_source=True)
    kind = str(schema.get("type"))
    return DesiredColumn(name, _JSON if kind in _NESTED else _SIMPLE.get(kind, _TEXT), from_source=True)


def _build_decimal(parameters: object) -> str:
    given = parameters if isinstance(parameters, dict) else {}
    scale, digits = (_read_number(given.get(key)) for key in ("scale", "connect.decimal.precision"))
    if scale is None or not 0 <= scale <= _MOST_DIGITS:
        # Oracle's NUMBER has a scale of 127 or less than 0.
        return f"numeric({_MOST_DIGITS}, {_SCALE})"
    if digits is None or not max(scale, 1) <= digits <= _MOST_DIGITS:
        digits = _MOST_DIGITS
    return f"numeric({digits}, {scale})"


def _read_number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else None


_SIZE = re.compile(r"\((\d+)(?:,(\d+))?\)")
_MILLIS_DIGITS = 3
_KEPT = {
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "boolean": "boolean",
    "real": "real",
    "double precision": "double precision",
    "uuid": "uuid",
    "json": "json",
    "jsonb": _JSON,
    "time without time zone": "bigint",
}


def build_table_columns(types: Mapping[str, str], *, is_debezium: bool) -> tuple[DesiredColumn, ...]:
    """Build the columns of a table, as its source connector writes them by default.

    Args:
        types: PostgreSQL's type of each column.
        is_debezium: Whether Debezium's connector writes the records, and not that for JDBC.
    """
    return tuple(_build_table_column(name, kind, is_debezium=is_debezium) for name, kind in types.items())


def _build_table_column(name: str, kind: str, *, is_debezium: bool) -> DesiredColumn:
    found = _SIZE.search(kind)
    base = _SIZE.sub("", kind)
    if kind.endswith("[]"):
        return DesiredColumn(name, _JSON, from_source=True)
    if base == "numeric":
        digits, scale = (int(found[1]), int(found[2] or 0)) if found else (_MOST_DIGITS, _SCALE)
        is_small = digits <= _MOST_DIGITS and scale <= digits
        spelled = f"numeric({digits}, {scale})" if is_small else f"numeric({_MOST_DIGITS}, {_SCALE})"
        return DesiredColumn(name, spelled, from_source=True)
    if base == "date":
        return DesiredColumn(name, "date", epoch="days", from_source=True)
    if base == "timestamp without time zone":
        is_fine = is_debezium and (found is None or int(found[1]) > _MILLIS_DIGITS)
        return DesiredColumn(name, "timestamp", epoch="micros" if is_fine else "millis", from_source=True)
    if base == "timestamp with time zone":
        # Debezium writes these as text.
        return DesiredColumn(name, "timestamptz", epoch="" if is_debezium else "millis", from_source=True)
    return DesiredColumn(name, _KEPT.get(base, _TEXT), from_source=True)


def resolve_columns(
    wanted: Sequence[DesiredLanding], registered: Mapping[str, Any], *, read: ReadSource
) -> tuple[DesiredLanding, ...]:
    """Give each pipeline that takes columns from its source the columns for this plan.

    Args:
        wanted: The pipelines. Those with columns of their own are returned as they are.
        registered: What the journal has, by name.
        read: Reads a source.

    Raises:
        RefusedError: A source has changed so that the table can't follow, or has no columns to show.
    """
    calls = {
        one.name: partial(_resolve, one, registered.get(one.name), read=read) for one in wanted if one.is_unresolved
    }
    answers = fan_out(calls)
    if failures := answers.failures:
        raise _build_failure(failures)
    return tuple(answers.results.get(one.name, one) for one in wanted)


def _build_failure(failures: Mapping[str, SeamarkError]) -> SeamarkError:
    if len(failures) == 1:
        return next(iter(failures.values()))
    first = next(iter(failures.values()))
    kind = type(first) if all(type(one) is type(first) for one in failures.values()) else RefusedError
    return kind(
        f"{len(failures)} pipelines can't take columns from their sources; no changes were made",
        cause="; ".join(one.message for one in failures.values()),
        hint=first.hint,
    )


def _resolve(desired: DesiredLanding, body: Any, *, read: ReadSource) -> DesiredLanding:
    pinned = _find_pinned(desired, body)
    found = read(desired)
    if found is None:
        if not pinned:
            raise RefusedError(
                f"pipeline {desired.name} can't use columns: source: no record of topic {desired.topic} has a schema",
                cause=f"the last {_LAST_OFFSETS} offsets of each partition were read",
                hint="start the source connector with value.converter.schemas.enable=true, or name the table behind "
                "it: columns: {source: {database: NAME, table: TABLE}}",
            )
        note = f"no recent record of topic {desired.topic} has a schema; the registered columns are kept"
        return _pin(desired, pinned, (note,))
    return merge_columns(desired, pinned, found)


def _find_pinned(desired: DesiredLanding, body: Any) -> tuple[DesiredColumn, ...]:
    """Find the columns that were read from the source before, for the same table."""
    if body is None:
        return ()
    known = read_body(desired.name, body)
    if (known.target, known.table) != (desired.target, desired.table):
        return ()
    declared = {column.name for column in desired.columns}
    return tuple(column for column in known.columns if column.from_source and column.name not in declared)


def merge_columns(
    desired: DesiredLanding, pinned: Sequence[DesiredColumn], found: Sequence[DesiredColumn]
) -> DesiredLanding:
    """Merge the columns of the source with the pinned ones.

    Args:
        desired: The pipeline.
        pinned: The columns of its last plan; none for a new pipeline.
        found: The columns that the source has now.

    Returns:
        The pipeline with all its columns, and notes about columns that the source no longer has.

    Raises:
        RefusedError: A type was changed, or a column is new and `schema` is strict.
    """
    now, known = {one.name: one for one in found}, {one.name: one for one in pinned}
    added = [one for one in found if one.name not in known]
    if pinned and added and desired.schema == SchemaPolicy.STRICT:
        raise RefusedError(
            f"pipeline {desired.name}: {desired.column_source} has new columns, and schema is strict; no changes were "
            "made",
            cause=", ".join(f"{one.name} {one.type}" for one in added),
            hint=f"set schema: add at {desired.place} to add them to table {desired.table}, and create a new plan",
        )
    changed = [(one, now[one.name]) for one in pinned if one.name in now and now[one.name].type != one.type]
    if changed:
        raise _build_retyped(desired, changed)
    gone = [name for name in known if name not in now]
    notes = [f"{desired.column_source} no longer has {', '.join(gone)}; new rows have null there"] if gone else []
    return _pin(desired, [*(now.get(name, one) for name, one in known.items()), *added], notes)


def _pin(desired: DesiredLanding, columns: Iterable[DesiredColumn], notes: Iterable[str]) -> DesiredLanding:
    return replace(desired, columns=(*columns, *desired.columns), is_resolved=True, notes=tuple(notes))


def _build_retyped(desired: DesiredLanding, changed: Sequence[tuple[DesiredColumn, DesiredColumn]]) -> RefusedError:
    before, after = changed[0]
    technology = open_registry().find_place(desired.target.place)
    keep = f"keep the type: add {before.name}: {before.type} beside source in columns (columns: {{source: {{}}, …}})"
    is_wider = all(is_widened(one.type, other.type) for one, other in changed)
    hint = f"{keep}, or write to another table with another pipeline name"
    if is_wider and technology.widen_hint:
        hint = technology.widen_hint.format(table=desired.table, column=before.name, type=after.type)
    return RefusedError(
        f"pipeline {desired.name}: {desired.column_source} has other types than table {desired.table}; no changes "
        "were made",
        cause=", ".join(f"{one.name}: {one.type} → {other.type}" for one, other in changed),
        hint=hint,
    )


def is_widened(before: str, after: str) -> bool:
    """Return whether each value of a type is also a value of another one."""
    digits = [_NUMERIC.fullmatch(kind) for kind in (before, after)]
    if digits[0] and digits[1]:
        return digits[0][2] == digits[1][2] and int(digits[1][1]) > int(digits[0][1])
    return after in _WIDER.get(before, ())
