"""The state of a copy from its control records: repeats are seen, contradictions refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import RefusedError
from seamark.pipelines.control import ControlRecord
from seamark.pipelines.progress import find_finished, read_progress
from seamark.pipelines.run import Run
from seamark.pipelines.slices import OffsetRange, Slice

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


def record(number, task, *runs, tasks=2):
    return ControlRecord("p", SLICES[number].id, task=task, tasks=tasks, runs=tuple(runs))


FIRST = record(0, 0, run(0, 0, (0, 4), 0), run(1, 0, (5, 8), 5))
SECOND = record(0, 1, run(0, 1, (5, 9), 0))
THIRD = record(1, 0, run(0, 0, (10, 19), 10))
FOURTH = record(1, 1)
FIFTH = record(2, 0, run(0, 0, (20, 29), 22))
SIXTH = record(2, 1, run(1, 1, (9, 11), 7))
ALL = (FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH)


@pytest.mark.parametrize(
    ("written", "done", "finished", "reached"),
    [
        (0, 0, (), [0, 5, 4]),
        (1, 0, (0,), [0, 5, 4]),
        (2, 1, (), [10, 9, 4]),
        (3, 1, (0,), [10, 9, 4]),
        (4, 2, (), [20, 9, 4]),
        (5, 2, (0,), [20, 9, 4]),
        (6, 3, (), [30, 12, 4]),
    ],
)
def test_state_grows_with_the_records(written, done, finished, reached):
    progress = read_progress("p", SLICES, ALL[:written])
    assert (progress.done, progress.finished_tasks) == (done, finished)
    assert progress.is_complete == (done == 3)
    assert progress.next_slice == (SLICES[done] if done < 3 else None)
    assert [one.end for one in progress.cover(RANGES)] == reached
    assert progress.count == sum(one.count for one in ALL[:written])


def test_runs_are_those_of_whole_slices_only():
    assert read_progress("p", SLICES, ALL[:3]).runs() == FIRST.runs + SECOND.runs
    assert read_progress("p", SLICES, ALL).runs() == tuple(run for one in ALL for run in one.runs)


@given(st.permutations(ALL), st.lists(st.sampled_from(ALL), max_size=4))
def test_order_of_reading_and_repeats_do_not_matter(order, again):
    progress = read_progress("p", SLICES, [*order, *again, replace(FIRST, plan="other")])
    assert progress.records == ALL
    assert (progress.repeats, progress.foreign) == (len(again), 1)


@pytest.mark.parametrize(
    ("records", "cause"),
    [
        ((FIRST, replace(FIRST, runs=FIRST.runs[:1])), "written twice, with 9 records and again with 5"),
        ((replace(FIRST, slice_id="000000-ffffffff"),), "no such slice"),
        ((FIRST, replace(SECOND, tasks=3)), "one of 3 tasks"),
        ((FIRST, replace(SECOND, hash_name="crc")), "hashing by crc"),
        ((record(0, 0, run(0, 0, (0, 10), 0)),), "took 0 to 10 of partition 0, beyond its slice"),
        ((record(1, 0, run(1, 0, (9, 9), 0)),), "partition 1, beyond its slice"),
        ((FIRST, record(0, 1, run(0, 0, (5, 9), 30))), "task 0 of its slice wrote to partition 0 too"),
        ((FIRST, THIRD), "is not done, and slices go one after the other"),
        ((FIFTH, SIXTH), "is not done"),
        ((FIRST, SECOND, record(1, 0, run(0, 0, (10, 19), 8)), FOURTH), "the order is broken"),
        ((record(0, 0, run(0, 0, (0, 4), 50), run(1, 0, (5, 8), 5)),), "went up to 54: the order is broken"),
    ],
)
def test_contradictions_are_refused(records, cause):
    with pytest.raises(RefusedError, match="contradict") as caught:
        read_progress("p", SLICES, records)
    assert cause in caught.value.cause
    assert caught.value.hint
    assert caught.value.context["plan"] == "p"


def test_a_finished_task_is_found():
    wanted = record(1, 1)
    assert find_finished(ALL[:3], wanted) is None
    assert find_finished(ALL, wanted) == FOURTH
    assert find_finished([*ALL, FIRST], replace(FIRST, runs=())) == FIRST


def test_a_task_that_was_finished_twice_is_refused():
    with pytest.raises(RefusedError, match="contradict"):
        find_finished([FIRST, replace(FIRST, runs=())], replace(FIRST, runs=()))
    with pytest.raises(RefusedError, match="contradict"):
        find_finished([FIRST], replace(FIRST, runs=(), tasks=3))
