"""Run pipelines on Spark in batches: each record becomes a row once, whatever fails in between.

The ledger beside the rows, in PostgreSQL or in the last commit of a Delta table, is the only record of progress. A
batch is a range of offsets for each partition, from the ledger to the end of the log. The driver chooses it, Spark
reads exactly that range, and rows and ledger are committed together.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pkgutil import resolve_name
from typing import Any, Protocol
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from seamark.errors import UnreachableError, UsageError
from seamark.kafka.brokers import Brokers
from seamark.kafka.model import OffsetSpec, TopicPartition
from seamark.kafka_sink.spark import BatchLimit
from seamark.pipelines.binding import (
    PATIENCE_SECONDS,
    Binding,
    OnWait,
    Outage,
    RetryWait,
    check_growth,
    describe_error,
    find_binding,
)
from seamark.pipelines.progress import BatchLanded, LandProgress, MemberState, MemberStatus, StatusPublisher
from seamark.pipelines.spark_frame import FrameRecipe
from seamark.pipelines.spark_topic import Ends, LagMeter, LandTopic, OnLag, read_ends
from seamark.spark.sessions import active_session, branch, describe_jobs
from seamark.spark.settings import build_source_client, build_source_options
from seamark.tables.definition import Landing
from seamark.tables.model import LedgerAdvance, LedgerEntry
from seamark.tables.registry import find_technology


class LandTarget(Protocol):
    """The half of a technology for the driver of a run: a place for rows, with the offsets that came with them.

    Rows and offsets are committed together. What a task writes is up to this half: PostgreSQL's tasks commit their
    ranges, while Delta's write files that the driver commits.
    """

    def prepare(self, spark: SparkSession) -> None:
        """Check that the table fits, and create what is needed to begin."""

    def read(self) -> dict[tuple[str, int], LedgerEntry]:
        """Read the offsets of the ledger, by topic ID and partition."""

    def claim(self, firsts: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """Claim partitions; one that the ledger doesn't have begins as in `firsts`."""

    def watch(self, entries: Sequence[LedgerEntry]) -> None:
        """Check that these are still claimed by this run.

        Raises:
            FencedError: Another run has claimed them.
            UnreachableError: The target doesn't respond.
        """

    def bind(self, binding: Binding) -> None:
        """Have every task check that the keys of its records belong in its partition."""

    def compact(self, spark: SparkSession) -> tuple[int, int]:
        """Merge small files. Returns how many became how many."""

    def vacuum(self, spark: SparkSession, *, keep_seconds: float) -> int:
        """Delete files that no version of the last `keep_seconds` has. Returns how many."""

    def build_rows(self, records: DataFrame) -> DataFrame:
        """Build the rows of these records, as `land` takes them."""

    def land(self, rows: DataFrame, steps: Sequence[LedgerAdvance], *, number: int) -> BatchLanded:
        """Write a batch of rows. Afterwards every step is done, or it raises.

        Raises:
            FencedError: Another run has claimed or moved what this one had claimed.
        """


_LOGGER = logging.getLogger("seamark.spark")
_POLL_SECONDS = 0.5
# A run that has nothing to process asks so often whether it still holds its partitions.
_WATCH_SECONDS = 10.0
# For a batch of so many offsets, the size of its records is worth a look.
_LARGE_RECORDS = 50_000
# How long a batch may continue after the run is asked to end.
_END_SECONDS = 60.0
# An expression that can't be evaluated for a record is null: an error would fail the batch of all records.
_EXPRESSION_CONFS = {"spark.sql.ansi.enabled": "false"}
_OBSERVED = "seamark_pipeline"
DEFAULT_RECORDS = 600_000
"""The maximum number of offsets of a batch, all partitions together."""

OnBatch = Callable[[BatchLanded], None]
OnProgress = Callable[[LandProgress], None]


@dataclass(frozen=True, slots=True)
class LandEnds:
    """Both ends of a pipeline.

    Attributes:
        source: Options of Spark's own Kafka source.
        target: What `open_access` of the target's technology returns: for PostgreSQL its DSN or a reference to it, for
            Delta a `TableLocation`.
        source_client: The settings of librdkafka, where it can't take Java's.
    """

    source: Mapping[str, str] = field(repr=False)
    target: Any = field(repr=False)
    source_client: Mapping[str, str] | None = field(default=None, repr=False)

    def build_client(self) -> Mapping[str, str]:
        """Return the settings of librdkafka."""
        return self.source_client or build_source_client(self.source)


