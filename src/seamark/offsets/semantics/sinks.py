"""Sinks whose targets are known: S3 and JDBC, and the file of Kafka's own example."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from seamark.core.offsets import Certainty, Distance, LogRange, OffsetMap, Order, Unit, order_of
from seamark.core.readings import Finding
from seamark.groups.targets import OFFSET, PARTITION, TOPIC
from seamark.kafka.model import TopicPartition
from seamark.offsets.semantics.fields import Notes, is_integer, is_set, read_text, show, show_fields, split_list
from seamark.offsets.semantics.semantics import Consequence, Harm

_EXAMPLE = '{"kafka_topic": "t", "kafka_partition": 0}'
BOUND = "each offset is one record at most: compaction leaves gaps, and so do transactions"


class SinkMeaning:
    """Any sink: the next record of each partition. What a rewind does depends on the connector."""

    family: ClassVar[str] = "sink"

    def __init__(self, connector_class: str, config: Mapping[str, str]) -> None:
        self.connector_class = connector_class
        self.config = config

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Every connector that names topics to read, as Connect asks of sinks alone."""
        del connector_class
        return is_set(config, "topics") or is_set(config, "topics.regex")

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """Topic, partition and offset; a topic that is not read any more."""
        notes = Notes(self.describe(partition, None)[0])
        if not notes.check_shape(partition, [{TOPIC, PARTITION}], _EXAMPLE):
            return notes.result()
        topic = read_text(partition, TOPIC)
        if not topic:
            notes.error(f"{TOPIC} must be a text", "write the name of a topic")
        elif is_set(self.config, "topics") and topic not in split_list(self.config["topics"]):
            notes.warn(f"the connector does not read {topic} any more", "the position stays in the group unused")
        _check_number(notes, PARTITION, partition.get(PARTITION))
        if offset is not None:
            notes.check_known(offset, {OFFSET})
            if offset.get(OFFSET) is None:
                notes.error(f"{OFFSET} is missing", 'write {"kafka_offset": N}')
            else:
                _check_number(notes, OFFSET, offset[OFFSET])
        return notes.result()

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """By the number. No position is unlike any: then auto.offset.reset decides."""
        if left is None and right is None:
            return Order.EQUAL
        first, second = read_number(left, OFFSET), read_number(right, OFFSET)
        return Order.UNKNOWN if first is None or second is None else order_of((first,), (second,))

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """`orders-3` and the next record."""
        where = show_fields(partition)
        if TOPIC in partition and PARTITION in partition:
            where = f"{show(partition[TOPIC])}-{show(partition[PARTITION])}"
        if offset is None:
            return where, "nothing"
        number = read_number(offset, OFFSET)
        return where, show_fields(offset) if number is None else f"next record {number}"

    def explain_rewind(self) -> Consequence:
        """Unknown: some sinks write twice, some overwrite, some keep their own positions."""
        return Consequence(
            Harm.UNKNOWN,
            "the records are delivered again; what its target then holds depends on the connector, "
            "and some sinks keep positions of their own that win",
        )

    def explain_skip(self) -> Consequence:
        """The records between are not delivered."""
        return Consequence(Harm.LOSS, "the records between are never delivered, deletes neither")

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """The range of the log."""
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
    """The number of that name. Connect takes a text of digits for a sink's number too."""
    value = None if fields is None else fields.get(key)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and is_integer(value) else None


def find_spot(partition: OffsetMap) -> TopicPartition | None:
    """The partition of a log that a sink's partition names."""
    topic, number = partition.get(TOPIC), read_number(partition, PARTITION)
    return (topic, number) if isinstance(topic, str) and number is not None else None


def _check_number(notes: Notes, key: str, value: object) -> None:
    number = read_number({key: value}, key) if isinstance(value, str | int) else None
    if number is None:
        notes.error(f"{key} must be a whole number", "write a JSON integer")
    elif number < 0:
        notes.error(f"{key} is below zero", "Connect answers 500 to it")


_AIVEN_S3 = "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector"
_S3_CLASSES = frozenset(
    {_AIVEN_S3, "io.aiven.kafka.connect.s3.S3SinkConnector", "io.confluent.connect.s3.S3SinkConnector"}
)
_JDBC_CLASSES = frozenset({"io.aiven.connect.jdbc.JdbcSinkConnector", "io.confluent.connect.jdbc.JdbcSinkConnector"})
_VARIABLE = re.compile(r"\{\{\s*(\w+)")
# Where the name holds the time of writing, no object is ever written twice.
_CLOCK_VARIABLES = frozenset({"timestamp", "utc_date", "local_date"})


class S3SinkMeaning(SinkMeaning):
    """S3 sinks of Aiven and Confluent: objects named by where they start."""

    family: ClassVar[str] = "S3 sink"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """By its class."""
        del config
        return connector_class in _S3_CLASSES

    def explain_rewind(self) -> Consequence:
        """By how objects are named."""
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
                Harm.DUPLICATES, "object names hold the time of writing: the records are written again as new objects"
            )
        return Consequence(
            Harm.DUPLICATES,
            "an object that starts at the same record is overwritten, and may then hold more or fewer records; "
            "the others stay, so that records may be in two objects",
        )

    def _explain_confluent(self) -> Consequence:
        scheduled = is_set(self.config, "rotate.schedule.interval.ms")
        if scheduled and (self.config.get("rotate.schedule.interval.ms") or "").strip() not in ("-1", "0"):
            if (self.config.get("enable.conditional.writes") or "true").strip().lower() == "true":
                return Consequence(
                    Harm.NOTHING,
                    "objects that are there already are not written again: the sink skips forward past them",
                )
            return Consequence(
                Harm.DUPLICATES, "objects are cut by the clock: the records are written again into overlapping objects"
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
        """By its class."""
        del config
        return connector_class in _JDBC_CLASSES

    def explain_rewind(self) -> Consequence:
        """By the mode of its writes."""
        mode = (self.config.get("insert.mode") or "insert").strip().lower()
        key = (self.config.get("pk.mode") or "none").strip().lower()
        if mode in {"upsert", "update"}:
            return Consequence(
                Harm.OVERWRITES,
                f"insert.mode {mode}: rows are overwritten, none is there twice; older values stand in place of newer "
                "ones until the sink has caught up",
            )
        if mode not in {"insert", "multi"}:
            return Consequence(Harm.UNKNOWN, f"insert.mode {mode} is not known to seamark")
        if key == "none":
            return Consequence(
                Harm.DUPLICATES,
                f"insert.mode {mode} without a primary key of its own: each record becomes a second row, "
                "or the task fails where the table has a unique key",
            )
        return Consequence(
            Harm.FAILURE, f"insert.mode {mode} with pk.mode {key}: the rows are there already, and the task fails"
        )

    def explain_skip(self) -> Consequence:
        """Rows are missing."""
        deletes = (self.config.get("delete.enabled") or "").strip().lower() == "true"
        more = ", and rows that should be deleted stay" if deletes else ""
        return Consequence(Harm.LOSS, f"the rows of the records between are missing or stay as they were{more}")


class FileSinkMeaning(SinkMeaning):
    """Kafka's own file sink: it appends lines."""

    family: ClassVar[str] = "file sink"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """By its class."""
        del config
        return connector_class == "org.apache.kafka.connect.file.FileStreamSinkConnector"

    def explain_rewind(self) -> Consequence:
        """It appends."""
        return Consequence(Harm.DUPLICATES, "the lines are appended to the file once more")
