"""Compare the counts of two scans with the control records: which runs are complete, and which are suspect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from seamark.copies.plan.plan import CopyPlan, build_tasks
from seamark.copies.plan.progress import find_aborted
from seamark.copies.verify.report import Coordinates, CopyFinding, Gone, Kind
from seamark.kafka_sink.control import Checksum, ControlRecord, Run
from seamark.spark.slices import OffsetRange

_NAMED = 5


def find_missing_records(plan: CopyPlan, records: Iterable[ControlRecord]) -> Iterator[CopyFinding]:
    """Find the tasks of the plan without a control record: they have not run, or it was lost."""
    tasks = {task.number for task in build_tasks(plan.require_accepted())}
    found: dict[str, set[int]] = {}
    for record in records:
        found.setdefault(record.claim.part, set()).add(record.claim.task)
    for one in plan.slices:
        absent = sorted(tasks - found.get(one.id, set()))
        if absent:
            named = ", ".join(map(str, absent[:_NAMED])) + (" and more" if len(absent) > _NAMED else "")
            words = f"slice {one.id}, task {named}: not copied yet, or its control record was lost"
            yield CopyFinding(Kind.MISSING_CONTROL, count=len(absent), words=words)


def find_cut_runs(runs: Iterable[Run], begins: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[CopyFinding]:
    """Find runs outside the bounds of the target."""
    for run in runs:
        begin, end = begins.get(run.target, 0), ends.get(run.target, 0)
        if run.first_target < begin:
            last = min(run.last_target, begin - 1)
            yield _build_missing(
                run, run.first_target, last, words=f"partition {run.target} of the target starts at {begin}"
            )
        if run.last_target >= end:
            first = max(run.first_target, end, begin)
            yield _build_missing(
                run, first, run.last_target, words=f"partition {run.target} of the target ends at {end}"
            )


def describe_aborted(records: Iterable[ControlRecord], ends: Mapping[int, int]) -> Iterator[str]:
    """Describe offsets of the target without a run, which a quick verification can't classify."""
    found = find_aborted(records, ends=ends)
    if found:
        total = sum(one.size for one in found)
        first = found[0]
        yield (
            f"{total} offsets of the target belong to no run, the first is {first.target}@{first.first}: aborted "
            "records, or records of other producers, which a standard verification distinguishes"
        )


def describe_held(ends: Mapping[int, int], true_ends: Mapping[int, int]) -> Iterator[str]:
    """Describe where an open transaction hides the records after it."""
    for partition, end in sorted(ends.items()):
        if end < true_ends.get(partition, end):
            yield (
                f"an open transaction in partition {partition} of the target hides offsets {end} to "
                f"{true_ends[partition] - 1}"
            )


def _build_missing(run: Run, first: int, last: int, *, words: str) -> CopyFinding:
    where = Coordinates(run.target, first, last)
    # In the source, the offsets between may belong to other runs.
    origin = Coordinates(run.source, run.first_source, run.last_source)
    return CopyFinding(Kind.LOST, source=origin, target=where, count=last - first + 1, words=words)


# A separate task costs more than reading this many extra records.
_NEAR = 10_000


def list_source_ranges(runs: Iterable[Run]) -> list[OffsetRange]:
    """Return the source offsets of runs."""
    return [OffsetRange(run.source, run.first_source, run.last_source + 1) for run in runs]


def list_target_ranges(runs: Iterable[Run]) -> list[OffsetRange]:
    """Return the target offsets of runs."""
    return [OffsetRange(run.target, run.first_target, run.last_target + 1) for run in runs]


def join_ranges(ranges: Iterable[OffsetRange], *, near: int = _NEAR) -> tuple[OffsetRange, ...]:
    """Join ranges that overlap or are near each other, so that few ranges contain each offset once."""
    joined: list[OffsetRange] = []
    for one in sorted(ranges, key=lambda item: (item.partition, item.begin)):
        if not one.size:
            continue
        if joined and joined[-1].partition == one.partition and one.begin <= joined[-1].end + near:
            joined[-1] = OffsetRange(one.partition, joined[-1].begin, max(joined[-1].end, one.end))
        else:
            joined.append(one)
    return tuple(joined)


def clip_ranges(ranges: Iterable[OffsetRange], begins: Mapping[int, int], ends: Mapping[int, int]) -> list[OffsetRange]:
    """Return the part of the ranges that a topic still has, by the bounds of its partitions."""
    kept = []
    for one in ranges:
        begin = max(one.begin, begins.get(one.partition, 0))
        end = min(one.end, ends.get(one.partition, one.end))
        if begin < end:
            kept.append(OffsetRange(one.partition, begin, end))
    return kept


NO_RUN = -1
"""The run of a record that no control record describes."""

NOT_YET = -2
"""The run of a source record that the copy has not reached yet."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The counts of one run on one side, by offsets of that side.

    `ordered` is computed over hashes that include the target offset. `misplaced` records are in another partition than
    that of their key, the first of them at `misplaced_at`.
    """

    count: int
    first: int
    last: int
    checksum: Checksum
    ordered: Checksum
    times: tuple[int, int] = (0, 0)
    misplaced: int = 0
    misplaced_at: int | None = None


Scan = Mapping[tuple[int, int], Sums]
"""The sums of one side, by partition and number of the run."""


