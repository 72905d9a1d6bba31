"""The plan of a copy: a frozen value with everything that a run does. It can be printed, saved and refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from seamark.copies.plan.target_configs import ConfigChoice, TargetBrokers, choose_configs
from seamark.core import strict_json as strict
from seamark.core.strict_json import StoredFormat, check_format
from seamark.errors import RefusedError, UsageError
from seamark.kafka.model import TopicConfig
from seamark.kafka_sink.control import CONTROL_TOPIC
from seamark.kafka_sink.routing import Partitioner, Placement, Probe, Routing, suggest_routing
from seamark.spark.slices import OffsetRange, Slice, check_cover

FORMAT = StoredFormat("copy plan", 1)

_KEYS = (
    "format_version", "id", "made_at", "source", "target", "routing", "evidence",
    "ranges", "slices", "configs", "notes", "refusals",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicEnd:
    """One end of a copy. `topic_id` identifies a topic among those of the same name; "" if it doesn't exist yet."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int
    replication_factor: int

    def to_dict(self) -> dict[str, Any]:
        """Return the topic as JSON has it."""
        return {
            "cluster_id": self.cluster_id,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
        }

    @classmethod
    def from_dict(cls, data: object) -> TopicEnd:
        """Parse the result of `to_dict`."""
        keys = ("cluster_id", "topic", "topic_id", "partitions", "replication_factor")
        fields = strict.read_object(data, keys=keys, what="a topic of the plan")
        return cls(
            cluster_id=strict.read_text(fields["cluster_id"], what="the cluster of a topic"),
            topic=strict.read_text(fields["topic"], what="the name of a topic"),
            topic_id=strict.read_text(fields["topic_id"], what="the ID of a topic"),
            partitions=strict.read_count(fields["partitions"], what="the partitions of a topic"),
            replication_factor=strict.read_count(
                fields["replication_factor"], what="the replication factor of a topic"
            ),
        )


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What is copied, where to, and how.

    `ranges` are the offsets of the source, resolved once: a run never asks for "latest". `routing` is None only in a
    plan that is refused. `evidence` describes how the routing was determined. `notes` are for the reader; `refusals`
    are the reasons why the plan can't be run.
    """

    id: str
    made_at: str
    source: TopicEnd
    target: TopicEnd
    routing: Routing | None
    evidence: str
    ranges: tuple[OffsetRange, ...]
    slices: tuple[Slice, ...]
    configs: tuple[ConfigChoice, ...]
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a plan whose parts contradict each other."""
        shape = (self.source.partitions, self.target.partitions)
        if self.routing and (self.routing.sources, self.routing.targets) != shape:
            raise UsageError(f"the routing does not match {shape[0]} source and {shape[1]} target partitions")
        check_cover(self.ranges, self.slices)

    @property
    def is_refused(self) -> bool:
        """Whether the plan can't be run."""
        return bool(self.refusals)

    @property
    def is_one_cluster(self) -> bool:
        """Whether both ends are in the same Kafka cluster."""
        return bool(self.source.cluster_id) and self.source.cluster_id == self.target.cluster_id

    @property
    def size(self) -> int:
        """How many offsets are copied, an upper bound for the number of records."""
        return sum(one.size for one in self.ranges)

    def require_accepted(self) -> Routing:
        """Return the routing of a plan that can be run.

        Raises:
            RefusedError: the plan can't be run. The cause lists every reason.
        """
        if self.refusals or self.routing is None:
            raise RefusedError(
                f"{self.source.topic} can't be copied to {self.target.topic}",
                cause="; ".join(self.refusals) or "the partitioner is unknown",
                hint="correct the causes and create a new plan",
            )
        return self.routing

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON has it, with its format version and a checksum that detects later changes."""
        body: dict[str, Any] = {
            **FORMAT.field,
            "id": self.id,
            "made_at": self.made_at,
            "source": self.source.to_dict(),
            "target": self.target.to_dict(),
            "routing": self.routing.to_dict() if self.routing else None,
            "evidence": self.evidence,
            "ranges": [one.to_list() for one in self.ranges],
            "slices": [one.to_dict() for one in self.slices],
            "configs": [one.to_list() for one in self.configs],
            "notes": list(self.notes),
            "refusals": list(self.refusals),
        }
        return {**body, "sha256": _sum(body)}

    @classmethod
    def from_dict(cls, data: object, *, where: str = "the plan of a copy") -> CopyPlan:
        """Parse the result of `to_dict`. `where` is the location of the plan, for errors.

        Raises:
            UsageError: the format version is unknown, or the plan was changed by hand.
        """
        check_format(FORMAT, data, where=where)
        fields = strict.read_object(data, keys=(*_KEYS, "sha256"), what="a plan of a copy")
        if fields["sha256"] != _sum({key: fields[key] for key in _KEYS}):
            raise UsageError("this copy plan was changed after it was written", hint="create a new plan")
        return cls(
            id=strict.read_text(fields["id"], what="the ID of a plan"),
            made_at=strict.read_text(fields["made_at"], what="made_at of a plan"),
            source=TopicEnd.from_dict(fields["source"]),
            target=TopicEnd.from_dict(fields["target"]),
            routing=None if fields["routing"] is None else Routing.from_dict(fields["routing"]),
            evidence=strict.read_text(fields["evidence"], what="the evidence of a plan"),
            ranges=tuple(map(OffsetRange.from_list, strict.read_list(fields["ranges"], what="the ranges of a plan"))),
            slices=tuple(map(Slice.from_dict, strict.read_list(fields["slices"], what="the slices of a plan"))),
            configs=tuple(
                map(ConfigChoice.from_list, strict.read_list(fields["configs"], what="the configs of a plan"))
            ),
            notes=strict.read_texts(fields["notes"], what="the notes of a plan"),
            refusals=strict.read_texts(fields["refusals"], what="the refusals of a plan"),
        )


def dump_plan(plan: CopyPlan) -> str:
    """Return the plan as the text of a file."""
    return json.dumps(plan.to_dict(), indent=1, ensure_ascii=False) + "\n"


def load_plan(text: str | bytes) -> CopyPlan:
    """Parse the result of `dump_plan`."""
    return CopyPlan.from_dict(strict.read_json(text, what="a plan of a copy"))


def _sum(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def build_copy_name(plan: str, control_topic: str) -> str:
    """Return the name by which steps refer to a copy: `PLAN`, or `PLAN@CONTROL_TOPIC` for another control topic."""
    return plan if control_topic == CONTROL_TOPIC else f"{plan}@{control_topic}"


def parse_copy_name(copy: str) -> tuple[str, str]:
    """Return the plan ID and the control topic of a copy from the name that steps use."""
    plan, _, control_topic = copy.partition("@")
    return plan, control_topic or CONTROL_TOPIC


def build_back_name(copy: str) -> str:
    """Return the name of the copy from the target back to the recreated source."""
    plan, at, control_topic = copy.partition("@")
    return f"{plan}-back{at}{control_topic}"


# Within a slice the records of one source partition come after those of another, so the time order of the target is
# disturbed by as much time as a slice spans. For this reason slices are cut at points in time, and not at offsets.

CommitOffsets = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TimeMark:
    """The answer of the brokers for a point in time: the first record with that timestamp or later is at `offset`.

    None means that there is no such record.
    """

    time_ms: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum size of slices. A slice exceeds `offsets` by less than the number of partitions.

    A slice spans at most `widest_ms`, or one step between two marks if that is longer.
    """

    offsets: int
    widest_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse slices without offsets."""
        if self.offsets < 1:
            raise UsageError(f"invalid number of offsets per slice {self.offsets}: expected 1 or more")


@dataclass(frozen=True, slots=True)
class _Cut:
    """A point in time, and its offset in each partition. The first and the last cut have no time."""

    time_ms: int | None
    offsets: CommitOffsets


def choose_times(first_ms: int, last_ms: int, *, count: int) -> tuple[int, ...]:
    """Return `count` points in time at equal distances, to request their offsets. Slices consist of these steps."""
    if count < 1 or first_ms >= last_ms:
        return ()
    span = last_ms - first_ms
    return tuple(sorted({first_ms + span * step // (count + 1) for step in range(1, count + 1)} - {first_ms}))


def cut_slices(
    ranges: Sequence[OffsetRange],
    index: Mapping[int, Sequence[TimeMark]],
    *,
    limits: Limits,
    first_number: int = 0,
) -> tuple[Slice, ...]:
    """Cut ranges, one per partition, into slices. Each offset is in exactly one slice, whatever the timestamps are.

    `first_number` is for records that arrived later: the next round continues the numbers of the previous slices.
    """
    known = {one.partition for one in ranges}
    if len(known) != len(ranges):
        raise UsageError("a partition has several ranges, expected one")
    ordered = sorted(ranges, key=lambda one: one.partition)
    pieces = _cut(_place_cuts(ordered, index), limits)
    slices: list[Slice] = []
    for before, after in pieces:
        taken = tuple(
            OffsetRange(one.partition, begin, end)
            for one, begin, end in zip(ordered, before.offsets, after.offsets, strict=True)
            if begin < end
        )
        if taken:
            number = first_number + len(slices)
            slices.append(Slice(number, taken, from_ms=before.time_ms, until_ms=after.time_ms))
    check_cover(ranges, slices)
    return tuple(slices)


def _place_cuts(ranges: Sequence[OffsetRange], index: Mapping[int, Sequence[TimeMark]]) -> list[_Cut]:
    """Return every point in time of the index as a vector of offsets, between the beginnings and the ends."""
    times = sorted({mark.time_ms for one in ranges for mark in index.get(one.partition, ())})
    columns = [_place(one, index.get(one.partition, ()), times) for one in ranges]
    first = _Cut(None, tuple(one.begin for one in ranges))
    last = _Cut(None, tuple(one.end for one in ranges))
    inner = [_Cut(time, tuple(column[row] for column in columns)) for row, time in enumerate(times)]
    return [first, *inner, last]


def _place(whole: OffsetRange, marks: Sequence[TimeMark], times: Sequence[int]) -> list[int]:
    """Return the offset of each point in time in one partition.

    A partition without a mark at that time uses the previous one: the records before it are earlier still. Offsets
    never decrease, even if the answers do, as those of a changing log may; so no offset is lost or used twice.
    """
    answers: dict[int, int] = {}
    for mark in marks:
        offset = whole.end if mark.offset is None else mark.offset
        answers[mark.time_ms] = min(offset, answers.get(mark.time_ms, offset))
    reached = whole.begin
    column = []
    for time in times:
        reached = max(reached, min(answers.get(time, reached), whole.end))
        column.append(reached)
    return column


def _cut(cuts: Sequence[_Cut], limits: Limits) -> Iterator[tuple[_Cut, _Cut]]:
    """Join steps until a slice would be too large or too wide, and split a single step that is too large."""
    start = reached = cuts[0]
    for cut in cuts[1:]:
        if reached is not start and _is_beyond(start, cut, limits):
            yield from _split(start, reached, limits)
            start = reached
        reached = cut
    yield from _split(start, reached, limits)


def _is_beyond(start: _Cut, cut: _Cut, limits: Limits) -> bool:
    wide = limits.widest_ms is not None and (
        start.time_ms is None or cut.time_ms is None or cut.time_ms - start.time_ms > limits.widest_ms
    )
    return wide or _size(start, cut) > limits.offsets


def _split(start: _Cut, end: _Cut, limits: Limits) -> Iterator[tuple[_Cut, _Cut]]:
    """Return equal shares of every partition, each with the same time bounds."""
    parts = max(1, -(-_size(start, end) // limits.offsets))
    spans = [(begin, last - begin) for begin, last in zip(start.offsets, end.offsets, strict=True)]
    rows = [tuple(begin + span * part // parts for begin, span in spans) for part in range(parts + 1)]
    for before, after in pairwise(rows):
        yield _Cut(start.time_ms, before), _Cut(end.time_ms, after)


def _size(start: _Cut, end: _Cut) -> int:
    return sum(end.offsets) - sum(start.offsets)


TimeIndex = Mapping[int, Sequence[TimeMark]]

# Kafka assigns these values when a record is written.
_NOT_COPIED = "offsets, leader epochs, producer IDs and transaction boundaries are not copied"


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """What is requested, and what was read at both ends.

    `rule` is the partitioner that the user chose; without it the probe decides. `target_offsets` is how many offsets
    the target has already, None if the topic doesn't exist.
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
    rule: Partitioner | None = None
    target_offsets: int | None = None


