"""What a family can do with a number or a time: where a position lies after `--to`, `--shift` and `--back`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from seamark.core.offsets import OffsetMap
from seamark.offsets.semantics.fields import is_set, read_integer, read_text
from seamark.offsets.semantics.file_stream import FILENAME, POSITION, FileStreamMeaning
from seamark.offsets.semantics.jdbc_config import NANOS, NUMBER, TIME, JdbcConfig, JdbcMode, read_nanos
from seamark.offsets.semantics.jdbc_source import PROTOCOL, TABLE, JdbcSourceMeaning
from seamark.offsets.semantics.mirror import MirrorSourceMeaning
from seamark.offsets.semantics.semantics import OffsetSemantics

_SECOND = 1_000_000_000
# The config that names what a partition's field names: whoever takes offsets over has another value there.
_NAMED_BY: Mapping[str, str] = {"cluster": "source.cluster.alias", "server": "topic.prefix"}


class MoveKind(StrEnum):
    """How the new offset of a move is given."""

    NUMBER = "--to NUMBER"
    TIME = "--to TIME"
    SHIFT = "--shift N"
    BACK = "--back TIME"


class Mover:
    """A family that nobody can move by number or time. `why` says so to people."""

    ways: frozenset[MoveKind] = frozenset()
    why: str = "its position is neither a number nor a time that seamark knows"

    def to_number(self, number: int) -> OffsetMap | None:
        """The position that a number stands for; None is the beginning."""
        raise NotImplementedError

    def to_time(self, nanos: int, held: OffsetMap | None) -> OffsetMap:
        """The position of a moment, in nanoseconds since the epoch; `held` is the one to be replaced."""
        raise NotImplementedError

    def shift(self, held: OffsetMap, by: int) -> OffsetMap | None:
        """A held position and some more, or less. What holds no number raises a ValueError with the reason."""
        raise NotImplementedError

    def back(self, held: OffsetMap, seconds: float) -> OffsetMap:
        """A held position, so much earlier by its own clock. What holds no time raises a ValueError."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class NumberMover(Mover):
    """One field is a number. `lowest` is where the family begins; `is_last` where it names the last one, not the next.

    A number that is given is the next one where people count so: records. For rows it is the last one read.
    """

    field: str
    lowest: int = 0
    is_last: bool = False
    why: str = "its position is a number, and holds no time"
    ways: frozenset[MoveKind] = frozenset({MoveKind.NUMBER, MoveKind.SHIFT})

    def to_number(self, number: int) -> OffsetMap | None:
        """The number; before the first record there is no last one."""
        return self._build(number - 1 if self.is_last else number)

    def shift(self, held: OffsetMap, by: int) -> OffsetMap | None:
        """The number and some more."""
        found = read_integer(held, self.field)
        if found is None:
            raise ValueError(f"{self.field} is no integer")
        return self._build(found + by)

    def _build(self, number: int) -> OffsetMap | None:
        if self.is_last and number < 0:
            return None
        return {self.field: max(number, self.lowest)}


@dataclass(frozen=True, slots=True)
class JdbcTimeMover(Mover):
    """Rows are told by a time, and those of one moment by a number.

    With a time of its own comes the number that a connector begins with: every row of that very moment is read again.
    """

    jdbc: JdbcConfig
    why: str = "its position is a time; the number beside it only tells rows of the same moment apart"
    ways: frozenset[MoveKind] = frozenset({MoveKind.TIME, MoveKind.BACK})

    def to_time(self, nanos: int, held: OffsetMap | None) -> OffsetMap:
        """The moment. `timestamp_nanos` replaces all below the second, so it must go along where it is there."""
        built: dict[str, int] = {TIME: nanos // 1_000_000}
        if nanos % 1_000_000 or (held is not None and NANOS in held):
            built[NANOS] = nanos % _SECOND
        if self.jdbc.mode is JdbcMode.BOTH:
            built[NUMBER] = self.jdbc.initial_number
        return built

    def back(self, held: OffsetMap, seconds: float) -> OffsetMap:
        """So much earlier than the last row that was read."""
        nanos = read_nanos(held)
        if nanos is None:
            raise ValueError(f"{TIME} is no integer")
        return self.to_time(nanos - round(seconds * _SECOND), held)


class BulkMover(Mover):
    """Bulk mode: there is nothing to move."""

    why = "bulk mode keeps no position: every poll reads the whole table"


def find_mover(meaning: OffsetSemantics) -> Mover:
    """What can be done to the positions of a connector. A family of others may have a `build_mover` of its own."""
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
    """The held partitions that would speak in the place of one that is forgotten.

    A JDBC source looks protocol 0 up where protocol 1 has nothing: to forget one table, both must go.
    """
    table = read_text(partition, TABLE) if isinstance(meaning, JdbcSourceMeaning) else None
    if table is None or PROTOCOL not in partition:
        return ()
    return tuple(
        one for one in held if set(one) == {TABLE} and read_text(one, TABLE) in {table, table.rpartition(".")[2]}
    )


def rewrite_partition(meaning: OffsetSemantics, config: Mapping[str, str], partition: OffsetMap) -> OffsetMap:
    """The same partition as another connector of the family names it: its own file, alias or prefix."""
    if isinstance(meaning, FileStreamMeaning):
        return {FILENAME: config["file"]} if is_set(config, "file") else partition
    renamed = {key: config[named] for key, named in _NAMED_BY.items() if key in partition and is_set(config, named)}
    return {**partition, **renamed}
