"""Copies of topics: plan, run, status, verification and cutover."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seamark.copies.cutover.operations import CutoverOperations
from seamark.copies.cutover.planner import CutoverOptions, CutoverPlanner, find_leftover
from seamark.copies.plan.checks import find_readers
from seamark.copies.plan.endpoints import CopyEndpoints, build_copy_options
from seamark.copies.plan.plan import build_copy_name
from seamark.copies.plan.planner import CopyPlanner, PlannedCopy
from seamark.copies.plan.registry import KnownPlan, PlanLike, find_plan
from seamark.copies.run.runner import CopyEvents, CopyOutcome, CopyRunner, CopyRunOptions, SilentCopyEvents
from seamark.copies.status import CopyStatus, CopyStatuses
from seamark.copies.verify.report import verify
from seamark.core.readings import Reading
from seamark.errors import NotFoundError, RefusedError
from seamark.kafka_sink.control import CONTROL_TOPIC
from seamark.spark.settings import SparkOptions

if TYPE_CHECKING:
    from seamark.changes.plan import PlannedChange
    from seamark.connect.clusters import Clusters
    from seamark.copies.cutover.translation import TranslatedGroup
    from seamark.copies.plan.registrations import Registration
    from seamark.copies.verify.report import Verification


class Copies:
    """The copies from the topics of a context: within its Kafka cluster, or to that of another context (`to`)."""

    def __init__(
        self, endpoints: CopyEndpoints, *, clusters: Clusters, delete_topic: Callable[[str], PlannedChange]
    ) -> None:
        self.endpoints = endpoints
        self._clusters = clusters
        self._delete_topic = delete_topic
        self._operations: CutoverOperations | None = None

    def to(self, other: Copies) -> Copies:
        """Return the copies from here to the Kafka cluster of another context, which stores plans and progress."""
        endpoints = CopyEndpoints(self.endpoints.source, other.endpoints.source)
        return Copies(endpoints, clusters=self._clusters, delete_topic=self._delete_topic)

    @property
    def operations(self) -> CutoverOperations:
        """The operations that the steps of a cutover call. `use_spark` replaces the default Spark options."""
        if self._operations is None:
            self._operations = CutoverOperations(self.endpoints)
        return self._operations

    def use_spark(self, spark: SparkOptions, events: CopyEvents | None = None) -> None:
        """Set the Spark options of later cutovers, and the receiver of their progress."""
        self.close()
        self._operations = CutoverOperations(self.endpoints, spark=spark, events=events)

    def close(self) -> None:
        """Close the Spark session, if there is one."""
        operations, self._operations = self._operations, None
        if operations is not None:
            operations.close()

    def cutover(
        self, what: PlanLike, options: CutoverOptions | None = None, *, control_topic: str = CONTROL_TOPIC
    ) -> PlannedChange:
        """Plan to switch consumers and producers from a copy's source to its target, or to a recreated source."""
        known, _ = self._find_run(what, control_topic)
        if self.endpoints.is_cross_cluster:
            raise RefusedError(
                "connectors can't be switched to another Kafka cluster; no changes were made",
                cause="a Connect worker uses one Kafka cluster",
                hint=f"create them there, with the offsets of seamark copies consumers {known.plan.id}",
            )
        planner = CutoverPlanner(self.endpoints.source, clusters=self._clusters)
        name = build_copy_name(known.plan.id, control_topic)
        return planner.plan(known.plan, options or CutoverOptions(), name=name)

    def consumers(
        self,
        what: PlanLike,
        *,
        missing: str = "",
        groups: Sequence[str] = (),
        spark: SparkOptions | None = None,
        control_topic: str = CONTROL_TOPIC,
    ) -> Mapping[str, TranslatedGroup]:
        """Return the offsets of the source's consumers in the target, and how many records each reprocesses.

        Without `groups` the result contains every group that has an offset in the source. With `spark` the counts are
        exact; without it they may be bounds.
        """
        known, _ = self._find_run(what, control_topic)
        chosen = groups or find_readers(self.endpoints.source.kafka, known.plan.source)
        operations = CutoverOperations(self.endpoints, spark=spark, is_recounting=spark is not None)
        try:
            return operations.translate(build_copy_name(known.plan.id, control_topic), chosen, missing=missing)
        finally:
            operations.close()

    def open_preview(self) -> CutoverOperations:
        """Return the operations for reading: nothing is recounted, and Spark isn't started."""
        return CutoverOperations(self.endpoints, is_recounting=False)

    def cleanup(
        self, what: PlanLike, *, abandon: Sequence[str] = (), control_topic: str = CONTROL_TOPIC
    ) -> PlannedChange:
        """Plan the end of a copy after its cutover: delete the topic that is no longer used.

        `abandon` are groups whose only offsets are in that topic and that may lose them.
        """
        known = self.find(what, control_topic=control_topic)
        if self.endpoints.is_cross_cluster:
            raise RefusedError(
                "can't check whether the source is still needed: source and target are in two Kafka clusters",
                hint=f"check its consumers, then run seamark topics delete {known.plan.source.topic}",
            )
        name = build_copy_name(known.plan.id, control_topic)
        kafka, operations = self.endpoints.target.kafka, self.open_preview()
        topic = find_leftover(known.plan, name=name, kafka=kafka, operations=operations, abandon=abandon)
        return self._delete_topic(topic)

    def plan(self, topic: str, partitions: int | str, **options: Any) -> PlannedCopy:
        """Plan a copy of a topic with another number of partitions; `12:6` also states the current number.

        Args:
            topic: The source.
            partitions: The number of partitions of the target.
            **options: `to` (its name), `rule` (the partitioner), `since` and `until` (log locations),
                `replication_factor`, `slice_records`; see `build_copy_options`.
        """
        planner = CopyPlanner(self.endpoints, clusters=self._clusters)
        return planner.plan(build_copy_options(topic, partitions, **options))

    def find(self, what: PlanLike, *, control_topic: str = CONTROL_TOPIC) -> KnownPlan:
        """Find a plan, with its extensions."""
        return find_plan(self.endpoints.target.logs, control_topic, what)

    def run(
        self,
        what: PlanLike | KnownPlan,
        *,
        options: CopyRunOptions | None = None,
        spark: SparkOptions | None = None,
        control_topic: str = CONTROL_TOPIC,
        events: CopyEvents | None = None,
    ) -> CopyOutcome:
        """Copy the rest of a plan. A run can be interrupted at any time, and continued on any machine."""
        runner = CopyRunner(self.endpoints, control_topic=control_topic, events=events or SilentCopyEvents())
        return runner.run(what, options or CopyRunOptions(), spark or SparkOptions())

    def status(self, what: PlanLike, *, control_topic: str = CONTROL_TOPIC) -> CopyStatus:
        """Return the progress of one copy."""
        known, registration = self._find_run(what, control_topic)
        return self._statuses(control_topic).read({known.plan.id: registration})[0]

    def list(self, *, control_topic: str = CONTROL_TOPIC) -> Reading[CopyStatus]:
        """Return the progress of every copy that was run with this control topic, the newest first."""
        registered = self.endpoints.target.logs.read_registered(control_topic)
        return Reading(self._statuses(control_topic).read(registered.found), failures=registered.failures)

    def verify(
        self,
        what: PlanLike,
        *,
        level: str = "standard",
        spark: SparkOptions | None = None,
        control_topic: str = CONTROL_TOPIC,
        on_stage: Callable[[str], None] | None = None,
    ) -> Verification:
        """Compare the target with the source, and return a report."""
        return verify(
            self.endpoints,
            what,
            level=level,
            spark=spark or SparkOptions(),
            control_topic=control_topic,
            on_stage=on_stage,
        )

    def _statuses(self, control_topic: str) -> CopyStatuses:
        return CopyStatuses(self.endpoints, control_topic=control_topic)

    def _find_run(self, what: PlanLike, control_topic: str) -> tuple[KnownPlan, Registration]:
        """Find a plan that was run."""
        known = self.find(what, control_topic=control_topic)
        if known.registration is None:
            raise NotFoundError(
                f"copy {known.plan.id} was never run",
                cause=f"control topic {control_topic} has no records of it",
                hint="run it first: seamark copies run PLANFILE",
            )
        return known, known.registration
