"""Copies of topics: the plan, the run, how far it is, and the proof."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.fleet.copies.draft import CopyDraft
from seamark.fleet.copies.pace import CopyEvents, Silent
from seamark.fleet.copies.planning import CopyPlanner
from seamark.fleet.copies.registry import KnownPlan, find_plan
from seamark.fleet.copies.running import CopyOutcome, CopyRun, RunWish
from seamark.fleet.copies.session import SparkWish, require_spark
from seamark.fleet.copies.status import CopyStatus, CopyStatuses
from seamark.fleet.copies.target import TargetTopic
from seamark.fleet.copies.verifying import verify
from seamark.fleet.copies.wish import build_wish
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
    ) -> None:
        self._context = context
        self._clusters = clusters
        self._world = world
        self._planner = planner
        self._apply = apply
        self._actor = actor
        self._build_logs = logs

    def plan(self, topic: str, partitions: int | str, **wish: Any) -> CopyDraft:
        """Plan a copy of a topic with another number of partitions; `12:6` says how many it has now.

        Args:
            topic: The source.
            partitions: How many the target has.
            **wish: `to` (its name), `rule` (how records are placed), `since` and `until` (places in the log),
                `replication_factor`, `slice_records`; see `build_wish`.
        """
        planner = CopyPlanner(kafka=self._world.kafka(), clusters=self._clusters, logs=self._logs, actor=self._actor())
        return planner.plan(build_wish(topic, partitions, **wish))

    def find(self, what: PlanLike, *, control_topic: str = CONTROL_TOPIC) -> KnownPlan:
        """The plan that is meant, as far as it has been extended."""
        return find_plan(self._logs, control_topic, what.plan if isinstance(what, CopyDraft) else what)

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
            logs=self._logs,
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
            from seamark.errors import NotFoundError  # noqa: PLC0415

            raise NotFoundError(
                f"the copy {known.plan.id} was never run",
                cause=f"the control topic {control_topic} does not know it",
                hint=f"seamark copy run {what if isinstance(what, str | Path) else 'PLANFILE'}",
            )
        return self._statuses(control_topic).read({known.plan.id: known.registration})[0]

    def all(self, *, control_topic: str = CONTROL_TOPIC) -> Reading[CopyStatus]:
        """How far every copy is that was run with that control topic, the newest first."""
        registered = self._logs.read_registered(control_topic)
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
    def _logs(self) -> CopyLogs:
        return self._build_logs()

    def _statuses(self, control_topic: str) -> CopyStatuses:
        return CopyStatuses(kafka=self._world.kafka(), logs=self._logs, control_topic=control_topic)

    def _ensure_target(self, plan: CopyPlan, is_begun: bool) -> CopyPlan:
        target = TargetTopic(plan, kafka=self._world.kafka(), planner=self._planner(), apply=self._apply)
        return target.ensure(is_begun=is_begun)
