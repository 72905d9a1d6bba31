"""Verify a copy with Spark: its control records, the target, and the rest of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from seamark.copies.plan.checks import check_topic
from seamark.copies.plan.endpoints import CopyEnds
from seamark.copies.plan.plan import CopyPlan, TopicEnd
from seamark.copies.plan.progress import CopyProgress, read_progress
from seamark.copies.verify.match import index_hashes, tell_apart, tell_rest
from seamark.copies.verify.report import (
    EXAMPLES,
    Compared,
    Coordinates,
    CopyFinding,
    Gone,
    Kind,
    Level,
    Verification,
    choose_examples,
    count_findings,
)
from seamark.copies.verify.spark_match import RunTable, Unpaired, find_hashes, match_records, scan_source, scan_target
from seamark.copies.verify.sums import (
    Scan,
    SourceLoss,
    SumsComparison,
    clip_ranges,
    describe_aborted,
    describe_held,
    find_cut_runs,
    find_missing_records,
    join_ranges,
    judge_sums,
    list_source_ranges,
    list_target_ranges,
)
from seamark.errors import RefusedError, UsageError
from seamark.kafka.bulk_reads import LogOffsetsAdmin
from seamark.kafka.model import OffsetSpec
from seamark.kafka.topics import TopicAdmin
from seamark.kafka_sink.control import ControlRecord, Run
from seamark.kafka_sink.control_reads import read_records
from seamark.kafka_sink.options import SinkOptions
from seamark.spark.sessions import describe_jobs, read_ranges
from seamark.spark.slices import OffsetRange

# The brokers end the transaction of a dead owner at the first check after its timeout, which runs at least every 10 s.
_SLACK_SECONDS = 30.0
_KAFKA = "kafka."
# Settings that both clients have under the same name.
_SHARED = ("bootstrap.servers", "client.id", "security.protocol")


@dataclass(frozen=True, slots=True)
class TargetFound:
    """The bounds of the target, with its ends for `read_committed` and `read_uncommitted` consumers."""

    begins: Mapping[int, int]
    ends: Mapping[int, int]
    true_ends: Mapping[int, int]


def read_source(plan: CopyPlan, ends: CopyEnds, options: SinkOptions) -> SourceLoss:
    """Read what the source may have lost by now. A missing or recreated source is an error."""
    source = ends.find_source_client(plan, options)
    with TopicAdmin(source) as admin:
        check_topic(admin, plan.source, role="source")
        policy = admin.read_found([plan.source.topic])[plan.source.topic].configs.get("cleanup.policy", "")
    with LogOffsetsAdmin(source) as offsets:
        return SourceLoss("compact" in policy, begins=_read_edge(offsets, plan.source, OffsetSpec.EARLIEST))


def read_target(plan: CopyPlan, options: SinkOptions) -> TargetFound:
    """Read the bounds of the target. A missing or recreated target is an error."""
    target = options.build_settings().reader
    with TopicAdmin(target) as admin:
        check_topic(admin, plan.target, role="target")
    with LogOffsetsAdmin(target) as offsets:
        edges = (OffsetSpec.EARLIEST, OffsetSpec.STABLE, OffsetSpec.LATEST)
        return TargetFound(*(_read_edge(offsets, plan.target, edge) for edge in edges))


def read_control_records(plan: CopyPlan, options: SinkOptions) -> Sequence[ControlRecord]:
    """Read every control record of a plan."""
    settings = options.build_settings()
    patience = settings.transaction_seconds + _SLACK_SECONDS
    return read_records(settings.reader, options.control_topic, job=plan.id, patience_seconds=patience)


def build_target_source(plan: CopyPlan, ends: CopyEnds) -> Mapping[str, str]:
    """Return the options with which Spark's own source reads the target: Java settings, where ours are librdkafka's.

    Within one Kafka cluster they are those of the source. Across two, addresses without a login can be derived; the
    Java settings of a login have to be given.
    """
    if plan.is_one_cluster:
        return ends.source
    named = {key.removeprefix(_KAFKA): value for key, value in ends.target.items() if key.startswith(_KAFKA)}
    if named.get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT":
        raise UsageError(
            f"no Spark options for reading target topic {plan.target.topic}",
            cause="the sink has settings of librdkafka, and Spark's Kafka source needs those of the Java client",
            hint="pass the options of Spark's Kafka source as target_source",
        )
    return {f"{_KAFKA}{key}": named[key] for key in _SHARED if key in named}


def _read_edge(admin: LogOffsetsAdmin, end: TopicEnd, edge: OffsetSpec) -> dict[int, int]:
    spots = [(end.topic, partition) for partition in range(end.partitions)]
    found = admin.read_log_offsets(spots, at=edge).require_complete(what=f"the topic {end.topic}")
    return {partition: stamp.offset for (_, partition), stamp in found.items() if stamp is not None}


@dataclass(frozen=True, slots=True)
class Sides:
    """What to read, and how. `begins` are those of the source; the options are those of Spark's Kafka source."""

    spark: SparkSession
    plan: CopyPlan
    begins: Mapping[int, int]
    target: TargetFound
    source_options: Mapping[str, str] = field(repr=False)
    target_options: Mapping[str, str] = field(repr=False)

    def read_source(self, ranges: Sequence[OffsetRange]) -> DataFrame | None:
        """Read the remaining records of source offsets; None if there are none."""
        left = clip_ranges(join_ranges(ranges), self.begins, {})
        return self._read(self.plan.source.topic, left, self.source_options)

    def read_target(self, ranges: Sequence[OffsetRange]) -> DataFrame | None:
        """Read the records of target offsets; None if there are none."""
        left = clip_ranges(join_ranges(ranges), self.target.begins, self.target.ends)
        return self._read(self.plan.target.topic, left, self.target_options)

    def read_whole_target(self) -> DataFrame | None:
        """Read the whole target."""
        return self.read_target([OffsetRange(partition, 0, end) for partition, end in self.target.ends.items()])

    def _read(self, topic: str, ranges: Sequence[OffsetRange], options: Mapping[str, str]) -> DataFrame | None:
        if not ranges:
            return None
        # Records that retention deletes during this read are missing in its count.
        return read_ranges(self.spark, topic, ranges, options=options, may_be_gone=True)


