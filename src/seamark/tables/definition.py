"""A landing: which topic goes to which table, and what becomes of a record on its way. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import floor
from typing import Any

from seamark.core import strict_json as strict
from seamark.core.refs import build_pipeline_owner, find_mirror
from seamark.errors import UsageError
from seamark.tables.expressions import parse_expression
from seamark.tables.model import (
    DEFAULT_TOMBSTONE_SECONDS,
    KAFKA_OFFSET,
    KAFKA_TIMESTAMP,
    OrderTerm,
    build_terms,
    format_type,
    is_nested,
    parse_type,
)
from seamark.tables.registry import DEFAULT_KIND, find_technology

DEFAULT_MAX = "10%"
"""A pipeline whose columns don't fit its topic fails nearly all records; occasional bad records are a few per mille."""
LEAST_RECORDS = 10_000
"""A share is counted of at least so many records: in a batch of two records, one bad record would be 50%."""
DEFAULT_MAX_DELETE = "20%"
"""A source that has lost its rows, or sends another table, must not empty the target."""
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", re.ASCII)
_MAX = re.compile(r"([1-9][0-9]{0,11})|([0-9]{1,3}(?:\.[0-9]{1,6})?)%", re.ASCII)
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where bad records are kept, and how many.

    Attributes:
        table: The table in PostgreSQL. Empty in a lake, where dead letters are rows of the pipeline's own table.
        max: A number of records per run, or a share of the records of each range (`10%`).
    """

    table: str = ""
    max: str = DEFAULT_MAX

    def __post_init__(self) -> None:
        """Refuse a limit that can't be one."""
        found = _MAX.fullmatch(self.max)
        if found is None or (found[2] and not 0 < Fraction(found[2]) <= _WHOLE):
            raise UsageError(
                f"invalid value {self.max!r} for on_error.dead_letter.max: expected a number of records or a share",
                hint="write max: 1000 or max: 10%",
            )

    @property
    def accepts_all(self) -> bool:
        """Whether all records of a range may be bad."""
        return self._share == _WHOLE

    @property
    def most(self) -> int | None:
        """How many dead letters a run may write; None where a share counts."""
        return None if self.max.endswith("%") else int(self.max)

    @property
    def _share(self) -> Fraction | None:
        return Fraction(self.max[:-1]) if self.max.endswith("%") else None

    def count_allowed(self, records: int, *, spent: int = 0) -> int:
        """Count the dead letters that a range may have.

        Args:
            records: How many records the range has.
            spent: How many dead letters the run has written before.
        """
        if self.most is not None:
            return max(0, self.most - spent)
        return floor((self._share or 0) * max(records, LEAST_RECORDS) / _WHOLE)

    def to_dict(self) -> dict[str, Any]:
        """Build the JSON object that `from_dict` reads."""
        return {"table": self.table, "max": self.max}

    @classmethod
    def from_dict(cls, data: object) -> DeadLetters:
        """Read what `to_dict` built."""
        fields = strict.read_object(data, keys=("table", "max"), what="dead letters")
        return cls(**{name: strict.read_text(value, what=name) for name, value in fields.items()})


OUR_PREFIX = "seamark_"
KAFKA_FIELDS = ("topic", "partition", "offset", "timestamp")
_TYPE = re.compile(r"[a-z][a-z0-9_ ]*(\( *\d{1,4} *(, *\d{1,4} *)?\))?[a-z ]*(\[\])?", re.ASCII)
_NUMERIC = re.compile(r"^(decimal|dec)(?=\(|\[|$)")
_SPACES = (
    (re.compile(r" +"), " "),
    (re.compile(r" ?\( ?"), "("),
    (re.compile(r" ?, ?"), ", "),
    (re.compile(r" (?=[)\[])"), ""),
    # Behind its digits a type may have more words, as in timestamp(3) with time zone.
    (re.compile(r"\)(?=[a-z])"), ") "),
)
_NAME_BYTES = 63
EPOCH_UNITS = ("days", "millis", "micros", "nanos")
"""Units of numbers since 1970, as Connect and Debezium write dates and times."""
_COLUMN_KEYS = ("name", "type", "source", "sql", "epoch")


