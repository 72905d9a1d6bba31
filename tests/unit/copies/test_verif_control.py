"""What the control records alone tell of a copy."""

from __future__ import annotations

from seamark.copies.plan.plan import CopyPlan, TopicEnd
from seamark.copies.verify.report import Coordinates, Kind
from seamark.copies.verify.sums import describe_aborted, describe_held, find_cut_runs, find_missing_records
from seamark.kafka_sink.control import Amount, Claim, ControlRecord, Copied, Run
from seamark.kafka_sink.routing import Partitioner, Routing
from seamark.spark.slices import OffsetRange, Slice

RANGES = (OffsetRange(0, 0, 10), OffsetRange(1, 0, 10))
PLAN = CopyPlan(
    id="p",
    made_at="2026-11-16T00:00:00Z",
    source=TopicEnd("c", "a", "", partitions=2, replication_factor=1),
    target=TopicEnd("c", "b", "", partitions=2, replication_factor=1),
    routing=Routing(Partitioner.MURMUR2, 2, 2),
    evidence="a test",
    ranges=RANGES,
    slices=(
        Slice(0, tuple(OffsetRange(one.partition, 0, 5) for one in RANGES)),
        Slice(1, tuple(OffsetRange(one.partition, 5, 10) for one in RANGES)),
    ),
    configs=(),
)
RUN = Run(0, 0, 5, first_source=0, last_source=4, first_target=0, last_target=4)


def record(place, task, *runs):
    claim = Claim("p", task, part=PLAN.slices[place].id)
    return ControlRecord(claim, Amount(sum(run.count for run in runs)), is_done=True, copied=Copied(2, runs))


def test_tasks_without_a_record_are_told_by_slice():
    records = [record(0, 0), record(0, 1), record(1, 1)]
    (found,) = find_missing_records(PLAN, records)
    assert (found.kind, found.count) == (Kind.MISSING_CONTROL, 1)
    assert f"slice {PLAN.slices[1].id}, task 0:" in found.words
    assert list(find_missing_records(PLAN, [*records, record(1, 0)])) == []
    assert [one.count for one in find_missing_records(PLAN, [])] == [2, 2]


def test_target_that_ends_before_a_run_or_begins_behind_it_has_lost_records():
    assert list(find_cut_runs([RUN], {0: 0}, {0: 5})) == []
    (short,) = find_cut_runs([RUN], {0: 0}, {0: 3})
    assert (short.kind, short.target, short.count) == (Kind.LOST, Coordinates(0, 3, 4), 2)
    (late,) = find_cut_runs([RUN], {0: 1}, {0: 6})
    assert (late.target, late.count) == (Coordinates(0, 0), 1)
    (gone,) = find_cut_runs([RUN], {0: 0}, {0: 0})
    assert gone.count == RUN.count


def test_offsets_of_no_run_are_a_note():
    assert list(describe_aborted([record(0, 0, RUN)], {0: 6})) == []
    (note,) = describe_aborted([record(0, 0, RUN)], {0: 9, 1: 2})
    assert note.startswith("5 offsets of the target belong to no run, the first is 0@6")


def test_open_transaction_is_a_note():
    assert list(describe_held({0: 5}, {0: 5})) == []
    (note,) = describe_held({0: 5, 1: 3}, {0: 5, 1: 9})
    assert "partition 1 of the target hides offsets 3 to 8" in note