class PipelineRun:
    """One pipeline in a Spark application: the partitions that it has claimed, and how a batch is processed.

    Not for several threads at a time.
    """

    def __init__(
        self,
        spark: SparkSession,
        landing: Landing,
        ends: LandEnds,
        *,
        topic: LandTopic,
        records: int = DEFAULT_RECORDS,
        start: OffsetSpec = OffsetSpec.EARLIEST,
        on_progress: OnProgress | None = None,
        rebuild: str = "",
    ) -> None:
        self._spark = spark
        self._landing = landing
        self._records = records
        self._start = start
        self._on_progress = on_progress
        self._options = {**build_source_options(ends.source), "includeHeaders": str(landing.has_headers).lower()}
        self._client = ends.build_client()
        self._topic = topic
        # Resolved by name, because a run in a database needs no Delta, and one in a lake no driver of PostgreSQL.
        more = {"rebuild": rebuild} if rebuild else {}
        self._target: LandTarget = resolve_name(find_technology(landing.store).driver)(landing, ends.target, **more)
        self._is_prepared = False
        self._recipe: FrameRecipe | None = None
        self.entries: dict[int, LedgerEntry] = {}
        # How many partitions the topic had when they were claimed, and what is processed before its new ones.
        self._partitions = 0
        self._first: dict[int, int] = {}
        self._grown_ends: dict[tuple[int, int], Mapping[int, int]] = {}
        self._is_grown = False
        self._number = 0
        self._tag = f"seamark-pipeline-{landing.name}-{uuid4().hex[:6]}"

    @property
    def name(self) -> str:
        """The pipeline."""
        return self._landing.name

    @property
    def owner(self) -> str:
        """The owner of its offsets."""
        return self._landing.owner

    @property
    def spots(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read now."""
        return tuple((self._landing.topic, number) for number in sorted(self.entries))

    @property
    def is_catching_up(self) -> bool:
        """Whether the topic has grown, and its new partitions wait for the end of the previous ones."""
        return bool(self._first)

    def begin(self) -> None:
        """Claim all partitions of the topic, at the offsets of the ledger."""
        # Also after the offsets were moved: a rebuild moves them and may have changed the columns of the table.
        self._target.prepare(self._spark)
        if not self._is_prepared:
            # A session of its own: what is set for this pipeline must not be set for others.
            self._spark = branch(self._spark, _EXPRESSION_CONFS if self._landing.has_expressions else {})
            self._is_prepared = True
        known = self._target.read()
        firsts = self._topic.read_firsts(known, start=self._start)
        self._partitions = len(firsts)
        self._is_grown = False
        self._first = {}
        if self._landing.needs_binding:
            firsts = self._bind(firsts, known)
        self.entries = {one.partition: one for one in self._target.claim(firsts)}
        # The offsets may have been moved, and the state of a pipeline without records is published with them.
        self._topic.mirror(self.entries.values())
        # Records that arrived in new partitions before they were seen count too.
        self._start = OffsetSpec.EARLIEST

    def plan(self, ends: Ends) -> tuple[LedgerAdvance, ...]:
        """Plan the next batch: a range for each partition that has records up to these ends.

        If there are more than a batch may have, each partition gets its share.
        """
        topic = self._landing.topic
        behind = {
            number: end - entry.next_offset
            for number, entry in self.entries.items()
            if (end := ends.get((topic, number), 0)) > entry.next_offset
        }
        total = sum(behind.values())
        counts = {number: max(1, count * self._records // total) for number, count in behind.items()}
        return tuple(
            LedgerAdvance(entry, entry.next_offset + min(behind[number], counts[number]))
            for number, entry in sorted(self.entries.items())
            if number in behind
        )

    def land(self, steps: Sequence[LedgerAdvance], ends: Ends) -> BatchLanded:
        """Process a batch, which `plan` gave for these ends.

        Raises:
            RefusedError: The topic was recreated, or records were deleted before they were processed.
            FencedError: Another run has claimed the partitions, or the offsets were moved.
        """
        # Before any row: the ends may be those of a recreated topic that has as many records as the previous one.
        self._is_grown = self._topic.count_partitions() > self._partitions
        limit = BatchLimit(self._spark)
        if sum(step.end - step.entry.next_offset for step in steps) >= _LARGE_RECORDS:
            begins = {step.entry.partition: step.entry.next_offset for step in steps}
            limit.look(self._client, self._landing.topic, begins=begins)
        number, began_at = self._number, time.monotonic()
        observed: Observation | None = None

        def run() -> BatchLanded:
            # What a first try has written, a second one finds written.
            nonlocal observed
            observed = Observation(_OBSERVED) if self._on_progress is not None else None
            if self._recipe is None:
                build, has_headers = self._target.build_rows, self._landing.has_headers
                self._recipe = FrameRecipe(self._spark, build, has_headers=has_headers)
            rows = self._recipe.apply(self._read(steps, observed))
            return self._target.land(rows, steps, number=number)

        try:
            with self._describe(f"batch {number}"):
                landed = limit.run(run)
        except PySparkException:
            # Spark's own text for records that are gone names neither the pipeline nor what to do.
            self._topic.check_kept(self.entries.values())
            raise
        self._number += 1
        self.entries |= {step.entry.partition: step.after for step in steps}
        self._topic.mirror(self.entries.values())
        if self._on_progress is not None and observed is not None:
            self._on_progress(self._build_progress(number, observed.get, time.monotonic() - began_at, ends))
        self._first = {one: end for one, end in self._first.items() if self.entries[one].next_offset < end}
        return landed

    def watch(self) -> None:
        """Check the claims and the topic: without records no batch would.

        Raises:
            FencedError: Another run has claimed the partitions, or the offsets were moved.
            RefusedError: The topic was recreated.
        """
        try:
            self._target.watch(list(self.entries.values()))
            self.follow_growth()
        except UnreachableError:
            # Asked again with the next look, and no batch is committed without an answer.
            return

    def follow(self) -> None:
        """Claim the new partitions of a topic that has grown, if they may begin."""
        if self._is_grown or (len(self.entries) < self._partitions and not self._first):
            self.begin()

    def follow_growth(self) -> bool:
        """Ask whether the topic has grown, and claim its new partitions. Returns whether there are any."""
        if self._topic.count_partitions() <= self._partitions:
            return False
        self.begin()
        return True

    def compact(self) -> tuple[int, int]:
        """Merge small files of the table. Returns how many became how many."""
        with self._describe("compact"):
            return self._target.compact(self._spark)

    def vacuum(self, *, keep_seconds: float) -> int:
        """Delete files that no version of the table of the last `keep_seconds` has. Returns how many."""
        with self._describe("vacuum"):
            return self._target.vacuum(self._spark, keep_seconds=keep_seconds)

    @contextmanager
    def _describe(self, what: str) -> Iterator[None]:
        """Say in Spark's UI what the jobs of a block are."""
        text = f"seamark pipeline {self._landing.name}: {what}"
        # Building a frame makes its session the active one of the thread, which is the caller's.
        with active_session(self._spark), describe_jobs(self._spark, text, tag=self._tag, pool=self._landing.name):
            yield

    def cancel(self) -> None:
        """End a batch that is under way in another thread. What it has committed stays."""
        self._spark.sparkContext.cancelJobsWithTag(self._tag)

    def reload(self) -> None:
        """Read the ledger again, after a batch that was cancelled."""
        ledger = self._target.read()
        self.entries = {number: ledger.get(entry.key, entry) for number, entry in self.entries.items()}
        self._topic.mirror(self.entries.values())

    def _bind(self, firsts: list[LedgerEntry], known: Mapping[tuple[str, int], LedgerEntry]) -> list[LedgerEntry]:
        """Have keys checked, and leave out new partitions until the previous ones are processed to their current ends.

        A key that moved to a new partition has its earlier records in a partition that was there before.
        """
        self._topic.check_same(known)
        former = [one for one in firsts if one.key in known]
        binding = find_binding(self._landing, self._topic.probe(self._client), is_first=not former)
        if former and len(former) < len(firsts):
            check_growth(self._landing, len(former), len(firsts))
            growth = (len(former), len(firsts))
            if growth not in self._grown_ends:
                # Where they ended when the growth was seen first: they may never stop growing.
                self._grown_ends[growth] = self._topic.read_ends([one.partition for one in former])
            ends = self._grown_ends[growth]
            binding = replace(binding, before=len(former), grown_at=ends)
            self._first = {one.partition: end for one in former if one.next_offset < (end := ends[one.partition])}
            if self._first:
                firsts = former
        self._target.bind(binding)
        return firsts

    def _read(self, steps: Sequence[LedgerAdvance], observed: Observation | None) -> DataFrame:
        topic = self._landing.topic
        reader = self._spark.read.format("kafka").options(**self._options)
        reader = reader.option("assign", json.dumps({topic: [step.entry.partition for step in steps]}))
        begins = {str(step.entry.partition): step.entry.next_offset for step in steps}
        ends = {str(step.entry.partition): step.end for step in steps}
        reader = reader.option("startingOffsets", json.dumps({topic: begins}))
        records = reader.option("endingOffsets", json.dumps({topic: ends})).load()
        if observed is None:
            return records
        newest = sf.max(sf.unix_millis("timestamp"))
        return records.observe(observed, sf.count(sf.lit(1)).alias("records"), newest.alias("newest"))

    def _build_progress(self, number: int, found: Mapping[str, Any], seconds: float, ends: Ends) -> LandProgress:
        topic = self._landing.topic
        behind = sum(max(0, ends.get((topic, one), 0) - entry.next_offset) for one, entry in self.entries.items())
        return LandProgress(number, int(found["records"]), seconds, behind=behind, newest=found["newest"])


def run_landing(
    spark: SparkSession,
    landing: Landing,
    ends: LandEnds,
    *,
    every_seconds: float | None = None,
    records: int = DEFAULT_RECORDS,
    start: OffsetSpec = OffsetSpec.EARLIEST,
    on_batch: OnBatch | None = None,
    on_progress: OnProgress | None = None,
    on_wait: OnWait | None = None,
    on_lag: OnLag | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
    stop: threading.Event | None = None,
) -> tuple[LedgerEntry, ...]:
    """Process the available records of one pipeline; with `every_seconds`, continue until `stop` is set.

    Once it has begun, an outage of database, lake or brokers is waited out, up to `patience_seconds`; `on_wait` is
    called before each pause. Nothing is lost or written twice, because each try begins at the ledger. `on_lag` is
    called with the name and the lag every 30 s.

    Returns:
        The entries of the ledger at the end.

    Raises:
        FencedError: Another run of the same pipeline has begun, or its offsets were moved.
        RefusedError: Records were deleted before they were processed, or the topic was recreated.
    """
    if records < 1 or (every_seconds is not None and every_seconds < 0):
        raise UsageError("invalid batch settings: expected at least one record, and a pause of 0 s or more")
    stop, name = stop or threading.Event(), landing.name
    with Brokers(ends.build_client()) as brokers:
        topic = LandTopic(landing, brokers, start=start)
        meter = LagMeter(brokers, {name: topic}, on_lag)
        with StatusPublisher(name, measure=None if on_lag is None else meter.measure) as publisher:
            publisher.add(name, topic.report)
            publisher.note(MemberStatus(name, MemberState.STARTING))
            run = PipelineRun(spark, landing, ends, topic=topic, records=records, start=start, on_progress=on_progress)
            outage = Outage(patience_seconds=patience_seconds, clock=time.monotonic)
            attempts = _Attempts(run, outage, publisher, on_wait=on_wait, stop=stop)

            def count(landed: BatchLanded) -> None:
                outage.end()
                if on_batch is not None:
                    on_batch(landed)

            batches = _Batches(run, brokers, on_batch=count, stop=stop)
            attempts.run(
                batches.run_available if every_seconds is None else partial(batches.run_endless, every_seconds)
            )
            return tuple(run.entries.values())


def run_rebuild(
    spark: SparkSession,
    landing: Landing,
    ends: LandEnds,
    *,
    rebuild: str,
    topic_id: str,
    begins: Mapping[int, int] | None = None,
    records: int = DEFAULT_RECORDS,
    on_batch: OnBatch | None = None,
    on_wait: OnWait | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Process the available records of a pipeline into a rebuild of its table, from the first one or on.

    An outage is waited out as in `run_landing`. The group of the pipeline shows its own lag and state, and nothing of
    the rebuild. `topic_id` is the topic that is read, and `begins` are the first offsets of its partitions, which must
    still be there.

    Raises:
        RefusedError: Records were deleted before they were processed, or the topic was recreated.
        FencedError: The rebuild was discarded.
    """
    stop = stop or threading.Event()
    with Brokers(ends.build_client()) as brokers:
        topic = LandTopic(landing, brokers, is_rebuild=True, begins=begins, topic_id=topic_id)
        run = PipelineRun(spark, landing, ends, topic=topic, records=records, rebuild=rebuild)
        outage = Outage(patience_seconds=PATIENCE_SECONDS, clock=time.monotonic)
        attempts = _Attempts(run, outage, None, on_wait=on_wait, stop=stop)

        def count(landed: BatchLanded) -> None:
            outage.end()
            if on_batch is not None:
                on_batch(landed)

        attempts.run(_Batches(run, brokers, on_batch=count, stop=stop).run_available)


class _Attempts:
    """Runs one pipeline, again after an outage, and publishes its state, if there is a publisher."""

    def __init__(
        self,
        run: PipelineRun,
        outage: Outage,
        publisher: StatusPublisher | None,
        *,
        on_wait: OnWait | None,
        stop: threading.Event,
    ) -> None:
        self._run = run
        self._outage = outage
        self._publisher = publisher
        self._on_wait = on_wait
        self._stop = stop

    def run(self, process: Callable[[], None]) -> None:
        """Begin and process, until that ends or fails permanently."""
        while True:
            try:
                self._run.begin()
                self._note(MemberState.RUNNING)
                return process()
            except Exception as error:
                # What can't be reached when a run begins is probably wrong in its settings.
                wait = self._outage.plan(error) if self._run.entries else None
                if wait is None or self._stop.is_set() or not self._wait(wait):
                    self._note(MemberState.ENDED, describe_error(error))
                    raise

    def _wait(self, wait: RetryWait) -> bool:
        """Wait for the next try. Returns whether it may begin."""
        self._note(MemberState.RETRYING, wait.reason, wait.seconds)
        _LOGGER.warning("%s: %s; next attempt in %g s", self._run.owner, wait.reason, wait.seconds)
        if self._on_wait is not None:
            self._on_wait(wait)
        return not self._stop.wait(wait.seconds)

    def _note(self, state: MemberState, reason: str = "", retry_seconds: float = 0.0) -> None:
        if self._publisher is not None:
            self._publisher.note(MemberStatus(self._run.name, state, reason, retry_seconds))


class _Batches:
    """The batches of one pipeline, one after the other, until `stop` is set."""

    def __init__(self, run: PipelineRun, brokers: Brokers, *, on_batch: OnBatch, stop: threading.Event) -> None:
        self._run = run
        self._brokers = brokers
        self._on_batch = on_batch
        self._stop = stop

    def run_available(self) -> None:
        """Process the records that are there now, in all partitions that the topic has at the end."""
        run, ends = self._run, dict(read_ends(self._brokers, self._run.spots))
        while not self._stop.is_set():
            if steps := run.plan(ends):
                self._land(steps, ends)
            elif run.is_catching_up:
                # The end of an open transaction.
                self._stop.wait(_POLL_SECONDS)
                ends |= read_ends(self._brokers, run.spots)
            elif not run.follow_growth():
                return
            if new := [spot for spot in run.spots if spot not in ends]:
                ends |= read_ends(self._brokers, new)

    def run_endless(self, every_seconds: float) -> None:
        """Start a batch every so many seconds, or when the one before it has ended."""
        watched_at = time.monotonic()
        while not self._stop.is_set():
            began_at = time.monotonic()
            ends = read_ends(self._brokers, self._run.spots)
            steps = self._run.plan(ends)
            if steps:
                self._land(steps, ends)
            due_at = began_at + (every_seconds if steps else max(every_seconds, _POLL_SECONDS))
            while (rest := due_at - time.monotonic()) > 0 and not self._stop.wait(min(rest, _WATCH_SECONDS)):
                if time.monotonic() - watched_at >= _WATCH_SECONDS:
                    self._run.watch()
                    watched_at = time.monotonic()

    def _land(self, steps: Sequence[LedgerAdvance], ends: Ends) -> None:
        ended = threading.Event()
        guard = threading.Thread(target=self._cancel_late, args=[ended], daemon=True)
        guard.start()
        try:
            self._on_batch(self._run.land(steps, ends))
        except PySparkException:
            if not self._stop.is_set():
                raise
            # Cancelled, or failed while it was to end anyway: whole ranges may be committed, each with its entry.
            self._run.reload()
            return
        finally:
            ended.set()
            guard.join()
        self._run.follow()

    def _cancel_late(self, ended: threading.Event) -> None:
        """Cancel a batch that continues for too long after the run is asked to end."""
        while not ended.wait(_POLL_SECONDS):
            if self._stop.is_set() and not ended.wait(_END_SECONDS):
                self._run.cancel()
                return