class RecordPart(StrEnum):
    """Which part of a record."""

    VALUE = "value"
    KEY = "key"
    KAFKA = "kafka"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class LandColumn:
    """One column. `type` is PostgreSQL's own word for it, in one spelling.

    `source` is `value.a.b`, `key`, `key.id`, `header.NAME`, or `kafka.` with topic, partition, offset or timestamp;
    empty: the field of the value by the column's name. `sql` is an expression over other columns, instead of a source.
    `epoch` is the unit of a number since 1970 that the column is read from; empty: the value has a date or a time.
    """

    name: str
    type: str
    source: str = ""
    sql: str = ""
    epoch: str = ""

    def __post_init__(self) -> None:
        """Refuse what PostgreSQL could not have, and what would run as SQL."""
        if not self.name or "\0" in self.name or len(self.name.encode()) > _NAME_BYTES:
            raise UsageError(f"invalid column name {self.name!r}", hint="use 1 to 63 bytes")
        if self.name.lstrip("_").startswith(OUR_PREFIX):
            raise UsageError(
                f"invalid column name {self.name}", hint="use another name: the prefix seamark_ is reserved"
            )
        object.__setattr__(self, "type", format_type(parse_type(self.type), self._spell_word))
        if self.place is RecordPart.KAFKA and (len(self.path) != 1 or self.path[0] not in KAFKA_FIELDS):
            raise UsageError(
                f"invalid source {self.source} of column {self.name}",
                hint=f"use kafka. with one of {', '.join(KAFKA_FIELDS)}",
            )
        if is_nested(self.type) and (self.place in {RecordPart.KAFKA, RecordPart.HEADER} or not self.path):
            raise UsageError(
                f"invalid source {self.source} of column {self.name}: a struct or an array is a field of JSON",
                hint="use value.… or key.…",
            )
        if self.sql and self.source:
            raise UsageError(
                f"column {self.name} has from and sql", hint="remove one of them: sql refers to columns by their names"
            )
        if self.sql:
            parse_expression(self.sql, what=f"columns.{self.name}.sql")
        if self.epoch:
            self._check_epoch()
        if self.place in {RecordPart.VALUE, RecordPart.HEADER} and not all(self.path):
            raise UsageError(
                f"invalid source {self.source!r} of column {self.name}", hint="use a path such as value.a.b"
            )

    def _spell_word(self, word: str) -> str:
        """Return a type, or one within a nested type, in its one spelling."""
        if not _TYPE.fullmatch(word):
            raise UsageError(f"invalid type {word!r} of column {self.name}", hint="use a type such as numeric(12, 2)")
        return _spell(word)

    def _check_epoch(self) -> None:
        if self.epoch not in EPOCH_UNITS:
            raise UsageError(
                f"invalid value {self.epoch!r} for epoch of column {self.name}",
                hint=f"use one of {', '.join(EPOCH_UNITS)}",
            )
        if self.sql or self.place is RecordPart.KAFKA or not self.type.startswith(("timestamp", "date")):
            raise UsageError(
                f"column {self.name} can't have epoch",
                hint="use epoch for a timestamp or a date that the record has as a number since 1970",
            )

    @property
    def place(self) -> RecordPart:
        """Which part of the record it comes from."""
        head = self.source.partition(".")[0] or RecordPart.VALUE.value
        if head not in set(RecordPart):
            raise UsageError(
                f"invalid source {self.source!r} of column {self.name}",
                hint="use value.…, key, key.…, header.NAME or kafka.…",
            )
        return RecordPart(head)

    @property
    def path(self) -> tuple[str, ...]:
        """The fields that lead to it. Empty: the whole key, as text."""
        if not self.source:
            return (self.name,)
        rest = self.source.partition(".")[2]
        if self.place is RecordPart.HEADER:
            # Names of headers may have dots.
            return (rest,)
        if not rest:
            return () if self.place is RecordPart.KEY else ("",)
        return tuple(rest.split("."))

    def to_dict(self) -> dict[str, Any]:
        """The column as JSON takes it."""
        return {name: getattr(self, name) for name in _COLUMN_KEYS}

    @classmethod
    def from_dict(cls, data: object) -> LandColumn:
        """Read what `to_dict` gave."""
        fields = strict.read_object(data, keys=_COLUMN_KEYS, what="a column of a pipeline")
        return cls(**{name: strict.read_text(value, what="a column of a pipeline") for name, value in fields.items()})


def _spell(kind: str) -> str:
    """A type in the one spelling by which it is known, of those that PostgreSQL takes for the same."""
    kind = kind.strip()
    for pattern, spelled in _SPACES:
        kind = pattern.sub(spelled, kind)
    return _NUMERIC.sub("numeric", kind)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,179}", re.ASCII)
_KEYS = (
    "name",
    "topic",
    "table",
    "columns",
    "mode",
    "key",
    "format",
    "schemas",
    "dead_letters",
    "store",
    "date_from",
    "order",
    "tombstone_seconds",
    "where",
    "expire_seconds",
    "max_delete",
)


