"""How an offset is written so that the task finds it: through REST, or by a record with the bytes of its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seamark.change.steps.offsets import WriteOffsets
from seamark.errors import RefusedError
from seamark.model.connector import Connector, ConnectorType
from seamark.model.held_offset import HeldOffset, HeldRecord, WriteRoute
from seamark.model.offset import Offset
from seamark.offsets.codec import decode_key, encode_value


def choose_route(connector: Connector, held: Sequence[HeldOffset], offsets: Sequence[Offset]) -> WriteOffsets:
    """The step that writes these offsets.

    REST spells every key its own way. Where a record stands under another spelling, REST would write a second one
    beside it, which no task reads: then all are written as records, each over the one that is there.
    """
    if doubts := [found.doubt for found in held if found.doubt]:
        raise RefusedError(
            f"nobody can tell which record holds the offsets of {connector.owner}; nothing was changed",
            cause="; ".join(doubts),
            hint=f"seamark offsets show {connector.owner} shows all of them",
        )
    step = WriteOffsets(connector.cluster, connector.name, tuple(offsets))
    if connector.type is ConnectorType.SINK or all(_reaches(found) for found in held):
        return step
    records = tuple(
        record for found, wanted in zip(held, offsets, strict=True) for record in _build_records(found, wanted)
    )
    return WriteOffsets(connector.cluster, connector.name, tuple(offsets), WriteRoute.TOPIC, records)


def _reaches(held: HeldOffset) -> bool:
    """Whether REST would write over the records that are there. A key that nobody has written has no other spelling."""
    return all(decode_key(record.key).is_rest_spelling for record in held.records)


def _build_records(held: HeldOffset, wanted: Offset) -> Iterator[HeldRecord]:
    if not held.records:
        raise RefusedError(
            "some of these offsets need REST and others the topic; nothing was changed",
            cause="one partition has a key that REST can't reach, another has no record yet",
            hint="change them one after the other",
        )
    value = encode_value(wanted.offset)
    # Where there are two topics, the one that the tasks read is written last: until then nothing has changed for them.
    for record in reversed(held.records):
        yield HeldRecord(record.topic, record.partition, record.key, value)
