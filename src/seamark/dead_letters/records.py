"""The records that a sink reads, through the clients of a context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from seamark.connect.config import find_group
from seamark.connect.model import Task, clean_trace, fold_trace
from seamark.dead_letters.overrides import find_consumer_setting, read_worker_config
from seamark.dead_letters.steps import Failure, is_copy_of
from seamark.errors import NotFoundError, UnsupportedError
from seamark.kafka.model import Headers, LogOffsets, RecordLocation, TopicPartition, WholeRecord
from seamark.offsets.codec.converter_faults import SinkStage
from seamark.offsets.stores.topic import check_record_topic

if TYPE_CHECKING:
    from seamark.connect.api import ConnectPort
    from seamark.connect.model import Connector
    from seamark.context import ConnectSettings, Context
    from seamark.kafka.api import BrokersPort
    from seamark.kafka.records import RecordReader


# The time in which a step may send, as `WRITE_SECONDS` of `seamark.offsets.read.connector`.
_WRITE_SECONDS = 10.0
# The default limit of librdkafka, and space for what is added to the copy: ten short headers and a stack trace.
_LARGEST_BYTES, _ADDED_BYTES = 1_000_000, 262_144
_ELSEWHERE = "consumer.override.bootstrap.servers"


class SinkRecords:
    """A `RecordPort` for one sink. Its connector is read from Connect once."""

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

    def read_positions(self) -> dict[TopicPartition, int]:
        """Return the next offset of every partition that it reads."""
        bounds = self._read_bounds()
        committed = self._read_committed()
        first = find_consumer_setting("auto.offset.reset", self.config, self.worker, "earliest")
        positions: dict[TopicPartition, int] = {}
        for spot, found in bounds.items():
            at = committed.get(spot)
            # Deleted records are never read: the consumer starts where auto.offset.reset says.
            start = found.latest if first == "latest" else found.earliest
            positions[spot] = at if at is not None and found.earliest <= at <= found.latest else start
        return positions

    def read_ends(self) -> dict[TopicPartition, int]:
        """Return the current log end of every partition that it reads."""
        return {spot: found.latest for spot, found in self._read_bounds().items()}

    def find_next(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, RecordLocation]:
        """Return the first record at or after each offset."""
        with self._open() as reader:
            found = {spot: next(reader.read(spot, start), None) for spot, start in positions.items()}
        return {spot: record.place for spot, record in found.items() if record is not None}

    def read_from(self, spot: TopicPartition, start: int) -> Iterator[WholeRecord]:
        """Yield the records of a partition from an offset to the current end of the log."""
        with self._open() as reader:
            yield from reader.read(spot, start)

    def read(self, place: RecordLocation) -> WholeRecord | None:
        """Return the record at that location; None if there is none."""
        with self._open() as reader:
            found = next(reader.read(place.spot, place.offset), None)
        return found if found is not None and found.place == place else None

    def is_dead_letter(self, topic: str, place: RecordLocation) -> bool:
        """Return whether the topic has a copy of the record. Partitions may have been added, so all are read."""
        with self._open(committed=True) as reader:
            return any(
                is_copy_of(record, place)
                for number in reader.read_partitions(topic)
                for record in reader.read((topic, number))
            )

    def park(self, topic: str, record: WholeRecord, headers: Headers) -> None:
        """Write a copy to the dead letter queue, with these headers after its own."""
        from seamark.kafka.produce import Outgoing  # noqa: PLC0415
        from seamark.kafka.transaction import ExactWriter  # noqa: PLC0415

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
        """The converters and consumer settings in the workers' properties file."""
        return read_worker_config(self._settings)

    def _open(self, *, committed: bool | None = None) -> RecordReader:
        from seamark.kafka.records import RecordReader  # noqa: PLC0415

        if self.config.get(_ELSEWHERE):
            raise UnsupportedError(
                f"{self._name} reads from another Kafka cluster than that of the context",
                cause=f"its config has {_ELSEWHERE}",
                hint="create a context for that Kafka cluster",
            )
        if committed is None:
            level = find_consumer_setting("isolation.level", self.config, self.worker, "read_uncommitted")
            committed = level == "read_committed"
        return RecordReader(self._context.kafka.client_config(), committed=committed)

    def _read_bounds(self) -> Mapping[TopicPartition, LogOffsets]:
        return self._brokers().read_bounds(self._read_spots()).require_complete(what="the bounds")

    def _read_committed(self) -> dict[TopicPartition, int]:
        group = find_group(self._name, self.config, self._settings)
        reading = self._brokers().read_committed({group: None}, only_stable=True)
        for error in reading.failures.values():
            if not isinstance(error, NotFoundError):
                raise error
        return {spot: found.offset for one in reading.items for spot, found in one.offsets.items()}

    def _read_spots(self) -> tuple[TopicPartition, ...]:
        reading = self._brokers().read_topics(self.read_topics())
        for error in reading.failures.values():
            # A topic that doesn't exist yet has no records either.
            if not isinstance(error, NotFoundError):
                raise error
        return tuple(spot for topic in reading.items for spot in topic.led_spots)

    def read_topics(self) -> tuple[str, ...]:
        """Return the topics that it reads, according to its config."""
        named = self.config.get("topics", "")
        if named.strip():
            return tuple(name.strip() for name in named.split(",") if name.strip())
        everything = self._brokers().read_all_topics()
        return tuple(one.name for one in everything.items if matches_topics(self.config, one.name))


