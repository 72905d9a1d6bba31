"""A copy verified by Spark: what its control records say, what the target has, and what is left of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from seamark.copies.plan.copy_plan import CopyPlan
from seamark.copies.plan.progress import Progress, read_progress
from seamark.copies.plan.settings import CopyEnds
from seamark.copies.verify.verif_control import describe_debris, describe_held, find_cut_runs, find_missing_records
from seamark.copies.verify.verif_sums import Scan, judge_sums
from seamark.copies.verify.verification import (
    EXAMPLES,
    Compared,
    Finding,
    Gone,
    Kind,
    Level,
    Verification,
    choose_examples,
    count_findings,
)
from seamark.copies.verify.verify_closer import OnStage, look_closer
from seamark.copies.verify.verify_places import RunTable
from seamark.copies.verify.verify_sides import Sides, list_begun
from seamark.copies.verify.verify_sums import scan_source, scan_target
from seamark.copies.verify.verify_topics import build_target_source, read_control_records, read_source, read_target
from seamark.errors import RefusedError
from seamark.kafka_sink.control import ControlRecord
from seamark.kafka_sink.copy_run import Run

_HASH_NAME = "xxhash64"


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
        sides = self._look_at_topics()
        records = progress.records if progress else tuple(read_control_records(self._plan, self._options))
        missing = tuple(find_missing_records(self._plan, records))
        try:
            known = progress or read_progress(self._plan.id, self._plan.slices, records)
        except RefusedError as error:
            # Nobody knows then what should be where: there is nothing to compare with.
            contradiction = Finding(Kind.MISSING_CONTROL, words=f"{error.message}: {error.cause}")
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

    def _look(self, known: Progress, sides: Sides, *, is_full: bool, examples: int) -> _Found:
        """Read both topics once, and what differs once more."""
        runs = _list_runs(known.records)
        covered = {one.partition: one.end for one in known.cover(self._plan.ranges)}
        table = RunTable(self._routing, tuple(enumerate(runs)), covered=covered)
        begun = list_begun(self._plan, known)
        self._on_stage("reading the source")
        source = {} if (frame := sides.read_source(begun)) is None else scan_source(frame, table)
        # Asked after it was read: what retention took meanwhile was not seen.
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


def _look_quickly(known: Progress, sides: Sides) -> _Found:
    """The control records against where the target begins and ends."""
    cut = find_cut_runs(_list_runs(known.records), sides.target.begins, sides.target.ends)
    return _Found(tuple(cut), notes=tuple(describe_debris(known.records, sides.target.ends)))


def _list_runs(records: Sequence[ControlRecord]) -> tuple[Run, ...]:
    return tuple(run for one in records for run in one.runs)


def _count(scan: Scan) -> int:
    return sum(one.count for one in scan.values())


def check_hashes(records: Sequence[ControlRecord]) -> None:
    """Refuse control records whose checksums can't be computed here."""
    strange = {one.copied.hash_name for one in records if one.copied} - {_HASH_NAME}
    if strange:
        raise RefusedError(
            f"the records of this copy were hashed by {', '.join(sorted(strange))}, which this seamark does not know",
            hint="verify it with the version that made it, or a later one",
        )
