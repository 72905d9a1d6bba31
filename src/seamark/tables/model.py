"""Values of tables: ledger entries, the order of an upsert, layouts, and nested types. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from seamark.core.refs import parse_owner
from seamark.errors import StaleFilesError, UsageError

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
class TableVersion:
    """What a table that can be rebuilt has, at one version.

    Attributes:
        version: The version.
        generation: Which rebuild its files come from; 0 before the first one.
        files: How many files it has.
        rows: How many rows; None if that isn't known without reading them.
        entries: The offsets, by topic ID and partition.
        columns: The type of each column.
    """

    version: int
    generation: int
    files: int
    rows: int | None
    entries: Mapping[tuple[str, int], LedgerEntry]
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableRebuild:
    """New files of a table, which aren't part of it yet.

    Attributes:
        id: Tells this rebuild from others.
        digest: The hash of the definition that its rows were built by.
        contents: What the table will have. Its generation is that of the rebuild.
        is_swapped: Whether the table has, or had, these files.
    """

    id: str
    digest: str
    contents: TableVersion
    is_swapped: bool = False


def check_ahead(
    owner: str, current: Mapping[tuple[str, int], LedgerEntry], rebuilt: Mapping[tuple[str, int], LedgerEntry]
) -> None:
    """Check that a rebuild has processed all records that its table has.

    Raises:
        StaleFilesError: It hasn't.
    """
    # Entries of a deleted topic of the same name count no longer: the plan of the rebuild has shown them.
    topics = {topic_id for topic_id, _ in rebuilt}
    done = {key: rebuilt[key].next_offset if key in rebuilt else 0 for key in current if key[0] in topics or not topics}
    behind = {
        str(current[key]): current[key].next_offset - offset
        for key, offset in done.items()
        if current[key].next_offset > offset
    }
    if behind:
        raise StaleFilesError(
            f"{owner} has processed {sum(behind.values()):,} records that its rebuild has not; no changes were made",
            cause=f"for example partition {next(iter(behind))}",
            hint=f"continue the rebuild: seamark pipelines rebuild {parse_owner(owner).name}",
        )


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


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """A list of items of one type."""

    item: TypeShape


@dataclass(frozen=True, slots=True)
class StructShape:
    """Fields by name, each with its type, in their sequence."""

    fields: tuple[tuple[str, TypeShape], ...]


TypeShape = str | ArrayShape | StructShape
"""A type: a word such as `bigint` or `numeric(12, 2)`, or a nested one."""
_DEEPEST = 16
_FIELD = re.compile(r" *([A-Za-z_][A-Za-z0-9_]{0,62}) *: *", re.ASCII)
_LEAF = re.compile(r" *([a-z][a-z0-9_ ]*(?:\([0-9, ]*\))?[a-z ]*)", re.ASCII)
_ARRAY, _STRUCT = "array<", "struct<"


def is_nested(text: str) -> bool:
    """Return whether a type is meant to be an array or a struct."""
    return text.strip().startswith((_ARRAY, _STRUCT))


def parse_type(text: str) -> TypeShape:
    """Parse a type. One that isn't nested is returned as it is.

    Raises:
        UsageError: A struct or an array is malformed, or too deep.
    """
    if not is_nested(text):
        return text
    try:
        found, end = _parse_at(text, len(text) - len(text.lstrip()), depth=0)
    except ValueError:
        found, end = "", 0
    if text[end:].strip():
        raise UsageError(f"invalid type {text!r}", hint="use a form such as struct<id:bigint,tags:array<text>>")
    return found


def _parse_at(text: str, start: int, *, depth: int) -> tuple[TypeShape, int]:
    start += len(text[start:]) - len(text[start:].lstrip(" "))
    if depth > _DEEPEST:
        raise ValueError(depth)
    if text.startswith(_ARRAY, start):
        item, end = _parse_at(text, start + len(_ARRAY), depth=depth + 1)
        return ArrayShape(item), _skip(text, end, ">")
    if text.startswith(_STRUCT, start):
        return _parse_fields(text, start + len(_STRUCT), depth=depth)
    if (found := _LEAF.match(text, start)) is None:
        raise ValueError(text[start:])
    return found[1].strip(), found.end()


def _parse_fields(text: str, start: int, *, depth: int) -> tuple[StructShape, int]:
    fields: dict[str, TypeShape] = {}
    end = start - 1
    while not fields or text[end : end + 1] == ",":
        if (found := _FIELD.match(text, end + 1)) is None or found[1] in fields:
            raise ValueError(text[end:])
        fields[found[1]], end = _parse_at(text, found.end(), depth=depth + 1)
    return StructShape(tuple(fields.items())), _skip(text, end, ">")


def _skip(text: str, start: int, sign: str) -> int:
    if text[start : start + 1] != sign:
        raise ValueError(text[start:])
    return start + 1


def format_type(kind: TypeShape, format_leaf: Callable[[str], str] = str) -> str:
    """Format a type in one spelling, its words by `format_leaf`."""
    if isinstance(kind, ArrayShape):
        return f"{_ARRAY}{format_type(kind.item, format_leaf)}>"
    if isinstance(kind, StructShape):
        fields = (f"{name}:{format_type(one, format_leaf)}" for name, one in kind.fields)
        return f"{_STRUCT}{','.join(fields)}>"
    return format_leaf(kind)
