"""Running a copy: the target is made, the plan registered, and Spark works its slices off."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seamark.changes.access import build_access, check_permission
from seamark.copies.plan.copy_plan import CopyPlan
from seamark.copies.plan.copy_planner import extend_plan
from seamark.copies.plan.copy_registration import Registration
from seamark.copies.plan.cutting import Limits
from seamark.copies.plan.looks import check_cluster, count_behind, find_target_debris, read_ends
from seamark.copies.plan.place import CopyEndpoints
from seamark.copies.plan.ports import Hold
from seamark.copies.plan.progress import Progress, read_progress
from seamark.copies.plan.registry import KnownPlan, PlanLike, find_plan, read_body, register
from seamark.copies.plan.settings import build_ends
from seamark.copies.plan.slicing import choose_limits, read_time_index
from seamark.copies.run.pace import CopyEvents, CopyPace
from seamark.copies.run.target import TargetTopic
from seamark.policy.permission import Permission
from seamark.spark.slices import OffsetRange
from seamark.spark.spark_session import SparkOptions, build_copy_work, open_spark, require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.copies.plan.settings import CopyEnds
    from seamark.copies.run.copy_job import OnSlice


@dataclass(frozen=True, slots=True)
class CopyRunOptions:
    """How a copy is to be run. `rate` is a limit in records a second.

    With `follow` what comes to the source meanwhile is copied too, in rounds, until no more than `lag` records are
    left.
    """

    rate: int | None = None
    follow: bool = False
    lag: int = 10_000


@dataclass(frozen=True, slots=True)
class CopyOutcome:
    """What a run did. `rounds` are those that followed; `behind` is how many offsets the source had more at the end."""

    plan: CopyPlan
    progress: Progress
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
        """Copy what is left of a plan, and with `options.follow` what comes to the source meanwhile.

        Raises:
            PermissionDeniedError: the role doesn't allow to run copies in one of the two contexts.
            FencedError: another process has taken the plan over.
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
        """What is to be told of a plan that is done, without starting Spark; None where there is work left."""
        records = self._endpoints.target.logs.read_records(self._control_topic, jobs=[plan.id])[plan.id]
        progress = read_progress(plan.id, plan.slices, records)
        if not progress.is_complete:
            return None
        find_target_debris(self._endpoints.target.kafka, plan, progress)
        behind = count_behind(plan, read_ends(self._endpoints.source.kafka, plan))
        is_enough = not options.follow or behind <= options.lag
        return CopyOutcome(plan, progress, written=0, behind=behind) if is_enough else None

    def _register(self, known: KnownPlan, hold: Hold) -> tuple[CopyPlan, Registration]:
        """Only now that no other driver can register it is it known which generation is the newest."""
        former = hold.read()
        plan = known.plan if former is None else read_body(former)
        made = TargetTopic(plan, self._endpoints.target).ensure(is_begun=former is not None)
        if former is not None and made == plan:
            return plan, former
        registration = register(hold, made, former=former, actor=self._endpoints.source.actor)
        self._events.said(f"registered as {plan.id} in {self._control_topic}: any machine can go on with it")
        return made, registration

    def _work(
        self, spark: SparkSession, plan: CopyPlan, registration: Registration, *, hold: Hold, options: CopyRunOptions
    ) -> CopyOutcome:
        ends = build_ends(self._endpoints, control_topic=self._control_topic)
        progress, written = self._copy(spark, plan, ends, rate=options.rate)
        for rounds in itertools.count():
            last = read_ends(self._endpoints.source.kafka, plan)
            behind = count_behind(plan, last)
            if not options.follow or behind <= options.lag:
                return CopyOutcome(plan, progress, written, rounds=rounds, behind=behind)
            self._events.said(f"round {rounds + 1}: {behind} records have come to the source since")
            plan = self._extend(plan, last)
            registration = register(hold, plan, former=registration, actor=self._endpoints.source.actor)
            progress, more = self._copy(spark, plan, ends, rate=options.rate)
            written += more
        raise AssertionError

    def _copy(self, spark: SparkSession, plan: CopyPlan, ends: CopyEnds, *, rate: int | None) -> tuple[Progress, int]:
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


def run_slices(spark: SparkSession, plan: CopyPlan, ends: CopyEnds, *, on_slice: OnSlice) -> Progress:
    """Have Spark work off what is left of a plan."""
    from seamark.copies.run.copy_job import run_copy  # noqa: PLC0415

    return run_copy(spark, plan, ends, on_slice=on_slice)


def _find_limits(plan: CopyPlan) -> Limits:
    """As large as the plan's own slices are; a plan of one slice does not tell."""
    if len(plan.slices) > 1:
        return Limits(max(one.size for one in plan.slices))
    return choose_limits(plan.ranges, targets=plan.target.partitions, size_bytes=None, slice_records=None)
