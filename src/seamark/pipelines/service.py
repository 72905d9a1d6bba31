"""Pipelines of topics in tables: what a run would do, the run, and how far it is."""

from __future__ import annotations

import fnmatch
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.changes.permissions import build_access, check_permission
from seamark.core.readings import Finding, Severity, fan_out
from seamark.errors import (
    FormatVersionError,
    InterruptedRunError,
    NotFoundError,
    RefusedError,
    SeamarkError,
    UsageError,
)
from seamark.pipelines.actions import read_body
from seamark.pipelines.binding import check_bindable
from seamark.pipelines.declared import PipelineSpec, choose_declared
from seamark.pipelines.rebuild import (
    HOLD_SECONDS,
    RebuildPlan,
    SwapTable,
    build_digest,
    build_partitions,
    find_open,
    is_compacted,
)
from seamark.pipelines.source_columns import ReadSource, SourceReader, resolve_columns
from seamark.pipelines.status import (
    CHECK,
    LandPlan,
    PipelineStatus,
    StatusReader,
    build_standings,
    explain_missing,
)
from seamark.policy.permissions import Permission
from seamark.report.listing import Column, Listing, View
from seamark.report.words import render_bytes, render_count, render_number
from seamark.spark.settings import SparkOptions, Work, open_spark, require_spark
from seamark.tables.model import FilePart
from seamark.tables.registry import list_stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.changes.plan import PlannedChange
    from seamark.changes.planner import Planner
    from seamark.context import Context
    from seamark.kafka.api import BrokersPort
    from seamark.kafka.model import TopicStatus
    from seamark.pipelines.binding import OnWait
    from seamark.pipelines.declared import DesiredLanding
    from seamark.pipelines.progress import BatchLanded, LandProgress, MemberStatus, PipelineLag
    from seamark.pipelines.spark_job import LandTarget, OnBatch, OnProgress
    from seamark.tables.definition import Landing
    from seamark.tables.model import LedgerEntry, TableRebuild
    from seamark.tables.registry import RebuildableTable

Swapped = TypeVar("Swapped")


def _check_digest(found: TableRebuild, landing: Landing) -> None:
    if found.digest != build_digest(landing):
        raise RefusedError(
            f"an unfinished rebuild of {landing.table} was begun with another definition of {landing.name}",
            cause="rows of both can't be in one table",
            hint=f"discard it: seamark pipelines rebuild {landing.name} --discard",
        )


def _begin_rebuild(table: RebuildableTable, plan: RebuildPlan) -> str:
    """Begin the rebuild of a plan, or continue the one that it found. Returns its ID.

    Raises:
        RefusedError: Another one was begun since.
    """
    landing, found = plan.declared.landing, table.find_rebuild()
    if plan.existing is not None:
        return find_open(table, plan.existing.id).id
    if found is not None and not found.is_swapped:
        raise RefusedError(
            f"another rebuild of {landing.table} was begun in the meantime; no changes were made",
            hint=f"wait until it has ended, or discard it: seamark pipelines rebuild {landing.name} --discard",
        )
    # What is left of one that was swapped in before.
    table.discard_rebuild()
    return table.begin_rebuild(landing, digest=build_digest(landing))


def list_table_files(declared: PipelineSpec) -> Sequence[FilePart]:
    """How many files each date has."""
    return declared.open_table().list_files()


def build_files_view(parts: Sequence[FilePart]) -> View[FilePart]:
    """The files by date."""
    return View(LISTING, tuple(parts), empty="The table has no files.")


LISTING: Listing[FilePart] = Listing(
    kind="LakeFileList",
    noun="date",
    name=lambda part: part.date,
    columns=(
        Column("date", "DATE", lambda part: part.date, text=lambda part: part.date or "-"),
        Column("files", "FILES", lambda part: part.files, text=lambda part: render_number(part.files), right=True),
        Column("bytes", "SIZE", lambda part: part.size, text=lambda part: render_bytes(part.size), right=True),
        Column("fewest", "COMPACTED", lambda part: part.fewest, right=True),
    ),
)