def list_begun(plan: CopyPlan, known: CopyProgress) -> tuple[OffsetRange, ...]:
    """Return the offsets of the source that control records can describe."""
    begun = {one.claim.part for one in known.records}
    return tuple(part for one in plan.slices if one.id in begun for part in one.ranges)


OnStage = Callable[[str], None]
"""Called before each stage, with its description."""


def look_closer(
    judged: SumsComparison,
    table: RunTable,
    sides: Sides,
    *,
    begun: Sequence[OffsetRange],
    on_stage: OnStage,
    examples: int,
) -> tuple[CopyFinding, ...]:
    """List the records of what the sums found. Only runs that differ are read a second time."""
    everything = sides.read_source(begun)
    if everything is None:
        # There is nothing left of the source to compare with.
        return judged.findings
    on_stage(f"comparing {len(judged.suspects)} runs record by record")
    runs = [one.run for one in judged.suspects]
    source = sides.read_source([*list_source_ranges(runs), *judged.source_undescribed])
    target = sides.read_target([*list_target_ranges(runs), *judged.target_undescribed])
    nothing = everything.where("false")
    matched = match_records(
        nothing if source is None else source,
        nothing if target is None else target,
        table,
        suspects=judged.suspects,
        examples=examples,
    )
    told = tell_apart(matched.unpaired.wanted, matched.unpaired.lying)
    named = [*matched.findings, *told.findings]
    if told.left:
        on_stage(f"searching the source for {len(told.left)} records of the target")
        hashes = find_hashes(everything, (one.hash for one in told.left))
        named += tell_rest(told.left, index_hashes(hashes), covered=table.covered)
    return _settle(judged, [*named, *_list_untold(matched.unpaired)])


def _settle(judged: SumsComparison, named: Sequence[CopyFinding]) -> tuple[CopyFinding, ...]:
    """Return the findings of single records, and those of the sums that they don't explain."""
    kinds = {one.kind for one in named}
    vague = {
        Coordinates(one.run.target, one.run.first_target, one.run.last_target)
        for one in judged.suspects
        if one.is_gone and not one.is_described
    }
    kept = [
        one
        for one in judged.findings
        if not named
        or (one.kind is Kind.WRONG_PARTITION and one.kind not in kinds)
        or (one.target in vague and one.kind is not Kind.WRONG_PARTITION)
    ]
    return (*kept, *named)


def _list_untold(unpaired: Unpaired) -> Iterator[CopyFinding]:
    """Return findings for the records that are only counted, because there are too many of them."""
    untold = {
        "source": unpaired.wanted_count - len(unpaired.wanted),
        "target": unpaired.lying_count - len(unpaired.lying),
    }
    for side, count in untold.items():
        if count:
            words = f"more records of the {side} have no match and were not classified"
            yield CopyFinding(Kind.DIFFERENT, count=count, words=words)


_HASH_NAME = "xxhash64"


def verify_copy(
    spark: SparkSession,
    plan: CopyPlan,
    ends: CopyEnds,
    *,
    level: Level,
    progress: CopyProgress | None = None,
    on_stage: OnStage | None = None,
    examples: int = EXAMPLES,
    target_source: Mapping[str, str] | None = None,
) -> Verification:
    """Compare a copy with its source. Differences are in the report, and not errors.

    `progress` is the content of the control records, if the caller has read them. `target_source` are the options of
    Spark's Kafka source for the target, if it is in another Kafka cluster than the source and needs a login.

    Raises:
        NotFoundError: a topic is missing.
        RefusedError: a topic was recreated since, or the plan can't be run.
    """
    job = _Job(spark, plan, ends, on_stage=on_stage or _ignore, target_source=target_source)
    with describe_jobs(spark, f"seamark verify {plan.target.topic}, copied from {plan.source.topic}"):
        return job.run(level, progress, examples=examples)


