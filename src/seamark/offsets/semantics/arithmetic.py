"""Compute offsets for `--to`, `--shift` and `--back` in each connector family, and find partitions by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seamark.core.offsets import OffsetMap, spell_identity
from seamark.errors import NotFoundError
from seamark.offsets.semantics.fields import is_set, parse_map, read_integer, read_text
from seamark.offsets.semantics.file_stream import FILENAME, POSITION, FileStreamMeaning
from seamark.offsets.semantics.jdbc_source import (
    NANOS,
    NUMBER,
    PROTOCOL,
    TABLE,
    TIME,
    JdbcConfig,
    JdbcMode,
    JdbcSourceMeaning,
    read_nanos,
)
from seamark.offsets.semantics.mirror import MirrorSourceMeaning
from seamark.offsets.semantics.semantics import OffsetSemantics

_SECOND = 1_000_000_000
# The config key behind a field of a partition: another connector that takes the offsets has another value there.
_NAMED_BY: Mapping[str, str] = {"cluster": "source.cluster.alias", "server": "topic.prefix"}


class MoveKind(StrEnum):
    """How the new offset of a move is given."""

    NUMBER = "--to NUMBER"
    TIME = "--to TIME"
    SHIFT = "--shift N"
    BACK = "--back DURATION"


class Mover:
    """A connector family whose offsets can't be moved by number or time. `why` is the explanation for users."""

    ways: frozenset[MoveKind] = frozenset()
    why: str = "seamark doesn't know a number or a time in its offset"

    def to_number(self, number: int) -> OffsetMap | None:
        """Return the offset for a number; None means the beginning."""
        raise NotImplementedError

    def to_time(self, nanos: int, held: OffsetMap | None) -> OffsetMap:
        """Return the offset for a point in time (nanoseconds since the epoch); `held` is the one it replaces."""
        raise NotImplementedError

    def shift(self, held: OffsetMap, by: int) -> OffsetMap | None:
        """Return a stored offset moved by a number. Raises ValueError with the reason if it contains no number."""
        raise NotImplementedError

    def back(self, held: OffsetMap, seconds: float) -> OffsetMap:
        """Return a stored offset moved back by its own clock. Raises ValueError if it contains no time."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class NumberMover(Mover):
    """One field is a number. `lowest` is the first number; `is_last` if it is the last record, not the next one.

    A number passed by the user is the next one for records, as users count them. For rows it is the last one read.
    """

    field: str
    lowest: int = 0
    is_last: bool = False
    why: str = "its offset is a number without a time"
    ways: frozenset[MoveKind] = frozenset({MoveKind.NUMBER, MoveKind.SHIFT})

    def to_number(self, number: int) -> OffsetMap | None:
        """Return the offset for the number; there is no last record before the first one."""
        return self._build(number - 1 if self.is_last else number)

    def shift(self, held: OffsetMap, by: int) -> OffsetMap | None:
        """Return the number plus a difference."""
        found = read_integer(held, self.field)
        if found is None:
            raise ValueError(f"{self.field} is not an integer")
        return self._build(found + by)

    def _build(self, number: int) -> OffsetMap | None:
        if self.is_last and number < 0:
            return None
        return {self.field: max(number, self.lowest)}


@dataclass(frozen=True, slots=True)
class JdbcTimeMover(Mover):
    """Rows are ordered by a time, and rows of the same time by a number.

    A given time is combined with the number with which a connector starts, so every row of exactly that time is
    reprocessed.
    """

    jdbc: JdbcConfig
    why: str = "its offset is a time; the number only distinguishes rows of the same time"
    ways: frozenset[MoveKind] = frozenset({MoveKind.TIME, MoveKind.BACK})

    def to_time(self, nanos: int, held: OffsetMap | None) -> OffsetMap:
        """Return the offset for a time.

        `timestamp_nanos` replaces everything below the second, so it is also set if the stored offset has it.
        """
        built: dict[str, int] = {TIME: nanos // 1_000_000}
        if nanos % 1_000_000 or (held is not None and NANOS in held):
            built[NANOS] = nanos % _SECOND
        if self.jdbc.mode is JdbcMode.BOTH:
            built[NUMBER] = self.jdbc.initial_number
        return built

    def back(self, held: OffsetMap, seconds: float) -> OffsetMap:
        """Return the offset for a time before the last row that was read."""
        nanos = read_nanos(held)
        if nanos is None:
            raise ValueError(f"{TIME} is not an integer")
        return self.to_time(nanos - round(seconds * _SECOND), held)


class BulkMover(Mover):
    """Bulk mode, which has no offsets to move."""

    why = "bulk mode stores no offset: every poll reads the whole table"


def find_mover(meaning: OffsetSemantics) -> Mover:
    """Return how a connector's offsets can be moved. A third-party family can provide its own `build_mover`."""
    if isinstance(meaning, FileStreamMeaning):
        return NumberMover(POSITION)
    if isinstance(meaning, MirrorSourceMeaning):
        return NumberMover("offset", is_last=True)
    if isinstance(meaning, JdbcSourceMeaning):
        return _find_jdbc_mover(meaning.jdbc)
    build = getattr(meaning, "build_mover", None)
    found = build() if callable(build) else None
    return found if isinstance(found, Mover) else Mover()