class Pipelines:
    """The landings of a context, as spec files declare them, or as they were applied."""

    def __init__(
        self,
        context: Context,
        *,
        kafka: Callable[[], BrokersPort],
        load: Callable[[Sequence[Path], bool], Iterable[DesiredLanding]],
        read_registered: Callable[[], Mapping[str, Any]] = dict,
        read_source: ReadSource | None = None,
        now: Callable[[], float] = time.time,
        planner: Callable[[], Planner] | None = None,
    ) -> None:
        self._planner = planner
        self._context = context
        self._kafka = kafka
        self._read_registered = read_registered
        self._load = load
        self._read_source = read_source or SourceReader(context, kafka=kafka).read
        self._now = now

    def declared(
        self, paths: Sequence[Path] = (), *, names: Sequence[str] = (), allow_python: bool = False
    ) -> tuple[PipelineSpec, ...]:
        """The landings of these files, without files those that were applied; or those of them that are named."""
        if paths:
            return choose_declared(
                self._context,
                self._load(paths, allow_python),
                names=names,
                missing="the spec files don't define pipeline",
                hint="check -f, and the section pipelines: of these files",
                resolve=self._resolve,
            )
        return choose_declared(
            self._context,
            [read_body(name, body) for name, body in sorted(self._read_registered().items())],
            names=names,
            missing="the journal has no pipeline",
            hint="apply the spec files that define it, or pass them with -f PATH",
        )

    def _resolve(self, chosen: Sequence[DesiredLanding]) -> Sequence[DesiredLanding]:
        """Read the columns that come from sources; those that are registered stay pinned."""
        if not any(one.is_unresolved for one in chosen):
            return chosen
        try:
            registered = self._read_registered()
        except FormatVersionError:
            raise
        except SeamarkError as error:
            note = f"not compared with the registered columns: {error.message}"
            found = resolve_columns(chosen, {}, read=self._read_source)
            return [replace(one, notes=(*one.notes, note)) if one.column_source else one for one in found]
        return resolve_columns(chosen, registered, read=self._read_source)

    def plan(self, declared: PipelineSpec) -> LandPlan:
        """What a run would do, and how far the landing is. Nothing is changed."""
        table = declared.open_table()
        topic = self._read_topic(declared)
        check_bindable(declared.landing, len(topic.partitions))
        spots = [(topic.name, one.id) for one in topic.partitions]
        bounds = self._kafka().read_bounds(spots).require_complete(what=f"the topic {topic.name}")
        ledger = table.read_offsets()
        landed = {number: entry.next_offset for (id_, number), entry in ledger.items() if id_ == topic.topic_id}
        return LandPlan(
            declared,
            topic.topic_id,
            build_standings({number: held for (_, number), held in bounds.items()}, landed),
            table.plan_layout(),
            former=sum(one.topic == topic.name and one.topic_id != topic.topic_id for one in ledger.values()),
        )

    def plan_all(self, specs: Iterable[PipelineSpec]) -> tuple[tuple[LandPlan, ...], dict[str, SeamarkError]]:
        """Plan many pipelines at once. Returns the plans, and by name the errors of those that can't be planned."""
        answers = fan_out({one.landing.name: partial(self.plan, one) for one in specs})
        return tuple(answers.results.values()), dict(answers.failures)

    def read_status(self, specs: Sequence[PipelineSpec]) -> tuple[PipelineStatus, ...]:
        """Read rows, lag and state of pipelines, whichever machine runs them. Spark isn't needed.

        What can't be read of a pipeline is the error of its status.
        """
        return StatusReader(self._kafka(), now=self._now).read(specs)

    def examine(self) -> tuple[Finding, ...]:
        """Return the problems of the registered pipelines, and that the others have none."""
        if not list_stores(self._context):
            # Without a database or a lake there is no pipeline, and a long journal takes a while to read.
            return ()
        try:
            specs = self.declared()
        except NotFoundError:
            # The journal wasn't created yet.
            return ()
        found = self.read_status(specs)
        problems = tuple(problem for one in found for problem in one.problems)
        healthy = sum(not one.problems for one in found)
        if not healthy:
            return problems
        text = f"{render_count(healthy, 'pipeline has', 'pipelines have')} no problem"
        return (*problems, Finding(CHECK, Severity.OK, self._context.name, text))

    def run(
        self,
        plan: LandPlan,
        *,
        spark: SparkOptions | None = None,
        is_endless: bool = True,
        on_batch: OnBatch | None = None,
        on_progress: OnProgress | None = None,
        on_wait: OnWait | None = None,
        on_lag: Callable[[str, PipelineLag], None] | None = None,
        stop: threading.Event | None = None,
    ) -> tuple[LedgerEntry, ...]:
        """Make the table fit, and land. A landing with `every` continues until `stop`, unless it is not to be endless.

        Raises:
            FencedError: another run of it has begun meanwhile.
        """
        check_permission(build_access(self._context), Permission.OPERATE, doing=f"run {plan.declared.landing.name}")
        plan.require_whole()
        require_spark()
        declared, landing = plan.declared, plan.declared.landing
        if plan.statements:
            declared.open_table().apply_layout(plan.statements)
        work = Work("pipeline", landing.name, f"seamark pipelines run {landing.name}")
        with open_spark(spark or SparkOptions(), work) as session:
            from seamark.pipelines.spark_job import DEFAULT_RECORDS, LandEnds, run_landing  # noqa: PLC0415
            from seamark.spark.settings import build_client, build_source  # noqa: PLC0415

            ends = LandEnds(
                build_source(self._context),
                target=declared.technology.open_access(declared.settings),
                source_client=build_client(self._context),
            )
            return run_landing(
                session,
                landing,
                ends,
                every_seconds=declared.every_seconds if is_endless else None,
                records=declared.records or DEFAULT_RECORDS,
                start=declared.start,
                on_batch=on_batch,
                on_progress=on_progress,
                on_wait=on_wait,
                on_lag=on_lag,
                stop=stop,
            )

    def run_all(
        self,
        specs: Sequence[PipelineSpec],
        *,
        spark: SparkOptions | None = None,
        name: str = "",
        is_endless: bool = True,
        follow: Callable[[], Sequence[PipelineSpec]] | None = None,
        on_batch: Callable[[str, BatchLanded], None] | None = None,
        on_progress: Callable[[str, LandProgress], None] | None = None,
        on_status: Callable[[MemberStatus], None] | None = None,
        on_lag: Callable[[str, PipelineLag], None] | None = None,
        stop: threading.Event | None = None,
    ) -> dict[str, Exception]:
        """Run many pipelines in one Spark application. One that fails is suspended and retried.

        Args:
            specs: The pipelines. Tables that don't exist or lack columns are created or extended.
            spark: Where Spark runs.
            name: The name of the application, as Spark's UI shows it.
            is_endless: Whether pipelines with `every` continue until `stop`.
            follow: Reads the pipelines that should run now: those that are applied meanwhile are added, changed and
                removed.
            on_batch: Called after each batch.
            on_progress: Called with the figures of each batch.
            on_status: Called when the state of a pipeline changes.
            on_lag: Called with the lag of each pipeline every 30 s.
            stop: Asks the application to end.

        Returns:
            By name, the errors of pipelines that have ended with one.

        Raises:
            PermissionDeniedError: No role allows it, or the context is read-only.
        """
        for spec in specs:
            check_permission(build_access(self._context), Permission.OPERATE, doing=f"run {spec.landing.name}")
        require_spark()
        options = spark or SparkOptions()
        work = Work("pipelines", name or self._context.name, "seamark pipelines run")
        fair = replace(options, conf={"spark.scheduler.mode": "FAIR", **options.conf})
        with open_spark(fair, work) as session:
            from seamark.pipelines.spark_application import run_application  # noqa: PLC0415
            from seamark.spark.settings import build_client, build_source  # noqa: PLC0415

            return run_application(
                session,
                specs,
                build_source(self._context),
                source_client=build_client(self._context),
                is_endless=is_endless,
                follow=follow,
                on_batch=on_batch,
                on_progress=on_progress,
                on_status=on_status,
                on_lag=on_lag,
                name=name or self._context.name,
                stop=stop,
            )

    def compact(self, declared: PipelineSpec, *, spark: SparkOptions | None = None) -> tuple[int, int]:
        """Merge small files of a pipeline's table in Spark's tasks. Returns how many files became how many.

        Raises:
            PermissionDeniedError: No role allows it, or the context is read-only.
            StalePlanError: Another process has replaced files of the table meanwhile. Nothing was changed.
        """
        with self._open_target(declared, spark, doing="compact") as (session, target):
            return target.compact(session)

    def vacuum(self, declared: PipelineSpec, *, keep_seconds: float, spark: SparkOptions | None = None) -> int:
        """Delete the files that no version of the table of the last `keep_seconds` has. Returns how many.

        Raises:
            PermissionDeniedError: No role allows it, or the context is read-only.
            RefusedError: The time is too short for readers and running batches.
        """
        with self._open_target(declared, spark, doing="vacuum") as (session, target):
            return target.vacuum(session, keep_seconds=keep_seconds)

    def plan_rebuild(self, declared: PipelineSpec) -> RebuildPlan:
        """Plan which records a rebuild of a pipeline's table reads, and what the table may lose. Changes nothing.

        Raises:
            UsageError: The technology of the table can't rebuild it.
            NotFoundError: There is no table, or no topic.
        """
        landing, table = declared.landing, self._open_rebuildable(declared)
        self._check_applied(declared)
        topic, current, found = self._read_topic(declared), table.read_current(), table.find_rebuild()
        check_bindable(landing, len(topic.partitions))
        existing = found if found is not None and not found.is_swapped else None
        if existing is not None:
            _check_digest(existing, landing)
        rebuilt = {} if existing is None else existing.contents.entries
        recreated = [entry for entry in rebuilt.values() if entry.topic_id != topic.topic_id]
        if recreated:
            raise RefusedError(
                f"topic {topic.name} was recreated after the rebuild of {landing.table} began",
                hint=f"discard it: seamark pipelines rebuild {landing.name} --discard",
            )
        bounds = self._kafka().read_bounds(topic.spots).require_complete(what=f"the topic {topic.name}")
        return RebuildPlan(
            declared,
            current,
            topic.topic_id,
            build_partitions(
                {number: (held.earliest, held.latest) for (_, number), held in bounds.items()},
                *(
                    {number: one.next_offset for (id_, number), one in ledger.items() if id_ == topic.topic_id}
                    for ledger in (current.entries, rebuilt)
                ),
            ),
            existing=existing,
            stale=sum(entry.topic_id != topic.topic_id for entry in current.entries.values()),
            is_compacted=is_compacted(topic),
            configs_error=topic.configs_error,
        )

    def rebuild(
        self,
        plan: RebuildPlan,
        swap: Callable[[str, Callable[[], None]], Swapped],
        *,
        allow_row_loss: bool = False,
        spark: SparkOptions | None = None,
        on_batch: OnBatch | None = None,
        on_wait: OnWait | None = None,
        stop: threading.Event | None = None,
    ) -> Swapped:
        """Write the rows of a pipeline again, beside the files of its table, then have `swap` replace them.

        Args:
            plan: What `plan_rebuild` returned.
            swap: Called when the new files have all records. It is passed the ID of the rebuild, for `plan_swap`, and
                a function that has a running pipeline wait and adds the records that came since, so that the swap can
                be applied right after it.
            allow_row_loss: Whether rows may be lost whose records the topic no longer has.
            spark: Where Spark runs.
            on_batch: Called after each batch.
            on_wait: Called before each pause in an outage.
            stop: Asks the run to end; the rebuild can be continued later.

        Returns:
            What `swap` returned.

        Raises:
            PermissionDeniedError: No role allows it, or the context is read-only.
            RefusedError: Rows may be lost.
            InterruptedRunError: `stop` was set. The table is unchanged.
        """
        declared, landing = plan.declared, plan.declared.landing
        check_permission(build_access(self._context), Permission.OPERATE, doing=f"rebuild the table of {landing.name}")
        plan.check_losses(allow_row_loss=allow_row_loss)
        require_spark()
        table = self._open_rebuildable(declared)
        # Hours may have passed since the plan was shown.
        checked = self.plan_rebuild(declared)
        checked.check_losses(allow_row_loss=allow_row_loss)
        # Spark takes a while to start, and retention doesn't wait.
        begins = {} if allow_row_loss else {one.partition: one.begin for one in checked.partitions}
        rebuild = _begin_rebuild(table, plan)
        work = Work("rebuild", landing.name, f"seamark pipelines rebuild {landing.name}")
        with open_spark(spark or SparkOptions(), work) as session:
            from seamark.pipelines.spark_job import DEFAULT_RECORDS, LandEnds, run_rebuild  # noqa: PLC0415
            from seamark.spark.settings import build_client, build_source  # noqa: PLC0415

            ends = LandEnds(
                build_source(self._context),
                target=declared.technology.open_access(declared.settings),
                source_client=build_client(self._context),
            )
            fill = partial(
                run_rebuild,
                session,
                landing,
                ends,
                rebuild=rebuild,
                topic_id=checked.topic_id,
                begins=begins,
                records=declared.records or DEFAULT_RECORDS,
                on_batch=on_batch,
                on_wait=on_wait,
                stop=stop,
            )

            def read() -> None:
                fill()
                if stop is not None and stop.is_set():
                    raise InterruptedRunError(
                        f"the rebuild of {landing.table} was interrupted; the table is unchanged",
                        hint=f"continue it: seamark pipelines rebuild {landing.name}",
                    )

            def catch_up() -> None:
                # Most of it before the pipeline has to wait.
                read()
                table.hold(seconds=HOLD_SECONDS)
                read()

            read()

            return swap(rebuild, catch_up)

    def plan_swap(self, declared: PipelineSpec, *, rebuild: str = "") -> PlannedChange:
        """Plan to replace the files of a pipeline's table by those of its rebuild, which has the ID `rebuild`.

        Raises:
            NotFoundError: There is no rebuild, or it is another one.
            RefusedError: The rebuild, or the pipeline in the journal, has another definition.
        """
        if self._planner is None:
            raise UsageError("this environment can't change tables")
        self._check_applied(declared)
        landing, found = declared.landing, find_open(self._open_rebuildable(declared), rebuild)
        _check_digest(found, landing)
        place = declared.technology.place
        swap = SwapTable(landing.name, place, declared.where, landing.table, rebuild=found.id)
        return self._planner().plan(f"rebuild the table of pipeline {landing.name}", [swap])

    def _check_applied(self, declared: PipelineSpec) -> None:
        """Check that a registered pipeline has this definition: the next batches would be built by the registered one.

        Raises:
            RefusedError: It has another one.
        """
        name = declared.landing.name
        try:
            (registered,) = self.declared(names=[name])
        except NotFoundError:
            return
        if build_digest(registered.landing) != build_digest(declared.landing):
            raise RefusedError(
                f"the journal has another definition of pipeline {name}; no changes were made",
                cause="a running pipeline would continue with that one, and add its rows to the rebuilt ones",
                hint="apply the spec file first: seamark apply -f PATH",
            )

    def discard_rebuild(self, declared: PipelineSpec) -> bool:
        """Discard an unfinished rebuild. Its files are deleted by vacuum. Returns whether there was one.

        Raises:
            PermissionDeniedError: No role allows it, or the context is read-only.
        """
        name = declared.landing.name
        check_permission(build_access(self._context), Permission.OPERATE, doing=f"discard the rebuild of {name}")
        # Without reading it: it may be damaged.
        return self._open_rebuildable(declared).discard_rebuild()

    def _open_rebuildable(self, declared: PipelineSpec) -> RebuildableTable:
        landing = declared.landing
        return declared.technology.open_rebuildable(declared.settings, landing.table, owner=landing.owner)

    @contextmanager
    def _open_target(
        self, declared: PipelineSpec, spark: SparkOptions | None, *, doing: str
    ) -> Iterator[tuple[SparkSession, LandTarget]]:
        """Open a session, and the table of a pipeline for it."""
        name = declared.landing.name
        check_permission(build_access(self._context), Permission.OPERATE, doing=f"{doing} the table of {name}")
        # Refuses a table without files before Spark is started.
        declared.open_table().list_files()
        require_spark()
        work = Work(doing, name, f"seamark pipelines {doing} {name}")
        with open_spark(spark or SparkOptions(), work) as session:
            access = declared.technology.open_access(declared.settings)
            yield session, resolve_name(declared.technology.driver)(declared.landing, access)

    def choose(
        self,
        paths: Sequence[Path] = (),
        *,
        patterns: Sequence[str] = (),
        application: str = "",
        allow_python: bool = False,
        must_match: bool = True,
    ) -> tuple[PipelineSpec, ...]:
        """Return the pipelines of these files, or those that were applied, that match a pattern and an application.

        Raises:
            NotFoundError: A pattern matches none, and each must match.
        """
        found = self.declared(paths, allow_python=allow_python)
        known = [one.landing.name for one in found]
        for pattern in patterns if must_match else ():
            if not fnmatch.filter(known, pattern):
                raise NotFoundError(
                    f"no pipeline matches {pattern}",
                    cause=f"found: {', '.join(known)}" if known else "no pipeline was found",
                    hint="list pipelines with seamark pipelines list; apply their spec files, or pass them with -f",
                )
        return tuple(
            one
            for one in found
            if (not patterns or any(fnmatch.fnmatchcase(one.landing.name, pattern) for pattern in patterns))
            and (not application or one.application == application)
        )

    def _read_topic(self, declared: PipelineSpec) -> TopicStatus:
        reading = self._kafka().read_topics([declared.landing.topic])
        for error in reading.failures.values():
            raise explain_missing(error, declared)
        return reading.items[0]
