"""The progress of a copy, read from its control records. Control records that contradict each other are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from seamark.errors import RefusedError
from seamark.kafka_sink.control import ControlRecord, Copied, Run
from seamark.spark.slices import OffsetRange, Slice

# Consumers with `isolation.level=read_committed` skip them. Sink connectors read them unless that is set for them, so
# a cutover counts the aborted records after the offset of each group.


@dataclass(frozen=True, slots=True)
class AbortedRecords:
    """Offsets of a target, both ends included. Some may be transaction markers, so the size is an upper bound."""

    target: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


def find_aborted(records: Iterable[ControlRecord], *, ends: Mapping[int, int]) -> tuple[AbortedRecords, ...]:
    """Find offsets below the ends of the targets that are neither records of the copy nor its commit markers.

    `records` are the control records of `CopyProgress`, in their order.
    """
    reached = dict.fromkeys(ends, 0)
    found: list[AbortedRecords] = []
    for record in records:
        last: dict[int, int] = {}
        for run in record.runs:
            before = reached.get(run.target, 0)
            if run.first_target > before:
                found.append(AbortedRecords(run.target, before, run.first_target - 1))
            last[run.target] = reached[run.target] = run.last_target + 1
        # The commit marker has the offset after the last record of the transaction.
        reached |= {target: offset + 1 for target, offset in last.items()}
    found += [AbortedRecords(target, reached[target], end - 1) for target, end in ends.items() if end > reached[target]]
    return tuple(sorted(found, key=lambda one: (one.target, one.first)))


def list_ahead(aborted: Sequence[AbortedRecords], offsets: Mapping[int, int]) -> tuple[AbortedRecords, ...]:
    """Return the aborted records that a `read_uncommitted` consumer would read from these offsets on."""
    ahead = (AbortedRecords(one.target, max(one.first, offsets[one.target]), one.last) for one in aborted)
    return tuple(one for one in ahead if one.size > 0)


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of a copy. `records` are its control records, by slice and task.

    The first `done` slices are complete. The next one may have some finished tasks, which detect it when the slice is
    run again. `repeats` were read twice, and `foreign` belong to other jobs.
    """

    slices: tuple[Slice, ...]
    records: tuple[ControlRecord, ...]
    done: int
    repeats: int = 0
    foreign: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether every slice is done."""
        return self.done == len(self.slices)

    @property
    def count(self) -> int:
        """How many records were written."""
        return sum(one.amount.records for one in self.records)

    def cover(self, ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
        """Return the part of the plan's ranges that the finished slices have copied without a gap."""
        reached = {one.partition: one.begin for one in ranges}
        for one in self.slices[: self.done]:
            reached |= {part.partition: part.end for part in one.ranges}
        return tuple(OffsetRange(one.partition, one.begin, reached[one.partition]) for one in ranges)

    def check_target(self, ends: Mapping[int, int]) -> None:
        """Check that the partitions of the target end after the records that were copied to them."""
        check_ends({run.target: run.last_target + 1 for one in self.records for run in one.runs}, ends)

    def runs(self) -> tuple[Run, ...]:
        """Return every run of the finished slices, in the order of slices."""
        known = {one.id for one in self.slices[: self.done]}
        return tuple(run for one in self.records if one.claim.part in known for run in one.runs)


