"""Run many pipelines in one Spark application."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pyspark.sql import SparkSession

from seamark.kafka.brokers import Brokers
from seamark.kafka.model import TopicPartition
from seamark.pipelines.application import Application, Ends
from seamark.pipelines.declared import PipelineSpec
from seamark.pipelines.progress import BatchLanded, LandProgress, MemberState, MemberStatus, StatusPublisher
from seamark.pipelines.spark_job import DEFAULT_RECORDS, LandEnds, PipelineRun
from seamark.pipelines.spark_topic import LagMeter, LandTopic, OnLag, read_ends
from seamark.spark.settings import build_source_client
from seamark.tables.model import LedgerAdvance

# More batches at once than cores: one plans or commits while others have the cores. More than this only wait for them.
_LEAST_THREADS, _MOST_THREADS = 4, 16


def run_application(
    spark: SparkSession,
    specs: Iterable[PipelineSpec],
    source: Mapping[str, str],
    *,
    source_client: Mapping[str, str] | None = None,
    is_endless: bool = True,
    follow: Callable[[], Sequence[PipelineSpec]] | None = None,
    on_batch: Callable[[str, BatchLanded], None] | None = None,
    on_progress: Callable[[str, LandProgress], None] | None = None,
    on_status: Callable[[MemberStatus], None] | None = None,
    on_lag: OnLag | None = None,
    name: str = "",
    stop: threading.Event | None = None,
) -> dict[str, Exception]:
    """Run pipelines until `stop` is set; those without an interval until their available records are processed.

    Args:
        spark: The session. Its scheduler should be FAIR, so that a large batch doesn't delay the others.
        specs: The pipelines.
        source: Options of Spark's own Kafka source.
        source_client: The settings of librdkafka, where it can't take Java's.
        is_endless: Whether pipelines with an interval continue.
        follow: Reads the pipelines that should run now, every 15 s.
        on_batch: Called after each batch, by the thread that ran it.
        on_progress: Called with the figures of each batch.
        on_status: Called when the state of a pipeline changes.
        on_lag: Called with the lag of each pipeline every 30 s.
        name: The name of the application, which is published with the states of its pipelines.
        stop: Asks the application to end.

    Returns:
        By name, the errors of pipelines that have ended with one.
    """
    client = source_client or build_source_client(source)
    threads = min(_MOST_THREADS, max(_LEAST_THREADS, 2 * spark.sparkContext.defaultParallelism))

    def open_run(spec: PipelineSpec, topic: LandTopic) -> PipelineRun:
        return PipelineRun(
            spark,
            spec.landing,
            LandEnds(source, spec.technology.open_access(spec.settings), source_client),
            topic=topic,
            records=spec.records or DEFAULT_RECORDS,
            start=spec.start,
            on_progress=None if on_progress is None else partial(on_progress, spec.landing.name),
        )

    topics: dict[str, LandTopic] = {}
    with Brokers(client) as brokers:
        meter = LagMeter(brokers, topics, on_lag)
        with (
            StatusPublisher(name, measure=None if on_lag is None else meter.measure) as publisher,
            ThreadPoolExecutor(threads, "seamark-pipeline") as executor,
        ):
            members = _Members(open_run, brokers, publisher, topics)
            application = Application(
                open_run=members.add,
                read_ends=partial(read_ends, brokers),
                executor=executor,
                clock=time.monotonic,
                is_endless=is_endless,
                follow=follow,
                on_batch=on_batch,
                on_status=on_status,
                on_look=members.note,
            )
            for spec in specs:
                application.add(spec)
            application.run(stop or threading.Event())
            return application.errors


class _Members:
    """The topics of the pipelines of an application, by which their states are published and their lag is measured."""

    def __init__(
        self,
        open_run: Callable[[PipelineSpec, LandTopic], PipelineRun],
        brokers: Brokers,
        publisher: StatusPublisher,
        topics: dict[str, LandTopic],
    ) -> None:
        self._open_run = open_run
        self._brokers = brokers
        self._publisher = publisher
        self._topics = topics

    def add(self, spec: PipelineSpec) -> _FittedRun:
        """Add a pipeline. Its state can be published before its run can be opened."""
        topic = self._topics[spec.landing.name] = LandTopic(spec.landing, self._brokers, start=spec.start)
        self._publisher.add(spec.landing.name, topic.report)
        return _FittedRun(spec, lambda one: self._open_run(one, topic))

    def note(self, status: MemberStatus) -> None:
        """Take the state of a pipeline. The lag of one that has ended isn't measured any more."""
        if status.state is MemberState.ENDED:
            self._topics.pop(status.name, None)
        self._publisher.note(status)


class _FittedRun:
    """A run that is opened when it begins, and whose table is created or extended then: `apply` has shown it.

    A secret that can't be resolved, or a table that can't be created, is an error of this pipeline alone.
    """

    def __init__(self, spec: PipelineSpec, open_run: Callable[[PipelineSpec], PipelineRun]) -> None:
        self._spec = spec
        self._open_run = open_run
        self._opened: PipelineRun | None = None

    @property
    def _run(self) -> PipelineRun:
        if self._opened is None:
            raise RuntimeError(f"pipeline {self._spec.landing.name} has not begun")
        return self._opened

    @property
    def spots(self) -> Sequence[TopicPartition]:
        return self._run.spots

    @property
    def is_catching_up(self) -> bool:
        return self._run.is_catching_up

    def begin(self) -> None:
        # Each time: a rebuild may have replaced the table since, or its undo.
        table = self._spec.open_table()
        if statements := table.plan_layout():
            table.apply_layout(statements)
        if self._opened is None:
            self._opened = self._open_run(self._spec)
        self._run.begin()

    def plan(self, ends: Ends) -> Sequence[LedgerAdvance]:
        return self._run.plan(ends)

    def land(self, steps: Sequence[LedgerAdvance], ends: Ends) -> BatchLanded:
        return self._run.land(steps, ends)

    def follow(self) -> None:
        self._run.follow()

    def watch(self) -> None:
        self._run.watch()

    def compact(self) -> tuple[int, int]:
        return self._run.compact()

    def vacuum(self, *, keep_seconds: float) -> int:
        return self._run.vacuum(keep_seconds=keep_seconds)

    def cancel(self) -> None:
        if self._opened is not None:
            self._opened.cancel()
