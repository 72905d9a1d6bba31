"""A consumer whose offsets are stored in the user's database and committed in the transaction of the user's rows.

The ledger is the only source of offsets. Each call of `consume` checks first whether the last transaction was
committed, and resumes from the ledger's offsets: records that were returned and not saved are returned once more. The
offsets are also committed to Kafka's group, to make lag visible; they are read from there on the first start only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from seamark.consumer.assignment import Assignment, LedgerSession, PartitionState
from seamark.errors import FencedError, RejectedError, UsageError
from seamark.kafka.clients import ConnectionEvents, open_client
from seamark.kafka.failures import build_error
from seamark.kafka.model import TopicPartition
from seamark.kafka.topics import TopicAdmin
from seamark.tables.model import LedgerEntry
from seamark.tables.postgres.ledger import TABLE, Ledger, Runner

_LOGGER = logging.getLogger("seamark.consumer")
_ANSWER_SECONDS = 15.0
_PASSING = frozenset({"_ALL_BROKERS_DOWN", "_MAX_POLL_EXCEEDED", "_PARTITION_EOF", "_RESOLVE", "_TRANSPORT"})
_GONE = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})
_EDGES = {"earliest": 0, "beginning": 0, "smallest": 0, "latest": 1, "end": 1, "largest": 1}
# Keys that only a consumer has.
_NOT_ADMIN = (
    "group.",
    "partition.assignment",
    "auto.offset",
    "max.poll",
    "session.",
    "heartbeat.",
    "fetch.",
    "queued.",
)


class KafkaMetadata:
    """What one consumer asks the brokers beside its reads. `client` is the one that reads."""

    def __init__(self, config: Mapping[str, Any], client: Any) -> None:
        self._config = {key: value for key, value in config.items() if not key.startswith(_NOT_ADMIN)}
        self._client = client
        self._reset = str(config.get("auto.offset.reset", "latest"))
        if self._reset not in {*_EDGES, "error"}:
            raise UsageError(
                f"invalid value {self._reset!r} for auto.offset.reset", hint=f"use one of {', '.join(_EDGES)}, error"
            )
        # What the group was told, and what it has taken.
        self._told: dict[TopicPartition, int] = {}
        self._known: dict[TopicPartition, int] = {}

    def read_topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Read the IDs of topics: a recreated topic has another ID."""
        if not topics:
            return {}
        with TopicAdmin(self._config) as admin:
            reading = admin.read_topics(sorted(topics))
        for error in reading.failures.values():
            raise error
        return {found.name: found.topic_id for found in reading.items}

    def read_bounds(self, spot: TopicPartition) -> tuple[int, int]:
        """Where a partition begins and ends."""
        low, high = self._client.get_watermark_offsets(spell_spot(spot), timeout=_ANSWER_SECONDS)
        return int(low), int(high)

    def find_start(self, spot: TopicPartition) -> int:
        """Where a partition begins that the ledger does not know: at the group's offset, else at auto.offset.reset."""
        (found,) = self._client.committed([spell_spot(spot)], timeout=_ANSWER_SECONDS)
        if found.offset >= 0:
            return int(found.offset)
        if self._reset not in _EDGES:
            raise RejectedError(
                f"no start offset for partition {spot[0]}-{spot[1]}",
                cause="neither the ledger nor the group has an offset, and auto.offset.reset is error",
                hint="set auto.offset.reset to earliest or latest, or commit an offset for the group",
            )
        return self.read_bounds(spot)[_EDGES[self._reset]]

    def mirror(self, offsets: Iterable[tuple[TopicPartition, int]], *, is_last: bool) -> None:
        """Commit the ledger's offsets to the group, where they have moved. They only show lag: a failure is logged.

        The last call repeats those that the group has not acknowledged.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415

        before = self._known if is_last else self._told
        moved = {spot: offset for spot, offset in offsets if before.get(spot) != offset}
        if not moved:
            return
        spelled = [spell_spot(spot, offset) for spot, offset in moved.items()]
        try:
            done = self._client.commit(offsets=spelled, asynchronous=not is_last)
        except KafkaException as failure:
            _LOGGER.info(
                "could not commit the group's offsets, so that its lag is out of date: %s", failure.args[0].name()
            )
            return
        self._told |= moved
        if is_last:
            self.note_commit(None, done)

    def note_commit(self, error: Any, partitions: Iterable[Any] | None) -> None:
        """Handle the answer to a commit. Offsets that the group rejected are committed with the next call."""
        for one in partitions or ():
            spot = (one.topic, one.partition)
            failure = one.error if error is None else error
            if failure is None:
                self._known[spot] = one.offset
            else:
                _LOGGER.info(
                    "could not commit the group's offset of %s-%s, so that its lag is out of date: %s",
                    *spot,
                    failure.name(),
                )
                self._told.pop(spot, None)

    def judge(self, error: Any) -> None:
        """Raise an error of the client that retries don't resolve."""
        if error.name() in _GONE:
            raise RejectedError(
                "records after the ledger offset were deleted from the topic before they were consumed",
                cause=error.str(),
                hint="call seek_to_beginning() to continue with the first record that is left",
            )
        if error.fatal() or (not error.retriable() and error.name() not in _PASSING):
            raise build_error(error, action="consume", subject="", operation="READ", last_event=None)


