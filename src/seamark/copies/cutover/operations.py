"""The operations on a copy that the steps of a cutover call: copy, verify, translate offsets, fence pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from seamark.copies.cutover.translation import CopyMap, Missing, TranslatedGroup, Translation, build_map, translate_all
from seamark.copies.plan.endpoints import build_ends, find_topic, read_stable_bounds
from seamark.copies.plan.plan import CopyPlan, TopicEnd, build_back_name, cut_slices, parse_copy_name
from seamark.copies.plan.planner import choose_limits
from seamark.copies.plan.progress import AbortedRecords, CopyProgress, find_aborted, list_ahead, read_progress
from seamark.copies.plan.registry import check_readable, find_plan, register
from seamark.copies.run.runner import CopyEvents, CopyRunner, CopyRunOptions, SilentCopyEvents
from seamark.copies.verify.report import describe_verification, verify
from seamark.core.refs import is_pipeline
from seamark.errors import RefusedError, UsageError
from seamark.kafka_sink.control import CONTROL_TOPIC
from seamark.kafka_sink.routing import Partitioner, Routing
from seamark.offsets.stores.ledger import fence_ledger, read_epochs
from seamark.spark.settings import SparkOptions, build_copy_work, open_spark
from seamark.spark.slices import OffsetRange

if TYPE_CHECKING:
    from seamark.copies.plan.endpoints import CopyEndpoint, CopyEndpoints
    from seamark.copies.plan.progress import Answers, Question
    from seamark.kafka.api import BrokersPort
    from seamark.kafka.model import LogOffsets


def plan_back(first: CopyPlan, *, id: str, kafka: BrokersPort) -> CopyPlan:  # noqa: A002 - as the plan calls it
    """Build the plan from the target of a copy to the topic that now has the name of its source.

    Its slices are cut by counts alone: each partition has one source, so the order is kept.

    Raises:
        RefusedError: that topic is still the source, or doesn't exist, or has another number of partitions.
    """
    source, target = find_topic(kafka, first.target.topic), find_topic(kafka, first.source.topic)
    if source is None or target is None:
        gone = first.target.topic if source is None else first.source.topic
        raise RefusedError(f"can't copy back: topic {gone} does not exist")
    if target.topic_id == first.source.topic_id or len(target.partitions) != first.target.partitions:
        raise RefusedError(
            f"topic {target.name} was not recreated with {first.target.partitions} partitions",
            hint="check the cutover: seamark journal list, then seamark journal show CHANGE",
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
        routing=Routing(Partitioner.PARTITION, count, count),
        evidence="each partition is copied to the partition of the same number",
        ranges=ranges,
        slices=cut_slices(ranges, {}, limits=limits),
        configs=(),
    )


Positions = dict[int, int]


class CutoverOperations:
    """The copies between two endpoints, as steps use them. Steps name a copy as `build_copy_name` does.

    All operations share one Spark session. It is opened when it is first needed and closed by `close`: while connectors
    are stopped, a second start of Spark would prolong the outage.
    """

    def __init__(
        self,
        endpoints: CopyEndpoints,
        *,
        spark: SparkOptions | None = None,
        events: CopyEvents | None = None,
        is_recounting: bool = True,
    ) -> None:
        """Without `is_recounting`, translations start no Spark, and their numbers may be bounds."""
        self._endpoints = endpoints
        self._spark = spark or SparkOptions()
        self._events = events or SilentCopyEvents()
        self._is_recounting = is_recounting
        self._open = ExitStack()
        self._session: SparkOptions | None = None
        # Translations of groups whose offsets have not changed since: a recount is a job of its own.
        self._answers: dict[object, Mapping[str, Translation]] = {}

    def close(self) -> None:
        """Close the Spark session, if one was opened here."""
        self._session = None
        self._open.close()

    def approach(self, copy: str) -> str:
        """Copy what is in the source so far, while producers write to it; return a short report.

        It ends when little is left, so that it doesn't follow the producers forever.
        """
        return self._run(copy, CopyRunOptions(follow=True))

    def catch_up(self, copy: str) -> str:
        """Copy all that the source holds now; return a short report. If repeated, it does nothing.

        Raises:
            SeamarkError: it was interrupted. The next call continues from there.
        """
        return self._run(copy, CopyRunOptions(follow=True, lag=0))

    def _run(self, copy: str, options: CopyRunOptions) -> str:
        plan, control_topic = parse_copy_name(copy)
        runner = CopyRunner(self._endpoints, control_topic=control_topic, events=self._events)
        outcome = runner.run(plan, options, self._get_spark(plan))
        return f"{outcome.written:,} records copied" if outcome.written else "everything was copied already"

    def begin_back(self, copy: str) -> str:
        """Register the copy from the target to the recreated source; return a short report. It can be repeated.

        Raises:
            RefusedError: the source was not recreated, its partitions are not the target's, or the copy is not
                complete.
        """
        name, control_topic = parse_copy_name(copy)
        plan, progress = self.read(copy)
        if not progress.is_complete:
            raise RefusedError(f"can't copy back: copy {name} is not finished")
        target = self._endpoints.target
        made = plan_back(plan, id=build_back_name(name), kafka=target.kafka)
        check_readable(target.logs.read_registered(control_topic), made.id)
        hold = target.logs.hold(control_topic, plan=made.id)
        try:
            if hold.read() is None:
                register(hold, made, former=None, actor=self._endpoints.source.actor)
        finally:
            hold.close()
        return f"planned as {made.id}"

    def verify(self, copy: str, level: str) -> str:
        """Compare source and target; return a short report.

        Raises:
            RefusedError: they differ. The cause says where.
        """
        plan, control_topic = parse_copy_name(copy)
        report = verify(
            self._endpoints,
            plan,
            level=level,
            spark=self._get_spark(plan),
            control_topic=control_topic,
            on_stage=self._events.said,
        )
        if not report.is_passed:
            raise RefusedError(
                "source and target differ; no consumer or producer was switched",
                cause="; ".join(line.strip() for line in describe_verification(report)[2:]),
                hint=f"find the differences: seamark copies verify {plan} --level full",
            )
        return (
            f"{report.compared.target_records:,} records compared" if level != "quick" else "control records compared"
        )

    def read(self, copy: str) -> tuple[CopyPlan, CopyProgress]:
        """Return the registered plan of a copy, and its progress."""
        name, control_topic = parse_copy_name(copy)
        logs = self._endpoints.target.logs
        plan = find_plan(logs, control_topic, name).plan
        records = logs.read_records(control_topic, jobs=[plan.id])[plan.id]
        return plan, read_progress(plan.id, plan.slices, records)

    def count_left(self, copy: str) -> int:
        """Return how many offsets of the source come after the copied ones, including those of open transactions."""
        plan, progress = self.read(copy)
        ends = _read_latest(self._endpoints.source, plan.source)
        return sum(max(0, ends[one.partition] - one.end) for one in progress.cover(plan.ranges))

    def list_left(self, copy: str) -> Mapping[int, int]:
        """Return how many remaining offsets of the source come after the copied ones, by partition, without zeros."""
        plan, progress = self.read(copy)
        bounds = _read_all_bounds(self._endpoints.source, plan.source.topic)
        reached = {one.partition: one.end for one in progress.cover(plan.ranges)}
        # Nothing was copied from a partition that was added later.
        left = {at: found.latest - max(found.earliest, reached.get(at, 0)) for at, found in bounds.items()}
        return {partition: count for partition, count in sorted(left.items()) if count > 0}

    def read_target_ends(self, copy: str) -> Mapping[int, int]:
        """Return the end offset of each partition of the target."""
        plan, _ = self.read(copy)
        return _read_latest(self._endpoints.target, plan.target)

    def shut_out(self, owner: str, topic: str) -> Mapping[int, int]:
        """Fence the runs of a pipeline: its offsets stay, and a run can't commit to them any more.

        Return the epoch of each partition, which changes when a run takes the partition or moves its offset.
        """
        return fence_ledger(self._endpoints.source.kafka, owner, topic)

    def read_epochs(self, owner: str, topic: str) -> Mapping[int, int]:
        """Return the epochs of a pipeline's partitions, and fence no run."""
        return read_epochs(self._endpoints.source.kafka, owner, topic)

    def translate(self, copy: str, groups: Sequence[str], *, missing: str) -> Mapping[str, TranslatedGroup]:
        """Return the offsets in the target for groups whose offsets don't change meanwhile.

        `missing` is `earliest`, `latest` or "".

        Raises:
            RefusedError: a group is ahead of the copy, or it has no offset in a partition and `missing` is "".
        """
        plan, progress = self.read(copy)
        ends = _read_latest(self._endpoints.target, plan.target)
        copied = build_map(
            progress, plan.ranges, targets=plan.target.partitions, ends=ends if progress.is_complete else None
        )
        readers = self._read_positions(plan, copied, groups)
        found = self._translate(plan, progress, copied, readers, missing=missing)
        aborted = find_aborted(progress.records, ends=ends)
        return {group: _build_carried(translation, aborted) for group, translation in found.items()}

    def recount(self, plan: CopyPlan, questions: Sequence[Question]) -> Answers:
        """Count records by reading parts of the source a second time, in one Spark job."""
        from seamark.copies.verify.spark_match import SparkRecounter  # noqa: PLC0415

        with open_spark(self._get_spark(plan.id), build_copy_work(plan.id)) as session:
            ends = build_ends(self._endpoints, control_topic=CONTROL_TOPIC)
            return SparkRecounter(session, plan, ends).recount(questions)

    def _get_spark(self, plan: str) -> SparkOptions:
        """Return options with the shared session."""
        if self._session is None:
            session = self._spark.session
            if session is None:
                session = self._open.enter_context(open_spark(self._spark, build_copy_work(plan)))
            self._session = replace(self._spark, session=session)
        return self._session

    def _translate(
        self, plan: CopyPlan, progress: CopyProgress, copied: CopyMap, readers: Mapping[str, Positions], *, missing: str
    ) -> Mapping[str, Translation]:
        known = (plan.id, progress.done, missing, tuple((name, tuple(at.items())) for name, at in readers.items()))
        if known not in self._answers:
            is_recounting = self._is_recounting and progress.is_complete
            self._answers[known] = translate_all(
                copied,
                readers,
                recount=partial(self.recount, plan) if is_recounting else None,
                missing=_parse_missing(missing),
                allow_behind=self._is_gone(plan, copied, readers),
            )
        return self._answers[known]

    def _read_positions(self, plan: CopyPlan, copied: CopyMap, groups: Sequence[str]) -> dict[str, Positions]:
        spots = [(plan.source.topic, partition) for partition in range(plan.source.partitions)]
        reading = self._endpoints.source.kafka.read_committed(dict.fromkeys(groups, spots), only_stable=True)
        reading.require_complete(what="the committed offsets of the consumers")
        held = {one.group: {spot[1]: commit.offset for spot, commit in one.offsets.items()} for one in reading.items}
        # In a partition that never held a record of the copy, every offset is equivalent, even no offset.
        empty = {partition: whole.begin for partition, whole in copied.covered.items() if not whole.size}
        # A pipeline commits an offset for every partition when it starts. It reads a partition added later from its
        # beginning.
        begins = {partition: whole.begin for partition, whole in copied.covered.items()}
        return {group: {**(begins if is_pipeline(group) else empty), **held.get(group, {})} for group in groups}

    def _is_gone(self, plan: CopyPlan, copied: CopyMap, readers: Mapping[str, Positions]) -> bool:
        """Return whether the unread records before the beginning of the copy are deleted from the source, too."""
        late = {
            name: {partition for partition, at in positions.items() if at < _find_begin(copied, partition)}
            for name, positions in readers.items()
        }
        _refuse_lost(plan, [name for name, partitions in late.items() if partitions and is_pipeline(name)])
        behind = {partition for partitions in late.values() for partition in partitions}
        if not behind:
            return False
        bounds = _read_bounds(self._endpoints.source, plan.source)
        return all(bounds[partition].earliest >= copied.covered[partition].begin for partition in behind)


