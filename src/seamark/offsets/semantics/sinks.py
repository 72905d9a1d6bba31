"""Offset semantics of sinks: generic, S3, JDBC, and the file sink of Kafka's own example."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from seamark.core.offsets import Certainty, Distance, LogRange, Offset, OffsetMap, Order, Unit, order_of
from seamark.core.readings import Finding
from seamark.errors import RefusedError, UsageError
from seamark.groups.targets import OFFSET, PARTITION, TOPIC, Chosen, parse_topic
from seamark.kafka.model import TopicPartition
from seamark.offsets.semantics.fields import (
    Notes,
    is_integer,
    is_set,
    parse_map,
    read_text,
    show,
    show_fields,
    split_list,
)
from seamark.offsets.semantics.semantics import Consequence, Harm

_EXAMPLE = '{"kafka_topic": "t", "kafka_partition": 0}'
BOUND = "each offset is at most one record: compaction and transactions leave gaps"


class SinkMeaning:
    """Any sink: the next record of each partition. The effect of a rewind depends on the connector."""

    family: ClassVar[str] = "sink"

    def __init__(self, connector_class: str, config: Mapping[str, str]) -> None:
        self.connector_class = connector_class
        self.config = config

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match every connector that names topics to consume, which Connect requires of sinks only."""
        del connector_class
        return is_set(config, "topics") or is_set(config, "topics.regex")

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """Check topic, partition and offset, and for a topic that is no longer consumed."""
        notes = Notes(self.describe(partition, None)[0])
        if not notes.check_shape(partition, [{TOPIC, PARTITION}], _EXAMPLE):
            return notes.result()
        topic = read_text(partition, TOPIC)
        if not topic:
            notes.error(f"{TOPIC} must be a string", "write the name of a topic")
        elif is_set(self.config, "topics") and topic not in split_list(self.config["topics"]):
            notes.warn(
                f"the connector does not read {topic} any more", "the committed offset stays in the group, unused"
            )
        _check_number(notes, PARTITION, partition.get(PARTITION))
        if offset is not None:
            notes.check_known(offset, {OFFSET})
            if offset.get(OFFSET) is None:
                notes.error(f"{OFFSET} is missing", 'write {"kafka_offset": N}')
            else:
                _check_number(notes, OFFSET, offset[OFFSET])
        return notes.result()

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Compare by number. A missing offset is not comparable, because auto.offset.reset decides."""
        if left is None and right is None:
            return Order.EQUAL
        first, second = read_number(left, OFFSET), read_number(right, OFFSET)
        return Order.UNKNOWN if first is None or second is None else order_of((first,), (second,))

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Return `orders-3` and the next record."""
        where = show_fields(partition)
        if TOPIC in partition and PARTITION in partition:
            where = f"{show(partition[TOPIC])}-{show(partition[PARTITION])}"
        if offset is None:
            return where, "nothing"
        number = read_number(offset, OFFSET)
        return where, show_fields(offset) if number is None else f"next record {number}"

    def explain_rewind(self) -> Consequence:
        """Describe a rewind: unknown, as sinks may write duplicates, overwrite, or store their own offsets."""
        return Consequence(
            Harm.UNKNOWN,
            "the records are delivered again; the effect on the target depends on the connector, "
            "and some sinks store their own offsets, which take precedence",
        )

    def explain_skip(self) -> Consequence:
        """Describe a skip: the records in between are not delivered."""
        return Consequence(Harm.LOSS, "the skipped records are never delivered, including deletes")

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """Return the range of the log."""
        topic, number = read_text(partition, TOPIC), read_number(partition, PARTITION)
        first, last = read_number(start, OFFSET), read_number(end, OFFSET)
        if (
            topic is None
            or number is None
            or (start is not None and first is None)
            or (end is not None and last is None)
        ):
            return Distance(Unit.RECORDS, None, Certainty.UNKNOWN, reason="the offset can't be read")
        return Distance(Unit.RECORDS, LogRange(topic, number, first, last), Certainty.BOUND, reason=BOUND)


def read_number(fields: OffsetMap | None, key: str) -> int | None:
    """Return the number of that name. For sinks, Connect also accepts a text of digits."""
    value = None if fields is None else fields.get(key)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and is_integer(value) else None


def find_spot(partition: OffsetMap) -> TopicPartition | None:
    """Return the topic partition that a sink's partition names."""
    topic, number = partition.get(TOPIC), read_number(partition, PARTITION)
    return (topic, number) if isinstance(topic, str) and number is not None else None


def _check_number(notes: Notes, key: str, value: object) -> None:
    number = read_number({key: value}, key) if isinstance(value, str | int) else None
    if number is None:
        notes.error(f"{key} must be an integer", "write a JSON integer")
    elif number < 0:
        notes.error(f"{key} is negative", "Connect answers 500 to it")


_AIVEN_S3 = "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector"
_S3_CLASSES = frozenset(
    {_AIVEN_S3, "io.aiven.kafka.connect.s3.S3SinkConnector", "io.confluent.connect.s3.S3SinkConnector"}
)
_JDBC_CLASSES = frozenset({"io.aiven.connect.jdbc.JdbcSinkConnector", "io.confluent.connect.jdbc.JdbcSinkConnector"})
_VARIABLE = re.compile(r"\{\{\s*(\w+)")
# If the name contains the time of writing, no object is ever overwritten.
_CLOCK_VARIABLES = frozenset({"timestamp", "utc_date", "local_date"})


