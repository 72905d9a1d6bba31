"""Copies of topics: the plan, the run, how far it is, and the proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import NotFoundError
from seamark.fleet.copies.cutover import CutoverPlanner
from seamark.fleet.copies.draft import CopyDraft
from seamark.fleet.copies.ending import find_leftover
from seamark.fleet.copies.pace import CopyEvents, Silent
from seamark.fleet.copies.parties import CutoverWish
from seamark.fleet.copies.planning import CopyPlanner
from seamark.fleet.copies.registry import KnownPlan, find_plan
from seamark.fleet.copies.running import CopyOutcome, CopyRun, RunWish
from seamark.fleet.copies.session import SparkWish, require_spark
from seamark.fleet.copies.spark_engine import SparkEngine, name_copy
from seamark.fleet.copies.status import CopyStatus, CopyStatuses
from seamark.fleet.copies.target import TargetTopic
from seamark.fleet.copies.verifying import verify
from seamark.fleet.copies.wish import build_wish
from seamark.fleet.copies.work import CopyWork
from seamark.model.control import CONTROL_TOPIC
from seamark.model.reading import Reading
from seamark.pipelines.copy_plan import CopyPlan

if TYPE_CHECKING:
    from seamark.change.actor import Actor
    from seamark.context import Context
    from seamark.fleet.clusters import Clusters
    from seamark.fleet.copies.ports import CopyLogs
    from seamark.fleet.planned import Planned
    from seamark.fleet.planner import Planner
    from seamark.fleet.ports import BrokersPort
    from seamark.fleet.world import FleetWorld
    from seamark.model.result import ChangeResult
    from seamark.pipelines.verification import Verification

PlanLike = str | Path | CopyPlan | CopyDraft
"""A plan, its file, its id, or the beginning of its id."""


class Copies:
    """The copies of a context. Both topics are in its cluster."""

    def __init__(
        self,
        context: Context,
        *,
        clusters: Clusters,
        world: FleetWorld,
        planner: Callable[[], Planner],
        apply: Callable[[Planned], ChangeResult],
        actor: Callable[[], Actor],
        logs: Callable[[], CopyLogs],
        delete_topic: Callable[[str], Planned],
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._world = world
        self._planner = planner
        self._apply = apply
        self._actor = actor
        self._build_logs = logs
        self._delete_topic = delete_topic
        self._engine: SparkEngine | None = None
        self._work: CopyWork | None = None

    @property
    def work(self) -> CopyWork:
        """What the steps of a cut-over act on; on Spark as the environment says, unless `use_spark` said otherwise."""
        if self._work is None:
            self.use_spark(SparkWish())
        return self._work  # type: ignore[return-value]  # just made

    def use_spark(self, spark: SparkWish, events: CopyEvents | None = None) -> None:
        """Say where cut-overs run from now on, and who hears of it."""
        self.close()
        self._engine = SparkEngine(self, self._context, wish=spark, events=events or Silent())
        self._work = CopyWork(self._engine, kafka=self._world.kafka)

    def close(self) -> None:
        """Close Spark's session, if there is one."""
        engine, self._engine, self._work = self._engine, None, None
        if engine is not None:
            engine.close()

    def cutover(
        self, what: PlanLike, wish: CutoverWish | None = None, *, control_topic: str = CONTROL_TOPIC
    ) -> Planned:
        """Plan to turn everybody from the source of a copy to its target, or to a new topic of the old name."""
        known = self.find(what, control_topic=control_topic)
        if known.registration is None:
            raise _build_never(known, control_topic)
        planner = CutoverPlanner(self._context, clusters=self._clusters, world=self._world, actor=self._actor())
        engine = SparkEngine(self, self._context, wish=SparkWish(), events=Silent())
        look = CopyWork(engine, kafka=self._world.kafka, is_recounting=False)
        return planner.plan(known.plan, wish or CutoverWish(), name=name_copy(known.plan.id, control_topic), look=look)

    def finish(self, what: PlanLike, *, abandon: Sequence[str] = (), control_topic: str = CONTROL_TOPIC) -> Planned:
        """Plan the end of a copy that was cut over: the topic that nobody uses any more is deleted.

        `abandon` are groups that have positions in it alone, and that nobody misses.
        """
        known = self.find(what, control_topic=control_topic)
        topic = find_leftover(known.plan, kafka=self._world.kafka(), abandon=abandon)
        return self._delete_topic(topic)

    def plan(self, topic: str, partitions: int | str, **wish: Any) -> CopyDraft:
        """Plan a copy of a topic with another number of partitions; `12:6` says how many it has now.

        Args:
            topic: The source.
            partitions: How many the target has.
            **wish: `to` (its name), `rule` (how records are placed), `since` and `until` (places in the log),
                `replication_factor`, `slice_records`; see `build_wish`.
        """
        planner = CopyPlanner(kafka=self._world.kafka(), clusters=self._clusters, logs=self.logs, actor=self._actor())
        return planner.plan(build_wish(topic, partitions, **wish))

    def find(self, what: PlanLike, *, control_topic: str = CONTROL_TOPIC) -> KnownPlan:
        """The plan that is meant, as far as it has been extended."""
        return find_plan(self.logs, control_topic, what.plan if isinstance(what, CopyDraft) else what)

    def run(
        self,
        what: PlanLike | KnownPlan,
        *,
        wish: RunWish | None = None,
        spark: SparkWish | None = None,
        control_topic: str = CONTROL_TOPIC,
        events: CopyEvents | None = None,
    ) -> CopyOutcome:
        """Copy what is left of a plan. It may be broken off at any time, and run again on any machine."""
        require_spark()
        known = what if isinstance(what, KnownPlan) else self.find(what, control_topic=control_topic)
        run = CopyRun(
            self._context,
            kafka=self._world.kafka(),
            logs=self.logs,
            actor=self._actor(),
            clock=self._world.clock,
            control_topic=control_topic,
            ensure_target=self._ensure_target,
            events=events or Silent(),
        )
        return run.run(known, wish or RunWish(), spark or SparkWish())

    def status(self, what: PlanLike, *, control_topic: str = CONTROL_TOPIC) -> CopyStatus:
        """How far one copy is."""
        known = self.find(what, control_topic=control_topic)
        if known.registration is None:
            raise _build_never(known, control_topic)
        return self._statuses(control_topic).read({known.plan.id: known.registration})[0]

    def all(self, *, control_topic: str = CONTROL_TOPIC) -> Reading[CopyStatus]:
        """How far every copy is that was run with that control topic, the newest first."""
        registered = self.logs.read_registered(control_topic)
        return Reading(self._statuses(control_topic).read(registered.found), failures=registered.failures)

    def verify(
        self,
        what: PlanLike,
        *,
        level: str = "standard",
        spark: SparkWish | None = None,
        control_topic: str = CONTROL_TOPIC,
        on_stage: Callable[[str], None] | None = None,
    ) -> Verification:
        """Compare the target with the source, and give a report."""
        require_spark()
        known = self.find(what, control_topic=control_topic)
        return verify(
            self._context,
            known,
            level=level,
            spark_wish=spark or SparkWish(),
            control_topic=control_topic,
            on_stage=on_stage,
        )

    @property
    def logs(self) -> CopyLogs:
        """The logs that copies are told by."""
        return self._build_logs()

    @property
    def kafka(self) -> BrokersPort:
        """The brokers of both topics."""
        return self._world.kafka()

    @property
    def actor(self) -> Actor:
        """Who runs copies here."""
        return self._actor()

    def _statuses(self, control_topic: str) -> CopyStatuses:
        return CopyStatuses(kafka=self._world.kafka(), logs=self.logs, control_topic=control_topic)

    def _ensure_target(self, plan: CopyPlan, is_begun: bool) -> CopyPlan:
        target = TargetTopic(plan, kafka=self._world.kafka(), planner=self._planner(), apply=self._apply)
        return target.ensure(is_begun=is_begun)


def _build_never(known: KnownPlan, control_topic: str) -> NotFoundError:
    return NotFoundError(
        f"the copy {known.plan.id} was never run",
        cause=f"the control topic {control_topic} does not know it",
        hint="seamark copy run PLANFILE",
    )
