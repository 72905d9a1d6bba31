"""Reading a whole topic fast: every partition at once, up to where each ended when it was asked.

Of each key the newest record is kept, so memory grows with the keys that are wanted and not with the records. Nothing
is looked at twice and nothing is decoded here: a topic of millions of records is read at the speed of the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from seamark.errors import DeadlineError, SeamarkError, UnreachableError
from seamark.kafka.bulk_reads import LogOffsetsAdmin
from seamark.kafka.clients import ConnectionEvents, open_client
from seamark.kafka.log import OF_NO_CONCERN, QUEUE_BACKOFF
from seamark.kafka.model import LogOffsets, RawRecord, ScanResult

# So many records a call: large enough that the call itself costs nothing, small enough for some megabytes.
_BATCH = 10_000
_WAIT_SECONDS = 0.02
# The brokers end an abandoned transaction after its timeout. A reader need not wait for that: committed records are
# returned, and the reader reports that more follow. Brokers that are only slow answer well within this time.
DEFAULT_PATIENCE_SECONDS = 15.0
_READER = {
    # No client joins this group; librdkafka requires a name for it.
    "group.id": "seamark-topic-scan",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 10,
    # 32 MiB ahead keep the client busy while Python looks at the last batch.
    "queued.max.messages.kbytes": 32768,
    **QUEUE_BACKOFF,
}

Accept = Callable[[bytes], bool]


class TopicScan:
    """One topic, to be read whole. `committed` leaves out what was never committed, as an exactly-once worker does."""

    def __init__(
        self,
        config: Mapping[str, str],
        topic: str,
        *,
        committed: bool = False,
        patience_seconds: float = DEFAULT_PATIENCE_SECONDS,
        build_consumer: Callable[[dict[str, Any]], Any] | None = None,
        build_admin: Callable[[Mapping[str, str]], LogOffsetsAdmin] | None = None,
    ) -> None:
        self.topic = topic
        self.committed = committed
        self._config = config
        self._patience_seconds = patience_seconds
        self._build_consumer = build_consumer
        self._build_admin = build_admin or LogOffsetsAdmin
        self._events = ConnectionEvents()

    def read_newest(self, accept: Accept | None = None) -> ScanResult:
        """Of each key and partition the newest record; only of keys that `accept` takes. Records without key count."""
        bounds = self._read_bounds()
        newest: dict[int, dict[bytes | None, Any]] = {partition: {} for partition in bounds}
        scanned = 0
        run = _Run(self, bounds)
        for keys, batch in run.read_batches():
            scanned += len(batch)
            # This loop is all that is done for each record: a call and an entry.
            if accept is None:
                for key, message in zip(keys, batch, strict=True):
                    newest[message.partition()][key] = message
            else:
                for key, message in zip(keys, batch, strict=True):
                    if key is None or accept(key):
                        newest[message.partition()][key] = message
        records: list[RawRecord] = []
        for number in bounds:
            # A message of the client takes more memory than its record: those of one partition exist twice at a time.
            records.extend(map(_build_record, newest.pop(number).values()))
        return ScanResult(self.topic, len(bounds), scanned, tuple(records), run.held_back)

    def read_all(self, accept: Accept | None = None) -> Iterator[RawRecord]:
        """Every record there is, partition by partition in order; only of keys that `accept` takes."""
        run = _Run(self, self._read_bounds())
        for keys, batch in run.read_batches():
            for key, message in zip(keys, batch, strict=True):
                if accept is None or key is None or accept(key):
                    yield _build_record(message)

    def _read_bounds(self) -> dict[int, LogOffsets]:
        """Where each partition begins and ends. The end is the true one, open transactions and all."""
        with self._build_admin(self._config) as admin:
            reading = admin.read_topics([self.topic])
            for error in reading.failures.values():
                raise error
            (status,) = reading.items
            found = admin.read_bounds([(self.topic, one.id) for one in status.partitions])
        bounds = found.require_complete(what=f"the topic {self.topic}")
        return {partition: held for (_, partition), held in sorted(bounds.items())}

    def open_consumer(self) -> Any:
        """A consumer for one run."""
        from confluent_kafka import Consumer  # noqa: PLC0415

        isolation = "read_committed" if self.committed else "read_uncommitted"
        ours = {**_READER, "isolation.level": isolation}
        return open_client(self._config, ours, build=self._build_consumer or Consumer, on_error=self._events.record)

    def translate(self, error: Any) -> SeamarkError:
        """Our error for one of the client's."""
        return self._events.build_read_error(error, self.topic)

    def check_hope(self) -> None:
        """Raise where the connections say that waiting is of no use."""
        self._events.check_readable(self.topic)

    def build_late(self, left: Mapping[int, int]) -> DeadlineError:
        """The error for partitions from which nothing came."""
        return DeadlineError(
            f"could not read the topic {self.topic} to its end: no records arrived for {self._patience_seconds:g} s",
            cause=f"{len(left)} partitions were not read to their end: {', '.join(str(number) for number in left)}",
            hint="check that all brokers run: seamark doctor",
            context={"subject": self.topic},
        )

    @property
    def patience_seconds(self) -> float:
        """How long nothing may come before reading is given up."""
        return self._patience_seconds