def spell_spot(spot: TopicPartition, offset: int = 0) -> Any:
    """A partition, and perhaps a place in it, as confluent-kafka names it."""
    from confluent_kafka import TopicPartition as ConfluentTopicPartition  # noqa: PLC0415

    return ConfluentTopicPartition(*spot, offset)


_OURS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    # If the topic no longer has the ledger's offset, records are lost, and the caller must learn of it.
    "auto.offset.reset": "error",
}
# Partitions that were given are claimed between two of these.
_SLICE_SECONDS = 0.2
# Within so long a member that is no longer one hears of it: its next heartbeat is answered.
_AGAIN_SECONDS = 5.0
# It does not read the partition at the moment, for an error or because it has only just begun, or never has.
_NOT_READING = frozenset({"_STATE", "_UNKNOWN_PARTITION"})
_COOPERATIVE = "cooperative-sticky"

Callback = Callable[["ExactConsumer", Sequence[TopicPartition]], object]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What the program does when it gets partitions, and when it loses them."""

    on_assign: Callback | None = None
    on_revoke: Callback | None = None
    on_lost: Callback | None = None


class ExactConsumer:
    """A consumer of Kafka for one thread.

    `config` are librdkafka's settings, with a `group.id`. `connect` opens a connection to the database: the consumer
    keeps one for itself. Rows are written on another, the caller's own, which `save` is given. A process that is
    stopped behind `save` holds its partitions until PostgreSQL ends its transaction, after `idle_seconds`.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        connect: Callable[[], Any],
        owner: str = "",
        table: str = TABLE,
        idle_seconds: int = 60,
        build_consumer: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415

        if decided := sorted((set(_OURS) - {"auto.offset.reset"} | {"on_commit"}) & set(config)):
            raise UsageError(
                f"setting {decided[0]} is controlled by the consumer", hint="remove it: exactly-once depends on it"
            )
        if not config.get("group.id"):
            raise UsageError("setting group.id is missing", hint="set group.id: it is also the owner in the ledger")
        strategy = str(config.get("partition.assignment.strategy", ""))
        self._is_cooperative = _COOPERATIVE in strategy or config.get("group.protocol") == "consumer"
        self._ledger = Ledger(owner or str(config["group.id"]), table=table)
        self._house = LedgerSession(self._ledger, connect)
        self._idle_seconds = int(idle_seconds)
        self._events = ConnectionEvents()
        build = build_consumer or Consumer
        ours = {**config, **_OURS, "on_commit": self._on_commit}
        self._client = open_client(config, ours, build=build, on_error=self._events.record)
        self._kafka = KafkaMetadata(config, self._client)
        self._holdings = Assignment()
        self._waiting: dict[TopicPartition, None] = {}
        # The assigned partitions, and those of them that another process has claimed, with the end of their pause.
        self._given: set[TopicPartition] = set()
        self._taken: dict[TopicPartition, float] = {}
        self._callbacks, self._keeps_state = Callbacks(), False
        self._is_in_callback, self._was_revoked = False, False
        # An exception of a callback that the client has called: it is raised when the client has returned.
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                # Records may be half processed: state of the program must not be saved.
                self._abandon()
        finally:
            self.close()

    def subscribe(
        self,
        topics: Sequence[str],
        *,
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
        keeps_state: bool = False,
    ) -> None:
        """Have the group share out the partitions of these topics.

        The callbacks get this consumer and (topic, partition) pairs, within `consume` and `close`.

        Args:
            topics: The names of the topics.
            on_assign: Called when partitions are claimed and their positions are known, before a record of them is
                read: restore the program's state. If it raises, `consume` raises, and the next one calls it again.
            on_revoke: Called while the partitions are still held: write the program's state, call `save` and commit.
                If it raises, they are given up unsaved, and then `consume` or `close` raises.
            on_lost: Called when partitions are gone to another process: discard the program's state of them.
            keeps_state: The program keeps returned records in its memory over several calls of `consume`, such as
                an aggregate. They are not returned again, unless their partition was lost.
        """
        if keeps_state and (on_revoke is None or on_lost is None):
            raise UsageError(
                "keeps_state needs on_revoke and on_lost",
                cause="state of a partition that another process has would be saved or counted twice",
                hint="pass both; on_lost discards the state of its partitions",
            )
        self._callbacks, self._keeps_state = Callbacks(on_assign, on_revoke, on_lost), keeps_state
        self._client.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def assign(self, spots: Iterable[TopicPartition]) -> None:
        """Take these partitions, without a group's sharing out and without callbacks."""
        self._callbacks, self._keeps_state = Callbacks(), False
        self._holdings.drop([spot for spot, _ in self._holdings])
        # However a group would share out: here the caller does.
        self._is_cooperative = False
        self._client.assign([])
        self._given, self._taken = set(), {}
        self._waiting = dict.fromkeys(spots)

    def consume(self, count: int = 500, timeout: float = 1.0) -> list[Any]:
        """Up to so many records, as soon as there are some; confluent-kafka's own messages.

        Records that the previous call returned and that were not saved are returned once more, unless the program
        keeps state.
        """
        self._refuse_in_callback("consume")
        self._settle()
        deadline = time.monotonic() + timeout
        while True:
            self._claim_waiting()
            left = deadline - time.monotonic()
            records = self._poll(count, max(0.0, min(_SLICE_SECONDS, left)))
            if records and self._keeps_state:
                self._holdings.keep()
            if records or (left <= 0 and not self._waiting):
                return records

    def batches(self, count: int = 500, timeout: float = 1.0) -> Iterator[list[Any]]:
        """One `consume` after the other, without empty ones. Save each before you take the next."""
        while True:
            if records := self.consume(count, timeout):
                yield records

    def save(self, connection: Any, partitions: Collection[TopicPartition] | None = None) -> None:
        """Enter what was given since the last save. To be called in the transaction that writes its rows.

        `partitions` limits it to those whose rows the transaction writes, such as those of `on_revoke`.

        Raises:
            FencedError: a partition is another's by now. Let the transaction roll back, and consume on.
        """
        runner = Runner(connection)
        runner.expect_transaction()
        if runner.is_postgres:
            runner.change(f"SET LOCAL idle_in_transaction_session_timeout = '{self._idle_seconds}s'")
        for spot, held in self._holdings:
            # State may be written without new records: the ledger must fence that too, if the partition is another's.
            if (held.is_to_save or self._keeps_state) and (partitions is None or spot in partitions):
                self._move(runner, held)

    def position(self, spot: TopicPartition) -> int:
        """The offset of the next record of a partition."""
        return self._holdings.find(spot).position

    def saved(self, spot: TopicPartition) -> int:
        """The offset up to which the ledger says that a partition is saved."""
        entry = self._holdings.find(spot).entry
        return self._house.read().get(entry.key, entry).next_offset

    def seek(self, spot: TopicPartition, offset: int) -> None:
        """Resume from another offset. The ledger follows with the next save."""
        if offset < 0:
            raise UsageError(f"invalid offset {offset}", hint="call seek_to_beginning() or seek_to_end()")
        self._holdings.find(spot).seek(offset)
        self._send(spot)

    def seek_to_beginning(self, spot: TopicPartition) -> None:
        """Resume from the first record of a partition."""
        self.seek(spot, self._kafka.read_bounds(spot)[0])

    def seek_to_end(self, spot: TopicPartition) -> None:
        """Resume after the last record of a partition."""
        self.seek(spot, self._kafka.read_bounds(spot)[1])

    def close(self) -> None:
        """Leave the group. What was given, and not saved by then or in `on_revoke`, is the next owner's."""
        self._refuse_in_callback("close")
        self._mirror_last()
        self._client.close()
        self._house.close()
        self._raise_failure()

    def _abandon(self) -> None:
        """Give up all partitions without saving, so that closing revokes none."""
        spots = [spot for spot, _ in self._holdings]
        self._mirror_last()
        self._holdings.drop(spots)
        self._call(self._callbacks.on_lost, spots)

    def _refuse_in_callback(self, name: str) -> None:
        if self._is_in_callback:
            raise UsageError(
                f"{name} was called in a callback",
                cause="on_assign, on_revoke and on_lost run within consume and close",
                hint="return from the callback first",
            )

    def _call(self, callback: Callback | None, spots: Sequence[TopicPartition]) -> None:
        if callback is None or not spots:
            return
        self._is_in_callback = True
        try:
            callback(self, list(spots))
        finally:
            self._is_in_callback = False

    def _call_later_raising(self, callback: Callback | None, spots: Sequence[TopicPartition]) -> None:
        """Call it within a call of the client, which must end before an exception may leave it."""
        try:
            self._call(callback, spots)
        except BaseException as failure:  # noqa: BLE001 - raised when the client has returned
            self._failure = self._failure or failure

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _settle(self) -> None:
        """See what became of the last transaction."""
        unsettled = [(spot, held) for spot, held in self._holdings if held.is_unsettled]
        ledger = self._house.read() if unsettled else {}
        for spot, held in unsettled:
            found = ledger.get(held.entry.key)
            if found is None:
                raise RejectedError(
                    f"the ledger has no entry for {held.entry} any more",
                    cause=f"the row of owner {self._ledger.owner} was deleted from table {self._ledger.table}",
                    hint="restart the consumer: it starts at the group's committed offset, or at auto.offset.reset",
                )
            if found.epoch != held.entry.epoch:
                _LOGGER.warning("another process has claimed %s", held.entry)
                self._give_up(spot)
                self._call(self._callbacks.on_lost, [spot])
            elif self._holdings.settle(spot, found):
                self._send(spot)
        self._mirror()

    def _move(self, runner: Runner, held: PartitionState) -> None:
        try:
            held.save(self._ledger.move(runner, held.entry, to=held.position))
        except FencedError:
            # Even if nothing was read of it, the next consume must check the ledger.
            held.is_placed = False
            raise

    def _give_up(self, spot: TopicPartition) -> None:
        """Drop a partition that another process has claimed. Either the group reassigns it, or it is claimed again."""
        self._holdings.drop([spot])
        if spot in self._given:
            self._taken[spot] = time.monotonic() + _AGAIN_SECONDS
        self._stop_reading([spot])

    def _stop_reading(self, spots: Sequence[TopicPartition]) -> None:
        """Have the client read no more of these partitions, which are no longer held."""
        # Not paused: the client would keep that, also when the group gives it back.
        if self._is_cooperative:
            self._client.incremental_unassign(self._choose_read(spots))
        else:
            self._place([])

    def _wait_again(self) -> None:
        """Who had claimed a partition was late, if the group still says that it is ours; it could say so just now."""
        now = time.monotonic()
        for spot, until in list(self._taken.items()):
            if until <= now:
                del self._taken[spot]
                self._waiting[spot] = None

    def _claim_waiting(self) -> None:
        """Claim the assigned partitions. None is revoked meanwhile: the client reports that within its own calls."""
        claimed: list[TopicPartition] = []
        try:
            ids = self._kafka.read_topic_ids({topic for topic, _ in self._waiting})
            for spot in list(self._waiting):
                topic, partition = spot
                wanted = LedgerEntry(topic, ids[topic], partition, next_offset=0)
                entry = self._house.claim(wanted, find_start=partial(self._kafka.find_start, spot))
                del self._waiting[spot]
                self._holdings.take(spot, entry)
                claimed.append(spot)
        finally:
            # Where one fails, those before it are ours.
            if claimed:
                self._begin(claimed)

    def _begin(self, claimed: Sequence[TopicPartition]) -> None:
        """Let the program restore its state of claimed partitions, then have the client read them."""
        try:
            self._call(self._callbacks.on_assign, claimed)
        except BaseException:
            # Without its state, no record of them may be returned: the next consume claims them again.
            self._holdings.drop(claimed)
            self._stop_reading(claimed)
            self._waiting |= dict.fromkeys(claimed)
            raise
        self._place(claimed)

    def _poll(self, count: int, seconds: float) -> list[Any]:
        """Poll the client. If that fails, no record was returned: those that came with the error are fetched later."""
        try:
            found = self._client.consume(count, seconds)
            self._raise_failure()
            self._wait_again()
            if self._was_revoked:
                return self._return_nothing(found)
            return [message for message in found if self._accept(message)]
        except BaseException:
            self._was_revoked = False
            self._holdings.take_back()
            raise

    def _return_nothing(self, found: Sequence[Any]) -> list[Any]:
        """Return no records: on_revoke may have saved partitions that are still held, and the ledger says which."""
        for message in found:
            if message.error() is not None:
                self._kafka.judge(message.error())
        self._was_revoked = False
        self._holdings.take_back()
        self._settle()
        return []

    def _accept(self, message: Any) -> bool:
        if message.error() is not None:
            self._kafka.judge(message.error())
            return False
        return self._holdings.accept((message.topic(), message.partition()), message.offset())

    def _mirror(self, *, is_last: bool = False) -> None:
        """Tell Kafka's group how far the ledger is, for those who watch its lag."""
        self._kafka.mirror([(spot, held.entry.next_offset) for spot, held in self._holdings], is_last=is_last)

    def _mirror_last(self) -> None:
        """The same before partitions are given away, with what the last transaction has saved."""
        unsettled = [held for _, held in self._holdings if held.saved is not None]
        try:
            ledger = self._house.read() if unsettled else {}
        except Exception as error:  # noqa: BLE001 - a database that is away must not keep us from leaving
            _LOGGER.info(
                "could not commit the group's offsets, so that its lag is out of date: %s", type(error).__name__
            )
            ledger = {}
        for held in unsettled:
            # What another has claimed or moved is not ours to tell.
            if ledger.get(held.entry.key) == held.saved and held.saved is not None:
                held.entry = held.saved
        self._mirror(is_last=True)

    def _on_assign(self, client: Any, partitions: list[Any]) -> None:
        # Only recorded: a claim accesses a database, and its errors must reach the caller of `consume`.
        spots = [(one.topic, one.partition) for one in partitions]
        self._given.update(spots)
        for spot in spots:
            self._waiting[spot] = None
            self._taken.pop(spot, None)
        client.incremental_assign([]) if self._is_cooperative else client.assign([])

    def _on_revoke(self, client: Any, partitions: list[Any]) -> None:
        held = self._choose_held(partitions)
        self._was_revoked = self._was_revoked or (bool(held) and self._callbacks.on_revoke is not None)
        self._call_later_raising(self._callbacks.on_revoke, held)
        self._mirror_last()
        self._let_go(client, partitions)

    def _on_lost(self, client: Any, partitions: list[Any]) -> None:
        held = self._choose_held(partitions)
        self._let_go(client, partitions)
        self._call_later_raising(self._callbacks.on_lost, held)

    def _choose_held(self, partitions: list[Any]) -> list[TopicPartition]:
        """Return those that the program knows of: on_assign was called for them, and they aren't lost."""
        return [spot for one in partitions if (spot := (one.topic, one.partition)) in self._holdings]

    def _let_go(self, client: Any, partitions: list[Any]) -> None:
        spots = [(one.topic, one.partition) for one in partitions]
        self._holdings.drop(spots)
        self._given.difference_update(spots)
        for spot in spots:
            self._waiting.pop(spot, None)
            self._taken.pop(spot, None)
        client.incremental_unassign(self._choose_read(spots)) if self._is_cooperative else client.unassign()

    def _choose_read(self, spots: Iterable[TopicPartition]) -> list[Any]:
        """Those of these partitions that the client has. It refuses to give up others, and then gives up none."""
        read = {(one.topic, one.partition) for one in self._client.assignment()}
        return [spell_spot(spot) for spot in spots if spot in read]

    def _place(self, spots: Sequence[TopicPartition]) -> None:
        """Have the client read these partitions, each from its position."""
        if not self._is_cooperative:
            # One call for all that are held: partitions that are already being read continue where they are.
            spots = [spot for spot, _ in self._holdings]
        held = {spot: self._holdings.find(spot) for spot in spots}
        placed = [spell_spot(spot, one.position) for spot, one in held.items()]
        if not self._is_cooperative:
            self._client.assign(placed)
        else:
            if read := self._choose_read(spots):
                self._client.incremental_unassign(read)
            self._client.incremental_assign(placed)
        for one in held.values():
            one.is_placed = True

    def _send(self, spot: TopicPartition) -> None:
        """Make the client resume from a partition's position."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        held = self._holdings.find(spot)
        try:
            self._client.seek(spell_spot(spot, held.position))
            held.is_placed = True
        except KafkaException as failure:
            if failure.args[0].name() not in _NOT_READING:
                raise
            self._place([spot])

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        self._kafka.note_commit(error, partitions)
