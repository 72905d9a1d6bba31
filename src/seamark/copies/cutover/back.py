"""The plan of the second copy of a cut-over in place: back to a topic of the old name, partition by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.copies.plan.copy_plan import CopyPlan, TopicEnd
from seamark.copies.plan.cutting import cut_slices
from seamark.copies.plan.slicing import choose_limits
from seamark.copies.plan.source import find_topic, read_stable_bounds
from seamark.errors import RefusedError
from seamark.kafka_sink.routing import Routing, Rule
from seamark.spark.slices import OffsetRange

if TYPE_CHECKING:
    from seamark.kafka.api import BrokersPort


def plan_back(first: CopyPlan, *, id: str, kafka: BrokersPort) -> CopyPlan:  # noqa: A002 - as the plan calls it
    """The plan from the target of a copy to the topic that has the name of its source now.

    Its slices are cut by counts alone: each partition has one source, so nothing disturbs the order.

    Raises:
        RefusedError: that topic is still the source, or is not there, or has another shape.
    """
    source, target = find_topic(kafka, first.target.topic), find_topic(kafka, first.source.topic)
    if source is None or target is None:
        gone = first.target.topic if source is None else first.source.topic
        raise RefusedError(f"the topic {gone} is not there; nothing can be copied back")
    if target.topic_id == first.source.topic_id or len(target.partitions) != first.target.partitions:
        raise RefusedError(
            f"the topic {target.name} was not made anew with {first.target.partitions} partitions",
            hint="seamark journal show says how far the cut-over is",
        )
    count = first.target.partitions
    bounds = read_stable_bounds(kafka, source)
    ranges = tuple(OffsetRange(number, found.earliest, found.latest) for number, found in sorted(bounds.items()))
    limits = choose_limits(ranges, targets=count, size_bytes=None, slice_records=None)
    ends = [
        TopicEnd(first.source.cluster_id, one.name, one.topic_id, count, one.replication_factor)
        for one in (source, target)
    ]
    return CopyPlan(
        id=id,
        made_at=first.made_at,
        source=ends[0],
        target=ends[1],
        routing=Routing(Rule.PARTITION, count, count),
        evidence="each partition to the one of its number",
        ranges=ranges,
        slices=cut_slices(ranges, {}, limits=limits),
        configs=(),
    )
