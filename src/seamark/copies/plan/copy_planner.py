"""Making the plan of a copy from what was read of both ends. Every reason against it is told, not only the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from seamark.copies.plan.copy_plan import CopyPlan, TopicEnd
from seamark.copies.plan.cutting import Limits, TimeMark, cut_slices
from seamark.copies.plan.target_configs import TargetBrokers, choose_configs
from seamark.errors import UsageError
from seamark.kafka.topic import TopicConfig
from seamark.kafka_sink.probe import Placement, Probe, suggest_routing
from seamark.kafka_sink.routing import Routing, Rule
from seamark.spark.slices import OffsetRange

TimeIndex = Mapping[int, Sequence[TimeMark]]

# What Kafka gives to a record anew wherever it is written.
_NOT_COPIED = "offsets, leader epochs, producer ids and the bounds of transactions are not copied"


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """What is wanted, and what was read of both ends.

    `rule` is a person's word for how records are to be placed; without it the probe decides. `target_offsets` is how
    many offsets the target has already; None where there is no such topic.
    """

    id: str
    made_at: str
    source: TopicEnd
    target: TopicEnd
    probe: Probe
    ranges: tuple[OffsetRange, ...]
    source_configs: Mapping[str, TopicConfig]
    around: TargetBrokers
    limits: Limits
    index: TimeIndex = field(default_factory=dict)
    rule: Rule | None = None
    target_offsets: int | None = None


def plan_copy(request: CopyRequest) -> CopyPlan:
    """The plan; one that must not be run says why."""
    routing = _choose_routing(request)
    chosen = choose_configs(
        request.source_configs, request.around, replication_factor=request.target.replication_factor
    )
    return CopyPlan(
        id=request.id,
        made_at=request.made_at,
        source=request.source,
        target=request.target,
        routing=routing,
        evidence=request.probe.words,
        ranges=request.ranges,
        slices=cut_slices(request.ranges, request.index, limits=request.limits),
        configs=chosen.choices,
        notes=(*_note(request, routing), *chosen.notes, _NOT_COPIED),
        refusals=(*_refuse(request, routing), *chosen.refusals),
    )


def extend_plan(plan: CopyPlan, ends: Mapping[int, int], index: TimeIndex, *, limits: Limits) -> CopyPlan:
    """The same plan with what has come to the source since: its slices stay, and more follow."""
    known = {one.partition for one in plan.ranges}
    if set(ends) != known or any(ends[one.partition] < one.end for one in plan.ranges):
        raise UsageError("the source of a copy has other partitions than before, or ends before it did")
    later = tuple(OffsetRange(one.partition, one.end, ends[one.partition]) for one in plan.ranges)
    added = cut_slices(later, index, limits=limits, first_number=len(plan.slices))
    ranges = tuple(OffsetRange(one.partition, one.begin, ends[one.partition]) for one in plan.ranges)
    return replace(plan, ranges=ranges, slices=plan.slices + added)


def _choose_routing(request: CopyRequest) -> Routing | None:
    targets = request.target.partitions
    suggested = suggest_routing(request.probe, targets=targets)
    if request.rule is None:
        return suggested
    if suggested is not None and suggested.rule is request.rule:
        return suggested
    # A person's word says where records shall go. Where they lie is known from samples only, and these prove nothing.
    modulus = 0 if request.rule is Rule.PARTITION else 1
    return Routing(request.rule, request.source.partitions, targets=targets, modulus=modulus)


def _note(request: CopyRequest, routing: Routing | None) -> Iterator[str]:
    if request.probe.placement is Placement.GROWN:
        yield (
            f"the source has grown from {request.probe.grown_from} partitions: keys lie in two of them, and the order "
            "between those was lost then"
        )
    elif request.rule and request.probe.placement.value not in {request.rule.value, Placement.KEYLESS.value}:
        yield f"records are placed by {request.rule} as was asked, which the samples do not prove"
    if routing and routing.modulus == 1 < routing.sources:
        yield "any source partition may feed any target, so records are shuffled"
    if request.probe.keyless:
        yield "records without a key stay together: those of partition p go to p modulo the partitions of the target"
    if not any(one.size for one in request.ranges):
        yield "the source is empty"
    if request.target_offsets == 0:
        yield "the target is there already, and empty: its configs are changed as below"


def _refuse(request: CopyRequest, routing: Routing | None) -> Iterator[str]:
    source, target = request.source, request.target
    if routing is None:
        yield f"it is not known how records are to be placed: {request.probe.words}; say it with a rule"
    if (source.cluster_id, source.topic) == (target.cluster_id, target.topic):
        yield "source and target are the same topic"
    for end in (source, target):
        if end.topic.startswith("__"):
            yield f"{end.topic} is a topic of Kafka itself"
    if {one.partition for one in request.ranges} != set(range(source.partitions)):
        yield "the bounds of some source partitions could not be read"
    if request.target_offsets:
        yield f"the target holds {request.target_offsets} offsets already: it must be new or empty"
