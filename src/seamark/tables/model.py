"""The order of an upsert: which of two records of one key is the newer one. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from seamark.errors import UsageError

OFFSET, DELETED = "seamark_offset", "seamark_deleted"
"""The columns that go with a row on its way: where it comes from, and whether it is gone."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """How far one partition has come. `epoch` grows with each claim: only the last claimant may move it.

    `moves` counts how often it was moved: an offset that was set back may reach its earlier value once more.
    """

    topic: str
    topic_id: str
    partition: int
    next_offset: int
    epoch: int = 0
    moves: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from others of its owner."""
        return self.topic_id, self.partition

    def __str__(self) -> str:
        """As errors name it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class LedgerAdvance:
    """One range of offsets: from that of the ledger entry to `end`."""

    entry: LedgerEntry
    end: int

    @property
    def after(self) -> LedgerEntry:
        """What the ledger says when it is landed."""
        return replace(self.entry, next_offset=self.end, moves=self.entry.moves + 1)


ORDER_COLUMN = "_seamark_order"
"""The column of the target table that keeps the order of the record behind each row."""
KAFKA_TIMESTAMP, KAFKA_OFFSET = "kafka.timestamp", "kafka.offset"
RECORD_MILLIS = "seamark_millis"
"""The record's timestamp in milliseconds, on its way to the database."""
DEFAULT_TOMBSTONE_SECONDS = 7 * 86_400

_NUMBERS = ("smallint", "int2", "int", "int4", "integer", "bigint", "int8", "numeric")
_FLOATS = ("real", "float4", "double precision", "float8")
_TIMES = ("timestamp", "timestamptz", "date")
_BASE = re.compile(r"[a-z0-9 ]+?(?= ?\(|$| with)")


class OrderKind(StrEnum):
    """How the values of an order term become numbers that compare the same way."""

    NUMBER = "number"
    FLOAT = "float"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of an order: a column of the staged rows, and the kind of its values."""

    column: str
    kind: OrderKind


def build_terms(order: Iterable[str], types: Mapping[str, str], *, pipeline: str) -> tuple[OrderTerm, ...]:
    """Build the terms of `to.order`.

    Args:
        order: The names that `to.order` has.
        types: PostgreSQL's type of each column.
        pipeline: The pipeline's name, for errors.

    Returns:
        A term per name, in the same sequence.

    Raises:
        UsageError: A name is unknown or repeated, or its type has no order that numbers can express.
    """
    names = tuple(order)
    if len(set(names)) != len(names):
        raise UsageError(f"to.order of {pipeline} has a duplicate name: {', '.join(names)}")
    if KAFKA_OFFSET in names and len(names) > 1:
        raise UsageError(
            f"to.order of {pipeline} can't combine {KAFKA_OFFSET} with other terms",
            cause="records with equal order are compared by offset in any case",
            hint=f"remove {KAFKA_OFFSET}",
        )
    return tuple(_build_term(name, types, pipeline) for name in names)


def _build_term(name: str, types: Mapping[str, str], pipeline: str) -> OrderTerm:
    if name == KAFKA_TIMESTAMP:
        return OrderTerm(RECORD_MILLIS, OrderKind.NUMBER)
    if name == KAFKA_OFFSET:
        return OrderTerm(OFFSET, OrderKind.NUMBER)
    if name not in types:
        raise UsageError(
            f"to.order of {pipeline} contains {name}, which is not a column",
            hint=f"use one of {', '.join(types)}, or {KAFKA_TIMESTAMP}",
        )
    found = _BASE.match(types[name])
    base = found[0] if found else ""
    for kind, known in ((OrderKind.NUMBER, _NUMBERS), (OrderKind.FLOAT, _FLOATS), (OrderKind.TIME, _TIMES)):
        if base in known:
            return OrderTerm(name, kind)
    raise UsageError(
        f"to.order of {pipeline} can't use column {name} of type {types[name]}",
        hint="use a number, a date or a timestamp",
    )


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Types are in Spark's words, as in `bigint`, `decimal(12,2)` or `struct<a:string>`."""

    columns: Mapping[str, str]
    parted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableStatus:
    """What a pipeline's table and its ledger say.

    Attributes:
        entries: The entries of the ledger, by topic ID and partition.
        rows: How many rows the table has; None if that isn't known without reading them.
        is_estimate: Whether `rows` is an estimate.
        committed_at: When the ledger was last changed, in seconds since the epoch; None before the first run.
    """

    entries: Mapping[tuple[str, int], LedgerEntry]
    rows: int | None = None
    is_estimate: bool = False
    committed_at: float | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """The files of one date; of the whole table where it is not parted. `fewest` is how many they could be."""

    date: str
    files: int
    size: int
    fewest: int
