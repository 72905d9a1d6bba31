"""What the control records alone tell: whether all are there, and whether the target can hold what they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from seamark.copies.plan.copy_plan import CopyPlan
from seamark.copies.plan.debris import find_debris
from seamark.copies.plan.tasks import build_tasks
from seamark.copies.verify.verification import Coordinates, Finding, Kind
from seamark.kafka_sink.control import ControlRecord
from seamark.kafka_sink.copy_run import Run

_NAMED = 5


def find_missing_records(plan: CopyPlan, records: Iterable[ControlRecord]) -> Iterator[Finding]:
    """The tasks of the plan that have no control record: they have not run, or it was lost."""
    tasks = {task.number for task in build_tasks(plan.require_accepted())}
    found: dict[str, set[int]] = {}
    for record in records:
        found.setdefault(record.claim.part, set()).add(record.claim.task)
    for one in plan.slices:
        absent = sorted(tasks - found.get(one.id, set()))
        if absent:
            named = ", ".join(map(str, absent[:_NAMED])) + (" and more" if len(absent) > _NAMED else "")
            words = f"slice {one.id}, task {named}: not copied yet, or the record was lost"
            yield Finding(Kind.MISSING_CONTROL, count=len(absent), words=words)


def find_cut_runs(runs: Iterable[Run], begins: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[Finding]:
    """Runs that lie outside of what the target has."""
    for run in runs:
        begin, end = begins.get(run.target, 0), ends.get(run.target, 0)
        if run.first_target < begin:
            last = min(run.last_target, begin - 1)
            yield _build_missing(
                run, run.first_target, last, words=f"partition {run.target} of the target begins at {begin}"
            )
        if run.last_target >= end:
            first = max(run.first_target, end, begin)
            yield _build_missing(
                run, first, run.last_target, words=f"partition {run.target} of the target ends at {end}"
            )


def describe_debris(records: Iterable[ControlRecord], ends: Mapping[int, int]) -> Iterator[str]:
    """What a quick look can't tell: offsets of the target that belong to no run."""
    found = find_debris(records, ends=ends)
    if found:
        total = sum(one.size for one in found)
        first = found[0]
        yield (
            f"{total} offsets of the target belong to no run, the first is {first.target}@{first.first}: attempts that "
            "were taken back, or records of others, which a standard verification tells"
        )


def describe_held(ends: Mapping[int, int], true_ends: Mapping[int, int]) -> Iterator[str]:
    """Where an open transaction hides what follows."""
    for partition, end in sorted(ends.items()):
        if end < true_ends.get(partition, end):
            yield (
                f"a transaction is open in partition {partition} of the target: nothing from {end} to "
                f"{true_ends[partition] - 1} could be read"
            )


def _build_missing(run: Run, first: int, last: int, *, words: str) -> Finding:
    where = Coordinates(run.target, first, last)
    # In the source the records between may be of other runs.
    origin = Coordinates(run.source, run.first_source, run.last_source)
    return Finding(Kind.LOST, source=origin, target=where, count=last - first + 1, words=words)