def check_ends(behind: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Refuse ends of target partitions that are before the offset after the last record written there."""
    for target, least in behind.items():
        if ends[target] < least:
            raise RefusedError(
                f"partition {target} of the target ends at {ends[target]}, before the end of the copied records",
                cause=f"the control records go up to {least - 1}",
                hint="create a new plan with a new target: this one was recreated or has lost records",
            )


def read_progress(plan: str, slices: Sequence[Slice], records: Iterable[ControlRecord]) -> CopyProgress:
    """Read the progress of a plan from its control records, which may be in any order."""
    known = {one.id: one for one in slices}
    found: dict[bytes, ControlRecord] = {}
    repeats = foreign = 0
    for record in records:
        key = record.claim.key
        if record.claim.job != plan:
            foreign += 1
            continue
        _check_place(record, known)
        if key in found:
            _check_same(found[key], record)
            repeats += 1
        else:
            found[key] = record
    ordered = tuple(sorted(found.values(), key=lambda one: (known[one.claim.part].number, one.claim.task)))
    done = _count_done(slices, ordered)
    _check_targets(ordered)
    return CopyProgress(tuple(slices), ordered, done=done, repeats=repeats, foreign=foreign)


def _count_done(slices: Sequence[Slice], records: Sequence[ControlRecord]) -> int:
    by_slice: dict[str, list[ControlRecord]] = {}
    for record in records:
        held = by_slice.setdefault(record.claim.part, [])
        held.append(record)
        _check_tasks(record, held[0])
    done = 0
    for place, one in enumerate(slices):
        held = by_slice.get(one.id, [])
        if held and done < place:
            raise _refuse(held[0], f"slice {slices[done].id} before it is not finished, and slices are copied in order")
        if held and len(held) == _copied(held[0]).tasks:
            done += 1
    return done


def _check_place(record: ControlRecord, known: Mapping[str, Slice]) -> None:
    where = known.get(record.claim.part)
    if where is None:
        raise _refuse(record, "its plan has no such slice")
    ranges = {part.partition: part for part in where.ranges}
    for run in record.runs:
        part = ranges.get(run.source)
        if part is None or not part.begin <= run.first_source <= run.last_source < part.end:
            raise _refuse(
                record,
                f"it copied offsets {run.first_source} to {run.last_source} of partition {run.source}, outside of its "
                "slice",
            )


def _check_same(first: ControlRecord, second: ControlRecord) -> None:
    if first != second:
        raise _refuse(second, f"it was written twice, with {first.amount} and with {second.amount}")


def _check_tasks(record: ControlRecord, other: ControlRecord) -> None:
    ours, theirs = _copied(record), _copied(other)
    if ours.tasks != theirs.tasks or ours.hash_name != theirs.hash_name:
        raise _refuse(
            record,
            f"it has {ours.tasks} tasks and hash {ours.hash_name}, and other records of its slice have {theirs.tasks} "
            f"tasks and hash {theirs.hash_name}",
        )


def _copied(record: ControlRecord) -> Copied:
    # A control record with a slice has this field, and one without a slice doesn't belong to a plan.
    if record.copied is None:
        raise AssertionError
    return record.copied


def _check_targets(records: Sequence[ControlRecord]) -> None:
    """Check that one task per slice writes a target, in the order of slices and source partitions, each offset once."""
    writers: dict[tuple[str, int], int] = {}
    reached: dict[int, int] = {}
    for record in records:
        for run in record.runs:
            writer = writers.setdefault((record.claim.part, run.target), record.claim.task)
            if writer != record.claim.task:
                raise _refuse(record, f"task {writer} of its slice also wrote to partition {run.target}")
            if run.first_target <= reached.get(run.target, -1):
                raise _refuse(
                    record,
                    f"it starts at offset {run.first_target} of partition {run.target}, and the records before it end "
                    f"at {reached[run.target]}: the order is wrong",
                )
            reached[run.target] = run.last_target


def _refuse(record: ControlRecord, cause: str) -> RefusedError:
    return RefusedError(
        f"the control records of the copy contradict each other at {record.claim.key.decode()}",
        cause=cause,
        hint="delete the target topic and create a new plan; the source topic is unchanged",
        context={"plan": record.claim.job, "slice": record.claim.part, "task": str(record.claim.task)},
    )


@dataclass(frozen=True, slots=True)
class BoundedCount:
    """A number that is known within bounds. It is exact if both are equal."""

    least: int
    most: int

    @property
    def is_exact(self) -> bool:
        """Whether only one number is possible."""
        return self.least == self.most

    def __add__(self, other: BoundedCount) -> BoundedCount:
        """Return the sum of two numbers."""
        return BoundedCount(self.least + other.least, self.most + other.most)

    def shift(self, by: int) -> BoundedCount:
        """Return the number increased by `by`."""
        return BoundedCount(self.least + by, self.most + by)


@dataclass(frozen=True, slots=True)
class Question:
    """How many records of a run are before a source offset inside it: unknown from the figures of the run."""

    run: Run
    source_offset: int


@dataclass(frozen=True, slots=True)
class Recount:
    """The records of a run that a second read and routing finds: before the offset, and from it on.

    Compaction and retention may have deleted some. Then the sum is less than the run had, and the answer is a bound.
    """

    before: int
    after: int


Answers = Mapping[Question, Recount]


Recounter = Callable[[Sequence[Question]], Answers]
"""Reads the source a second time to answer questions. Questions without an answer are omitted from the result.

The questions of many groups are asked together, so that one job can answer them.
"""


def count_inside(run: Run, source_offset: int, answers: Answers) -> BoundedCount:
    """Return how many records of a run come before an offset that is after its first one.

    The number of offsets on either side bounds the count; a recount narrows the bounds.
    """
    least = max(1, run.count - (run.last_source - source_offset + 1))
    most = min(run.count - 1, source_offset - run.first_source)
    answer = answers.get(Question(run, source_offset)) if least < most else None
    if answer is None:
        return BoundedCount(least, most)
    told = BoundedCount(max(least, answer.before), min(most, run.count - answer.after))
    if told.least > told.most or min(answer.before, answer.after) < 0:
        raise RefusedError(
            f"recounting partition {run.source} gives another count than the copy",
            cause=f"{answer.before} records before and {answer.after} after offset {source_offset} for partition "
            f"{run.target}, and the copy had {run.count} from {run.first_source} to {run.last_source}",
            hint="verify the copy: seamark copies verify PLAN; the source may have been recreated",
        )
    return told