def _find_begin(copied: CopyMap, partition: int) -> int:
    return copied.covered[partition].begin if partition in copied.covered else 0


def _refuse_lost(plan: CopyPlan, landings: Sequence[str]) -> None:
    """Refuse to skip records that a pipeline has not written. Its own run asks its owner for consent, too."""
    if landings:
        raise RefusedError(
            f"{', '.join(landings)} has not processed all records before the start of the copy of {plan.source.topic}",
            cause="records before the start of the copy are not in the target",
            hint="run the pipeline until it has no lag; or, if the records are already deleted, accept the loss: "
            f"seamark offsets move {landings[0]} --to earliest",
        )


def _read_bounds(endpoint: CopyEndpoint, end: TopicEnd) -> Mapping[int, LogOffsets]:
    spots = [(end.topic, partition) for partition in range(end.partitions)]
    found = endpoint.kafka.read_bounds(spots).require_complete(what=f"the bounds of {end.topic}")
    return {spot[1]: bounds for spot, bounds in found.items()}


def _read_all_bounds(endpoint: CopyEndpoint, topic: str) -> Mapping[int, LogOffsets]:
    """Return the bounds of every partition that the topic has now."""
    status = find_topic(endpoint.kafka, topic)
    found = endpoint.kafka.read_bounds(status.spots if status else ()).require_complete(what=f"the bounds of {topic}")
    return {spot[1]: bounds for spot, bounds in found.items()}


def _read_latest(endpoint: CopyEndpoint, end: TopicEnd) -> dict[int, int]:
    return {partition: found.latest for partition, found in _read_bounds(endpoint, end).items()}


def _parse_missing(text: str) -> Missing | None:
    try:
        return Missing(text) if text else None
    except ValueError:
        raise UsageError(f"invalid value {text!r} for --default-offset", hint="use earliest or latest") from None


def _build_carried(translation: Translation, aborted: Sequence[AbortedRecords]) -> TranslatedGroup:
    replayed = translation.replayed
    ahead = list_ahead(aborted, translation.offsets)
    return TranslatedGroup(
        translation.offsets,
        to_read=translation.to_read,
        replayed_least=replayed.least,
        replayed_most=replayed.most,
        aborted=sum(one.size for one in ahead),
    )
