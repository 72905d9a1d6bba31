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
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UsageError
from seamark.pipelines.actions import read_body
from seamark.pipelines.declared import DesiredColumn, DesiredLanding, SchemaPolicy, find_source_settings
from seamark.tables.model import ArrayShape, StructShape, TypeShape, format_type, is_nested, parse_type
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
            technology = open_registry().find_place(desired.target.place)
            columns = build_schema_columns(desired, samples, has_structs=technology.has_structs)
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
            if isinstance(error, NotFoundError):
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


def build_schema_columns(
    desired: DesiredLanding, samples: Sequence[SchemaSample], *, has_structs: bool
) -> tuple[DesiredColumn, ...]:
    """Build the columns of a Connect schema, that of the newest record.

    Args:
        desired: The pipeline. Columns that it declares itself are omitted.
        samples: Records, the newest first.
        has_structs: Whether the table has structs and arrays; else nested values are stored as JSON.

    Raises:
        RefusedError: Decimals are in base64, or no record shows how they are written.
    """
    declared = {column.name for column in desired.columns}
    fields = [one for one in samples[0].fields if one["field"] not in declared]
    columns = tuple(_build_column(one, has_structs=has_structs) for one in fields)
    numbers = {one.name for one in columns if "numeric(" in one.type}
    _check_decimals(desired, [one for one in fields if one["field"] in numbers], samples)
    return columns


def _check_decimals(
    desired: DesiredLanding, fields: Sequence[Mapping[str, Any]], samples: Iterable[SchemaSample]
) -> None:
    """Check that decimals are numbers. The converter writes all of them in one way, so that one value tells it."""
    if not fields:
        return
    values = [
        value for sample in samples for one in fields for value in _list_decimals(one, sample.row.get(one["field"]))
    ]
    if values and not any(_is_base64(value) for value in values):
        return
    problem = "in base64" if values else "in a form that can't be determined: no recent record has a value"
    names = [str(one["field"]) for one in fields]
    raise RefusedError(
        f"pipeline {desired.name} can't use columns: source: decimals of topic {desired.topic} are {problem}",
        cause=f"columns with decimals: {', '.join(names)}",
        hint="set value.converter.decimal.format=NUMERIC on the source connector, or declare these columns: "
        f"columns: {{source: {{}}, {names[0]}: {_TEXT if values else 'numeric(12, 2)'}}}",
    )


def _list_decimals(schema: Mapping[str, Any], value: Any) -> Iterator[Any]:
    """List the values of decimals, also of those within structs and arrays."""
    if schema.get("name") == _DECIMAL and value is not None:
        yield value
    elif isinstance(value, dict):
        for one in _list_fields(schema):
            yield from _list_decimals(one, value.get(one["field"]))
    elif isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        for one in value:
            yield from _list_decimals(items, one)


def _is_base64(value: object) -> bool:
    """Whether a value is not a number. Digits that may be base64 count as base64: they would be other numbers."""
    if not isinstance(value, str):
        return False
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _build_column(schema: Mapping[str, Any], *, has_structs: bool) -> DesiredColumn:
    name = str(schema["field"])
    if logical := _LOGICAL.get(str(schema.get("name"))):
        kind, epoch = logical
        return DesiredColumn(name, kind, epoch=epoch, from_source=True)
    if schema.get("type") in _NESTED:
        nested = format_type(_build_inner(schema)) if has_structs else ""
        # A name that a type can't have makes it malformed.
        return DesiredColumn(name, nested if is_nested(nested) and _is_valid(nested) else _JSON, from_source=True)
    return DesiredColumn(name, _build_word(schema), from_source=True)


def _build_word(schema: Mapping[str, Any]) -> str:
    if schema.get("name") == _DECIMAL:
        return _build_decimal(schema.get("parameters"))
    return _SIMPLE.get(str(schema.get("type")), _TEXT)


def _build_inner(schema: Mapping[str, Any]) -> TypeShape:
    """Build the type of a value in a struct or an array. Times stay numbers, and maps are text with JSON."""
    if schema.get("type") == "struct" and (fields := tuple(_list_fields(schema))):
        return StructShape(tuple((str(one["field"]), _build_inner(one)) for one in fields))
    if schema.get("type") == "array" and isinstance(items := schema.get("items"), dict):
        return ArrayShape(_build_inner(items))
    return _build_word(schema)


def _is_valid(kind: str) -> bool:
    try:
        return format_type(parse_type(kind)) == kind
    except UsageError:
        return False


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
    changed = [(one, now[one.name]) for one in pinned if one.name in now and now[one.name].type != one.type]
    inner = {one.name: find_new_fields(parse_type(one.type), parse_type(other.type)) for one, other in changed}
    if retyped := [(one, other) for one, other in changed if inner[one.name] is None]:
        raise _build_retyped(desired, retyped)
    new_fields = [f"{name}.{path}" for name, paths in inner.items() for path in paths or ()]
    if pinned and (added or new_fields) and desired.schema == SchemaPolicy.STRICT:
        raise RefusedError(
            f"pipeline {desired.name}: {desired.column_source} has new columns, and schema is strict; no changes were "
            "made",
            cause=", ".join([*(f"{one.name} {one.type}" for one in added), *new_fields]),
            hint=f"set schema: add at {desired.place} to accept them, and create a new plan",
        )
    gone = [name for name in known if name not in now]
    notes = [f"{desired.column_source} no longer has {', '.join(gone)}; new rows have null there"] if gone else []
    if new_fields:
        notes.append(
            f"new fields of structs are not written, because the table doesn't have them: {', '.join(new_fields)}"
        )
    kept = {name: one for name, one in known.items() if name in inner or name not in now}
    return _pin(desired, [*(kept.get(name) or now[name] for name in known), *added], notes)


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


def find_new_fields(before: TypeShape, after: TypeShape) -> list[str] | None:
    """Find the fields of structs that are new in a type; None if the types differ in another way.

    Fields that are gone don't count: their values are null.
    """
    if isinstance(before, ArrayShape) and isinstance(after, ArrayShape):
        return find_new_fields(before.item, after.item)
    if not (isinstance(before, StructShape) and isinstance(after, StructShape)):
        return [] if before == after else None
    known, found = dict(before.fields), []
    for name, kind in after.fields:
        below = find_new_fields(known[name], kind) if name in known else [""]
        if below is None:
            return None
        found += [f"{name}.{path}".rstrip(".") for path in below]
    return found


def is_widened(before: str, after: str) -> bool:
    """Return whether each value of a type is also a value of another one."""
    digits = [_NUMERIC.fullmatch(kind) for kind in (before, after)]
    if digits[0] and digits[1]:
        return digits[0][2] == digits[1][2] and int(digits[1][1]) > int(digits[0][1])
    return after in _WIDER.get(before, ())
