"""Plan a copy from its options. Planning only reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from seamark.connect.clusters import Clusters
from seamark.copies.plan.endpoints import CopyEndpoints, CopyOptions, SourceFacts, find_topic, read_source
from seamark.copies.plan.plan import (
    CopyPlan,
    CopyRequest,
    Limits,
    TimeIndex,
    TimeMark,
    TopicEnd,
    choose_times,
    plan_copy,
)
from seamark.copies.plan.target_configs import TargetBrokers
from seamark.copies.plan.users import CopyReader, CopyUsers, read_copy_users, refuse_strangers
from seamark.errors import RefusedError
from seamark.kafka.api import BrokersPort
from seamark.kafka.model import OffsetSpec, TopicStatus
from seamark.kafka_sink.routing import Probe, probe_samples
from seamark.spark.slices import OffsetRange

if TYPE_CHECKING:
    from seamark.report.listing import View


@dataclass(frozen=True, slots=True)
class PlannedCopy:
    """The result of `fleet.copies.plan`. Nothing has been changed; `fleet.copies.run` runs the plan.

    `bytes` is the size of the copied records, None if it is unknown.
    """

    plan: CopyPlan
    users: CopyUsers
    bytes: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def readers(self) -> tuple[CopyReader, ...]:
        """The consumers of the source."""
        return self.users.readers

    def to_dict(self) -> dict[str, Any]:
        """Return the draft as JSON has it; its `plan` is the content of a plan file."""
        return {
            "plan": self.plan.to_dict(),
            "records": self.plan.size,
            "bytes": self.bytes,
            "readers": [reader.to_dict() for reader in self.users.readers],
            "writers": [
                {"subject": user.subject, "use": user.use.value, "state": user.state} for user in self.users.writers
            ],
            "notes": [*self.notes, *self.users.notes],
        }

    def build_view(self) -> View[Any]:
        """Return the plan for every output format."""
        from seamark.copies.plan.views import build_draft_view  # noqa: PLC0415

        return build_draft_view(self)

    def __str__(self) -> str:
        """Return the plan as text."""
        from seamark.report.data import OutputFormat  # noqa: PLC0415
        from seamark.report.listing import render_view  # noqa: PLC0415

        return render_view(self.build_view(), OutputFormat.TABLE)

    def _repr_html_(self) -> str:
        """Return the plan as a notebook shows it."""
        from seamark.report.listing import render_html  # noqa: PLC0415

        return render_html(self.build_view())


# A task is one transaction: some seconds of work, which a retry repeats, and less than a task keeps in memory. It has a
# fixed cost, whatever its size: consumer, producer and transaction take as long as 20,000 small records.
_TASK_RECORDS = 400_000
_TASK_BYTES = 48 << 20
_LEAST_TASK_RECORDS = 500
# Each slice is a Spark job with a fixed cost of a second, and a plan has one range per partition for each slice.
_MOST_SLICES = 10_000
_MOST_RANGES = 2_000_000
# Each time costs one request to every leader. Four times per slice place the cuts closely enough.
_TIMES_A_SLICE = 4
_MOST_TIMES = 200
_MOST_MARKS = 100_000


def choose_limits(
    ranges: Sequence[OffsetRange], *, targets: int, size_bytes: int | None, slice_records: int | None
) -> Limits:
    """Choose the size of slices: tasks of a good size, and not too many slices."""
    if slice_records is not None:
        return Limits(slice_records)
    offsets = sum(one.size for one in ranges)
    a_record = max(1, (size_bytes or 0) // max(1, offsets))
    a_task = max(_LEAST_TASK_RECORDS, min(_TASK_RECORDS, _TASK_BYTES // a_record))
    most_slices = min(_MOST_SLICES, max(1, _MOST_RANGES // max(1, len(ranges))))
    return Limits(max(a_task * targets, -(-offsets // most_slices), 1))


def read_time_index(
    kafka: BrokersPort, topic: str, ranges: Sequence[OffsetRange], *, limits: Limits, since_ms: int | None = None
) -> TimeIndex:
    """Read the offsets of points in time in each partition, at which slices are cut. One slice needs no request.

    `since_ms` is a time before which no record of the ranges was written, if one is known.
    """
    spots = [(topic, one.partition) for one in ranges if one.size]
    slices = -(-sum(one.size for one in ranges) // limits.offsets)
    if slices < 2:
        return {}
    count = max(1, min(_MOST_TIMES, slices * _TIMES_A_SLICE, _MOST_MARKS // len(spots)))
    newest = _read_times(kafka, spots, at=OffsetSpec.NEWEST)
    oldest = [since_ms] if since_ms is not None else _read_times(kafka, spots, at=0)
    if not oldest or not newest:
        return {}
    index: dict[int, list[TimeMark]] = {one.partition: [] for one in ranges}
    for moment in choose_times(min(oldest), max(newest), count=count):
        found = kafka.read_log_offsets(spots, at=moment).found
        for (_, partition), stamp in found.items():
            index[partition].append(TimeMark(moment, None if stamp is None else stamp.offset))
    return index


def _read_times(kafka: BrokersPort, spots: Sequence[tuple[str, int]], *, at: OffsetSpec | int) -> list[int]:
    stamps = kafka.read_log_offsets(spots, at=at).found.values()
    return [stamp.timestamp_ms for stamp in stamps if stamp is not None and stamp.timestamp_ms is not None]


# Seven keys prove a partitioner. This many also show the few keys that another producer has placed elsewhere.
_SAMPLES = 60_000
_LEAST_SAMPLES = 20


class CopyPlanner:
    """Plans the copies of one context, within its Kafka cluster or to another one."""

    def __init__(self, endpoints: CopyEndpoints, *, clusters: Clusters) -> None:
        self._endpoints = endpoints
        self._kafka = endpoints.source.kafka
        self._clusters = clusters
        self._actor = endpoints.source.actor

    def plan(self, options: CopyOptions) -> PlannedCopy:
        """Build the plan, with every reason against running it."""
        source = read_source(self._kafka, options)
        target = find_topic(self._endpoints.target.kafka, options.target)
        limits = choose_limits(
            source.ranges,
            targets=options.partitions,
            size_bytes=source.wanted_bytes,
            slice_records=options.slice_records,
        )
        plan = plan_copy(
            CopyRequest(
                id=self._actor.new_id(),
                made_at=self._actor.timestamp(),
                source=source.end,
                target=self._build_target(source, target, options),
                probe=self._probe(source),
                ranges=source.ranges,
                source_configs=source.status.configs,
                around=self._look_around(options),
                limits=limits,
                index=read_time_index(self._kafka, options.topic, source.ranges, limits=limits),
                rule=options.rule,
                target_offsets=None if target is None else self._count_offsets(target, options),
            )
        )
        users = read_copy_users(
            source.status, source.bounds, clusters=self._clusters, kafka=self._kafka, now=self._actor.now()
        )
        strangers = () if self._endpoints.is_cross_cluster else refuse_strangers(self._clusters, options.target)
        plan = replace(plan, refusals=(*plan.refusals, *strangers))
        return PlannedCopy(plan, users=users, bytes=source.wanted_bytes, notes=source.notes)

    def _probe(self, source: SourceFacts) -> Probe:
        count = len(source.status.partitions)
        most = max(_LEAST_SAMPLES, _SAMPLES // (2 * count))
        ranges = {number: (found.earliest, found.latest) for number, found in source.bounds.items()}
        samples = self._endpoints.source.logs.read_samples(source.status.name, ranges=ranges, most=most)
        return probe_samples(samples, partitions=count)

    def _count_offsets(self, target: TopicStatus, options: CopyOptions) -> int:
        if len(target.partitions) != options.partitions:
            raise RefusedError(
                f"topic {target.name} already exists, with {len(target.partitions)} partitions",
                hint="choose another name for the target: --target NAME",
            )
        bounds = self._endpoints.target.kafka.read_bounds(target.spots).require_complete(what="the bounds")
        return sum(found.latest for found in bounds.values())

    def _look_around(self, options: CopyOptions) -> TargetBrokers:
        """Read the topic configs and defaults of the target's brokers, by means of a topic that they have."""
        if not self._endpoints.is_cross_cluster:
            return TargetBrokers(self._endpoints.source.logs.read_known_configs(options.topic))
        where = self._endpoints.target.context.name
        witness = next(iter(self._endpoints.target.kafka.read_all_topics().items), None)
        if witness is None:
            raise RefusedError(
                f"can't read the topic defaults of context {where}: it has no topic",
                hint=f"create its journal first: seamark --context {where} init",
            )
        given = {key: found.value for key, found in witness.configs.items() if not found.is_own}
        return TargetBrokers(self._endpoints.target.logs.read_known_configs(witness.name), given)

    def _build_target(self, source: SourceFacts, found: TopicStatus | None, options: CopyOptions) -> TopicEnd:
        copies = found.replication_factor if found else options.replication_factor or source.end.replication_factor
        far = self._endpoints.is_cross_cluster
        return TopicEnd(
            self._endpoints.target.kafka.read_cluster().cluster_id if far else source.cluster_id,
            topic=options.target,
            topic_id=found.topic_id if found else "",
            partitions=options.partitions,
            replication_factor=copies,
        )
