"""Run a copy: create the target, register the plan, and copy its slices with Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from seamark.changes.permissions import build_access, check_permission
from seamark.changes.plan import PlannedChange
from seamark.copies.plan.checks import check_cluster, count_behind, find_target_aborted, read_ends
from seamark.copies.plan.endpoints import CopyEndpoint, CopyEndpoints, RegistrationLease, build_ends, find_topic
from seamark.copies.plan.plan import CopyPlan, Limits, extend_plan
from seamark.copies.plan.planner import choose_limits, read_time_index
from seamark.copies.plan.progress import CopyProgress, read_progress
from seamark.copies.plan.registrations import Registration
from seamark.copies.plan.registry import KnownPlan, PlanLike, find_plan, read_body, register
from seamark.errors import RefusedError, SeamarkError
from seamark.kafka.model import TopicStatus
from seamark.policy.permissions import Permission
from seamark.spark.settings import SparkOptions, build_copy_work, open_spark, require_spark
from seamark.spark.slices import OffsetRange, Slice
from seamark.topics.actions import AlterTopicConfig, CreateTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.copies.plan.endpoints import CopyEnds
    from seamark.copies.run.spark_copy import OnSlice


@dataclass(frozen=True, slots=True)
class CopyTick:
    """The progress of a run after a slice. `records` counts offsets, an upper bound for records."""

    done: int
    slices: int
    records: int
    all_records: int
    rate: float
    left_seconds: float | None


class CopyEvents(Protocol):
    """Receives the progress of a run."""

    def said(self, words: str) -> None:
        """Report a message for the user."""

    def ticked(self, tick: CopyTick) -> None:
        """Report that a slice is done."""


class SilentCopyEvents:
    """`CopyEvents` that shows nothing."""

    def said(self, words: str) -> None:
        """Ignore the message."""

    def ticked(self, tick: CopyTick) -> None:
        """Ignore the progress."""


@dataclass(slots=True)
class CopyPace:
    """Counts slices, reports them, and waits after each one if a limit requires it.

    `limit` is in records per second; None means no limit.
    """

    slices: tuple[Slice, ...]
    events: CopyEvents
    now: Callable[[], float]
    sleep: Callable[[float], None]
    limit: int | None = None
    began_at: float = 0.0
    written: int = 0
    _last: float = field(default=0.0)

    def begin(self) -> None:
        """Start the clock before the first slice."""
        self.began_at = self._last = self.now()

    def on_slice(self, part: Slice, done: int, slices: int) -> None:
        """Report a finished slice, and wait if it was faster than the limit."""
        self.written += part.size
        if self.limit is not None and done < slices:
            self.sleep(max(0.0, part.size / self.limit - (self.now() - self._last)))
        self._last = self.now()
        whole = sum(one.size for one in self.slices)
        reached = sum(one.size for one in self.slices[:done])
        seconds = max(self._last - self.began_at, 1e-9)
        rate = self.written / seconds
        self.events.ticked(
            CopyTick(done, slices, reached, whole, rate, left_seconds=(whole - reached) / rate if rate else None)
        )


class TargetTopic:
    """The target topic of one plan: read, checked and created."""

    def __init__(self, plan: CopyPlan, endpoint: CopyEndpoint) -> None:
        self._plan = plan
        self._endpoint = endpoint

    def ensure(self, *, is_begun: bool) -> CopyPlan:
        """Create the topic if it is missing, and return the plan with its topic ID.

        `is_begun` means that the plan was run before: a missing or recreated topic is then a loss.
        """
        target = self._plan.target
        found = find_topic(self._endpoint.kafka, target.topic)
        if is_begun:
            return self._check(found)
        if found is None:
            self._change(self._build_create())
            found = find_topic(self._endpoint.kafka, target.topic)
        elif (alter := self._build_alter(found)) is not None:
            self._change(alter)
        return self._check(found)

    def _check(self, found: TopicStatus | None) -> CopyPlan:
        target = self._plan.target
        if found is None:
            raise RefusedError(
                f"target topic {target.topic} of the copy was deleted",
                hint="create a new plan: the copied records were deleted with it",
            )
        if target.topic_id and found.topic_id != target.topic_id:
            raise RefusedError(
                f"target topic {target.topic} of the copy was recreated",
                cause=f"its topic ID is {found.topic_id}, and the plan has {target.topic_id}",
                hint="create a new plan with a new target",
            )
        if len(found.partitions) != target.partitions:
            raise RefusedError(
                f"topic {target.topic} has {len(found.partitions)} partitions, and the plan has {target.partitions}",
                hint="choose another name for the target: seamark copies plan --target NAME",
            )
        return replace(self._plan, target=replace(target, topic_id=found.topic_id))

    def _build_create(self) -> PlannedChange:
        target = self._plan.target
        configs = {choice.key: choice.value for choice in self._plan.configs}
        step = CreateTopic(target.topic, target.partitions, target.replication_factor, configs)
        return self._build(f"create topic {target.topic} for copy {self._plan.id}", step)

    def _build_alter(self, found: TopicStatus) -> PlannedChange | None:
        wanted = {choice.key: choice.value for choice in self._plan.configs}
        if all(found.own_configs.get(key) == value for key, value in wanted.items()):
            return None
        step = AlterTopicConfig(found.name, wanted)
        return self._build(f"update topic {found.name} for copy {self._plan.id}", step)

    def _build(self, title: str, step: CreateTopic | AlterTopicConfig) -> PlannedChange:
        return self._endpoint.planner().plan(title, [step])

    def _change(self, planned: PlannedChange) -> None:
        result = self._endpoint.apply(planned)
        if result.is_done:
            return
        failed = next((step.error for step in result.steps if step.error is not None), None)
        raise failed or SeamarkError(
            f"target topic {self._plan.target.topic} was not created",
            hint=f"find the cause with seamark journal show {result.change}, then run the copy again",
        )


@dataclass(frozen=True, slots=True)
class CopyRunOptions:
    """How to run a copy. `rate` is a limit in records per second.

    With `follow`, records that arrive in the source meanwhile are copied too, in rounds, until at most `lag` records
    are left.
    """

    rate: int | None = None
    follow: bool = False
    lag: int = 10_000


@dataclass(frozen=True, slots=True)
class CopyOutcome:
    """The result of a run. `rounds` counts those of `follow`; `behind` is how many offsets were left in the end."""

    plan: CopyPlan
    progress: CopyProgress
    written: int
    rounds: int = 0
    behind: int = 0

    @property
    def is_repeat(self) -> bool:
        """Whether there was nothing left to do."""
        return self.written == 0


class CopyRunner:
    """Runs plans on Spark, with their progress in one control topic."""

    def __init__(self, endpoints: CopyEndpoints, *, control_topic: str, events: CopyEvents) -> None:
        self._endpoints = endpoints
        self._control_topic = control_topic
        self._events = events

    def run(self, what: PlanLike | KnownPlan, options: CopyRunOptions, spark: SparkOptions) -> CopyOutcome:
        """Copy the rest of a plan, and with `options.follow` the records that arrive in the source meanwhile.

        Raises:
            PermissionDeniedError: the role doesn't allow running copies in one of the two contexts.
            FencedError: another process has taken over the plan.
            NotFoundError: there is no such plan.
            RefusedError: the plan can't be run, or its topics were recreated.
        """
        self._check_permission()
        require_spark()
        logs = self._endpoints.target.logs
        known = what if isinstance(what, KnownPlan) else find_plan(logs, self._control_topic, what)
        known.plan.require_accepted()
        check_cluster(known.plan, self._endpoints)
        # Control records of another format version are refused before the process that wrote them is fenced.
        logs.look_at_records(self._control_topic, jobs=[known.plan.id])
        hold = logs.hold(self._control_topic, plan=known.plan.id)
        try:
            plan, registration = self._register(known, hold)
            if (done := self._find_done(plan, options)) is not None:
                return done
            with open_spark(spark, build_copy_work(plan.id)) as session:
                return self._work(session, plan, registration, hold=hold, options=options)
        finally:
            hold.close()

    def _check_permission(self) -> None:
        contexts = (self._endpoints.source.context, self._endpoints.target.context)
        for context in {id(one): one for one in contexts}.values():
            check_permission(build_access(context), Permission.OPERATE, doing="run a topic copy")

    def _find_done(self, plan: CopyPlan, options: CopyRunOptions) -> CopyOutcome | None:
        """Return the outcome of a plan that is complete, without starting Spark; None if there is work left."""
        records = self._endpoints.target.logs.read_records(self._control_topic, jobs=[plan.id])[plan.id]
        progress = read_progress(plan.id, plan.slices, records)
        if not progress.is_complete:
            return None
        find_target_aborted(self._endpoints.target.kafka, plan, progress)
        behind = count_behind(plan, read_ends(self._endpoints.source.kafka, plan))
        is_enough = not options.follow or behind <= options.lag
        return CopyOutcome(plan, progress, written=0, behind=behind) if is_enough else None

    def _register(self, known: KnownPlan, hold: RegistrationLease) -> tuple[CopyPlan, Registration]:
        """Register the plan. The newest generation is known only now that no other driver can register it."""
        former = hold.read()
        plan = known.plan if former is None else read_body(former)
        made = TargetTopic(plan, self._endpoints.target).ensure(is_begun=former is not None)
        if former is not None and made == plan:
            return plan, former
        registration = register(hold, made, former=former, actor=self._endpoints.source.actor)
        self._events.said(f"registered as {plan.id} in {self._control_topic}: any machine can resume it")
        return made, registration

    def _work(
        self,
        spark: SparkSession,
        plan: CopyPlan,
        registration: Registration,
        *,
        hold: RegistrationLease,
        options: CopyRunOptions,
    ) -> CopyOutcome:
        ends = build_ends(self._endpoints, control_topic=self._control_topic)
        progress, written = self._copy(spark, plan, ends, rate=options.rate)
        for rounds in itertools.count():
            last = read_ends(self._endpoints.source.kafka, plan)
            behind = count_behind(plan, last)
            if not options.follow or behind <= options.lag:
                return CopyOutcome(plan, progress, written, rounds=rounds, behind=behind)
            self._events.said(f"round {rounds + 1}: {behind:,} new records in the source")
            plan = self._extend(plan, last)
            registration = register(hold, plan, former=registration, actor=self._endpoints.source.actor)
            progress, more = self._copy(spark, plan, ends, rate=options.rate)
            written += more
        raise AssertionError

    def _copy(
        self, spark: SparkSession, plan: CopyPlan, ends: CopyEnds, *, rate: int | None
    ) -> tuple[CopyProgress, int]:
        clock = self._endpoints.source.world.clock
        pace = CopyPace(plan.slices, self._events, now=clock.now, sleep=clock.sleep, limit=rate)
        pace.begin()
        return run_slices(spark, plan, ends, on_slice=pace.on_slice), pace.written

    def _extend(self, plan: CopyPlan, ends: dict[int, int]) -> CopyPlan:
        limits = _find_limits(plan)
        later = [OffsetRange(one.partition, one.end, ends[one.partition]) for one in plan.ranges]
        since_ms = plan.slices[-1].from_ms if plan.slices else None
        index = read_time_index(
            self._endpoints.source.kafka, plan.source.topic, later, limits=limits, since_ms=since_ms
        )
        return extend_plan(plan, ends, index, limits=limits)


def run_slices(spark: SparkSession, plan: CopyPlan, ends: CopyEnds, *, on_slice: OnSlice) -> CopyProgress:
    """Copy the remaining slices of a plan with Spark."""
    from seamark.copies.run.spark_copy import run_copy  # noqa: PLC0415

    return run_copy(spark, plan, ends, on_slice=on_slice)


def _find_limits(plan: CopyPlan) -> Limits:
    """Return the size of the plan's own slices; a plan of one slice doesn't determine it."""
    if len(plan.slices) > 1:
        return Limits(max(one.size for one in plan.slices))
    return choose_limits(plan.ranges, targets=plan.target.partitions, size_bytes=None, slice_records=None)
