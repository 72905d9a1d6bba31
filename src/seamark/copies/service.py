"""Copies of topics: the plan, the run, how far it is, and the proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.changes.access import build_access, check_permission
from seamark.copies.cutover.cutover import CutoverPlanner
from seamark.copies.cutover.ending import find_leftover
from seamark.copies.cutover.parties import CutoverWish
from seamark.copies.cutover.spark_engine import SparkEngine, name_copy
from seamark.copies.cutover.work import CopyWork
from seamark.copies.plan.copy_plan import CopyPlan
from seamark.copies.plan.draft import CopyDraft
from seamark.copies.plan.looks import find_readers
from seamark.copies.plan.place import CopyRoute
from seamark.copies.plan.planning import CopyPlanner
from seamark.copies.plan.registry import KnownPlan, find_plan
from seamark.copies.plan.wish import build_wish
from seamark.copies.run.pace import CopyEvents, Silent
from seamark.copies.run.running import CopyOutcome, CopyRun, RunWish
from seamark.copies.run.target import TargetTopic
from seamark.copies.status import CopyStatus, CopyStatuses
from seamark.copies.verify.verifying import verify
from seamark.core.reading import Reading
from seamark.errors import NotFoundError, RefusedError
from seamark.kafka_sink.control import CONTROL_TOPIC
from seamark.policy.permission import Permission
from seamark.spark.spark_session import SparkWish, require_spark

if TYPE_CHECKING:
    from seamark.changes.actor import Actor
    from seamark.changes.planned import Planned
    from seamark.changes.world import World
    from seamark.connect.clusters import Clusters
    from seamark.copies.cutover.copy_reader import CarriedReader
    from seamark.copies.plan.copy_registration import Registration
    from seamark.copies.plan.ports import CopyLogs
    from seamark.copies.verify.verification import Verification
    from seamark.kafka.api import BrokersPort

PlanLike = str | Path | CopyPlan | CopyDraft
"""A plan, its file, its id, or the beginning of its id."""


class Copies:
    """The copies from the topics of a context: within its cluster, or to that of another context (`to`)."""

    def __init__(
        self,
        route: CopyRoute,
        *,
        clusters: Clusters,
        world: World,
        actor: Callable[[], Actor],
        delete_topic: Callable[[str], Planned],
    ) -> None:
        self.route = route
        self._clusters = clusters
        self._world = world
        self._actor = actor
        self._delete_topic = delete_topic
        self._engine: SparkEngine | None = None
        self._work: CopyWork | None = None

    def to(self, other: Copies) -> Copies:
        """Copies from here to the cluster of another context, which keeps what is kept of them."""
        return Copies(
            CopyRoute(self.route.source, other.route.source),
            clusters=self._clusters,
            world=self._world,
            actor=self._actor,
            delete_topic=self._delete_topic,
        )

    @property
    def work(self) -> CopyWork:
        """What the steps of a cut-over act on; on Spark as the environment says, unless `use_spark` said otherwise."""
        if self._work is None:
            self.use_spark(SparkWish())
        return self._work  # type: ignore[return-value]  # just made

    def use_spark(self, spark: SparkWish, events: CopyEvents | None = None) -> None:
        """Say where cut-overs run from now on, and who hears of it."""
        self.close()
        self._engine = SparkEngine(self, wish=spark, events=events or Silent())
        self._work = CopyWork(self._engine, self.route)

    def close(self) -> None:
        """Close Spark's session, if there is one."""
        engine, self._engine, self._work = self._engine, None, None
        if engine is not None:
            engine.close()

    def cutover(
        self, what: PlanLike, wish: CutoverWish | None = None, *, control_topic: str = CONTROL_TOPIC
    ) -> Planned:
        """Plan to turn everybody from the source of a copy to its target, or to a new topic of the old name."""
        known, _ = self._find_run(what, control_topic)
        if self.route.is_far:
            raise RefusedError(
                "connectors can't be turned over to another cluster; nothing was changed",
                cause="their workers read and write one Kafka cluster",
                hint=f"make them there anew; seamark copy readers {known.plan.id} tells where each reader goes on",
            )
        planner = CutoverPlanner(self.route.source, clusters=self._clusters, world=self._world)
        return planner.plan(known.plan, wish or CutoverWish(), name=name_copy(known.plan.id, control_topic))

    def readers(
        self,
        what: PlanLike,
        *,
        missing: str = "",
        groups: Sequence[str] = (),
        spark: SparkWish | None = None,
        control_topic: str = CONTROL_TOPIC,
    ) -> Mapping[str, CarriedReader]:
        """Where the readers of the source go on in the target, and how much each reads again.

        Without `groups` it is every group that has a position in the source. With `spark` it is counted exactly;
        without it may be a bound.
        """
        known, _ = self._find_run(what, control_topic)
        chosen = groups or find_readers(self.route.source.kafka, known.plan.source)
        name = name_copy(known.plan.id, control_topic)
        if spark is None:
            return self.open_preview().translate(name, chosen, missing=missing)
        engine = SparkEngine(self, wish=spark, events=Silent())
        try:
            return CopyWork(engine, self.route).translate(name, chosen, missing=missing)
        finally:
            engine.close()

    def open_preview(self) -> CopyWork:
        """Return the copies for reading: nothing is recounted, and Spark isn't started."""
        engine = SparkEngine(self, wish=SparkWish(), events=Silent())
        return CopyWork(engine, self.route, is_recounting=False)

    def finish(self, what: PlanLike, *, abandon: Sequence[str] = (), control_topic: str = CONTROL_TOPIC) -> Planned:
        """Plan the end of a copy that was cut over: the topic that nobody uses any more is deleted.

        `abandon` are groups that have positions in it alone, and that nobody misses.
        """
        known = self.find(what, control_topic=control_topic)
        if self.route.is_far:
            raise RefusedError(
                "source and target are in two clusters, and nobody here can tell who needs the source",
                hint=f"when nobody does: seamark topics delete {known.plan.source.topic}",
            )
        name = name_copy(known.plan.id, control_topic)
        topic = find_leftover(known.plan, name=name, kafka=self.kafka, look=self.open_preview(), abandon=abandon)
        return self._delete_topic(topic)

    def plan(self, topic: str, partitions: int | str, **wish: Any) -> CopyDraft:
        """Plan a copy of a topic with another number of partitions; `12:6` says how many it has now.

        Args:
            topic: The source.
            partitions: How many the target has.
            **wish: `to` (its name), `rule` (how records are placed), `since` and `until` (places in the log),
                `replication_factor`, `slice_records`; see `build_wish`.
        """
        planner = CopyPlanner(self.route, clusters=self._clusters, actor=self._actor())
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
        for context in {id(one): one for one in (self.route.source.context, self.route.target.context)}.values():
            check_permission(build_access(context), Permission.OPERATE, doing="run a topic copy")
        require_spark()
        known = what if isinstance(what, KnownPlan) else self.find(what, control_topic=control_topic)
        run = CopyRun(
            self.route,
            actor=self._actor(),
            clock=self._world.clock,
            control_topic=control_topic,
            ensure_target=self._ensure_target,
            events=events or Silent(),
        )
        return run.run(known, wish or RunWish(), spark or SparkWish())

    def status(self, what: PlanLike, *, control_topic: str = CONTROL_TOPIC) -> CopyStatus:
        """How far one copy is."""
        known, registration = self._find_run(what, control_topic)
        return self._statuses(control_topic).read({known.plan.id: registration})[0]

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
            self.route,
            known,
            level=level,
            spark_wish=spark or SparkWish(),
            control_topic=control_topic,
            on_stage=on_stage,
        )

    @property
    def logs(self) -> CopyLogs:
        """The logs that copies are told by: those of the target."""
        return self.route.target.logs

    @property
    def kafka(self) -> BrokersPort:
        """The brokers of the target."""
        return self.route.target.kafka

    @property
    def actor(self) -> Actor:
        """Who runs copies here."""
        return self._actor()

    def _statuses(self, control_topic: str) -> CopyStatuses:
        return CopyStatuses(self.route, control_topic=control_topic)

    def _ensure_target(self, plan: CopyPlan, is_begun: bool) -> CopyPlan:
        far = self.route.target
        target = TargetTopic(plan, kafka=far.kafka, planner=far.planner(), apply=far.apply)
        return target.ensure(is_begun=is_begun)

    def _find_run(self, what: PlanLike, control_topic: str) -> tuple[KnownPlan, Registration]:
        """A plan that was run."""
        known = self.find(what, control_topic=control_topic)
        if known.registration is None:
            raise NotFoundError(
                f"the copy {known.plan.id} was never run",
                cause=f"the control topic {control_topic} does not know it",
                hint="seamark copy run PLANFILE",
            )
        return known, known.registration