def plan_copy(request: CopyRequest) -> CopyPlan:
    """Build the plan. A plan that must not be run contains its refusals."""
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
    """Return the plan extended by the records that arrived since: its slices stay, and more follow."""
    known = {one.partition for one in plan.ranges}
    if set(ends) != known or any(ends[one.partition] < one.end for one in plan.ranges):
        raise UsageError("the partitions of the source have changed, or end earlier than before")
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
    # The user's choice determines where records go. Where they are now is known from samples only, which prove nothing.
    modulus = 0 if request.rule is Partitioner.PARTITION else 1
    return Routing(request.rule, request.source.partitions, targets=targets, modulus=modulus)


def _note(request: CopyRequest, routing: Routing | None) -> Iterator[str]:
    if request.probe.placement is Placement.GROWN:
        yield (
            f"the source had {request.probe.grown_from} partitions before: records of one key are in two partitions, "
            "and their order is not known"
        )
    elif request.rule and request.probe.placement.value not in {request.rule.value, Placement.KEYLESS.value}:
        yield f"records are placed by {request.rule} as requested; the samples do not confirm it"
    if routing and routing.modulus == 1 < routing.sources:
        yield "records are shuffled, because any source partition may feed any target partition"
    if request.probe.keyless:
        yield "records without a key of partition p are copied to partition p modulo the number of target partitions"
    if not any(one.size for one in request.ranges):
        yield "the source is empty"
    if request.target_offsets == 0:
        yield "the target exists and is empty: its configs are changed as shown"