def _ignore(stage: str) -> None:
    del stage


@dataclass(frozen=True, slots=True)
class _Found:
    """The findings so far."""

    findings: tuple[CopyFinding, ...] = ()
    gone: tuple[Gone, ...] = ()
    notes: tuple[str, ...] = ()
    source_records: int = 0
    target_records: int = 0


class _Job:
    def __init__(
        self,
        spark: SparkSession,
        plan: CopyPlan,
        ends: CopyEnds,
        *,
        on_stage: OnStage,
        target_source: Mapping[str, str] | None,
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._ends = ends
        self._routing = plan.require_accepted()
        self._options = ends.read_sink_options(plan.target.topic)
        self._on_stage = on_stage
        self._target_source = target_source or build_target_source(plan, ends)

    def run(self, level: Level, progress: CopyProgress | None, *, examples: int) -> Verification:
        self._on_stage("reading topic bounds and control records")
        sides = self._look_at_topics()
        records = progress.records if progress else tuple(read_control_records(self._plan, self._options))
        missing = tuple(find_missing_records(self._plan, records))
        try:
            known = progress or read_progress(self._plan.id, self._plan.slices, records)
        except RefusedError as error:
            # Without consistent control records, the expected content of the target is unknown.
            contradiction = CopyFinding(Kind.MISSING_CONTROL, words=f"{error.message}: {error.cause}")
            return self._report(level, _Found((*missing, contradiction)), records=records, examples=examples)
        check_hashes(known.records)
        if level is Level.QUICK:
            found = _look_quickly(known, sides)
        else:
            found = self._look(known, sides, is_full=level is Level.FULL, examples=examples)
        held = describe_held(sides.target.ends, sides.target.true_ends)
        whole = _Found(
            (*missing, *found.findings),
            gone=found.gone,
            notes=(*held, *found.notes),
            source_records=found.source_records,
            target_records=found.target_records,
        )
        return self._report(level, whole, records=known.records, examples=examples)

    def _look_at_topics(self) -> Sides:
        return Sides(
            self._spark,
            self._plan,
            begins=read_source(self._plan, self._ends, self._options).begins,
            target=read_target(self._plan, self._options),
            source_options=self._ends.source,
            target_options=self._target_source,
        )

    def _look(self, known: CopyProgress, sides: Sides, *, is_full: bool, examples: int) -> _Found:
        """Read both topics once, and the runs that differ a second time."""
        runs = _list_runs(known.records)
        covered = {one.partition: one.end for one in known.cover(self._plan.ranges)}
        table = RunTable(self._routing, tuple(enumerate(runs)), covered=covered)
        begun = list_begun(self._plan, known)
        self._on_stage("reading the source")
        source = {} if (frame := sides.read_source(begun)) is None else scan_source(frame, table)
        # Read after the scan, because the scan doesn't contain what retention deleted during it.
        forgetting = read_source(self._plan, self._ends, self._options)
        self._on_stage("reading the target")
        target = {} if (frame := sides.read_whole_target()) is None else scan_target(frame, table)
        judged = judge_sums(runs, source, target, forgetting=forgetting, is_ordered=is_full)
        findings = judged.findings
        if is_full and not judged.is_clean:
            findings = look_closer(judged, table, sides, begun=begun, on_stage=self._on_stage, examples=examples)
        return _Found(findings, gone=judged.gone, source_records=_count(source), target_records=_count(target))

    def _report(self, level: Level, found: _Found, *, records: Sequence[ControlRecord], examples: int) -> Verification:
        runs = _list_runs(records)
        return Verification(
            self._plan.id,
            source=self._plan.source.topic,
            target=self._plan.target.topic,
            level=level,
            compared=Compared(
                control_records=len(records),
                runs=len(runs),
                told_records=sum(run.count for run in runs),
                source_records=found.source_records,
                target_records=found.target_records,
            ),
            counts=count_findings(found.findings),
            findings=choose_examples(found.findings, limit=examples),
            gone=found.gone,
            notes=found.notes,
        )


def _look_quickly(known: CopyProgress, sides: Sides) -> _Found:
    """Compare the control records with the bounds of the target."""
    cut = find_cut_runs(_list_runs(known.records), sides.target.begins, sides.target.ends)
    return _Found(tuple(cut), notes=tuple(describe_aborted(known.records, sides.target.ends)))


def _list_runs(records: Sequence[ControlRecord]) -> tuple[Run, ...]:
    return tuple(run for one in records for run in one.runs)


def _count(scan: Scan) -> int:
    return sum(one.count for one in scan.values())


def check_hashes(records: Sequence[ControlRecord]) -> None:
    """Refuse control records whose checksums can't be computed here."""
    strange = {one.copied.hash_name for one in records if one.copied} - {_HASH_NAME}
    if strange:
        raise RefusedError(
            f"this version of seamark does not support hash {', '.join(sorted(strange))} of this copy",
            hint="verify it with the version of seamark that ran the copy, or a later one",
        )
