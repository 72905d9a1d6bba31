"""The position of a JDBC source as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from seamark.core.distance import Mark
from seamark.core.offset import OffsetMap
from seamark.offsets.semantics.fields import read_integer
from seamark.offsets.semantics.jdbc_config import JdbcConfig, JdbcMode

NUMBER, TIME, NANOS = "incrementing", "timestamp", "timestamp_nanos"
HIGHEST_NANOS = 999_999_999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_nanos(offset: OffsetMap | None) -> int | None:
    """Nanoseconds since the epoch, as Java's Timestamp makes them: `timestamp_nanos` replaces all below the second."""
    millis = read_integer(offset, TIME)
    if millis is None:
        return None
    nanos = read_integer(offset, NANOS)
    return millis * 1_000_000 if nanos is None else millis // 1000 * 1_000_000_000 + nanos


def read_order(config: JdbcConfig, offset: OffsetMap | None) -> tuple[int, ...] | None:
    """The numbers that the connector orders positions by; None where it can't be told.

    A field that is missing is read as the connector reads it: as the place it begins at.
    """
    nanos = read_nanos(offset)
    if nanos is None and config.initial_millis is not None:
        nanos = config.initial_millis * 1_000_000
    number = read_integer(offset, NUMBER)
    if number is None:
        number = config.initial_number
    if config.mode is JdbcMode.INCREMENTING:
        return (number,)
    if nanos is None or not config.mode.has_time:
        return None
    return (nanos, number) if config.mode is JdbcMode.BOTH else (nanos,)


def build_mark(config: JdbcConfig, offset: OffsetMap | None) -> Mark | None:
    """The place in the table. A database that keeps microseconds is asked for the nearest one, as its driver does."""
    order = read_order(config, offset)
    if order is None:
        return None
    if config.mode is JdbcMode.INCREMENTING:
        return Mark(number=order[0])
    micros = (order[0] + 500) // 1000
    return Mark(number=order[1] if config.mode is JdbcMode.BOTH else None, time_micros=micros)


def show_time(offset: OffsetMap) -> str:
    """The time in words, in UTC, with as many digits as it has."""
    nanos = read_nanos(offset)
    if nanos is None:
        return ""
    try:
        whole = _EPOCH + timedelta(seconds=nanos // 1_000_000_000)
    except OverflowError:
        return f"{nanos} ns"
    fraction = f"{nanos % 1_000_000_000:09d}".rstrip("0")
    return f"{whole:%Y-%m-%d %H:%M:%S}{'.' + fraction if fraction else ''} UTC"
