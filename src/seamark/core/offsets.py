"""The order of two offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Unit(StrEnum):
    """What is counted."""

    ROWS = "rows"
    RECORDS = "records"
    BYTES = "bytes"


class Certainty(StrEnum):
    """How much a figure is worth. BOUND means: so many at most."""

    EXACT = "exact"
    BOUND = "bound"
    ESTIMATE = "estimate"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a table: the last row that was read. A field that the mode does not use is None.

    `time_micros` are microseconds since the epoch.
    """

    number: int | None = None
    time_micros: int | None = None


@dataclass(frozen=True, slots=True)
class TableRows:
    """Count the rows of a table that come after one mark and not after another.

    Names are identifiers, never SQL: the code that counts quotes them. `number_column` is "" where the table's own
    auto-increment column is meant, None where rows differ by time alone. `time_columns` are tried in order until one is
    not null. Without `upto` the rows count that can be read now: those up to `delay_ms` ago, by the clock of the
    database in `time_zone`.
    """

    table: tuple[str, ...]
    number_column: str | None = None
    time_columns: tuple[str, ...] = ()
    after: Mark | None = None
    upto: Mark | None = None
    time_zone: str = "UTC"
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class WalBytes:
    """Count the bytes that PostgreSQL has logged since a place in its write-ahead log."""

    after_lsn: int


@dataclass(frozen=True, slots=True)
class LogRange:
    """Count the records of one partition from `start` on, up to but without `end`.

    None is the beginning, or the end, of the log. `cluster` is MirrorMaker's alias of another Kafka cluster.
    """

    topic: str
    partition: int
    start: int | None
    end: int | None
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class FileBytes:
    """Count the bytes of a file on the worker's machine, up to its end where `end` is None."""

    filename: str
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A count that is known without a request."""

    count: int


Count = TableRows | WalBytes | LogRange | FileBytes | Fixed


@dataclass(frozen=True, slots=True)
class Distance:
    """The distance between two offsets: `count` says how to count it, and is None where it can't be counted.

    `certainty` is what the figure will be worth once it is counted, `reason` says why it is not better. `seconds` is
    the time between the two by the data's own clock, where the position holds one.
    """

    unit: Unit
    count: Count | None
    certainty: Certainty = Certainty.EXACT
    reason: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """A count that was run. `figure` is None where it could not be told; `reason` says why it is not exact."""

    unit: Unit
    figure: int | None
    certainty: Certainty
    reason: str = ""

    def as_dict(self) -> Mapping[str, object]:
        """The same for JSON."""
        return {
            "unit": self.unit.value,
            "figure": self.figure,
            "certainty": self.certainty.value,
            "reason": self.reason,
        }


def settle(distance: Distance) -> Counted | None:
    """Return what a distance comes to without a request; None where a server must be asked."""
    if distance.count is None:
        return Counted(distance.unit, None, Certainty.UNKNOWN, distance.reason)
    if isinstance(distance.count, Fixed):
        return Counted(distance.unit, distance.count.count, distance.certainty, distance.reason)
    count = distance.count
    if isinstance(count, (LogRange, FileBytes)) and count.start is not None and count.end is not None:
        return Counted(distance.unit, max(0, count.end - count.start), distance.certainty, distance.reason)
    return None


OffsetValue = str | int | float | bool | None
OffsetMap = Mapping[str, OffsetValue]
_IDENTITY = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_spell_text = json.encoder.encode_basestring_ascii


@dataclass(frozen=True, slots=True)
class Offset:
    """A partition and the position held for it.

    `offset` is None where nothing is held. A sink's `kafka_offset` is the next record to be read.
    """

    partition: OffsetMap
    offset: OffsetMap | None


def spell_identity(fields: OffsetMap) -> str:
    """A text that two maps share if and only if Connect takes them for the same map.

    The order of the fields does not count. Types do: 1, 1.0, true and "1" are four different values, as they are in
    Java, though Python finds three of them equal.
    """
    # Texts and whole numbers are most of what there is, and a hundred thousand keys are spelled at once: the encoder
    # takes three times as long for the same text.
    pieces = []
    for name in sorted(fields) if len(fields) > 1 else fields:
        value = fields[name]
        if isinstance(value, str):
            pieces.append(f"{_spell_text(name)}:{_spell_text(value)}")
        elif isinstance(value, int) and not isinstance(value, bool):
            pieces.append(f"{_spell_text(name)}:{value}")
        else:
            return _IDENTITY.encode(dict(fields))
    return f"{{{','.join(pieces)}}}"


def spell_offset(offset: OffsetMap | None) -> str | None:
    """The same of an offset: equal texts are equal positions. None where nothing is held."""
    return None if offset is None else spell_identity(offset)


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Whose position and of which partition, however its bytes are spelled.

    Two keys are equal where Connect's listing takes them for the same one. `partition` keeps the order of its fields.
    """

    connector: str
    partition: OffsetMap = field(compare=False)
    identity: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", spell_identity(self.partition))


class Order(StrEnum):
    """Where one position lies, seen from another. UNKNOWN where the family does not tell."""

    BEFORE = "before"
    EQUAL = "equal"
    AFTER = "after"
    UNKNOWN = "unknown"

    @property
    def turned(self) -> Order:
        """The same, seen from the other position."""
        return {Order.BEFORE: Order.AFTER, Order.AFTER: Order.BEFORE}.get(self, self)


def order_of(left: tuple[int, ...], right: tuple[int, ...]) -> Order:
    """The order of two positions whose numbers count from the left."""
    if left == right:
        return Order.EQUAL
    return Order.BEFORE if left < right else Order.AFTER
