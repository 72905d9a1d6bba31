"""A topic landed by Structured Streaming: each record becomes a row once, whatever dies on the way.

The offsets beside the rows are the only truth: a ledger in PostgreSQL, or the last commit of a lake's table. Each run
starts where they stand, with a checkpoint of its own that is thrown away, and moves them with the rows.
"""

from __future__ import annotations

import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener

from seamark.errors import SeamarkError, UnreachableError, UsageError
from seamark.kafka.brokers import Brokers
from seamark.kafka.model import OffsetSpec
from seamark.kafka_sink.spark import BatchLimit
from seamark.pipelines.binding import PATIENCE_SECONDS, Binding, OnWait, Outage, check_growth, find_binding
from seamark.pipelines.progress import OBSERVED, BatchLanded, LandProgress, build_progress
from seamark.pipelines.spark_topic import LandTopic
from seamark.spark.sessions import branch, describe_jobs
from seamark.spark.settings import build_source_client, build_source_options
from seamark.tables.definition import Landing
from seamark.tables.model import LedgerAdvance, LedgerEntry
from seamark.tables.registry import find_technology


class LandTarget(Protocol):
    """The half of a technology for the driver of a run: a place for rows, with the offsets that came with them.

    Rows and offsets are committed together, and what a task writes is this half's own affair: PostgreSQL's tasks commit
    their ranges, while Delta's write files that the driver commits.
    """

    def prepare(self, spark: SparkSession) -> None:
        """Make what is needed to begin."""

    def read(self) -> dict[tuple[str, int], LedgerEntry]:
        """The offsets that are held, by the topic's id and the partition."""

    def claim(self, firsts: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """Take partitions; one that is not held begins as it stands in `firsts`."""

    def watch(self, entries: Sequence[LedgerEntry]) -> None:
        """Look whether these are still held.

        Raises:
            FencedError: another run has taken them.
            UnreachableError: the target doesn't respond; what is held is unknown.
        """

    def bind(self, binding: Binding) -> None:
        """Have every task check that the keys of its records belong in its partition."""

    def build_rows(self, records: DataFrame) -> DataFrame:
        """The rows of the topic's records, as `land` takes them."""

    def land(self, rows: DataFrame, steps: Sequence[LedgerAdvance], *, number: int, folder: Path) -> BatchLanded:
        """Land a batch of rows. Afterwards every step is done, or it raises.

        Raises:
            FencedError: another run has taken or moved what this one held.
        """


_LOGGER = logging.getLogger("seamark.spark")
# Spark reports events with a delay. The last batch is waited for, but not for ever.
_LAST_SECONDS = 5.0

OnProgress = Callable[[LandProgress], None]


def observe_records(records: DataFrame) -> DataFrame:
    """The records of a topic, counted as they pass."""
    newest = sf.max(sf.unix_millis("timestamp"))
    return records.observe(OBSERVED, sf.count(sf.lit(1)).alias("records"), newest.alias("newest"))


@contextmanager
def listening(spark: SparkSession, name: str, tell: OnProgress | None) -> Iterator[None]:
    """Have the progress of the query of that name told, until its last batch."""
    if tell is None:
        yield
        return
    listener = _Listener(name, tell)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        listener.wait()
        spark.streams.removeListener(listener)


class _Listener(StreamingQueryListener):
    """Hears of all queries of the session, and passes one on. What it raises would end nothing, and be lost."""

    def __init__(self, name: str, tell: OnProgress) -> None:
        self._name = name
        self._tell = tell
        self._run: Any = None
        self._ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's word
        if event.name == self._name:
            self._run = event.runId

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if event.progress.name != self._name:
            return
        try:
            self._tell(build_progress(json.loads(event.progress.json)))
        except Exception:
            _LOGGER.exception("could not report the progress of %s", self._name)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if event.runId == self._run:
            self._ended.set()

    def wait(self) -> None:
        """Wait until all progress is reported, if there is any."""
        if self._run is not None:
            self._ended.wait(_LAST_SECONDS)


_POLL_SECONDS = 0.5
# A run that has nothing to land asks so often whether it still holds its partitions.
_WATCH_SECONDS = 10.0
# Spark would start a process for each file of the checkpoint, many times, to ask whether it is a link. This one is our
# own and thrown away.
_CONFS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
# A batch of so many offsets is worth a look at what its records weigh.
_LARGE_RECORDS = 50_000
# How long a batch may continue after the landing is asked to end.
_END_SECONDS = 60.0
DEFAULT_RECORDS = 600_000
"""How many offsets a batch has at most, all partitions together."""


@dataclass(frozen=True, slots=True)
class LandEnds:
    """Both ends. `source` are options of Spark's own Kafka source.

    `target` is what `open_access` of the target's technology returns: for PostgreSQL its DSN or a reference to it, for
    Delta a `LakePlace`.

    `source_client` is needed only where librdkafka can't take Java's settings.
    """

    source: Mapping[str, str] = field(repr=False)
    target: Any = field(repr=False)
    source_client: Mapping[str, str] | None = field(default=None, repr=False)


OnBatch = Callable[[BatchLanded], None]


class _Grown(Exception):  # noqa: N818 - not an error: the run continues with more partitions
    """The topic has more partitions than the query reads."""


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
    patience_seconds: float = PATIENCE_SECONDS,
    stop: threading.Event | None = None,
) -> tuple[LedgerEntry, ...]:
    """Land what is there now; with `every_seconds`, continue until `stop` is set. Returns the ledger's entries then.

    Once it has begun, an outage of database, lake or brokers is waited out, up to `patience_seconds`; `on_wait` is
    called before each pause. Nothing is lost or landed twice, because each try begins where the ledger stands.

    Raises:
        FencedError: another run of the same landing has begun, or its offsets were moved.
        RefusedError: records that were not landed are gone, or the topic was recreated.
    """
    if records < 1 or (every_seconds is not None and every_seconds < 0):
        raise UsageError("invalid batch settings: expected at least one record, and a pause of 0 s or more")
    outage, stop = Outage(patience_seconds=patience_seconds, clock=time.monotonic), stop or threading.Event()

    def count(landed: BatchLanded) -> None:
        outage.end()
        if on_batch is not None:
            on_batch(landed)

    run = _Run(spark, landing, ends, records=records, on_batch=count, on_progress=on_progress)
    with run.brokers:
        run.prepare()
        while True:
            try:
                run.take(start)
                run.catch_up(stop)
                run.stream(every_seconds, stop)
            except _Grown:
                # What came to new partitions before we knew of them counts too.
                start = OffsetSpec.EARLIEST
                continue
            except Exception as error:
                # What can't be reached when a run begins is probably wrong in its settings.
                wait = outage.plan(error) if run.entries else None
                if wait is None or stop.is_set():
                    raise
                _LOGGER.warning("%s: %s; next attempt in %g s", landing.owner, wait.reason, wait.seconds)
                if on_wait is not None:
                    on_wait(wait)
                if stop.wait(wait.seconds):
                    raise
                continue
            return tuple(run.entries.values())