def _find_jdbc_mover(jdbc: JdbcConfig) -> Mover:
    if jdbc.mode is JdbcMode.INCREMENTING:
        return NumberMover(NUMBER, lowest=jdbc.initial_number)
    if jdbc.mode.has_time:
        return JdbcTimeMover(jdbc)
    return BulkMover() if jdbc.mode is JdbcMode.BULK else Mover()


def find_fallback_partitions(
    meaning: OffsetSemantics, partition: OffsetMap, held: Sequence[OffsetMap]
) -> tuple[OffsetMap, ...]:
    """Return the stored partitions that the task would use if the offset of one is deleted.

    A JDBC source looks up protocol 0 if protocol 1 has no offset: to reset one table, both must be deleted.
    """
    table = read_text(partition, TABLE) if isinstance(meaning, JdbcSourceMeaning) else None
    if table is None or PROTOCOL not in partition:
        return ()
    return tuple(
        one for one in held if set(one) == {TABLE} and read_text(one, TABLE) in {table, table.rpartition(".")[2]}
    )


def rewrite_partition(meaning: OffsetSemantics, config: Mapping[str, str], partition: OffsetMap) -> OffsetMap:
    """Return the same partition with the names of another connector of the family: its own file, alias or prefix."""
    if isinstance(meaning, FileStreamMeaning):
        return {FILENAME: config["file"]} if is_set(config, "file") else partition
    renamed = {key: config[named] for key, named in _NAMED_BY.items() if key in partition and is_set(config, named)}
    return {**partition, **renamed}


def pick_partitions(
    owner: str, names: Sequence[str], *, meaning: OffsetSemantics, held: Sequence[OffsetMap], new: bool = False
) -> tuple[OffsetMap, ...]:
    """Return the chosen partitions of a source; all without names. With `new`, a whole map can name a new one.

    Raises:
        NotFoundError: The owner has no such partition.
    """
    if not names:
        if held:
            return tuple(held)
        raise NotFoundError(
            f"{owner} has no offsets",
            hint="""set one with --partition '{…}' --to '{…}', in the format of the connector's documentation""",
        )
    picked: dict[str, OffsetMap] = {}
    for name in names:
        found = [one for one in held if is_named(meaning, one, name)]
        if not found and new and name.startswith("{"):
            found = [parse_map(name)]
        if not found:
            known = ", ".join(meaning.describe(one, None)[0] for one in held[:5])
            raise NotFoundError(f"{owner} has no partition {name}", cause=f"it has {known or 'none'}")
        picked |= {spell_identity(one): one for one in found}
    return tuple(picked.values())


def is_named(meaning: OffsetSemantics, partition: OffsetMap, name: str) -> bool:
    """Return whether a name matches a partition: some of its fields as JSON, one of its values, or its display name."""
    if name.startswith("{"):
        wanted = parse_map(name)
        return all(key in partition and _is_equal(partition[key], value) for key, value in wanted.items())
    return name == meaning.describe(partition, None)[0] or name in map(str, partition.values())


def _is_equal(one: Any, other: Any) -> bool:
    return spell_identity({"": one}) == spell_identity({"": other})
