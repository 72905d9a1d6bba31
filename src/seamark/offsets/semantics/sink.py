"""Sinks: the positions are those of a consumer group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from seamark.core.distance import Certainty, Distance, LogRange, Unit
from seamark.core.finding import Finding
from seamark.core.offset import OffsetMap
from seamark.core.offsets import Order, order_of
from seamark.groups.positions import OFFSET, PARTITION, TOPIC
from seamark.kafka.spot import Spot
from seamark.offsets.semantics.consequences import Consequence, Harm
from seamark.offsets.semantics.fields import Notes, is_integer, is_set, read_text, show, show_fields, split_list

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


def find_spot(partition: OffsetMap) -> Spot | None:
    """The partition of a log that a sink's partition names."""
    topic, number = partition.get(TOPIC), read_number(partition, PARTITION)
    return (topic, number) if isinstance(topic, str) and number is not None else None


def _check_number(notes: Notes, key: str, value: object) -> None:
    number = read_number({key: value}, key) if isinstance(value, str | int) else None
    if number is None:
        notes.error(f"{key} must be a whole number", "write a JSON integer")
    elif number < 0:
        notes.error(f"{key} is below zero", "Connect answers 500 to it")
