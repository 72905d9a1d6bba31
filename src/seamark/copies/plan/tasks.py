"""Who writes what within a slice: tasks that are numbered by the partition they own, the same in every slice."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.kafka_sink.routing import Routing


@dataclass(frozen=True, slots=True)
class SliceTask:
    """One writer of a slice: the source partitions it may take from, and the targets that nobody else writes to."""

    number: int
    sources: tuple[int, ...]
    targets: tuple[int, ...]


def build_tasks(routing: Routing) -> tuple[SliceTask, ...]:
    """The tasks of every slice of a copy.

    Where each target has one source, a task owns a source partition and writes to all targets of it, without a shuffle.
    Otherwise it owns a target and gathers from all sources of it. Either way one task writes a target, in all slices
    the same: so one transactional id does, and a new transaction waits until the markers of the last are written.
    """
    if routing.needs_shuffle:
        return tuple(
            SliceTask(target, routing.sources_of(target), targets=(target,)) for target in range(routing.targets)
        )
    return tuple(SliceTask(source, (source,), targets=routing.targets_of(source)) for source in range(routing.sources))
