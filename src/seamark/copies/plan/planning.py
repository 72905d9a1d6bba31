"""From options to the plan of a copy. Everything is read; nothing is changed."""

from __future__ import annotations

from dataclasses import replace

from seamark.connect.clusters import Clusters
from seamark.copies.plan.copy_plan import TopicEnd
from seamark.copies.plan.copy_planner import CopyRequest, plan_copy
from seamark.copies.plan.draft import PlannedCopy
from seamark.copies.plan.place import CopyEndpoints
from seamark.copies.plan.readers import read_copy_users
from seamark.copies.plan.slicing import choose_limits, read_time_index
from seamark.copies.plan.source import SourceFacts, find_topic, read_source
from seamark.copies.plan.strangers import refuse_strangers
from seamark.copies.plan.target_configs import TargetBrokers
from seamark.copies.plan.wish import CopyOptions
from seamark.errors import RefusedError
from seamark.kafka.topic import TopicStatus
from seamark.kafka_sink.probe import Probe, probe_samples

# Seven keys prove a rule. So many show also the few that another producer has put elsewhere.
_SAMPLES = 60_000
_LEAST_SAMPLES = 20


class CopyPlanner:
    """Makes the plans of one context's copies, from a topic to another one beside it or far away."""

    def __init__(self, endpoints: CopyEndpoints, *, clusters: Clusters) -> None:
        self._endpoints = endpoints
        self._kafka = endpoints.source.kafka
        self._clusters = clusters
        self._actor = endpoints.source.actor

    def plan(self, options: CopyOptions) -> PlannedCopy:
        """The plan, with everything that speaks against it."""
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
                f"there is a topic {target.name} already, with {len(target.partitions)} partitions",
                hint="give the target another name: --to NAME",
            )
        bounds = self._endpoints.target.kafka.read_bounds(target.spots).require_complete(what="the bounds")
        return sum(found.latest for found in bounds.values())

    def _look_around(self, options: CopyOptions) -> TargetBrokers:
        """What the brokers of the target know and give by themselves; a topic that they have tells it."""
        if not self._endpoints.is_cross_cluster:
            return TargetBrokers(self._endpoints.source.logs.read_known_configs(options.topic))
        where = self._endpoints.target.context.name
        witness = next(iter(self._endpoints.target.kafka.read_all_topics().items), None)
        if witness is None:
            raise RefusedError(
                f"context {where} has no topic yet, and brokers tell their configs by one",
                hint=f"make its journal first: seamark --context {where} init",
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
