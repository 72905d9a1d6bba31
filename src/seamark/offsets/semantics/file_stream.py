"""Offset semantics of Kafka's own file source: a byte count, approximately."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from seamark.core.offsets import Certainty, Distance, FileBytes, OffsetMap, Order, Unit, order_of
from seamark.core.readings import Finding
from seamark.offsets.semantics.fields import Notes, read_integer, read_text, show_fields
from seamark.offsets.semantics.semantics import GenericMeaning

FILENAME, POSITION = "filename", "position"
# Seen on a real worker: a line with an é advances the position by one less than the file grows.
_CHARACTERS = (
    "the connector counts characters when it reads, and uses the count as bytes when it starts: exact for ASCII"
)


class FileStreamMeaning(GenericMeaning):
    """`{"filename": …}` and `{"position": n}`."""

    family: ClassVar[str] = "file source"

    @classmethod
    def matches(cls, connector_class: str, config: Mapping[str, str]) -> bool:
        """Match by the connector class."""
        del config
        return connector_class == "org.apache.kafka.connect.file.FileStreamSourceConnector"

    def check(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[Finding, ...]:
        """Check for a file name, a non-negative position, and the file of the config."""
        notes = Notes(self.describe_partition(partition))
        if not notes.check_shape(partition, [{FILENAME}], '{"filename": "/path"}'):
            return notes.result()
        configured = self.config.get("file")
        if configured and read_text(partition, FILENAME) != configured:
            notes.warn("the connector reads another file", f"its config has {configured}: this offset is never read")
        if offset is None:
            return notes.result()
        notes.check_integers(offset, [POSITION])
        notes.check_known(offset, {POSITION})
        position = read_integer(offset, POSITION)
        if offset.get(POSITION) is None:
            notes.error(f"{POSITION} is missing", 'write {"position": BYTES}')
        elif position is not None and position < 0:
            notes.error(f"{POSITION} is negative", "Connect rejects it")
        return notes.result()

    def compare(self, left: OffsetMap | None, right: OffsetMap | None) -> Order:
        """Compare by bytes; no offset is the beginning of the file."""
        first, second = _read_position(left), _read_position(right)
        return Order.UNKNOWN if first is None or second is None else order_of((first,), (second,))

    def describe(self, partition: OffsetMap, offset: OffsetMap | None) -> tuple[str, str]:
        """Return the file, and how much of it was read."""
        position = read_integer(offset, POSITION)
        words = "no offset" if offset is None else show_fields(offset) if position is None else f"byte {position}"
        return self.describe_partition(partition), words

    def describe_partition(self, partition: OffsetMap) -> str:
        """Return the file."""
        name = read_text(partition, FILENAME)
        return show_fields(partition) if name is None or len(partition) > 1 else f"file {name}"

    def build_distance(self, partition: OffsetMap, start: OffsetMap | None, end: OffsetMap | None) -> Distance:
        """Return the distance in bytes of a file on the worker's machine."""
        name, first, last = read_text(partition, FILENAME), _read_position(start), _read_position(end)
        if name is None or first is None or last is None:
            return Distance(Unit.BYTES, None, Certainty.UNKNOWN, reason="the offset can't be read")
        span = FileBytes(name, first, None if end is None else last)
        return Distance(Unit.BYTES, span, Certainty.ESTIMATE, reason=_CHARACTERS)


def _read_position(offset: OffsetMap | None) -> int | None:
    return 0 if offset is None else read_integer(offset, POSITION)
