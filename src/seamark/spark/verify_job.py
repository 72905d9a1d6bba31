"""A copy verified by Spark: what its control records say, what the target has, and what is left of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from seamark.errors import RefusedError
from seamark.model.control import ControlRecord
from seamark.model.copy_run import Run
from seamark.pipelines.copy_plan import CopyPlan
from seamark.pipelines.progress import Progress, read_progress
from seamark.pipelines.slices import OffsetRange
from seamark.pipelines.verif_control import describe_debris, describe_held, find_cut_runs, find_missing_records
from seamark.pipelines.verif_match import index_hashes, tell_apart, tell_rest
from seamark.pipelines.verif_ranges import clip_ranges, join_ranges, list_source_ranges, list_target_ranges
from seamark.pipelines.verif_sums import Judgement, Scan, judge_sums
from seamark.pipelines.verification import (
    EXAMPLES,
    Compared,
    Coordinates,
    Finding,
    Gone,
    Kind,
    Level,
    Verification,
    choose_examples,
    count_findings,
)
from seamark.spark.copy_job import CopyEnds
from seamark.spark.source_frame import read_ranges
from seamark.spark.verify_match import Unpaired, find_hashes, match_records
from seamark.spark.verify_places import RunTable
from seamark.spark.verify_sums import scan_source, scan_target
from seamark.spark.verify_topics import TopicsFound, build_target_source, read_control_records, read_topics

OnStage = Callable[[str], None]
"""Called before each stage, with what it does."""


def verify_copy(
    spark: SparkSession,
    plan: CopyPlan,
    ends: CopyEnds,
    *,
    level: Level,
    progress: Progress | None = None,
    on_stage: OnStage | None = None,
    examples: int = EXAMPLES,
    target_source: Mapping[str, str] | None = None,
) -> Verification:
    """Compare a copy with its source. A copy that is wrong is a report, and no error.

    `progress` is what the control records say, if the caller has read them. `target_source` are the options of Spark's
    Kafka source for the target, where it is in another cluster than the source and needs a login.

    Raises:
        NotFoundError: a topic is gone.
        RefusedError: a topic was made anew since, or the plan can't be run.
    """
    job = _Job(spark, plan, ends, on_stage=on_stage or _ignore, target_source=target_source)
    return job.run(level, progress, examples=examples)


def _ignore(stage: str) -> None:
    del stage


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found so far."""

    findings: tuple[Finding, ...] = ()
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

    def run(self, level: Level, progress: Progress | None, *, examples: int) -> Verification:
        self._on_stage("looking at both topics and the control records")
        topics = read_topics(self._plan, self._ends, self._options)
        records = progress.records if progress else tuple(read_control_records(self._plan, self._options))
        missing = tuple(find_missing_records(self._plan, records))
        try:
            known = progress or read_progress(self._plan.id, self._plan.slices, records)
        except RefusedError as error:
            # Nobody knows then what should be where: there is nothing to compare with.
            words = f"{error.message}: {error.cause}"
            found = _Found((*missing, Finding(Kind.MISSING_CONTROL, words=words)))
            return self._report(level, found, records=records, runs=(), examples=examples)
        runs = tuple(run for one in known.records for run in one.runs)
        found = self._look(level, known, runs=runs, topics=topics, examples=examples)
        held = tuple(describe_held(topics.ends, topics.true_ends))
        whole = _Found(
            (*missing, *found.findings), found.gone, (*held, *found.notes), found.source_records, found.target_records
        )
        return self._report(level, whole, records=known.records, runs=runs, examples=examples)

    def _look(
        self, level: Level, known: Progress, *, runs: tuple[Run, ...], topics: TopicsFound, examples: int
    ) -> _Found:
        if level is Level.QUICK:
            cut = tuple(find_cut_runs(runs, topics.begins, topics.ends))
            return _Found(cut, notes=tuple(describe_debris(known.records, topics.ends)))
        covered = {one.partition: one.end for one in known.cover(self._plan.ranges)}
        table = RunTable(self._routing, tuple(enumerate(runs)), covered=covered)
        self._on_stage("reading the source")
        begun = _list_begun(self._plan, known)
        source = self._scan(self._read_source(begun, topics), table, scan=scan_source)
        self._on_stage("reading the target")
        whole = [OffsetRange(number, 0, topics.ends[number]) for number in range(self._plan.target.partitions)]
        target = self._scan(self._read_target(whole, topics), table, scan=scan_target)
        judged = judge_sums(runs, source, target, forgetting=topics.forgetting, is_ordered=level is Level.FULL)
        findings = judged.findings
        if level is Level.FULL and not judged.is_clean:
            findings = self._look_closer(judged, table, topics=topics, begun=begun, examples=examples)
        counts = (sum(one.count for one in side.values()) for side in (source, target))
        return _Found(findings, judged.gone, (), *counts)

    def _look_closer(
        self,
        judged: Judgement,
        table: RunTable,
        *,
        topics: TopicsFound,
        begun: Sequence[OffsetRange],
        examples: int,
    ) -> tuple[Finding, ...]:
        """Name the records of what the sums found."""
        self._on_stage(f"comparing {len(judged.suspects)} runs record by record")
        runs = [one.run for one in judged.suspects]
        everything = self._read_source(begun, topics)
        if everything is None:
            # Nothing is left of the source.
            return judged.findings
        source = self._read_source([*list_source_ranges(runs), *judged.source_strays], topics)
        target = self._read_target([*list_target_ranges(runs), *judged.target_strays], topics)
        nothing = everything.where("false")
        source, target = (nothing if side is None else side for side in (source, target))
        matched = match_records(source, target, table, suspects=judged.suspects, examples=examples)
        told = tell_apart(matched.unpaired.wanted, matched.unpaired.lying)
        named = [*matched.findings, *told.findings]
        if told.left:
            self._on_stage(f"looking for {len(told.left)} records of the target in the whole source")
            hashes = find_hashes(everything, (one.hash for one in told.left))
            named += tell_rest(told.left, index_hashes(hashes), covered=table.covered)
        return _settle(judged, [*named, *_list_untold(matched.unpaired)])

    def _read_source(self, ranges: Sequence[OffsetRange], topics: TopicsFound) -> DataFrame | None:
        left = clip_ranges(join_ranges(ranges), dict(topics.forgetting.begins), {})
        return self._read(self._plan.source.topic, left, self._ends.source)

    def _read_target(self, ranges: Sequence[OffsetRange], topics: TopicsFound) -> DataFrame | None:
        left = clip_ranges(join_ranges(ranges), dict(topics.begins), dict(topics.ends))
        return self._read(self._plan.target.topic, left, self._target_source)

    def _read(self, topic: str, ranges: Sequence[OffsetRange], options: Mapping[str, str]) -> DataFrame | None:
        if not ranges:
            return None
        # What retention takes while this reads is missed by its count.
        return read_ranges(self._spark, topic, ranges, options=options, may_be_gone=True)

    @staticmethod
    def _scan(frame: DataFrame | None, table: RunTable, *, scan: Callable[[DataFrame, RunTable], Scan]) -> Scan:
        return {} if frame is None else scan(frame, table)

    def _report(
        self, level: Level, found: _Found, *, records: Sequence[ControlRecord], runs: Sequence[Run], examples: int
    ) -> Verification:
        compared = Compared(
            control_records=len(records),
            runs=len(runs),
            told_records=sum(run.count for run in runs),
            source_records=found.source_records,
            target_records=found.target_records,
        )
        return Verification(
            self._plan.id,
            source=self._plan.source.topic,
            target=self._plan.target.topic,
            level=level,
            compared=compared,
            counts=count_findings(found.findings),
            findings=choose_examples(found.findings, limit=examples),
            gone=found.gone,
            notes=found.notes,
        )


