"""From a wish to the plan of a copy. Everything is read; nothing is changed."""

from __future__ import annotations

from dataclasses import replace

from seamark.changes.actor import Actor
from seamark.connect.clusters import Clusters
from seamark.copies.plan.copy_plan import TopicEnd
from seamark.copies.plan.copy_planner import CopyRequest, plan_copy
from seamark.copies.plan.draft import CopyDraft
from seamark.copies.plan.place import CopyRoute
from seamark.copies.plan.readers import read_copy_users
from seamark.copies.plan.slicing import choose_limits, read_time_index
from seamark.copies.plan.source import SourceFacts, find_topic, read_source
from seamark.copies.plan.strangers import refuse_strangers
from seamark.copies.plan.target_configs import Surroundings
from seamark.copies.plan.wish import CopyWish
from seamark.errors import RefusedError
from seamark.kafka.topic import TopicStatus
from seamark.kafka_sink.probe import Probe, probe_samples

# Seven keys prove a rule. So many show also the few that another producer has put elsewhere.
_SAMPLES = 60_000
_LEAST_SAMPLES = 20


class CopyPlanner:
    """Makes the plans of one context's copies, from a topic to another one beside it or far away."""

    def __init__(self, route: CopyRoute, *, clusters: Clusters, actor: Actor) -> None:
        self._route = route
        self._kafka = route.source.kafka
        self._clusters = clusters
        self._actor = actor

    def plan(self, wish: CopyWish) -> CopyDraft:
        """The plan, with everything that speaks against it."""
        source = read_source(self._kafka, wish)
        target = find_topic(self._route.target.kafka, wish.target)
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
                target=self._build_target(source, target, wish),
                probe=self._probe(source),
                ranges=source.ranges,
                source_configs=source.status.configs,
                around=self._look_around(wish),
                limits=limits,
                index=read_time_index(self._kafka, wish.topic, source.ranges, limits=limits),
                rule=wish.rule,
                target_offsets=None if target is None else self._count_offsets(target, wish),
            )
        )
        users = read_copy_users(
            source.status, source.bounds, clusters=self._clusters, kafka=self._kafka, now=self._actor.now()
        )
        strangers = () if self._route.is_far else refuse_strangers(self._clusters, wish.target)
        plan = replace(plan, refusals=(*plan.refusals, *strangers))
        return CopyDraft(plan, users=users, bytes=source.wanted_bytes, notes=source.notes)

    def _probe(self, source: SourceFacts) -> Probe:
        count = len(source.status.partitions)
        most = max(_LEAST_SAMPLES, _SAMPLES // (2 * count))
        ranges = {number: (found.earliest, found.latest) for number, found in source.bounds.items()}
        samples = self._route.source.logs.read_samples(source.status.name, ranges=ranges, most=most)
        return probe_samples(samples, partitions=count)

    def _count_offsets(self, target: TopicStatus, wish: CopyWish) -> int:
        if len(target.partitions) != wish.partitions:
            raise RefusedError(
                f"there is a topic {target.name} already, with {len(target.partitions)} partitions",
                hint="give the target another name: --to NAME",
            )
        bounds = self._route.target.kafka.read_bounds(target.spots).require_complete(what="the bounds")
        return sum(found.latest for found in bounds.values())

    def _look_around(self, wish: CopyWish) -> Surroundings:
        """What the brokers of the target know and give by themselves; a topic that they have tells it."""
        if not self._route.is_far:
            return Surroundings(self._route.source.logs.read_known_configs(wish.topic))
        where = self._route.target.context.name
        witness = next(iter(self._route.target.kafka.read_all_topics().items), None)
        if witness is None:
            raise RefusedError(
                f"context {where} has no topic yet, and brokers tell their configs by one",
                hint=f"make its journal first: seamark --context {where} init",
            )
        given = {key: found.value for key, found in witness.configs.items() if not found.is_own}
        return Surroundings(self._route.target.logs.read_known_configs(witness.name), given)

    def _build_target(self, source: SourceFacts, found: TopicStatus | None, wish: CopyWish) -> TopicEnd:
        copies = found.replication_factor if found else wish.replication_factor or source.end.replication_factor
        far = self._route.is_far
        return TopicEnd(
            self._route.target.kafka.read_cluster().cluster_id if far else source.cluster_id,
            topic=wish.target,
            topic_id=found.topic_id if found else "",
            partitions=wish.partitions,
            replication_factor=copies,
        )