@dataclass(frozen=True, slots=True)
class SourceLoss:
    """What a source may have lost since: it is compacted, or its partitions begin at these offsets now."""

    is_compacted: bool = False
    begins: Mapping[int, int] = field(default_factory=dict)

    def explains(self, run: Run) -> bool:
        """Return whether records of a run may be deleted."""
        return self.is_compacted or self.begins.get(run.source, 0) > run.first_source


@dataclass(frozen=True, slots=True)
class Suspect:
    """A run to compare record by record. `is_described` means that the target has what the control records state."""

    number: int
    run: Run
    is_described: bool
    is_gone: bool


@dataclass(frozen=True, slots=True)
class SumsComparison:
    """The comparison of the sums.

    Records without a run are suspect, too: `source_undescribed` and `target_undescribed`.
    """

    findings: tuple[CopyFinding, ...]
    gone: tuple[Gone, ...]
    suspects: tuple[Suspect, ...]
    source_undescribed: tuple[OffsetRange, ...]
    target_undescribed: tuple[OffsetRange, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing has to be compared record by record."""
        return not (self.suspects or self.source_undescribed or self.target_undescribed)


def judge_sums(
    runs: Sequence[Run], source: Scan, target: Scan, *, forgetting: SourceLoss, is_ordered: bool
) -> SumsComparison:
    """Compare both scans with the runs of the control records. `is_ordered` includes the order."""
    findings: list[CopyFinding] = []
    gone: list[Gone] = []
    suspects: list[Suspect] = []
    for number, run in enumerate(runs):
        ours, theirs = source.get((run.source, number)), target.get((run.target, number))
        left = ours.count if ours else 0
        is_gone = left < run.count and forgetting.explains(run)
        if is_gone:
            gone.append(Gone(Coordinates(run.source, run.first_source, run.last_source), run.count - left))
        found = [*_judge_target(run, theirs, ours), *(() if is_gone else _judge_source(run, ours))]
        if not found and not is_gone and is_ordered and ours and theirs and ours.ordered != theirs.ordered:
            found.append(_build_finding(Kind.REORDERED, run, "the records of the source are in another order"))
        findings += found
        # The target offsets of an incomplete run can't be determined by counting: its order has to be compared.
        if found or (is_gone and is_ordered and left):
            suspects.append(Suspect(number, run, is_described=not _judge_target(run, theirs, ours), is_gone=is_gone))
    lost, foreign = _find_undescribed(source), _find_undescribed(target)
    findings += _judge_undescribed(source, target)
    return SumsComparison(
        tuple(findings), tuple(gone), tuple(suspects), source_undescribed=lost, target_undescribed=foreign
    )


def _judge_target(run: Run, found: Sums | None, ours: Sums | None) -> list[CopyFinding]:
    """Compare the target with the control record."""
    count = found.count if found else 0
    if count < run.count:
        words = f"{run.count} records were written, and the target has {count}"
        return [_build_finding(Kind.LOST, run, words, count=run.count - count)]
    if found is not None and found.checksum != run.checksum:
        words = "the records of the target differ from those that were written"
        if ours is not None and ours.count == found.count and ours.times != found.times:
            words += (
                f", with timestamps {found.times[0]} to {found.times[1]} instead of {ours.times[0]} to {ours.times[1]}"
            )
        return [_build_finding(Kind.DIFFERENT, run, words)]
    return []


def _judge_source(run: Run, found: Sums | None) -> list[CopyFinding]:
    """Compare the source with the control record, if the source can't have lost records."""
    count = found.count if found else 0
    if count < run.count:
        words = f"{run.count} records were written, and the source has {count}"
        return [_build_finding(Kind.DIFFERENT, run, words)]
    if count > run.count:
        words = f"{run.count} records were written, and the source has {count}"
        return [_build_finding(Kind.LOST, run, words, count=count - run.count)]
    if found is not None and found.checksum != run.checksum:
        return [_build_finding(Kind.DIFFERENT, run, "the records of the source differ from those that were written")]
    return []


def _judge_undescribed(source: Scan, target: Scan) -> Iterator[CopyFinding]:
    for (partition, number), sums in sorted(source.items()):
        if number == NO_RUN:
            where = Coordinates(partition, sums.first, sums.last)
            yield CopyFinding(Kind.LOST, source=where, count=sums.count, words="no control record describes them")
    for (partition, number), sums in sorted(target.items()):
        if number == NO_RUN:
            where = Coordinates(partition, sums.first, sums.last)
            yield CopyFinding(Kind.FOREIGN, target=where, count=sums.count, words="no control record describes them")
        if sums.misplaced and sums.misplaced_at is not None:
            first = Coordinates(partition, sums.misplaced_at)
            words = "the key belongs to another partition" + (", the first of them" if sums.misplaced > 1 else "")
            yield CopyFinding(Kind.WRONG_PARTITION, target=first, count=sums.misplaced, words=words)


def _find_undescribed(scan: Scan) -> tuple[OffsetRange, ...]:
    return tuple(
        OffsetRange(partition, sums.first, sums.last + 1)
        for (partition, number), sums in sorted(scan.items())
        if number == NO_RUN
    )


def _build_finding(kind: Kind, run: Run, words: str, *, count: int = 1) -> CopyFinding:
    return CopyFinding(
        kind,
        source=Coordinates(run.source, run.first_source, run.last_source),
        target=Coordinates(run.target, run.first_target, run.last_target),
        count=count,
        words=words,
    )