class Mode(StrEnum):
    """What a record does to the table."""

    APPEND = "append"
    UPSERT = "upsert"
    SNAPSHOT = "snapshot"

    @property
    def has_key(self) -> bool:
        """Whether a record replaces the row of its key."""
        return self is not Mode.APPEND


class Format(StrEnum):
    """What the values of records are."""

    JSON = "json"
    DEBEZIUM = "debezium"


@dataclass(frozen=True, slots=True)
class Landing:
    """One landing, as its owner has declared it.

    `schemas` says whether JSON bears Connect's schemas around it, as with `schemas.enable=true`. `key` are the columns
    by which rows are replaced and deleted. `date_from` is the column by whose date a lake's table is parted. `order`
    decides which of two records of one key is newer; `tombstone_seconds` is how long the order of a delete is kept.
    `dead_letters` says where records that can't be rows are kept; None: the first one stops the run. `where` is an
    expression; records for which it isn't true are no rows. With mode snapshot, a row is deleted `expire_seconds` after
    its last record, and at most `max_delete` of all rows at once.
    """

    name: str
    topic: str
    table: str
    columns: tuple[LandColumn, ...]
    mode: Mode = Mode.APPEND
    key: tuple[str, ...] = ()
    format: Format = Format.JSON
    schemas: bool = False
    dead_letters: DeadLetters | None = None
    store: str = DEFAULT_KIND
    date_from: str = ""
    order: tuple[str, ...] = ()
    tombstone_seconds: int = DEFAULT_TOMBSTONE_SECONDS
    where: str = ""
    expire_seconds: int = 0
    max_delete: str = DEFAULT_MAX_DELETE

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"invalid pipeline name {self.name!r}", hint="use letters, digits, dot, dash and underscore"
            )
        if self.mode is Mode.SNAPSHOT and not self.order:
            # JDBC sources send records without a key, so that those of one row are in all partitions.
            object.__setattr__(self, "order", (KAFKA_TIMESTAMP,))
        names = [column.name for column in self.columns]
        if not names or len(set(names)) != len(names):
            raise UsageError("columns must have at least one column, and each name only once")
        if unknown := sorted(set(self.key) - set(names)):
            raise UsageError(f"to.key contains {unknown[0]}, which is not a column")
        if bool(self.key) != self.mode.has_key:
            raise UsageError(
                f"mode: {self.mode} requires to.key" if not self.key else "to.key can't be used with mode: append",
                hint="set key: [COLUMN, …] with mode: upsert or snapshot, and no key with mode: append",
            )
        if computed := sorted({column.name for column in self.columns if column.sql} & set(self.key)):
            raise UsageError(
                f"to.key contains {computed[0]}, which is computed by sql", hint="use columns that come from the record"
            )
        if self.order and not self.mode.has_key:
            raise UsageError("to.order can't be used with mode: append", hint="set mode: upsert, or remove to.order")
        self._check_expiry()
        if self.tombstone_seconds <= 0:
            raise UsageError("to.tombstones must be longer than 0s", hint="use a duration such as tombstones: 7d")
        self._check_expressions()
        # Refuses an order that PostgreSQL can't compare.
        _ = self.order_terms
        find_technology(self.store).check_definition(self)
        if self.table == self.dead_letter_table:
            raise UsageError(
                f"rows and dead letters can't be in the same table: {self.table}",
                hint="set on_error.dead_letter.table to another table",
            )

    def _check_expiry(self) -> None:
        is_snapshot = self.mode is Mode.SNAPSHOT
        if is_snapshot != bool(self.expire_seconds):
            raise UsageError(
                "mode: snapshot requires to.expire_after"
                if is_snapshot
                else f"to.expire_after can't be used with mode: {self.mode}",
                hint="set expire_after to more than the interval at which the source sends the whole table, such as "
                "expire_after: 36h for a daily load",
            )
        found = _SHARE.fullmatch(self.max_delete)
        if found is None or not 0 <= Fraction(found[1]) <= _WHOLE:
            raise UsageError(
                f"invalid value {self.max_delete!r} for to.max_delete: expected a share of the rows",
                hint="write max_delete: 20%",
            )

    @property
    def max_delete_share(self) -> Fraction:
        """The share of the rows that may expire at once."""
        return Fraction(self.max_delete[:-1]) / _WHOLE

    def _check_expressions(self) -> None:
        known = {column.name for column in self.source_columns}
        texts = {f"columns.{column.name}.sql": column.sql for column in self.columns if column.sql}
        for what, text in {**texts, **({"where": self.where} if self.where else {})}.items():
            if unknown := sorted(parse_expression(text, what=what).columns - known):
                raise UsageError(
                    f"{what} refers to {unknown[0]}, which is not a column of a record",
                    hint=f"use one of {', '.join(sorted(known)) or 'the columns without sql'}",
                )

    @property
    def source_columns(self) -> tuple[LandColumn, ...]:
        """The columns that come from a record, without those that are computed."""
        return tuple(column for column in self.columns if not column.sql)

    @property
    def has_expressions(self) -> bool:
        """Whether Spark evaluates expressions of the user."""
        return bool(self.where) or any(column.sql for column in self.columns)

    @property
    def has_headers(self) -> bool:
        """Whether a column comes from a header."""
        return any(column.place is RecordPart.HEADER for column in self.source_columns)

    @property
    def owner(self) -> str:
        """Its name in the ledger."""
        return build_pipeline_owner(self.name)

    @property
    def group(self) -> str:
        """The group of Kafka that gets its offsets, for those who watch lag."""
        return find_mirror(self.owner)

    @property
    def dead_letter_table(self) -> str:
        """The table of its dead letters; empty where it has none, or where they are rows of its own table."""
        default = find_technology(self.store).dead_letter_table
        if self.dead_letters is None or not default:
            return ""
        return self.dead_letters.table or default

    @property
    def order_terms(self) -> tuple[OrderTerm, ...]:
        """The terms of its order; empty where it has none."""
        return build_terms(self.order, {one.name: one.type for one in self.columns}, pipeline=self.name)

    @property
    def needs_binding(self) -> bool:
        """Whether it is right only if all records of a key are in one partition, and the key doesn't say which."""
        if not self.mode.has_key or (self.order and self.order != (KAFKA_OFFSET,)):
            return False
        sources = {column.source for column in self.columns if column.name in self.key}
        return "kafka.partition" not in sources

    @property
    def is_key_in_key(self) -> bool:
        """Whether the whole key of the table comes from the record's key: then a tombstone says what to delete."""
        chosen = [column for column in self.columns if column.name in self.key]
        return bool(chosen) and all(column.place is RecordPart.KEY for column in chosen)

    def to_dict(self) -> dict[str, Any]:
        """The landing as JSON takes it."""
        return {
            "name": self.name,
            "topic": self.topic,
            "table": self.table,
            "columns": [column.to_dict() for column in self.columns],
            "mode": self.mode.value,
            "key": list(self.key),
            "format": self.format.value,
            "schemas": self.schemas,
            "dead_letters": None if self.dead_letters is None else self.dead_letters.to_dict(),
            "store": self.store,
            "date_from": self.date_from,
            "order": list(self.order),
            "tombstone_seconds": self.tombstone_seconds,
            "where": self.where,
            "expire_seconds": self.expire_seconds,
            "max_delete": self.max_delete,
        }

    @classmethod
    def from_dict(cls, data: object) -> Landing:
        """Read what `to_dict` gave."""
        fields = strict.read_object(data, keys=_KEYS, what="a pipeline")
        return cls(
            name=strict.read_text(fields["name"], what="the name of a pipeline"),
            topic=strict.read_text(fields["topic"], what="the topic of a pipeline"),
            table=strict.read_text(fields["table"], what="the table of a pipeline"),
            columns=tuple(LandColumn.from_dict(one) for one in strict.read_list(fields["columns"], what="columns")),
            mode=strict.read_word(fields["mode"], words=Mode, what="the mode of a pipeline"),
            key=strict.read_texts(fields["key"], what="a table's key"),
            format=strict.read_word(fields["format"], words=Format, what="the format of a pipeline"),
            schemas=strict.read_truth(fields["schemas"], what="schemas"),
            dead_letters=None if (letters := fields["dead_letters"]) is None else DeadLetters.from_dict(letters),
            store=strict.read_text(fields["store"], what="the store of a pipeline"),
            date_from=strict.read_text(fields["date_from"], what="the column of dates"),
            order=strict.read_texts(fields["order"], what="an order"),
            tombstone_seconds=strict.read_count(fields["tombstone_seconds"], what="tombstone_seconds"),
            where=strict.read_text(fields["where"], what="where"),
            expire_seconds=strict.read_count(fields["expire_seconds"], what="expire_seconds"),
            max_delete=strict.read_text(fields["max_delete"], what="max_delete"),
        )
