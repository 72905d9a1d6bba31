"""The state of a copy from its control records: repeats are seen, contradictions refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.copies.plan.progress import read_progress
from seamark.errors import RefusedError
from seamark.kafka_sink.control import Amount, Claim, ControlRecord, Run
from seamark.spark.slices import OffsetRange, Slice
from tests.unit.copies.simulation import build_record

SLICES = (
    Slice(0, (OffsetRange(0, 0, 10), OffsetRange(1, 5, 9))),
    Slice(1, (OffsetRange(0, 10, 20),)),
    Slice(2, (OffsetRange(0, 20, 30), OffsetRange(1, 9, 12))),
)
RANGES = (OffsetRange(0, 0, 30), OffsetRange(1, 5, 12), OffsetRange(2, 4, 4))


def run(source, target, sources, first_target):
    first, last = sources
    count = last - first + 1
    return Run(
        source,
        target,
        count,
        first_source=first,
        last_source=last,
        first_target=first_target,
        last_target=first_target + count - 1,
    )


def record(number, task, *runs, tasks=2, **more):
    return build_record("p", SLICES[number].id, task=task, tasks=tasks, runs=runs, **more)


FIRST = record(0, 0, run(0, 0, (0, 4), 0), run(1, 0, (5, 8), 5))
SECOND = record(0, 1, run(0, 1, (5, 9), 0))
THIRD = record(1, 0, run(0, 0, (10, 19), 10))
FOURTH = record(1, 1)
FIFTH = record(2, 0, run(0, 0, (20, 29), 22))
SIXTH = record(2, 1, run(1, 1, (9, 11), 7))
ALL = (FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH)


@pytest.mark.parametrize(
    ("written", "done", "reached"),
    [
        (0, 0, [0, 5, 4]),
        (1, 0, [0, 5, 4]),
        (2, 1, [10, 9, 4]),
        (3, 1, [10, 9, 4]),
        (4, 2, [20, 9, 4]),
        (5, 2, [20, 9, 4]),
        (6, 3, [30, 12, 4]),
    ],
)
def test_state_grows_with_the_records(written, done, reached):
    progress = read_progress("p", SLICES, ALL[:written])
    assert (progress.done, progress.is_complete) == (done, done == 3)
    assert [one.end for one in progress.cover(RANGES)] == reached
    assert progress.count == sum(one.amount.records for one in ALL[:written])


def test_target_that_ends_before_what_was_copied_is_refused():
    progress = read_progress("p", SLICES, ALL[:3])
    progress.check_target({0: 20, 1: 5, 2: 0})
    with pytest.raises(
        RefusedError, match="partition 0 of the target ends at 19, before the end of the copied records"
    ) as caught:
        progress.check_target({0: 19, 1: 5, 2: 0})
    assert "was recreated" in caught.value.hint
    read_progress("p", SLICES, ()).check_target({0: 0, 1: 0})


def test_runs_are_those_of_whole_slices_only():
    assert read_progress("p", SLICES, ALL[:3]).runs() == FIRST.runs + SECOND.runs
    assert read_progress("p", SLICES, ALL).runs() == tuple(run for one in ALL for run in one.runs)


@given(st.permutations(ALL), st.lists(st.sampled_from(ALL), max_size=4))
def test_order_of_reading_and_repeats_do_not_matter(order, again):
    progress = read_progress("p", SLICES, [*order, *again, build_record("other", SLICES[0].id, task=0, tasks=2)])
    assert progress.records == ALL
    assert (progress.repeats, progress.foreign) == (len(again), 1)


@pytest.mark.parametrize(
    ("records", "cause"),
    [
        ((FIRST, record(0, 0, *FIRST.runs[:1])), "written twice, with 9 records of 0 bytes and with 5"),
        ((build_record("p", "000000-ffffffff", task=0, tasks=2),), "no such slice"),
        ((FIRST, record(0, 1, *SECOND.runs, tasks=3)), "it has 3 tasks"),
        ((FIRST, record(0, 1, *SECOND.runs, hash_name="crc")), "hash crc"),
        ((record(0, 0, run(0, 0, (0, 10), 0)),), "copied offsets 0 to 10 of partition 0, outside of its slice"),
        ((record(1, 0, run(1, 0, (9, 9), 0)),), "partition 1, outside of its slice"),
        ((FIRST, record(0, 1, run(0, 0, (5, 9), 30))), "task 0 of its slice also wrote to partition 0"),
        ((FIRST, THIRD), "is not finished, and slices are copied in order"),
        ((FIFTH, SIXTH), "is not finished"),
        ((FIRST, SECOND, record(1, 0, run(0, 0, (10, 19), 8)), FOURTH), "the order is wrong"),
        ((record(0, 0, run(0, 0, (0, 4), 50), run(1, 0, (5, 8), 5)),), "end at 54: the order is wrong"),
    ],
)
def test_contradictions_are_refused(records, cause):
    with pytest.raises(RefusedError, match="contradict") as caught:
        read_progress("p", SLICES, records)
    assert cause in caught.value.cause
    assert caught.value.hint
    assert caught.value.context["plan"] == "p"


def test_a_record_of_the_plan_without_a_slice_is_refused():
    stranger = ControlRecord(Claim("p", 0), Amount(3), is_done=True)
    with pytest.raises(RefusedError, match="contradict") as caught:
        read_progress("p", SLICES, [stranger])
    assert "no such slice" in caught.value.cause
