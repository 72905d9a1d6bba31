"""The section `pipelines` of spec files: what Spark must do, and how it is registered in the journal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seamark.changes.spec_kind import (
    CONNECTOR_PHASE,
    NUMBER_SCHEMA,
    OwnershipPort,
    SectionKind,
    SectionPlan,
    SectionRequest,
    SpecTable,
    build_table_schema,
    register_spec_kind,
)
from seamark.core.files import FileLocation
from seamark.core.refs import build_pipeline_owner, is_pipeline, parse_owner
from seamark.core.time import parse_duration
from seamark.errors import FormatVersionError, RefusedError, SeamarkError
from seamark.pipelines.actions import REGISTERED, RegisterPipeline, build_body
from seamark.pipelines.declared import (
    ColumnSource,
    DesiredColumn,
    DesiredDeadLetters,
    DesiredLanding,
    SchemaPolicy,
    TargetRef,
    check_landings,
)
from seamark.pipelines.source_columns import SOURCE_COLUMNS, resolve_columns
from seamark.tables.definition import EPOCH_UNITS
from seamark.tables.registry import open_registry

if TYPE_CHECKING:
    from seamark.context import Context

PIPELINE_KEYS: Mapping[str, str] = {
    "kind": "What it does. land writes the records of a topic to a table, exactly once.",
    "from": "The topic and the format of its records.",
    "to": "The database or the lake, and the table.",
    "columns": "The table's columns: name: TYPE, or name: {type, from} or {type, sql}. source: those of the source.",
    "schema": "With columns of the source: add (default) adds its new columns to the table, strict refuses the plan.",
    "where": "In a lake: an SQL expression over columns. Records for which it isn't true are not written.",
    "on_error": "What to do with a record that can't be written as a row: stop, or {dead_letter: {table, max}}.",
    "every": "Interval between batches, such as 10s. Without it, a run processes the available records and ends.",
    "limits": "Limits of a batch.",
    "maintain": "In a lake: housekeeping of the table's files by the running application.",
    "application": "The Spark application that runs it: seamark pipelines run --application NAME.",
}
ON_ERROR_KEYS: Mapping[str, str] = {
    "dead_letter": "Store such records in a table, with the reason, and continue.",
}
DEAD_LETTER_KEYS: Mapping[str, str] = {
    "table": "The table in the same database; default seamark_dead_letters. Not for a lake.",
    "max": "How many records a run may store: N records, or N% of each range. Default 10%.",
}
FROM_KEYS: Mapping[str, str] = {
    "topic": "The topic's name.",
    "format": "Format of the values: json or debezium.",
    "schemas": "Whether JSON includes Connect's schema, as with schemas.enable=true.",
    "start": "Where the first run starts: earliest or latest.",
}
_TABLE_KEYS: Mapping[str, str] = {
    "table": "The table, or SCHEMA.TABLE; in a lake a folder below it.",
    "mode": "append adds a row for each record; upsert replaces the row of the same key; snapshot, in a lake, also "
    "deletes rows that the source no longer sends.",
    "key": "The columns of the table's key, for upsert and snapshot.",
    "order": "For upsert: columns that determine which record of a key is newer, or kafka.timestamp, or kafka.offset.",
    "tombstones": "For upsert with order: how long tombstones are kept; default 7d.",
    "expire_after": "For snapshot: a row is deleted when the topic has records so much later than the row's last one.",
    "max_delete": "For snapshot: the share of the rows that may expire at once; default 20%.",
    "date": "The column by whose date a table of a lake is partitioned.",
    "coordinates": "In a lake: false for a table without the columns _topic, _partition, _offset and _timestamp.",
}
COLUMN_KEYS: Mapping[str, str] = {
    "type": "A type of PostgreSQL, such as numeric(12, 2); in a lake, a type of Delta, also struct<…> and array<…>.",
    "from": "Its source: value.a.b, key, key.id, header.NAME, or kafka.offset, partition, timestamp, topic.",
    "sql": "In a lake: an SQL expression over the columns that come from the record, instead of from.",
    "epoch": "The unit of a number since 1970 that becomes a timestamp or a date: days, millis, micros or nanos.",
}
SOURCE_KEYS: Mapping[str, str] = {
    "database": "The name of the database in the context. Without it, the Connect schema of the records is used.",
    "table": "The table behind the source connector, or SCHEMA.TABLE.",
}
MAINTAIN_KEYS: Mapping[str, str] = {
    "compact": "How often a running application merges small files; default 1h. never: not at all.",
    "vacuum": "How long files are kept after they were replaced, at least 1h. Without it, none is deleted.",
}
LIMIT_KEYS: Mapping[str, str] = {"records": "Maximum number of records per batch, for all partitions together."}
_KINDS = ("land",)
_STOP = "stop"
_NEVER = "never"
_SOURCE = "source"
_TRUTHS = {"true": True, "false": False}
_NUMBER = re.compile(r"[1-9][0-9]{0,11}")


def build_to_keys() -> dict[str, str]:
    """Build the keys below `to:`: a key for the stores of each technology, and those of all tables."""
    return {one.place: one.place_help for one in open_registry().tables} | dict(_TABLE_KEYS)


class PipelineKind(SectionKind[DesiredLanding]):
    """Pipelines of spec files. The journal is where they are registered; one that leaves the files is forgotten."""

    section = "pipelines"
    noun = "pipeline"
    summary = "Spark jobs: name: {kind: land, from, to, columns, …}."
    phase = CONNECTOR_PHASE + 10
    kept = "stay registered"
    is_owned = True
    has_templates = True

    def build_schema(self) -> dict[str, Any]:
        """Return the schema of a pipeline."""
        text, truth = {"type": "string"}, {"type": "boolean"}
        shapes: dict[str, Any] = {"type": text, "from": text, "sql": text, "epoch": {"enum": list(EPOCH_UNITS)}}
        column = build_table_schema(COLUMN_KEYS, shapes, required=["type"])
        source = build_table_schema(SOURCE_KEYS, {"database": text, "table": text})
        return build_table_schema(
            PIPELINE_KEYS,
            {
                "kind": {"enum": ["land"]},
                "from": build_table_schema(
                    FROM_KEYS,
                    {
                        "topic": text,
                        "format": {"enum": ["json", "debezium"]},
                        "schemas": truth,
                        "start": {"enum": ["earliest", "latest"]},
                    },
                    required=["topic"],
                ),
                "to": build_table_schema(
                    build_to_keys(),
                    {
                        **{one.place: text for one in open_registry().tables},
                        "table": text,
                        "mode": {"enum": ["append", "upsert", "snapshot"]},
                        "key": {"type": "array", "items": text},
                        "order": {"type": "array", "items": text},
                        "tombstones": text,
                        "expire_after": text,
                        "max_delete": text,
                        "date": text,
                        "coordinates": truth,
                    },
                    required=["table"],
                ),
                "columns": {
                    "anyOf": [
                        {"enum": [_SOURCE]},
                        {
                            "type": "object",
                            "properties": {_SOURCE: {"anyOf": [text, column, source]}},
                            "additionalProperties": {"anyOf": [text, column]},
                        },
                    ]
                },
                "schema": {"enum": [one.value for one in SchemaPolicy]},
                "where": text,
                "on_error": {"anyOf": [{"enum": ["stop"]}, _build_on_error_schema()]},
                "every": text,
                "limits": build_table_schema(LIMIT_KEYS, {"records": NUMBER_SCHEMA}),
                "maintain": build_table_schema(MAINTAIN_KEYS, {"compact": text, "vacuum": text}),
                "application": text,
            },
            required=["kind", "from", "to", "columns"],
        )

    def read(self, file: SpecTable) -> Iterator[DesiredLanding]:
        """Yield the pipelines of a file."""
        if file.is_null(self.section):
            return
        entries = file.read_table(self.section)
        for key in entries:
            name = entries.read_name(key)
            yield self.read_entry(name, entries.read_table(key, what=f"pipeline {name}"), entries.find_place(key))

    def read_entry(self, name: str, table: SpecTable, place: FileLocation) -> DesiredLanding:
        """Read one pipeline."""
        return _Entry(table).read(name, place)

    def check(self, wanted: Sequence[DesiredLanding], context: Context) -> None:
        """Check that each pipeline could be run. Nothing is read, and no secret is looked up."""
        check_landings(context, wanted)

    def plan(self, wanted: Sequence[DesiredLanding], request: SectionRequest) -> SectionPlan:
        """Compare each pipeline with what is registered. The journal is not read if the spec never had one."""
        own = {parse_owner(owner).name for owner in request.ownership.own if is_pipeline(owner)}
        if not wanted and not own:
            return SectionPlan()
        try:
            registered = request.reads.world.use(REGISTERED)()
        except FormatVersionError:
            raise
        except SeamarkError as error:
            note = f"pipelines were checked, but will not be registered: {error.message}"
            return SectionPlan(notes=(note,), blocked_by=error if wanted else None)
        if any(one.is_unresolved for one in wanted):
            wanted = resolve_columns(wanted, registered, read=request.reads.use(SOURCE_COLUMNS))
        bodies: dict[str, Any] = {one.name: build_body(one) for one in wanted}
        _refuse_foreign(bodies, registered, ownership=request.ownership, adopt=request.adopt)
        steps = [RegisterPipeline(name, body) for name, body in bodies.items() if registered.get(name) != body]
        others = request.ownership.others()
        gone = sorted(
            name for name in own - bodies.keys() if name in registered and build_pipeline_owner(name) not in others
        )
        steps += [RegisterPipeline(name, None) for name in gone]
        notes = tuple(f"pipeline {one.name}: {note}" for one in wanted for note in one.notes)
        return SectionPlan(tuple(steps), tuple(RegisterPipeline.inspect(steps, request.reads)), notes=notes)


register_spec_kind(PipelineKind())


def _refuse_foreign(
    wanted: Mapping[str, Any], registered: Mapping[str, Any], *, ownership: OwnershipPort, adopt: bool
) -> None:
    """Refuse to take a pipeline from another spec, where it is not the same in both."""
    changed = [name for name, body in wanted.items() if registered.get(name, body) != body]
    others = ownership.others() if changed and not adopt else {}
    if taken := [
        f"{name}: spec {others[build_pipeline_owner(name)].spec}"
        for name in changed
        if build_pipeline_owner(name) in others
    ]:
        raise RefusedError(
            f"another spec manages {len(taken)} of these pipelines; no changes were made",
            cause=", ".join(taken),
            hint="use that spec, remove them from one of the two, or take them over with --adopt",
        )


def _build_on_error_schema() -> dict[str, Any]:
    most = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}
    letter = build_table_schema(DEAD_LETTER_KEYS, {"table": {"type": "string"}, "max": most})
    shapes = {"dead_letter": {"anyOf": [{"type": "null"}, letter]}}
    return build_table_schema(ON_ERROR_KEYS, shapes, required=["dead_letter"])


def _is_source(columns: SpecTable) -> bool:
    """Whether the key `source` is where columns come from, and not a column of that name."""
    if _SOURCE not in columns:
        return False
    if not columns.is_table(_SOURCE):
        return columns.is_null(_SOURCE)
    below = columns.read_table(_SOURCE)
    return not any(key in below for key in COLUMN_KEYS)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One table of the file."""

    table: SpecTable

    def read(self, name: str, place: FileLocation) -> DesiredLanding:
        self._refuse_renamed()
        self.table.check_keys(PIPELINE_KEYS, what="a pipeline")
        kind = self.require("kind")
        if kind not in _KINDS:
            raise self.table.build_error(f"invalid value {kind!r} for kind", key="kind", hint="use kind: land")
        source = self.read_below("from", FROM_KEYS)
        target = self.read_below("to", build_to_keys())
        columns = self._find_source(has_schemas=source.read_truth("schemas").get("schemas", False))
        return DesiredLanding(
            name,
            place,
            topic=source.require("topic"),
            table=target.require("table"),
            columns=tuple(self._read_columns()),
            column_source=columns,
            **self._read_schema(columns),
            **source.read_some("format", "start"),
            **source.read_truth("schemas"),
            target=target.read_target(),
            **target.read_some("mode", "date", "max_delete"),
            **target.read_truth("coordinates"),
            **target.read_names("key"),
            **target.read_names("order"),
            **target.read_duration("tombstones"),
            **target.read_duration("expire_after"),
            dead_letters=self._read_letters(),
            **self.read_duration("every"),
            **self._read_limits(),
            **self._read_maintenance(),
            **self.read_some("application", "where"),
        )

    def _refuse_renamed(self) -> None:
        """Refuse the key that on_error has replaced, with its replacement."""
        if "dead_letters" in self.table:
            is_text = not (self.table.is_table("dead_letters") or self.table.is_list("dead_letters"))
            table = self.table.find_text("dead_letters") if is_text else "TABLE"
            hint = f"use on_error: {{dead_letter: {{table: {table}}}}}"
            problem = "dead_letters was replaced by on_error"
            raise self.table.build_error(problem, key="dead_letters", at_key=True, hint=hint)

    def _read_letters(self) -> DesiredDeadLetters | None:
        if "on_error" not in self.table:
            return None
        if not self.table.is_table("on_error"):
            word = self.table.read_text("on_error")
            if word == _STOP:
                return None
            hint = "use on_error: stop, or on_error: {dead_letter: {table: TABLE, max: 10%}}"
            raise self.table.build_error(f"invalid value {word!r} for on_error", key="on_error", hint=hint)
        entry = self.read_below("on_error", ON_ERROR_KEYS)
        if "dead_letter" not in entry.table:
            raise entry.table.build_error("dead_letter is missing", hint="add dead_letter: {}")
        if entry.table.is_null("dead_letter"):
            return DesiredDeadLetters()
        below = entry.read_below("dead_letter", DEAD_LETTER_KEYS)
        return DesiredDeadLetters(**below.read_some("table", "max"))

    def require(self, key: str) -> str:
        if key not in self.table:
            raise self.table.build_error(f"{key} is missing", hint=f"add {key}: …")
        return self.table.read_text(key)

    def read_below(self, key: str, known: Mapping[str, str]) -> _Entry:
        if key not in self.table:
            raise self.table.build_error(f"{key} is missing", hint=f"add {key}: {{…}}")
        table = self.table.read_table(key)
        table.check_keys(known, what=key)
        return _Entry(table)

    def read_some(self, *keys: str) -> dict[str, Any]:
        return {key: self.table.read_text(key) for key in keys if key in self.table}

    def read_target(self) -> TargetRef:
        places = [one.place for one in open_registry().tables]
        found = self.read_some(*places)
        if len(found) != 1:
            problem = f"{places[0]} is missing"
            if found:
                problem = f"{' and '.join(places)} can't both be set"
            hint = f"add {', or '.join(f'{one}: NAME' for one in places)}"
            raise self.table.build_error(problem, hint=hint)
        ((place, name),) = found.items()
        return TargetRef(place, name)

    def _find_source(self, *, has_schemas: bool) -> ColumnSource | None:
        """Find where columns come from: `columns: source`, or `columns: {source: {database, table}, …}`."""
        if "columns" not in self.table:
            raise self.table.build_error("columns is missing", hint="add columns: {NAME: TYPE, …}, or columns: source")
        if not self.table.is_table("columns"):
            if (word := self.table.find_text("columns")) != _SOURCE:
                hint = "use columns: {NAME: TYPE, …}, or columns: source"
                raise self.table.build_error(f"invalid value {word!r} for columns", key="columns", hint=hint)
            found = ColumnSource()
        elif _is_source(columns := self.table.read_table("columns")):
            found = _Entry(columns).read_source()
        else:
            return None
        if not found.database and not has_schemas:
            raise self.table.build_error(
                "columns: source requires from.schemas: true",
                key="columns",
                hint="set schemas: true if records have Connect's schema, or name the table behind the connector: "
                "columns: {source: {database: NAME, table: TABLE}}",
            )
        return found

    def read_source(self) -> ColumnSource:
        if self.table.is_null(_SOURCE):
            return ColumnSource()
        entry = self.read_below(_SOURCE, SOURCE_KEYS)
        found = entry.read_some(*SOURCE_KEYS)
        if len(found) == 1:
            missing = next(key for key in SOURCE_KEYS if key not in found)
            raise entry.table.build_error(f"{missing} is missing", hint=f"add {missing}: …")
        return ColumnSource(**found)

    def _read_schema(self, source: ColumnSource | None) -> dict[str, Any]:
        if "schema" in self.table and source is None:
            hint = "remove schema, or set columns: source"
            raise self.table.build_error("schema requires columns: source", key="schema", at_key=True, hint=hint)
        return self.read_some("schema")

    def _read_columns(self) -> Iterator[DesiredColumn]:
        if not self.table.is_table("columns"):
            return
        columns = self.table.read_table("columns")
        for key in columns:
            name = columns.read_name(key)
            if name == _SOURCE and _is_source(columns):
                continue
            if not columns.is_table(key):
                yield DesiredColumn(name, columns.read_text(key, what=f"the type of column {name}"))
                continue
            entry = _Entry(columns.read_table(key))
            entry.table.check_keys(COLUMN_KEYS, what="a column")
            found = entry.read_some("from", "sql", "epoch")
            words = (found.get(key, "") for key in ("from", "sql", "epoch"))
            yield DesiredColumn(name, entry.require("type"), *words)

    def read_truth(self, key: str) -> dict[str, Any]:
        if key not in self.table:
            return {}
        text = self.table.read_text(key)
        if text not in _TRUTHS:
            raise self.table.build_error(f"{key} must be true or false", key=key)
        return {key: _TRUTHS[text]}

    def read_names(self, key: str) -> dict[str, Any]:
        if key not in self.table:
            return {}
        if not self.table.is_list(key):
            raise self.table.build_error(f"{key} must be a list of columns", key=key, hint=f"use {key}: [id]")
        return {key: self.table.read_texts(key, what=f"a column of {key}")}

    def read_duration(self, key: str) -> dict[str, Any]:
        if key not in self.table:
            return {}
        try:
            return {key: parse_duration(self.table.read_text(key))}
        except ValueError:
            problem = f"{key} must be a duration"
            raise self.table.build_error(problem, key=key, hint=f"use a form such as {key}: 10s") from None

    def _read_maintenance(self) -> dict[str, Any]:
        if "maintain" not in self.table:
            return {}
        entry = self.read_below("maintain", MAINTAIN_KEYS)
        if "compact" in entry.table and entry.table.read_text("compact") == _NEVER:
            return {"compact": 0.0, **entry.read_duration("vacuum")}
        return {**entry.read_duration("compact"), **entry.read_duration("vacuum")}

    def _read_limits(self) -> dict[str, Any]:
        if "limits" not in self.table:
            return {}
        limits = self.read_below("limits", LIMIT_KEYS).table
        if "records" not in limits:
            return {}
        text = limits.read_text("records")
        if not _NUMBER.fullmatch(text):
            raise limits.build_error("records must be a whole number above 0", key="records")
        return {"records": int(text)}
