"""What a JDBC source's config says about its positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from seamark.core.offsets import Mark, OffsetMap
from seamark.offsets.semantics.fields import is_set, read_integer, split_list

AIVEN = "io.aiven.connect.jdbc.JdbcSourceConnector"
CONFLUENT = "io.confluent.connect.jdbc.JdbcSourceConnector"
# Confluent's word for "from now on".
_CURRENT = -1


class JdbcMode(StrEnum):
    """How a JDBC source finds new rows."""

    BULK = "bulk"
    INCREMENTING = "incrementing"
    TIMESTAMP = "timestamp"
    BOTH = "timestamp+incrementing"
    UNKNOWN = "unknown"

    @property
    def has_number(self) -> bool:
        """Whether rows are told by an incrementing column."""
        return self in (JdbcMode.INCREMENTING, JdbcMode.BOTH)

    @property
    def has_time(self) -> bool:
        """Whether rows are told by a timestamp."""
        return self in (JdbcMode.TIMESTAMP, JdbcMode.BOTH)


@dataclass(frozen=True, slots=True)
class JdbcConfig:
    """The part of the config that positions depend on.

    `number_column` is "" where the connector looks for the table's auto-increment column itself. `initial_millis` is
    None where it begins at the moment of its first start. `unclear` says why rows can't be counted, where they can't.
    """

    mode: JdbcMode
    is_query: bool
    tables: tuple[str, ...]
    number_column: str
    time_columns: tuple[str, ...]
    time_zone: str
    delay_ms: int
    initial_number: int
    initial_millis: int | None
    unclear: str = ""


def read_jdbc_config(config: Mapping[str, str], *, is_confluent: bool) -> JdbcConfig:
    """Read it. Values that make no sense become defaults: it is Connect that refuses them."""
    initial = _read_number(config, "timestamp.initial" if is_confluent else "timestamp.initial.ms", 0)
    # Without quotation marks PostgreSQL reads every name in small letters.
    quoting = config.get("quote.sql.identifiers" if is_confluent else "sql.quote.identifiers") or "always"
    is_folded = quoting.strip().lower() == "never"
    number, times = (config.get("incrementing.column.name") or "").strip(), config.get("timestamp.column.name") or ""
    tables = config.get("table.whitelist") or config.get("table.include.list") or ""
    return JdbcConfig(
        mode=_read_mode(config.get("mode") or ""),
        is_query=is_set(config, "query"),
        # Confluent's include list holds patterns, which a name can't be looked up in.
        tables=split_list(tables) if not is_set(config, "table.include.list") else (),
        number_column=number.lower() if is_folded else number,
        time_columns=split_list(times.lower() if is_folded else times),
        time_zone=(config.get("db.timezone") or "UTC").strip(),
        delay_ms=_read_number(config, "timestamp.delay.interval.ms", 0),
        initial_number=-1 if is_confluent else _read_number(config, "incrementing.initial", -1),
        initial_millis=None if is_confluent and initial == _CURRENT else initial,
        unclear=_find_unclear(config),
    )


def _find_unclear(config: Mapping[str, str]) -> str:
    for key in ("incrementing.column.mapping", "timestamp.columns.mapping"):
        if is_set(config, key):
            return f"{key} names the columns by patterns"
    return ""


def _read_mode(word: str) -> JdbcMode:
    try:
        return JdbcMode(word.strip())
    except ValueError:
        return JdbcMode.UNKNOWN


def _read_number(config: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int((config.get(key) or str(default)).strip())
    except ValueError:
        return default


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