def _refuse(request: CopyRequest, routing: Routing | None) -> Iterator[str]:
    source, target = request.source, request.target
    if routing is None:
        yield f"the partitioner of the source is unknown: {request.probe.words}; set it with --partitioner"
    if (source.cluster_id, source.topic) == (target.cluster_id, target.topic):
        yield "source and target are the same topic"
    for end in (source, target):
        if end.topic.startswith("__"):
            yield f"{end.topic} is an internal topic of Kafka"
    if {one.partition for one in request.ranges} != set(range(source.partitions)):
        yield "the bounds of some source partitions could not be read"
    if request.target_offsets:
        yield f"the target has {request.target_offsets} offsets already: it must be new or empty"


@dataclass(frozen=True, slots=True)
class SliceTask:
    """One writer of a slice: the source partitions it reads, and the target partitions that it alone writes."""

    number: int
    sources: tuple[int, ...]
    targets: tuple[int, ...]


def build_tasks(routing: Routing) -> tuple[SliceTask, ...]:
    """Build the tasks of every slice of a copy.

    If each target has one source, a task owns a source partition and writes to all its targets, without a shuffle.
    Otherwise a task owns a target and reads from all its sources. In both cases one task writes a target, the same in
    all slices. So one transactional ID writes it, and a new transaction waits until the markers of the previous one are
    written.
    """
    if routing.needs_shuffle:
        return tuple(
            SliceTask(target, routing.sources_of(target), targets=(target,)) for target in range(routing.targets)
        )
    return tuple(SliceTask(source, (source,), targets=routing.targets_of(source)) for source in range(routing.sources))