class _Run:
    """One run: what it holds, and what a batch does."""

    def __init__(
        self,
        spark: SparkSession,
        landing: Landing,
        ends: LandEnds,
        *,
        records: int,
        on_batch: OnBatch | None,
        on_progress: OnProgress | None,
    ) -> None:
        self._spark = spark
        self._landing = landing
        self._records = records
        self._on_batch = on_batch
        self._on_progress = on_progress
        self._options = {**build_source_options(ends.source), "includeHeaders": "false"}
        self._client = ends.source_client or build_source_client(ends.source)
        self.brokers = Brokers(self._client)
        self._topic = LandTopic(landing, self.brokers)
        self._failure: BaseException | None = None
        self._is_idle = threading.Event()
        self._is_idle.set()
        self.target = _open_target(landing, ends)
        self.entries: dict[int, LedgerEntry] = {}
        # How many partitions the topic had when they were taken, and what is to be landed before its new ones.
        self._partitions = 0
        self._first: Mapping[int, int] = {}
        self._ends: dict[tuple[int, int], Mapping[int, int]] = {}

    def prepare(self) -> None:
        """Have the target ready, and a session for what is set for this run alone."""
        self.target.prepare(self._spark)
        self._spark = branch(self._spark, _CONFS)

    def take(self, start: OffsetSpec) -> None:
        """Take all partitions of the topic."""
        known = self.target.read()
        firsts = self._topic.read_firsts(known, start=start)
        self._partitions = len(firsts)
        self._first = {}
        if self._landing.needs_binding:
            firsts = self._bind(firsts, known)
        self.entries = {one.partition: one for one in self.target.claim(firsts)}

    def _bind(self, firsts: list[LedgerEntry], known: Mapping[tuple[str, int], LedgerEntry]) -> list[LedgerEntry]:
        """Have keys checked, and omit new partitions until the previous ones are landed to their current ends.

        A key that moved to a new partition has its earlier records in a partition that was there before.
        """
        self._topic.check_same(known)
        former = [one for one in firsts if one.key in known]
        binding = find_binding(self._landing, self._topic.probe(self._client), is_first=not former)
        if former and len(former) < len(firsts):
            check_growth(self._landing, len(former), len(firsts))
            growth = (len(former), len(firsts))
            if growth not in self._ends:
                # Where they ended when the growth was seen first: they may never stop growing.
                self._ends[growth] = self._topic.read_ends([one.partition for one in former])
            ends = self._ends[growth]
            binding = replace(binding, before=len(former), grown_at=ends)
            self._first = {one.partition: end for one in former if one.next_offset < (end := ends[one.partition])}
            if self._first:
                firsts = former
        self.target.bind(binding)
        return firsts

    def catch_up(self, stop: threading.Event) -> None:
        """Land the previous partitions of a topic that has grown, before its new ones are begun."""
        while self._first and not stop.is_set():
            self.stream(None, stop)
            self._first = {number: end for number, end in self._first.items() if self.entries[number].next_offset < end}
            if not self._first:
                raise _Grown
            # An open transaction is before the end.
            stop.wait(_POLL_SECONDS)

    def stream(self, every_seconds: float | None, stop: threading.Event) -> None:
        """Run the query to its end."""
        self._failure = None
        name = f"land-{self._landing.name}-{uuid4().hex[:6]}"
        with (
            tempfile.TemporaryDirectory(prefix="seamark-checkpoint-", ignore_cleanup_errors=True) as folder,
            listening(self._spark, name, self._on_progress),
        ):
            query = self._start(Path(folder), every_seconds, name=name)
            watched_at = time.monotonic()
            settled: BaseException | None = None
            is_stopped = False
            try:
                while not query.awaitTermination(_POLL_SECONDS):
                    # A batch that is under way detects it when it commits.
                    if self._is_idle.is_set() and time.monotonic() - watched_at >= _WATCH_SECONDS:
                        self._watch()
                        watched_at = time.monotonic()
                    if stop.is_set():
                        # A batch that is interrupted is landed in part: whole ranges, each with its entry.
                        self._is_idle.wait(_END_SECONDS)
                        # What fails from here on may be our own doing.
                        settled, is_stopped = self._failure, True
                        query.stop()
            except PySparkException:
                if self._failure is None:
                    raise
            finally:
                query.stop()
        failure = settled if is_stopped and not isinstance(self._failure, SeamarkError) else self._failure
        if failure is not None:
            raise failure
        if stop.is_set():
            self._reload_entries()
            return
        self._require_known()

    def _watch(self) -> None:
        """End a run that was shut out, or whose topic is another: without records no batch would ever tell it."""
        try:
            self.target.watch(list(self.entries.values()))
            self._require_known()
        except UnreachableError:
            # Who can't be asked now is asked again; and no batch lands without it.
            return

    def _require_known(self) -> None:
        if self._topic.count_partitions() > self._partitions:
            raise _Grown

    def _start(self, folder: Path, every_seconds: float | None, *, name: str) -> StreamingQuery:
        topic = self._landing.topic
        reader = self._spark.readStream.format("kafka").options(**self._options)
        reader = reader.option("assign", json.dumps({topic: sorted(self.entries)}))
        begins = {str(number): entry.next_offset for number, entry in self.entries.items()}
        reader = reader.option("startingOffsets", json.dumps({topic: begins}))
        records = reader.option("maxOffsetsPerTrigger", str(self._records)).load()
        # Before the query begins, and not in its batches: a batch is handed over as rows that were made already, and an
        # unused column would have been computed for nothing.
        rows = self.target.build_rows(observe_records(records) if self._on_progress else records)
        writer = rows.writeStream.queryName(name)
        writer = writer.option("checkpointLocation", (folder / "checkpoint").as_uri())
        trigger: dict[str, Any] = {"availableNow": True}
        if every_seconds is not None:
            trigger = {"processingTime": f"{int(every_seconds * 1000)} milliseconds"}

        def land(rows: DataFrame, number: int) -> None:
            self._is_idle.clear()
            try:
                self._land(rows, number, folder)
            except BaseException as error:
                # Spark would pass on its text alone.
                self._failure = error
                raise
            finally:
                self._is_idle.set()

        return writer.trigger(**trigger).foreachBatch(land).start()

    def _land(self, rows: DataFrame, number: int, folder: Path) -> None:
        ends = _read_ends(folder / "checkpoint", number, self._landing.topic)
        # Before any row: the ends may be those of a recreated topic that has as many records as the previous one.
        is_grown = self._topic.count_partitions() > self._partitions
        steps = [
            LedgerAdvance(entry, ends[partition])
            for partition, entry in self.entries.items()
            if ends[partition] > entry.next_offset
        ]
        limit = BatchLimit(rows.sparkSession)
        if sum(step.end - step.entry.next_offset for step in steps) >= _LARGE_RECORDS:
            begins = {step.entry.partition: step.entry.next_offset for step in steps}
            limit.look(self._client, self._landing.topic, begins=begins)
        # What a first try has landed, a second one finds landed.
        with describe_jobs(rows.sparkSession, f"seamark pipeline {self._landing.name}: batch {number}"):
            landed = limit.run(lambda: self.target.land(rows, steps, number=number, folder=folder))
        self.entries |= {step.entry.partition: step.after for step in steps}
        self._topic.mirror(self.entries.values())
        if self._on_batch is not None:
            self._on_batch(landed)
        if is_grown:
            raise _Grown

    def _reload_entries(self) -> None:
        """After an end in the middle of a batch."""
        ledger = self.target.read()
        self.entries = {number: ledger.get(entry.key, entry) for number, entry in self.entries.items()}
        self._topic.mirror(self.entries.values())


def _open_target(landing: Landing, ends: LandEnds) -> LandTarget:
    # Named and not imported: a run in a database needs no Delta, and one in a lake needs no driver of PostgreSQL.
    target: LandTarget = resolve_name(find_technology(landing.store).driver)(landing, ends.target)
    return target


def _read_ends(checkpoint: Path, batch: int, topic: str) -> dict[int, int]:
    """Where a batch ends, as Spark has written it down before it began: its version, its settings, its offsets."""
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    found: Mapping[str, int] = json.loads(lines[2])[topic]
    return {int(number): offset for number, offset in found.items()}