class _Run:
    """One reading of all partitions to their ends."""

    def __init__(self, scan: TopicScan, bounds: Mapping[int, LogOffsets]) -> None:
        self._scan = scan
        self._starts = {number: held.earliest for number, held in bounds.items() if held.earliest < held.latest}
        self._left = {number: bounds[number].latest for number in self._starts}
        # Where the brokers said that nothing more is to be had for us.
        self._seen: dict[int, int] = {}
        self.held_back: dict[int, tuple[int, int]] = {}

    def read_batches(self) -> Iterator[tuple[list[bytes | None], list[Any]]]:
        """Records in batches with their keys, without the client's own events."""
        if not self._left:
            return
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        topic = self._scan.topic
        consumer = self._scan.open_consumer()
        try:
            consumer.assign([TopicPartition(topic, number, start) for number, start in self._starts.items()])
            deadline = time.monotonic() + self._scan.patience_seconds
            while self._left:
                batch = consumer.consume(_BATCH, _WAIT_SECONDS)
                keys = [message.key() for message in batch]
                # An event never has a key, and a record without one is rare: only then it is asked which it is.
                records = self._take_events(batch) if None in keys else batch
                if records:
                    deadline = time.monotonic() + self._scan.patience_seconds
                    yield keys if records is batch else [message.key() for message in records], records
                    self._settle(consumer.position([TopicPartition(topic, number) for number in self._left]))
                elif not batch:
                    self._scan.check_hope()
                if time.monotonic() > deadline and self._left:
                    self._give_up()
        finally:
            consumer.close()

    def _take_events(self, batch: list[Any]) -> list[Any]:
        """The records of a batch; ends and errors are dealt with."""
        records = []
        for message in batch:
            error = message.error() if message.key() is None else None
            if error is None:
                records.append(message)
            elif error.name() == "_PARTITION_EOF":
                self._reach(message.partition(), message.offset())
            elif error.name() not in OF_NO_CONCERN:
                raise self._scan.translate(error)
        return records

    def _settle(self, positions: list[Any]) -> None:
        for spot in positions:
            if spot.offset >= 0:
                self._reach(spot.partition, spot.offset, is_end=False)

    def _reach(self, partition: int, offset: int, *, is_end: bool = True) -> None:
        if is_end:
            self._seen[partition] = offset
        if partition in self._left and offset >= self._left[partition]:
            del self._left[partition]

    def _give_up(self) -> None:
        """Nothing came for long. Only where the brokers named an end before the true one, a transaction is open."""
        late = {number: end for number, end in self._left.items() if number not in self._seen}
        if late or not self._scan.committed:
            raise self._scan.build_late(late or self._left)
        self.held_back = {number: (self._seen[number], end) for number, end in self._left.items()}
        self._left = {}


def _build_record(message: Any) -> RawRecord:
    return RawRecord(message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value())


# KafkaConfigBackingStore.CONNECTOR_PREFIX. A null value is a deleted connector.
_PREFIX = b"connector-"


class _NewestReader(Protocol):
    """What is read of the topic. `TopicScan` is the real one."""

    def read_newest(self, accept: Accept | None = None) -> ScanResult: ...


def read_connector_names(config: Mapping[str, str], topic: str, *, scan: _NewestReader | None = None) -> frozenset[str]:
    """Return the names of all connectors whose config is in the topic.

    Only committed records count, as for a worker with exactly-once support.

    Raises:
        SeamarkError: the topic can't be read to its end.
    """
    found = (scan or TopicScan(config, topic, committed=True)).read_newest(lambda key: key.startswith(_PREFIX))
    if found.held_back:
        raise UnreachableError(
            f"can't read the config topic {topic} to its end",
            cause="an open transaction hides its last records",
            hint="run the command again when the transaction has ended",
            context={"subject": topic},
        )
    return frozenset(
        record.key.removeprefix(_PREFIX).decode(errors="replace")
        for record in found.records
        if record.key is not None and record.value is not None
    )
