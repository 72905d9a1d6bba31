"""A consumer whose offsets stand in the user's database, and move in the transaction of the user's rows.

The ledger is the only truth. Each call of `consume` looks first whether the last transaction was committed, and goes on
from where the ledger stands: records that were given and not saved come again. Kafka's own group gets the offsets as
well, for those who watch lag; nobody reads them from there, except for the first start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from seamark.consumer.holding import Holdings
from seamark.consumer.housekeeping import Housekeeping
from seamark.consumer.kafka_side import KafkaSide, spell_spot
from seamark.database.any_driver import Runner
from seamark.database.ledger import TABLE, Ledger
from seamark.errors import RejectedError, UsageError
from seamark.kafka.opening import open_client
from seamark.kafka.wait import ConnectionEvents
from seamark.model.ledger_entry import Entry
from seamark.model.spot import Spot

_LOGGER = logging.getLogger("seamark.consumer")
_OURS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    # Where the ledger stands and the topic no longer is, records are lost, and somebody must know.
    "auto.offset.reset": "error",
}
# Partitions that were given are claimed between two of these.
_SLICE_SECONDS = 0.2
_COOPERATIVE = "cooperative-sticky"


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

        if decided := sorted((set(_OURS) - {"auto.offset.reset"}) & set(config)):
            raise UsageError(f"the consumer decides {decided[0]} itself", hint="leave it out: exactness rests on it")
        if not config.get("group.id"):
            raise UsageError("the setting group.id is missing", hint="it names the group, and the owner in the ledger")
        strategy = str(config.get("partition.assignment.strategy", ""))
        self._is_cooperative = _COOPERATIVE in strategy or config.get("group.protocol") == "consumer"
        self._ledger = Ledger(owner or str(config["group.id"]), table=table)
        self._house = Housekeeping(self._ledger, connect)
        self._idle_seconds = int(idle_seconds)
        self._events = ConnectionEvents()
        build = build_consumer or Consumer
        self._client = open_client(config, {**config, **_OURS}, build=build, on_error=self._events.record)
        self._kafka = KafkaSide(config, self._client)
        self._holdings = Holdings()
        self._waiting: dict[Spot, None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Have the group share out the partitions of these topics."""
        self._client.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def assign(self, spots: Iterable[Spot]) -> None:
        """Take these partitions, without a group's sharing out."""
        self._holdings.drop([spot for spot, _ in self._holdings])
        # However a group would share out: here the caller does.
        self._is_cooperative = False
        self._client.assign([])
        self._waiting = dict.fromkeys(spots)

    def consume(self, count: int = 500, timeout: float = 1.0) -> list[Any]:
        """Up to so many records, as soon as there are some; confluent-kafka's own messages.

        Those that were given by the call before and not saved come again.
        """
        self._settle()
        deadline = time.monotonic() + timeout
        while True:
            self._claim_waiting()
            left = deadline - time.monotonic()
            found = self._client.consume(count, max(0.0, min(_SLICE_SECONDS, left)))
            records = [message for message in found if self._accept(message)]
            if records or (left <= 0 and not self._waiting):
                return records

    def batches(self, count: int = 500, timeout: float = 1.0) -> Iterator[list[Any]]:
        """One `consume` after the other, without empty ones. Save each before you take the next."""
        while True:
            if records := self.consume(count, timeout):
                yield records

    def save(self, connection: Any) -> None:
        """Enter what was given since the last save. To be called in the transaction that writes its rows.

        Raises:
            FencedError: a partition is another's by now. Let the transaction roll back, and consume on.
        """
        runner = Runner(connection)
        runner.expect_transaction()
        if runner.is_postgres:
            runner.change(f"SET LOCAL idle_in_transaction_session_timeout = '{self._idle_seconds}s'")
        for _, held in self._holdings:
            if held.is_to_save:
                held.saved = self._ledger.move(runner, held.entry, to=held.position)

    def position(self, spot: Spot) -> int:
        """The offset of the next record of a partition."""
        return self._holdings.find(spot).position

    def saved(self, spot: Spot) -> int:
        """The offset up to which the ledger says that a partition is saved."""
        entry = self._holdings.find(spot).entry
        return self._house.read().get(entry.key, entry).next_offset

    def seek(self, spot: Spot, offset: int) -> None:
        """Go on elsewhere. The ledger follows with the next save."""
        held = self._holdings.find(spot)
        held.sought = held.position = offset
        self._send(spot, offset)

    def seek_to_beginning(self, spot: Spot) -> None:
        """Go on with the first record there is."""
        self.seek(spot, self._kafka.read_bounds(spot)[0])

    def seek_to_end(self, spot: Spot) -> None:
        """Go on with the next record that comes."""
        self.seek(spot, self._kafka.read_bounds(spot)[1])

    def close(self) -> None:
        """Leave the group. What was given and not saved is the next owner's."""
        self._mirror_last()
        self._client.close()
        self._house.close()

    def _settle(self) -> None:
        """See what became of the last transaction."""
        unsettled = [(spot, held) for spot, held in self._holdings if held.is_read or held.saved is not None]
        ledger = self._house.read() if unsettled else {}
        for spot, held in unsettled:
            found = ledger.get(held.entry.key)
            if found is None:
                raise RejectedError(
                    f"the ledger's entry of {held.entry} is gone",
                    cause=f"somebody has deleted it from {self._ledger.table}, for {self._ledger.owner}",
                    hint="start the consumer again: it begins at its group's offset, else at auto.offset.reset",
                )
            if found.epoch != held.entry.epoch:
                # Somebody has claimed it, and the group will say so.
                _LOGGER.warning("%s was taken by another process", held.entry)
                self._holdings.drop([spot])
                self._client.pause([spell_spot(spot)])
            elif self._holdings.settle(spot, found):
                self._send(spot, held.position)
        self._mirror()

    def _claim_waiting(self) -> None:
        """Claim what the group has given. It can't be taken away meanwhile: that is told within the client's calls."""
        claimed: list[Spot] = []
        try:
            ids = self._kafka.read_topic_ids({topic for topic, _ in self._waiting})
            for spot in list(self._waiting):
                topic, partition = spot
                wanted = Entry(topic, ids[topic], partition, next_offset=0)
                entry = self._house.claim(wanted, find_start=partial(self._kafka.find_start, spot))
                del self._waiting[spot]
                self._holdings.take(spot, entry)
                claimed.append(spot)
        finally:
            # Where one fails, those before it are ours.
            if claimed:
                self._place(claimed)

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
            _LOGGER.info("the group's offsets are not up to date: %s", type(error).__name__)
            ledger = {}
        for held in unsettled:
            # What another has claimed or moved is not ours to tell.
            if ledger.get(held.entry.key) == held.saved and held.saved is not None:
                held.entry = held.saved
        self._mirror(is_last=True)

    def _on_assign(self, client: Any, partitions: list[Any]) -> None:
        # Only noted: claiming asks a database, and whoever calls consume shall hear of its errors.
        self._waiting |= dict.fromkeys((one.topic, one.partition) for one in partitions)
        client.incremental_assign([]) if self._is_cooperative else client.assign([])

    def _on_revoke(self, client: Any, partitions: list[Any]) -> None:
        self._mirror_last()
        self._let_go(client, partitions)

    def _on_lost(self, client: Any, partitions: list[Any]) -> None:
        self._let_go(client, partitions)

    def _let_go(self, client: Any, partitions: list[Any]) -> None:
        spots = [(one.topic, one.partition) for one in partitions]
        self._holdings.drop(spots)
        for spot in spots:
            self._waiting.pop(spot, None)
        client.incremental_unassign(partitions) if self._is_cooperative else client.unassign()

    def _place(self, spots: Sequence[Spot]) -> None:
        """Have the client read these partitions, each from its position."""
        if not self._is_cooperative:
            # One call for all that are held: who reads already goes on where it is.
            spots = [spot for spot, _ in self._holdings]
        placed = [spell_spot(spot, self._holdings.find(spot).position) for spot in spots]
        self._client.incremental_assign(placed) if self._is_cooperative else self._client.assign(placed)

    def _send(self, spot: Spot, offset: int) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            self._client.seek(spell_spot(spot, offset))
        except KafkaException as failure:
            if failure.args[0].name() != "_STATE":
                raise
            # It does not read the partition at the moment, for an error or because it has only just begun.
            if self._is_cooperative:
                self._client.incremental_unassign([spell_spot(spot)])
            self._place([spot])
