"""How an offset is written so that the task finds it: through REST, as a record of its topic, or as a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from seamark.connect.connector import Connector
from seamark.core.offset import Offset
from seamark.core.refs import ConnectorType
from seamark.errors import RefusedError
from seamark.kafka.records_held import HeldRecord
from seamark.offsets.codec.codec import decode_key, encode_value
from seamark.offsets.held_offset import CompletedOffsets, HeldOffset, WriteRoute
from seamark.offsets.stores.grouping import is_task_key
from seamark.offsets.write.steps import WriteOffsets

Complete = Callable[[Sequence[HeldOffset]], CompletedOffsets]
"""Gives offsets the records that they lack."""


@dataclass(frozen=True, slots=True)
class Route:
    """The step that writes, and what the reader of the plan must know of it."""

    step: WriteOffsets
    notes: tuple[str, ...] = ()


def choose_route(
    connector: Connector,
    held: Sequence[HeldOffset],
    offsets: Sequence[Offset],
    *,
    has_rest: bool,
    complete: Complete,
) -> Route:
    """The step that writes these offsets. `has_rest` says whether the workers take offsets, as from 3.6 on.

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
    cluster, name, wanted = connector.cluster, connector.name, tuple(offsets)
    if connector.type is ConnectorType.SINK:
        return Route(WriteOffsets(cluster, name, wanted, WriteRoute.REST if has_rest else WriteRoute.GROUP))
    if has_rest and all(_reaches(found) for found in held):
        return Route(WriteOffsets(cluster, name, wanted))
    completed = complete(held)
    records = tuple(
        record for found, one in zip(completed.held, wanted, strict=True) for record in _build_records(found, one)
    )
    return Route(WriteOffsets(cluster, name, wanted, WriteRoute.TOPIC, records), completed.notes)


def _reaches(held: HeldOffset) -> bool:
    """Whether REST would write over the records that are there. A key that nobody has written has no other spelling."""
    return not held.is_stray and all(decode_key(record.key).is_rest_spelling for record in _find_read(held))


def _find_read(held: HeldOffset) -> tuple[HeldRecord, ...]:
    """The records that a task may read. What no task spells so stays as it is, whatever the others get."""
    return tuple(record for record in held.records if is_task_key(record.key))


def _build_records(held: HeldOffset, wanted: Offset) -> Iterator[HeldRecord]:
    value = encode_value(wanted.offset)
    # Where there are two topics, the one that the tasks read is written last: until then nothing has changed for them.
    for record in reversed(_find_read(held)):
        yield HeldRecord(record.topic, record.partition, record.key, value)
