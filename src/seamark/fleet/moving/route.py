"""How an offset is written so that the task finds it: through REST, or by a record with the bytes of its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seamark.change.steps.offsets import WriteOffsets
from seamark.errors import RefusedError
from seamark.model.connector import Connector, ConnectorType
from seamark.model.held_offset import HeldOffset, HeldRecord, WriteRoute
from seamark.model.offset import Offset
from seamark.offsets.codec import decode_key, encode_value
from seamark.offsets.grouping import is_task_key


def choose_route(connector: Connector, held: Sequence[HeldOffset], offsets: Sequence[Offset]) -> WriteOffsets:
    """The step that writes these offsets.

    REST spells every key its own way, and writes it to one partition of the topic. Where a record stands under another
    spelling, or strayed to another partition, REST would write a second one beside it, and no task reads that, or
    nobody knows which one it reads: then all are written as records, each over the one that is there.
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
    return not held.is_stray and all(decode_key(record.key).is_rest_spelling for record in _find_read(held))


def _find_read(held: HeldOffset) -> tuple[HeldRecord, ...]:
    """The records that a task may read. What no task spells so stays as it is, whatever the others get."""
    return tuple(record for record in held.records if is_task_key(record.key))


def _build_records(held: HeldOffset, wanted: Offset) -> Iterator[HeldRecord]:
    records = _find_read(held)
    if not records:
        raise RefusedError(
            "some of these offsets need REST and others the topic; nothing was changed",
            cause="one partition has a key that REST can't reach, another has no record yet",
            hint="change them one after the other",
        )
    value = encode_value(wanted.offset)
    # Where there are two topics, the one that the tasks read is written last: until then nothing has changed for them.
    for record in reversed(records):
        yield HeldRecord(record.topic, record.partition, record.key, value)
