"""A landing: which topic goes to which table, and what becomes of a record on its way. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seamark.core import strict
from seamark.core.refs import build_pipeline_owner, find_mirror
from seamark.errors import UsageError
from seamark.pipelines.dead_letters import DEFAULT_TABLE, DeadLetters
from seamark.pipelines.lake_column import DATE_COLUMN, find_lake_type
from seamark.pipelines.land_column import LandColumn, RecordPart
from seamark.tables.record_order import DEFAULT_TOMBSTONE_SECONDS, KAFKA_OFFSET, OrderTerm, build_terms

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
)
_LAKE_TABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*", re.ASCII)


class Mode(StrEnum):
    """What a record does to the table."""

    APPEND = "append"
    UPSERT = "upsert"


class Format(StrEnum):
    """What the values of records are."""

    JSON = "json"
    DEBEZIUM = "debezium"


class Store(StrEnum):
    """What the table is of."""

    POSTGRESQL = "postgresql"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class Landing:
    """One landing, as its owner has declared it.

    `schemas` says whether JSON bears Connect's schemas around it, as with `schemas.enable=true`. `key` are the columns
    by which rows are replaced and deleted. `date_from` is the column by whose date a lake's table is parted. `order`
    decides which of two records of one key is newer; `tombstone_seconds` is how long the order of a delete is kept.
    `dead_letters` says where records that can't be rows are kept; None: the first one stops the run.
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
    store: Store = Store.POSTGRESQL
    date_from: str = ""
    order: tuple[str, ...] = ()
    tombstone_seconds: int = DEFAULT_TOMBSTONE_SECONDS

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"a landing can't be named {self.name!r}", hint="letters, digits, dot, dash, underscore")
        names = [column.name for column in self.columns]
        if not names or len(set(names)) != len(names):
            raise UsageError(f"the landing {self.name} needs columns, each by a name of its own")
        if unknown := sorted(set(self.key) - set(names)):
            raise UsageError(f"the key of the landing {self.name} names no column {unknown[0]}")
        if bool(self.key) != (self.mode is Mode.UPSERT):
            raise UsageError(
                f"the landing {self.name} {'has no key' if not self.key else 'only appends, and has a key'}",
                hint="mode: upsert goes with key: [COLUMN, …], and append without one",
            )
        if self.order and self.mode is not Mode.UPSERT:
            raise UsageError(f"the landing {self.name} only appends, and has to.order", hint="mode: upsert")
        if self.tombstone_seconds <= 0:
            raise UsageError(f"to.tombstones of {self.name} must be longer than nothing", hint="as in tombstones: 7d")
        # Refuses an order that PostgreSQL can't compare.
        _ = self.order_terms
        if self.store is Store.DELTA:
            self._check_lake(names)
        elif self.date_from:
            raise UsageError(f"the landing {self.name} has to.date, which belongs to a lake's table")
        if self.table == self.dead_letter_table:
            raise UsageError(
                f"the landing {self.name} has its rows and its dead letters in one table: {self.table}",
                hint="name another table in on_error.dead_letter.table",
            )

    def _check_lake(self, names: list[str]) -> None:
        if self.mode is not Mode.APPEND:
            raise UsageError(
                f"the landing {self.name} can't be {self.mode} in a lake",
                hint="land what happened (mode: append), and take the newest of each key where it is read",
            )
        if self.dead_letters is not None and self.dead_letters.table:
            raise UsageError(
                f"the landing {self.name} has on_error.dead_letter.table, which belongs to a database",
                hint="remove it: in a lake, dead letters are rows of the table, in the column seamark_dead_letter",
            )
        if not _LAKE_TABLE.fullmatch(self.table):
            raise UsageError(f"a lake's table can't be {self.table!r}", hint="letters, digits, . - _ and /")
        kinds = {column.name: find_lake_type(column) for column in self.columns}
        if DATE_COLUMN in kinds and self.date_from:
            raise UsageError(f"the landing {self.name} has a column {DATE_COLUMN}, which to.date makes itself")
        moments = [name for name in names if kinds[name] in {"timestamp", "date"}]
        if self.date_from and self.date_from not in moments:
            raise UsageError(
                f"to.date of the landing {self.name} names no column of moments: {self.date_from}",
                hint=f"one of {', '.join(moments)}" if moments else "it needs a column of type timestamp or date",
            )

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
        """The table of its dead letters in PostgreSQL; empty where it has none."""
        if self.dead_letters is None or self.store is not Store.POSTGRESQL:
            return ""
        return self.dead_letters.table or DEFAULT_TABLE

    @property
    def order_terms(self) -> tuple[OrderTerm, ...]:
        """The terms of its order; empty where it has none."""
        return build_terms(self.order, {one.name: one.type for one in self.columns}, pipeline=self.name)

    @property
    def needs_binding(self) -> bool:
        """Whether it is right only if all records of a key are in one partition, and the key doesn't say which."""
        if self.mode is not Mode.UPSERT or (self.order and self.order != (KAFKA_OFFSET,)):
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
            "store": self.store.value,
            "date_from": self.date_from,
            "order": list(self.order),
            "tombstone_seconds": self.tombstone_seconds,
        }

    @classmethod
    def from_dict(cls, data: object) -> Landing:
        """Read what `to_dict` gave."""
        fields = strict.read_object(data, keys=_KEYS, what="a landing")
        return cls(
            name=strict.read_text(fields["name"], what="the name of a landing"),
            topic=strict.read_text(fields["topic"], what="the topic of a landing"),
            table=strict.read_text(fields["table"], what="the table of a landing"),
            columns=tuple(LandColumn.from_dict(one) for one in strict.read_list(fields["columns"], what="columns")),
            mode=strict.read_word(fields["mode"], words=Mode, what="the mode of a landing"),
            key=strict.read_texts(fields["key"], what="a table's key"),
            format=strict.read_word(fields["format"], words=Format, what="the format of a landing"),
            schemas=strict.read_truth(fields["schemas"], what="schemas"),
            dead_letters=None if (letters := fields["dead_letters"]) is None else DeadLetters.from_dict(letters),
            store=strict.read_word(fields["store"], words=Store, what="the store of a landing"),
            date_from=strict.read_text(fields["date_from"], what="the column of dates"),
            order=strict.read_texts(fields["order"], what="an order"),
            tombstone_seconds=strict.read_count(fields["tombstone_seconds"], what="tombstone_seconds"),
        )


@dataclass(frozen=True, slots=True)
class BatchLanded:
    """What one batch of a run has landed."""

    number: int
    rows: int
    deleted: int
    dead: int