def matches_topics(config: Mapping[str, str], topic: str) -> bool:
    """Return whether a sink with this config reads a topic."""
    if named := config.get("topics", "").strip():
        return topic in [name.strip() for name in named.split(",")]
    try:
        return re.fullmatch(config.get("topics.regex", ""), topic) is not None
    except re.error:
        raise UnsupportedError(
            "can't determine the topics of the sink",
            cause="its topics.regex is valid only in Java",
        ) from None


# Methods of Connect's WorkerSinkTask and TransformationChain, the innermost first: a put() may convert data itself.
_FRAMES = (
    ("WorkerSinkTask.deliverMessages", SinkStage.TASK_PUT),
    ("TransformationChain.apply", SinkStage.TRANSFORMATION),
    ("TransformationStage.apply", SinkStage.TRANSFORMATION),
    ("WorkerSinkTask.convertKey", SinkStage.KEY_CONVERTER),
    ("WorkerSinkTask.convertValue", SinkStage.VALUE_CONVERTER),
    ("WorkerSinkTask.convertHeadersFor", SinkStage.HEADER_CONVERTER),
)
_TOPIC = r"[A-Za-z0-9._-]{1,249}"
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        # SinkRecord.toString().
        rf"kafkaOffset=(?P<offset>\d+)\b.{{0,200}}?topic='(?P<topic>{_TOPIC})', kafkaPartition=(?P<partition>\d+)",
        # Connect's ProcessingContext: {topic='t', partition=0, offset=12, …
        rf"topic='(?P<topic>{_TOPIC})', partition=(?P<partition>\d+), offset=(?P<offset>\d+)",
        # As written by developers: topic t partition 0 offset 12, topic: t, partition: 0, offset: 12
        (
            rf"\b[Tt]opic[ :='\"]{{1,3}}(?P<topic>{_TOPIC})['\"]?[ ,;]{{1,2}}(?:and )?[Pp]artition[ :=]{{1,2}}"
            r"(?P<partition>\d+)[ ,;]{1,2}(?:and |at )?(?:\w+ )?[Oo]ffset[ :=]{1,2}(?P<offset>\d+)"
        ),
        # As written by Kafka's consumer: partition t-0 at offset 12
        rf"\b(?:partition )?(?P<topic>{_TOPIC})-(?P<partition>\d+) (?:at )?offset (?P<offset>\d+)",
    )
)


def find_stage(trace: str) -> SinkStage:
    """Return the stage of the sink in which it failed."""
    return next((stage for frame, stage in _FRAMES if frame in trace), SinkStage.UNKNOWN)


def find_places(trace: str) -> tuple[RecordLocation, ...]:
    """Return the records that a trace names, without numbers that no log can have."""
    found: dict[RecordLocation, None] = {}
    for pattern in _PATTERNS:
        for match in pattern.finditer(trace):
            if len(match["offset"]) < 19 and len(match["partition"]) < 10:
                found[RecordLocation(match["topic"], int(match["partition"]), int(match["offset"]))] = None
    return tuple(found)


def build_failure(task: Task, *, class_name: str, stage: SinkStage | None = None) -> Failure:
    """Build the failure of a task for the headers of the dead letter record."""
    root = fold_trace(task.trace).root
    exception, _, message = root.partition(":")
    return Failure(
        stage=str(find_stage(task.trace) if stage is None else stage),
        class_name=class_name,
        exception=exception.strip(),
        task=task.id,
        message=message.strip(),
        trace="\n".join(clean_trace(task.trace)),
    )
