"""Check both ends of a running copy: topic identity, records that arrived since, and aborted records."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.copies.plan.endpoints import CopyEndpoints, find_topic, read_stable_bounds
from seamark.copies.plan.plan import CopyPlan, TopicEnd
from seamark.copies.plan.progress import AbortedRecords, CopyProgress, find_aborted
from seamark.copies.plan.users import leave_mirrors_out, read_landings
from seamark.errors import NotFoundError, RefusedError
from seamark.kafka.api import BrokersPort
from seamark.kafka.model import OffsetSpec
from seamark.kafka.topics import TopicAdmin


def check_cluster(plan: CopyPlan, endpoints: CopyEndpoints) -> None:
    """Refuse a plan that was made for another Kafka cluster."""
    for end, place, option in (
        (plan.source, endpoints.source, "--context"),
        (plan.target, endpoints.target, "--to-context"),
    ):
        cluster = place.kafka.read_cluster().cluster_id
        if end.cluster_id != cluster:
            raise RefusedError(
                f"plan {plan.id} was created for another Kafka cluster",
                cause=f"{end.topic} is in Kafka cluster {end.cluster_id}, and context {place.context.name} uses "
                f"{cluster}",
                hint=f"select the context of the plan: {option} NAME",
            )


def read_ends(kafka: BrokersPort, plan: CopyPlan) -> dict[int, int]:
    """Return the current end offsets of the source for `read_committed`, never before the end of the plan."""
    status = find_topic(kafka, plan.source.topic)
    if status is None or (plan.source.topic_id and status.topic_id != plan.source.topic_id):
        raise RefusedError(
            f"source topic {plan.source.topic} of the copy was deleted or recreated",
            hint="create a new plan for the current topic; the copied records are in the target",
        )
    bounds = read_stable_bounds(kafka, status)
    return {one.partition: max(one.end, bounds[one.partition].latest) for one in plan.ranges}


def find_readers(kafka: BrokersPort, source: TopicEnd) -> tuple[str, ...]:
    """Return every group and every pipeline that has an offset in the source."""
    names = [found.name for found in kafka.read_all_groups().items if found.has_offsets]
    spots = [(source.topic, partition) for partition in range(source.partitions)]
    held = kafka.read_committed(dict.fromkeys(names, spots), with_metadata=False)
    landings = read_landings(kafka, spots)
    for reading in (held, landings):
        reading.require_complete(what="the committed offsets of the consumers")
    groups = leave_mirrors_out((found.group for found in held.items if found.offsets), landings)
    return tuple(sorted((*groups, *(found.group for found in landings.items))))


def count_behind(plan: CopyPlan, ends: Mapping[int, int]) -> int:
    """Return how many offsets the source has after the end of the plan."""
    return sum(ends[one.partition] - one.end for one in plan.ranges)


def find_target_aborted(kafka: BrokersPort, plan: CopyPlan, progress: CopyProgress) -> tuple[AbortedRecords, ...]:
    """Find offsets of the target that are not records of the copy.

    Raises:
        RefusedError: the target is not the topic that records were copied to.
    """
    target = find_topic(kafka, plan.target.topic)
    if target is None or (plan.target.topic_id and plan.target.topic_id != target.topic_id):
        raise RefusedError(
            f"target topic {plan.target.topic} of the copy was deleted or recreated",
            hint="create a new plan with a new target",
        )
    found = kafka.read_log_offsets(target.spots, at=OffsetSpec.LATEST).require_complete(what="the end offsets")
    ends = {spot[1]: stamp.offset for spot, stamp in found.items() if stamp is not None}
    progress.check_target(ends)
    return find_aborted(progress.records, ends=ends)


def check_topic(admin: TopicAdmin, end: TopicEnd, *, role: str) -> None:
    """Refuse a topic that is missing, was recreated or has another number of partitions.

    `role` is "source" or "target". The topic ID is not compared if the topic didn't exist when the plan was made.
    """
    reading = admin.read_topics([end.topic])
    for error in reading.failures.values():
        if not isinstance(error, NotFoundError):
            raise error
    if not reading.items:
        raise NotFoundError(
            f"{role} topic {end.topic} of the copy does not exist",
            hint="create it with the configs of the plan" if role == "target" else "check the brokers and the name",
        )
    found = reading.items[0]
    if end.topic_id and found.topic_id != end.topic_id:
        raise RefusedError(
            f"{role} topic {end.topic} of the copy was recreated after the plan was created",
            cause=f"its topic ID is {found.topic_id}, and the plan has {end.topic_id}",
            hint="create a new plan with a new target: the offsets belong to other records now",
        )
    if len(found.partitions) != end.partitions:
        raise RefusedError(
            f"topic {end.topic} has {len(found.partitions)} partitions, and the plan is for {end.partitions}",
            cause=f"partitions were added to the {role}, which changes the partition of keys",
            hint="create a new plan with a new target",
        )
