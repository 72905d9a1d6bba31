"""The records that a sink reads, over the clients of a context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from seamark.connect.config import find_group
from seamark.dead_letters.park import is_copy_of
from seamark.dead_letters.worker_file import find_consumer_setting, read_worker_config
from seamark.errors import NotFoundError, UnsupportedError
from seamark.kafka.record import Headers, Place, WholeRecord
from seamark.kafka.spot import Bounds, Spot
from seamark.offsets.stores.record_topics import check_record_topic

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort
    from seamark.connect.connector import Connector
    from seamark.context import ConnectSettings, Context
    from seamark.kafka.api import BrokersPort
    from seamark.kafka.records import RecordReader

# As long as a step may send: see `connector_offsets.WRITE_SECONDS`.
_WRITE_SECONDS = 10.0
# librdkafka's own limit, and room for what parking adds: ten short headers and a trace.
_LARGEST_BYTES, _ADDED_BYTES = 1_000_000, 262_144
_ELSEWHERE = "consumer.override.bootstrap.servers"


class SinkRecords:
    """A `RecordPort` for one sink. What Connect says of it is read once."""

    def __init__(
        self,
        name: str,
        *,
        context: Context,
        client: ConnectPort,
        settings: ConnectSettings,
        brokers: Callable[[], BrokersPort],
    ) -> None:
        self._name = name
        self._context = context
        self._client = client
        self._settings = settings
        self._brokers = brokers
        self._connector: Connector | None = None

    def read_positions(self) -> dict[Spot, int]:
        """The next offset of every partition that it reads."""
        bounds = self._read_bounds()
        committed = self._read_committed()
        first = find_consumer_setting("auto.offset.reset", self.config, self.worker, "earliest")
        positions: dict[Spot, int] = {}
        for spot, found in bounds.items():
            at = committed.get(spot)
            # What was deleted comes no more: the consumer begins where it is told to.
            start = found.latest if first == "latest" else found.earliest
            positions[spot] = at if at is not None and found.earliest <= at <= found.latest else start
        return positions

    def read_ends(self) -> dict[Spot, int]:
        """Where the log of every partition that it reads ends now."""
        return {spot: found.latest for spot, found in self._read_bounds().items()}

    def find_next(self, positions: Mapping[Spot, int]) -> dict[Spot, Place]:
        """The first record at or behind each position."""
        with self._open() as reader:
            found = {spot: next(reader.read(spot, start), None) for spot, start in positions.items()}
        return {spot: record.place for spot, record in found.items() if record is not None}

    def read_from(self, spot: Spot, start: int) -> Iterator[WholeRecord]:
        """The records of a partition from an offset on, to where the log ends now."""
        with self._open() as reader:
            yield from reader.read(spot, start)

    def read(self, place: Place) -> WholeRecord | None:
        """The record that lies there."""
        with self._open() as reader:
            found = next(reader.read(place.spot, place.offset), None)
        return found if found is not None and found.place == place else None

    def is_parked(self, topic: str, place: Place) -> bool:
        """Whether the topic holds a parked copy. It may be in any partition: somebody may have added some since."""
        with self._open(committed=True) as reader:
            return any(
                is_copy_of(record, place)
                for number in reader.read_partitions(topic)
                for record in reader.read((topic, number))
            )

    def park(self, topic: str, record: WholeRecord, headers: Headers) -> None:
        """Write a copy with these headers behind its own."""
        from seamark.kafka.exact_writer import ExactWriter  # noqa: PLC0415
        from seamark.kafka.produce import Outgoing  # noqa: PLC0415

        check_record_topic(topic, self._context)
        partitions = self._brokers().read_topics([topic])
        for error in partitions.failures.values():
            raise error
        count = len(partitions.items[0].partitions)
        size = len(record.key or b"") + len(record.value or b"") + sum(len(value or b"") for _, value in record.headers)
        config = {
            **self._context.kafka.client_config(),
            "message.max.bytes": str(max(_LARGEST_BYTES, size + _ADDED_BYTES)),
        }
        copy = Outgoing(
            topic,
            key=record.key,
            value=record.value,
            headers=(*record.headers, *headers),
            partition=record.place.partition % count,
        )
        with ExactWriter(config, timeout_seconds=_WRITE_SECONDS) as writer:
            writer.write([copy])

    @property
    def config(self) -> Mapping[str, str]:
        """The connector's config."""
        if self._connector is None:
            self._connector = self._client.read_connector(self._name)
        return self._connector.config

    @property
    def worker(self) -> Mapping[str, str]:
        """What the workers' file says of converters and consumers."""
        return read_worker_config(self._settings)

    def _open(self, *, committed: bool | None = None) -> RecordReader:
        from seamark.kafka.records import RecordReader  # noqa: PLC0415

        if self.config.get(_ELSEWHERE):
            raise UnsupportedError(
                f"{self._name} reads from another Kafka cluster than that of the context",
                cause=f"its config has {_ELSEWHERE}",
                hint="make a context for that Kafka cluster",
            )
        if committed is None:
            level = find_consumer_setting("isolation.level", self.config, self.worker, "read_uncommitted")
            committed = level == "read_committed"
        return RecordReader(self._context.kafka.client_config(), committed=committed)

    def _read_bounds(self) -> Mapping[Spot, Bounds]:
        return self._brokers().read_bounds(self._read_spots()).require_complete(what="the bounds")

    def _read_committed(self) -> dict[Spot, int]:
        group = find_group(self._name, self.config, self._settings)
        reading = self._brokers().read_committed({group: None}, only_stable=True)
        for error in reading.failures.values():
            if not isinstance(error, NotFoundError):
                raise error
        return {spot: found.offset for one in reading.items for spot, found in one.offsets.items()}

    def _read_spots(self) -> tuple[Spot, ...]:
        reading = self._brokers().read_topics(self.read_topics())
        for error in reading.failures.values():
            # A topic that nobody has made yet holds no record either.
            if not isinstance(error, NotFoundError):
                raise error
        return tuple(spot for topic in reading.items for spot in topic.led_spots)

    def read_topics(self) -> tuple[str, ...]:
        """The topics that it reads, by its config."""
        named = self.config.get("topics", "")
        if named.strip():
            return tuple(name.strip() for name in named.split(",") if name.strip())
        everything = self._brokers().read_all_topics()
        return tuple(one.name for one in everything.items if matches_topics(self.config, one.name))


def matches_topics(config: Mapping[str, str], topic: str) -> bool:
    """Whether a sink with this config reads a topic."""
    if named := config.get("topics", "").strip():
        return topic in [name.strip() for name in named.split(",")]
    try:
        return re.fullmatch(config.get("topics.regex", ""), topic) is not None
    except re.error:
        raise UnsupportedError(
            "nobody here can tell which topics the sink reads",
            cause="its topics.regex is one that only Java understands",
        ) from None
