"""Both ends of a copy, as the brokers tell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from seamark.copies.plan.copy_plan import TopicEnd
from seamark.copies.plan.wish import CopyOptions
from seamark.errors import NotFoundError, RefusedError, SeamarkError, UsageError
from seamark.groups.targets import Where
from seamark.kafka.api import BrokersPort
from seamark.kafka.spot import Bounds, Edge
from seamark.kafka.topic import TopicStatus
from seamark.spark.slices import OffsetRange


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The source: its log as readers of committed records see it, and what of it is wanted.

    `bytes` is the size of one copy of the whole log, None where nobody tells it.
    """

    cluster_id: str
    status: TopicStatus
    bounds: Mapping[int, Bounds]
    ranges: tuple[OffsetRange, ...]
    bytes: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def end(self) -> TopicEnd:
        """The source as a plan has it."""
        status = self.status
        return TopicEnd(
            self.cluster_id,
            topic=status.name,
            topic_id=status.topic_id,
            partitions=len(status.partitions),
            replication_factor=status.replication_factor,
        )

    @property
    def wanted_bytes(self) -> int | None:
        """What is copied of it, by its share of the offsets."""
        whole = sum(found.records for found in self.bounds.values())
        if self.bytes is None or not whole:
            return self.bytes
        return self.bytes * sum(one.size for one in self.ranges) // whole


def read_source(kafka: BrokersPort, options: CopyOptions) -> SourceFacts:
    """Look at the source, and settle once and for all which offsets of it are meant."""
    status = find_topic(kafka, options.topic)
    if status is None:
        raise NotFoundError(f"there is no topic {options.topic}", hint="seamark topics list shows all of them")
    if status.configs_error:
        raise SeamarkError(
            f"the configs of {options.topic} can't be read, and its copy would lack them",
            cause=status.configs_error,
            hint="grant DESCRIBE_CONFIGS on the topic to the principal of this context",
        )
    count = len(status.partitions)
    if options.expected is not None and options.expected != count:
        raise UsageError(
            f"the topic {options.topic} has {count} partitions, and not {options.expected}",
            hint=f"--partitions {count}:{options.partitions}, if that is the topic you mean",
        )
    bounds = read_stable_bounds(kafka, status)
    size, notes = _read_bytes(kafka, status)
    return SourceFacts(
        kafka.read_cluster().cluster_id,
        status,
        bounds=bounds,
        ranges=_read_ranges(kafka, status, bounds, options),
        bytes=size,
        notes=notes,
    )


def find_topic(kafka: BrokersPort, name: str) -> TopicStatus | None:
    """A topic by its name; None where it is not there."""
    reading = kafka.read_topics([name])
    for error in reading.failures.values():
        if isinstance(error, NotFoundError):
            return None
        raise error
    return reading.items[0]


def read_stable_bounds(kafka: BrokersPort, status: TopicStatus) -> dict[int, Bounds]:
    """Where each partition begins, and where readers of committed records come to its end now."""
    if status.leaderless:
        raise RefusedError(
            f"partitions {', '.join(map(str, status.leaderless))} of {status.name} have no leader",
            hint="seamark topics health says what is wrong there",
        )
    begins = kafka.read_log_offsets(status.spots, at=Edge.EARLIEST).require_complete(what="the begin")
    ends = kafka.read_log_offsets(status.spots, at=Edge.STABLE).require_complete(what="the end")
    found = {}
    for spot in status.spots:
        begin, end = begins[spot], ends[spot]
        if begin is None or end is None:
            raise SeamarkError(
                f"the brokers told no offset of {spot[0]}-{spot[1]} just now", hint="try again in a moment"
            )
        # An open transaction may hold the end for readers before the begin that retention has moved meanwhile.
        found[spot[1]] = Bounds(begin.offset, max(begin.offset, end.offset))
    return found


def _read_bytes(kafka: BrokersPort, status: TopicStatus) -> tuple[int | None, tuple[str, ...]]:
    try:
        reading = kafka.read_sizes({status.name: [one.id for one in status.partitions]})
    except SeamarkError as error:
        return None, (f"its size is not known: {error.message}",)
    size = next(iter(reading.items), None)
    if size is None or reading.failures:
        return None, tuple(f"its size is not known: {error.message}" for error in reading.failures.values())
    total = sum(size.by_partition.values())
    # Brokers that don't let us see their logs answer with none. An empty log has a size of zero as well.
    return (total, ()) if total else (None, ())


def _read_ranges(
    kafka: BrokersPort, status: TopicStatus, bounds: Mapping[int, Bounds], options: CopyOptions
) -> tuple[OffsetRange, ...]:
    begins = _read_places(kafka, status, bounds, where=options.since if options.since is not None else Edge.EARLIEST)
    ends = _read_places(kafka, status, bounds, where=options.until if options.until is not None else Edge.LATEST)
    return tuple(OffsetRange(number, begins[number], max(begins[number], ends[number])) for number in sorted(bounds))


def _read_places(
    kafka: BrokersPort, status: TopicStatus, bounds: Mapping[int, Bounds], *, where: Where
) -> dict[int, int]:
    """The offsets at a place, within the bounds. A time after the last record stands for the end."""
    if isinstance(where, Edge):
        return {number: found.earliest if where is Edge.EARLIEST else found.latest for number, found in bounds.items()}
    if isinstance(where, datetime):
        moment_ms = round(where.timestamp() * 1000)
        stamps = kafka.read_log_offsets(status.spots, at=moment_ms).require_complete(what="the offsets of that time")
        wanted = {spot[1]: None if stamp is None else stamp.offset for spot, stamp in stamps.items()}
    else:
        wanted = dict.fromkeys(bounds, where)
    return {
        number: found.latest if (at := wanted[number]) is None else min(max(at, found.earliest), found.latest)
        for number, found in bounds.items()
    }