class S3SinkMeaning(SinkMeaning):
    """S3 sinks of Aiven and Confluent: objects are named by their start offset."""

    family: ClassVar[str] = "S3 sink"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match by the connector class."""
        del config
        return connector_class in _S3_CLASSES

    def explain_rewind(self) -> Consequence:
        """Describe a rewind by how objects are named."""
        if self.connector_class.startswith("io.confluent."):
            return self._explain_confluent()
        template = self.config.get("file.name.template") or ""
        names = f"{template} {self.config.get('aws.s3.prefix') or self.config.get('file.name.prefix') or ''}"
        used = set(_VARIABLE.findall(names))
        if "key" in used:
            return Consequence(
                Harm.OVERWRITES,
                "objects are named by key: each is written again, with an older record until the sink has caught up",
            )
        source = (self.config.get("file.name.timestamp.source") or self.config.get("timestamp.source") or "").lower()
        if used & _CLOCK_VARIABLES and source != "event":
            return Consequence(
                Harm.DUPLICATES,
                "object names contain the time of writing: the records are written again as new objects",
            )
        return Consequence(
            Harm.DUPLICATES,
            "an object that starts at the same record is overwritten, and may then have more or fewer records; "
            "the others stay, so that records may be in two objects",
        )

    def _explain_confluent(self) -> Consequence:
        scheduled = is_set(self.config, "rotate.schedule.interval.ms")
        if scheduled and (self.config.get("rotate.schedule.interval.ms") or "").strip() not in ("-1", "0"):
            if (self.config.get("enable.conditional.writes") or "true").strip().lower() == "true":
                return Consequence(
                    Harm.NOTHING,
                    "existing objects are not written again: the sink skips forward past them",
                )
            return Consequence(
                Harm.DUPLICATES, "objects are rotated by time: the records are written again into overlapping objects"
            )
        return Consequence(
            Harm.OVERWRITES,
            "from the start of an object on, with the same flush.size and partitioner, the same objects are written "
            "again; from inside an object, records will be in two of them",
        )


class JdbcSinkMeaning(SinkMeaning):
    """JDBC sinks of Aiven and Confluent: rows, by insert.mode and pk.mode."""

    family: ClassVar[str] = "JDBC sink"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match by the connector class."""
        del config
        return connector_class in _JDBC_CLASSES

    def explain_rewind(self) -> Consequence:
        """Describe a rewind by the mode of its writes."""
        mode = (self.config.get("insert.mode") or "insert").strip().lower()
        key = (self.config.get("pk.mode") or "none").strip().lower()
        if mode in {"upsert", "update"}:
            return Consequence(
                Harm.OVERWRITES,
                f"insert.mode {mode}: rows are overwritten and not duplicated; older values replace newer ones "
                "until the "
                "sink has caught up",
            )
        if mode not in {"insert", "multi"}:
            return Consequence(Harm.UNKNOWN, f"unknown insert.mode {mode}")
        if key == "none":
            return Consequence(
                Harm.DUPLICATES,
                f"insert.mode {mode} without a primary key: each record becomes a duplicate row, "
                "or the task fails if the table has a unique key",
            )
        return Consequence(
            Harm.FAILURE, f"insert.mode {mode} with pk.mode {key}: the rows already exist, and the task fails"
        )

    def explain_skip(self) -> Consequence:
        """Describe a skip: rows are missing."""
        deletes = (self.config.get("delete.enabled") or "").strip().lower() == "true"
        more = ", and rows that should be deleted stay" if deletes else ""
        return Consequence(Harm.LOSS, f"the rows of the skipped records are missing or not updated{more}")


class FileSinkMeaning(SinkMeaning):
    """Kafka's own file sink, which appends lines."""

    family: ClassVar[str] = "file sink"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match by the connector class."""
        del config
        return connector_class == "org.apache.kafka.connect.file.FileStreamSinkConnector"

    def explain_rewind(self) -> Consequence:
        """Describe a rewind: lines are appended again."""
        return Consequence(Harm.DUPLICATES, "the lines are appended to the file again")


def parse_spots(name: str) -> Chosen:
    """Parse `TOPIC`, `TOPIC:0,1`, or a partition as Connect's JSON."""
    if not name.startswith("{"):
        return parse_topic(name)
    spot = find_spot(parse_map(name))
    if spot is None:
        raise UsageError(f"{name} is not a partition", hint=f'write {{"{TOPIC}": "t", "{PARTITION}": 0}}')
    return Chosen(spot[0], (spot[1],))


def find_commits(owner: str, offsets: Sequence[Offset]) -> dict[TopicPartition, int | None]:
    """Return the commits of a group for these offsets. Raises if they are those of a source."""
    found: dict[TopicPartition, int | None] = {}
    for one in offsets:
        spot = find_spot(one.partition)
        number = None if one.offset is None else read_number(one.offset, OFFSET)
        if spot is None or (one.offset is not None and number is None):
            raise RefusedError(f"the offsets of {owner} are not offsets of topic partitions; no changes were made")
        found[spot] = number
    return found


def is_chosen(partition: OffsetMap, chosen: Sequence[Chosen]) -> bool:
    """Return whether a sink's partition is among the named ones."""
    spot = find_spot(partition)
    return spot is not None and any(
        spot[0] == one.topic and (not one.partitions or spot[1] in one.partitions) for one in chosen
    )
