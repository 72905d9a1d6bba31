"""Offset semantics of MirrorMaker 2: the last record copied, and two connectors that store no progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from seamark.core.offsets import Certainty, Distance, Fixed, LogRange, OffsetMap, Order, Unit, order_of
from seamark.core.readings import Finding
from seamark.offsets.semantics.fields import Notes, read_integer, read_text, show, show_fields
from seamark.offsets.semantics.semantics import Consequence, GenericMeaning, Harm
from seamark.offsets.semantics.sinks import BOUND

_PACKAGE = "org.apache.kafka.connect.mirror."
_UNUSED = "MirrorMaker writes 0 and never reads it"


class MirrorSourceMeaning(GenericMeaning):
    """`{"cluster", "partition", "topic"}` and `{"offset": n}`: the last record that was copied, not the next one."""

    family: ClassVar[str] = "MirrorMaker 2 source"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match by the connector class."""
        del config
        return connector_class == f"{_PACKAGE}MirrorSourceConnector"

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """Check cluster, topic, partition, and that the number is not negative."""
        notes = Notes(self.describe_partition(partition))
        example = '{"cluster": "source", "partition": 0, "topic": "t"}'
        if not notes.check_shape(partition, [{"cluster", "partition", "topic"}], example):
            return notes.result()
        _check_partition(notes, partition, texts=("cluster", "topic"))
        alias = self.config.get("source.cluster.alias")
        if alias and read_text(partition, "cluster") != alias:
            notes.warn("the connector reads another cluster", f"source.cluster.alias is {alias}: this is never read")
        if offset is not None:
            _check_offset(notes, offset)
        return notes.result()

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Compare by number. Without one, the consumer's auto.offset.reset decides."""
        if left is None and right is None:
            return Order.EQUAL
        first, second = read_integer(left, "offset"), read_integer(right, "offset")
        return Order.UNKNOWN if first is None or second is None else order_of((first,), (second,))

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Return `source: orders-3` and the last record copied."""
        number = read_integer(offset, "offset")
        words = "no offset" if offset is None else show_fields(offset) if number is None else f"record {number} copied"
        return self.describe_partition(partition), words

    def describe_partition(self, partition: OffsetMap) -> str:
        """Return `source: orders-3`."""
        if set(partition) != {"cluster", "partition", "topic"}:
            return show_fields(partition)
        return f"{show(partition['cluster'])}: {show(partition['topic'])}-{show(partition['partition'])}"

    def explain_rewind(self) -> Consequence:
        """Describe a rewind: records are copied again."""
        return Consequence(
            Harm.DUPLICATES,
            "the records are duplicated in the target topic, and the offset syncs used to translate groups move back",
        )

    def explain_skip(self) -> Consequence:
        """Describe a skip: records are missing in the target."""
        return Consequence(Harm.LOSS, "the skipped records are never copied")

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """Return the range of the source's log: it starts one after the offset, which is the last record copied."""
        topic, number = read_text(partition, "topic"), read_integer(partition, "partition")
        first, last = read_integer(start, "offset"), read_integer(end, "offset")
        if (
            topic is None
            or number is None
            or (start is not None and first is None)
            or (end is not None and last is None)
        ):
            return Distance(Unit.RECORDS, None, Certainty.UNKNOWN, reason="the offset can't be read")
        span = LogRange(
            topic,
            number,
            None if first is None else first + 1,
            None if last is None else last + 1,
            cluster=read_text(partition, "cluster") or "",
        )
        return Distance(Unit.RECORDS, span, Certainty.BOUND, reason=BOUND)


class _UnusedMeaning(GenericMeaning):
    """A connector that writes offsets only because Connect requires them."""

    shape: ClassVar[frozenset[str]] = frozenset()
    example: ClassVar[str] = ""

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """Check the shape; Connect accepts no number other than 0."""
        notes = Notes(self.describe_partition(partition))
        if not notes.check_shape(partition, [self.shape], self.example):
            return notes.result()
        texts = tuple(sorted(self.shape - {"partition"}))
        _check_partition(notes, partition, texts=texts)
        if offset is not None and read_integer(offset, "offset") != 0:
            notes.error("offset must be 0", f"{_UNUSED}; Connect rejects any other number")
        return notes.result()

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Return EQUAL always: these offsets are never read."""
        del left, right
        return Order.EQUAL

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Return a text that states that the offset is not used."""
        return self.describe_partition(partition), "no offset" if offset is None else "not used"

    def explain_rewind(self) -> Consequence:
        """Describe a rewind: no effect."""
        return Consequence(Harm.NOTHING, _UNUSED)

    def explain_skip(self) -> Consequence:
        """Describe a skip: no effect."""
        return Consequence(Harm.NOTHING, _UNUSED)

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """Return an empty distance."""
        del partition, start, end
        return Distance(Unit.RECORDS, Fixed(0), reason=_UNUSED)


class MirrorCheckpointMeaning(_UnusedMeaning):
    """`{"partition", "topic", "group"}` and 0."""

    family: ClassVar[str] = "MirrorMaker 2 checkpoints"
    shape = frozenset({"partition", "topic", "group"})
    example = '{"partition": 0, "topic": "t", "group": "g"}'

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match by the connector class."""
        del config
        return connector_class == f"{_PACKAGE}MirrorCheckpointConnector"


class MirrorHeartbeatMeaning(_UnusedMeaning):
    """`{"sourceClusterAlias", "targetClusterAlias"}` and 0."""

    family: ClassVar[str] = "MirrorMaker 2 heartbeats"
    shape = frozenset({"sourceClusterAlias", "targetClusterAlias"})
    example = '{"sourceClusterAlias": "a", "targetClusterAlias": "b"}'

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match by the connector class."""
        del config
        return connector_class == f"{_PACKAGE}MirrorHeartbeatConnector"


def _check_partition(notes: Notes, partition: OffsetMap, *, texts: tuple[str, ...]) -> None:
    for key in texts:
        if not read_text(partition, key):
            notes.error(f"{key} must be a string", "write its name")
    if "partition" in partition:
        number = read_integer(partition, "partition")
        if number is None or number < 0:
            notes.error("partition must be an integer of 0 or more", "write a JSON integer")


def _check_offset(notes: Notes, offset: OffsetMap) -> None:
    notes.check_integers(offset, ["offset"])
    notes.check_known(offset, {"offset"})
    number = read_integer(offset, "offset")
    if offset.get("offset") is None:
        notes.error("offset is missing", 'write {"offset": N}')
    elif number is not None and number < 0:
        notes.error("offset is negative", "reset the offset to start from the beginning")
    elif number == 0:
        notes.info("record 0 counts as copied", "to copy it too, reset the offset")