def _list_begun(plan: CopyPlan, known: Progress) -> list[OffsetRange]:
    """The offsets of the source that any control record may tell of."""
    begun = {one.claim.part for one in known.records}
    return [part for one in plan.slices if one.id in begun for part in one.ranges]


def _settle(judged: Judgement, named: Sequence[Finding]) -> tuple[Finding, ...]:
    """What was named record by record, and what of the sums it leaves unsaid: nothing found may go unsaid."""
    kinds = {one.kind for one in named}
    vague = {
        Coordinates(one.run.target, one.run.first_target, one.run.last_target)
        for one in judged.suspects
        if one.is_gone and not one.is_told
    }
    kept = [
        one
        for one in judged.findings
        if not named
        or (one.kind is Kind.WRONG_PARTITION and one.kind not in kinds)
        or (one.target in vague and one.kind is not Kind.WRONG_PARTITION)
    ]
    return (*kept, *named)


def _list_untold(unpaired: Unpaired) -> Iterator[Finding]:
    """What is only counted, as there is too much of it."""
    untold = {
        "source": unpaired.wanted_count - len(unpaired.wanted),
        "target": unpaired.lying_count - len(unpaired.lying),
    }
    for side, count in untold.items():
        if count:
            words = f"more records of the {side} have no equal; what became of those is not told"
            yield Finding(Kind.DIFFERENT, count=count, words=words)
