"""From a wish to the plan of a copy. Everything is read; nothing is changed."""

from __future__ import annotations

from seamark.change.actor import Actor
from seamark.errors import RefusedError
from seamark.fleet.clusters import Clusters
from seamark.fleet.copies.draft import CopyDraft
from seamark.fleet.copies.ports import CopyLogs
from seamark.fleet.copies.readers import read_copy_users
from seamark.fleet.copies.slicing import choose_limits, read_time_index
from seamark.fleet.copies.source import SourceFacts, find_topic, read_source
from seamark.fleet.copies.wish import CopyWish
from seamark.fleet.ports import BrokersPort
from seamark.model.topic import TopicStatus
from seamark.pipelines.copy_plan import TopicEnd
from seamark.pipelines.copy_planner import CopyRequest, plan_copy
from seamark.pipelines.probe import Probe, probe_samples
from seamark.pipelines.target_configs import Surroundings

# Seven keys prove a rule. So many show also the few that another producer has put elsewhere.
_SAMPLES = 60_000
_LEAST_SAMPLES = 20


class CopyPlanner:
    """Makes the plans of one context's copies, from a topic to another one beside it."""

    def __init__(self, *, kafka: BrokersPort, clusters: Clusters, logs: CopyLogs, actor: Actor) -> None:
        self._kafka = kafka
        self._clusters = clusters
        self._logs = logs
        self._actor = actor

    def plan(self, wish: CopyWish) -> CopyDraft:
        """The plan, with everything that speaks against it."""
        source = read_source(self._kafka, wish)
        target = find_topic(self._kafka, wish.target)
        limits = choose_limits(
            source.ranges,
            targets=wish.partitions,
            size_bytes=source.wanted_bytes,
            slice_records=wish.slice_records,
        )
        plan = plan_copy(
            CopyRequest(
                id=self._actor.new_id(),
                made_at=self._actor.timestamp(),
                source=source.end,
                target=_build_target(source, target, wish),
                probe=self._probe(source),
                ranges=source.ranges,
                source_configs=source.status.configs,
                around=Surroundings(self._logs.read_known_configs(wish.topic)),
                limits=limits,
                index=read_time_index(self._kafka, wish.topic, source.ranges, limits=limits),
                rule=wish.rule,
                target_offsets=None if target is None else self._count_offsets(target, wish),
            )
        )
        users = read_copy_users(
            source.status, source.bounds, clusters=self._clusters, kafka=self._kafka, now=self._actor.now()
        )
        return CopyDraft(plan, users=users, bytes=source.wanted_bytes, notes=source.notes)

    def _probe(self, source: SourceFacts) -> Probe:
        count = len(source.status.partitions)
        most = max(_LEAST_SAMPLES, _SAMPLES // (2 * count))
        ranges = {number: (found.earliest, found.latest) for number, found in source.bounds.items()}
        samples = self._logs.read_samples(source.status.name, ranges=ranges, most=most)
        return probe_samples(samples, partitions=count)

    def _count_offsets(self, target: TopicStatus, wish: CopyWish) -> int:
        if len(target.partitions) != wish.partitions:
            raise RefusedError(
                f"there is a topic {target.name} already, with {len(target.partitions)} partitions",
                hint="give the target another name: --to NAME",
            )
        bounds = self._kafka.read_bounds(target.spots).require_complete(what="the bounds")
        return sum(found.latest for found in bounds.values())


def _build_target(source: SourceFacts, found: TopicStatus | None, wish: CopyWish) -> TopicEnd:
    copies = found.replication_factor if found else wish.replication_factor or source.end.replication_factor
    return TopicEnd(
        source.cluster_id,
        topic=wish.target,
        topic_id=found.topic_id if found else "",
        partitions=wish.partitions,
        replication_factor=copies,
    )
