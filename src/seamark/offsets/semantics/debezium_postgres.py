"""Offset semantics of Debezium for PostgreSQL: log sequence numbers (LSN) of the write-ahead log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

from seamark.core.offsets import Certainty, Distance, Fixed, OffsetMap, Order, Unit, WalBytes, order_of
from seamark.core.readings import Finding
from seamark.offsets.semantics.fields import Notes, build_point_in_time, read_integer, read_text, show_fields
from seamark.offsets.semantics.semantics import Consequence, GenericMeaning, Harm

LSN, PROCESSED, COMMIT, TIME = "lsn", "lsn_proc", "lsn_commit", "ts_usec"
_INTEGERS = (LSN, PROCESSED, COMMIT, TIME, "txId", "xmin")
_WAL = "bytes of the server's whole log; the number of rows of this connector in it is unknown"


class DebeziumPostgresMeaning(GenericMeaning):
    """`{"server": topic.prefix}` and LSNs: the last event, the last commit, the last one fully processed."""

    family: ClassVar[str] = "Debezium PostgreSQL"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match by the connector class."""
        del config
        return connector_class == "io.debezium.connector.postgresql.PostgresConnector"

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """Check the server's name, the LSNs, and whether a snapshot is unfinished."""
        notes = Notes(self.describe_partition(partition))
        if not notes.check_shape(partition, [{"server"}], '{"server": "topic.prefix"}'):
            return notes.result()
        prefix = self.config.get("topic.prefix") or self.config.get("database.server.name")
        if prefix and read_text(partition, "server") != prefix:
            notes.warn("the connector has another prefix", f"topic.prefix is {prefix}: this offset is never read")
        if offset is not None:
            _check_offset(notes, offset)
        return notes.result()

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Compare by the last commit, then by LSN: transactions are sent in the order of their commits."""
        if left is None and right is None:
            return Order.EQUAL
        first, second = _read_order(left), _read_order(right)
        return Order.UNKNOWN if first is None or second is None else order_of(first, second)

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Return the prefix, and the LSN as PostgreSQL writes it."""
        place = _read_place(offset)
        if offset is None or place is None:
            return self.describe_partition(partition), "nothing" if offset is None else show_fields(offset)
        words = f"LSN {show_lsn(place)}"
        if (time := build_point_in_time(read_integer(offset, TIME), per_second=1_000_000)) is not None:
            words += f", {time:%Y-%m-%d %H:%M:%S} UTC"
        return self.describe_partition(partition), words + (", in a snapshot" if _is_unfinished(offset) else "")

    def find_times(self, partition: OffsetMap, offset: OffsetMap) -> Mapping[str, datetime]:
        """Return the time of the last event."""
        del partition
        time = build_point_in_time(read_integer(offset, TIME), per_second=1_000_000)
        return {} if time is None else {TIME: time}

    def describe_partition(self, partition: OffsetMap) -> str:
        """Return the prefix."""
        name = read_text(partition, "server")
        return show_fields(partition) if name is None or len(partition) > 1 else f"server {name}"

    def explain_rewind(self) -> Consequence:
        """Describe a rewind: it has hardly any effect, because the slot decides, and it is confirmed soon after."""
        return Consequence(
            Harm.DUPLICATES,
            "PostgreSQL doesn't resend changes that the replication slot has confirmed: only changes after its "
            "confirmed_flush_lsn are duplicated, often none; older ones need a new snapshot. Before the slot's "
            "restart_lsn "
            "the task fails, or takes a new snapshot if snapshot.mode is when_needed",
        )

    def explain_skip(self) -> Consequence:
        """Describe a skip: changes are lost."""
        return Consequence(
            Harm.LOSS, "the skipped changes never reach its topics, and the slot allows the server to delete them"
        )

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """Return the distance in bytes of the write-ahead log."""
        del partition
        first, last = _read_place(start), _read_place(end)
        if start is None:
            return Distance(Unit.BYTES, None, Certainty.UNKNOWN, reason="without an offset it takes a snapshot first")
        if first is None or (end is not None and last is None):
            return Distance(Unit.BYTES, None, Certainty.UNKNOWN, reason="the offset has no LSN")
        if last is None:
            return Distance(Unit.BYTES, WalBytes(first), reason=_WAL)
        times = read_integer(start, TIME), read_integer(end, TIME)
        seconds = (times[1] - times[0]) / 1e6 if times[0] is not None and times[1] is not None else None
        return Distance(Unit.BYTES, Fixed(max(0, last - first)), reason=_WAL, seconds=seconds)


def show_lsn(place: int) -> str:
    """Format an LSN as PostgreSQL writes it: `16/B374D848`."""
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


def _read_place(offset: OffsetMap | None) -> int | None:
    # The task starts at the last LSN that it fully processed, and at the last event only if there is none.
    place = read_integer(offset, PROCESSED)
    return read_integer(offset, LSN) if place is None else place


def _read_order(offset: OffsetMap | None) -> tuple[int, int] | None:
    place = _read_place(offset)
    if place is None:
        return None
    commit = read_integer(offset, COMMIT)
    return (place if commit is None else commit, place)


def _is_unfinished(offset: OffsetMap) -> bool:
    is_snapshot = offset.get("snapshot") not in (None, False, "false")
    return (
        is_snapshot and offset.get("snapshot_completed") is not True and offset.get("last_snapshot_record") is not True
    )


def _check_offset(notes: Notes, offset: OffsetMap) -> None:
    notes.check_integers(offset, _INTEGERS)
    if offset.get(LSN) is None:
        notes.error(f"{LSN} is missing", "the task can't determine where to start")
    if offset.get(TIME) is None:
        notes.warn(f"{TIME} is missing", "some versions of the connector fail without it")
    places = {key: read_integer(offset, key) for key in (LSN, PROCESSED, COMMIT)}
    for key, place in places.items():
        if place is not None and place < 0:
            notes.error(f"{key} is negative", "an LSN is never negative")
    lsn, processed = places[LSN], places[PROCESSED]
    if lsn is not None and processed is not None and processed > lsn:
        notes.warn(f"{PROCESSED} is greater than {LSN}", f"move {LSN}, {PROCESSED} and {COMMIT} together")
    if _is_unfinished(offset):
        notes.warn(
            "a snapshot is not finished", "don't edit this offset; reset it, or wait until the snapshot has finished"
        )
