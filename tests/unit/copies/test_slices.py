"""Slices cover a topic exactly, in order, and by time; whatever its timestamps are."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.copies.plan.plan import Limits, TimeMark, choose_times, cut_slices
from seamark.errors import RefusedError, UsageError
from seamark.spark.slices import OffsetRange, Slice, check_cover


def answer(stamps, begin, time_ms):
    """As the brokers do: the first offset whose timestamp is that or later."""
    return next((begin + place for place, stamp in enumerate(stamps) if stamp >= time_ms), None)


@st.composite
def topics(draw, *, is_sorted=False):
    """Partitions with timestamps, their ranges, and an index asked at some moments of each."""
    logs, ranges, index = {}, [], {}
    for partition in range(draw(st.integers(1, 4))):
        stamps = draw(st.lists(st.integers(0, 200), max_size=40))
        stamps = sorted(stamps) if is_sorted else stamps
        begin = draw(st.integers(0, 1000))
        logs[partition] = (begin, stamps)
        ranges.append(OffsetRange(partition, begin, begin + len(stamps)))
    shared = draw(st.lists(st.integers(0, 220), max_size=12))
    for partition, (begin, stamps) in logs.items():
        own = draw(st.lists(st.sampled_from(shared), unique=True)) if shared and draw(st.booleans()) else shared
        index[partition] = [TimeMark(time, answer(stamps, begin, time)) for time in own]
    return logs, ranges, index


limits = st.builds(Limits, st.integers(1, 60), st.none() | st.integers(1, 100))


@given(topics(), limits)
def test_each_record_is_in_exactly_one_slice_in_order(topic, limits):
    logs, ranges, index = topic
    slices = cut_slices(ranges, index, limits=limits)
    for partition, (begin, stamps) in logs.items():
        taken = [offset for one in slices if (r := one.range_of(partition)) for offset in range(r.begin, r.end)]
        assert taken == list(range(begin, begin + len(stamps)))
    assert [one.number for one in slices] == list(range(len(slices)))
    assert all(one.size < limits.offsets + len(logs) for one in slices)


@given(topics(), limits)
def test_no_record_is_as_late_as_its_slice_ends(topic, limits):
    logs, ranges, index = topic
    for one in cut_slices(ranges, index, limits=limits):
        for part in one.ranges:
            begin, stamps = logs[part.partition]
            if one.until_ms is not None:
                assert all(stamp < one.until_ms for stamp in stamps[part.begin - begin : part.end - begin])


@given(topics(is_sorted=True), limits)
def test_time_within_a_slice_is_bounded_where_timestamps_rise(topic, limits):
    logs, ranges, _ = topic
    times = choose_times(0, 200, count=20)
    index = {p: [TimeMark(time, answer(stamps, begin, time)) for time in times] for p, (begin, stamps) in logs.items()}
    step = max(after - before for before, after in pairwise(times))
    for one in cut_slices(ranges, index, limits=limits):
        stamps = [s for r in one.ranges for s in logs[r.partition][1][r.begin - logs[r.partition][0] :][: r.size]]
        assert one.from_ms is None or min(stamps) >= one.from_ms
        if limits.widest_ms is not None:
            assert max(stamps) - min(stamps) <= max(limits.widest_ms, step)


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=3),
    st.lists(st.lists(st.tuples(st.integers(0, 50), st.none() | st.integers(0, 500)), max_size=15), max_size=4),
    limits,
)
def test_nonsense_in_the_index_loses_nothing(sizes, answers, limits):
    ranges = [OffsetRange(partition, 100, 100 + size) for partition, size in enumerate(sizes)]
    index = {partition: [TimeMark(*mark) for mark in marks] for partition, marks in enumerate(answers)}
    slices = cut_slices(ranges, index, limits=limits)
    check_cover(ranges, slices)
    assert sum(one.size for one in slices) == sum(sizes)


def test_slices_are_cut_at_the_same_moment_in_every_partition():
    ranges = [OffsetRange(0, 0, 100), OffsetRange(1, 500, 520)]
    index = {
        0: [TimeMark(1000, 40), TimeMark(2000, 80), TimeMark(3000, None)],
        1: [TimeMark(1000, 501), TimeMark(2000, 519), TimeMark(3000, 519)],
    }
    slices = cut_slices(ranges, index, limits=Limits(60))
    assert [(one.from_ms, one.until_ms, [r.to_list() for r in one.ranges]) for one in slices] == [
        (None, 1000, [[0, 0, 40], [1, 500, 501]]),
        (1000, 2000, [[0, 40, 80], [1, 501, 519]]),
        (2000, None, [[0, 80, 100], [1, 519, 520]]),
    ]


def test_small_steps_are_joined_and_large_ones_split():
    ranges = [OffsetRange(0, 0, 110)]
    index = {0: [TimeMark(time, offset) for time, offset in [(1, 3), (2, 6), (3, 9), (4, 109)]]}
    slices = cut_slices(ranges, index, limits=Limits(25))
    assert [r.to_list()[1:] for one in slices for r in one.ranges] == [
        [0, 9], [9, 34], [34, 59], [59, 84], [84, 109], [109, 110],
    ]  # fmt: skip
    assert {one.until_ms for one in slices[1:5]} == {4}


def test_without_an_index_offsets_alone_decide():
    slices = cut_slices([OffsetRange(0, 0, 10), OffsetRange(1, 0, 20)], {}, limits=Limits(15))
    assert [one.size for one in slices] == [15, 15]


def test_an_empty_topic_has_no_slices():
    assert cut_slices([OffsetRange(0, 7, 7)], {0: [TimeMark(5, None)]}, limits=Limits(10)) == ()


def test_a_later_round_goes_on_with_the_numbers():
    first = cut_slices([OffsetRange(0, 0, 10)], {}, limits=Limits(5))
    later = cut_slices([OffsetRange(0, 10, 12)], {}, limits=Limits(5), first_number=len(first))
    check_cover([OffsetRange(0, 0, 12)], [*first, *later])
    assert [one.number for one in (*first, *later)] == [0, 1, 2]


def test_ids_are_the_same_in_every_run_and_differ_by_content():
    one = Slice(3, (OffsetRange(0, 5, 9),))
    assert one.id == Slice(3, (OffsetRange(0, 5, 9),), until_ms=4).id == "000003-185c93b4"
    assert one.id != Slice(3, (OffsetRange(0, 5, 10),)).id
    assert one.id != Slice(4, (OffsetRange(0, 5, 9),)).id


@given(topics(), limits)
def test_slices_survive_json(topic, limits):
    _, ranges, index = topic
    slices = cut_slices(ranges, index, limits=limits)
    text = json.dumps([one.to_dict() for one in slices])
    assert tuple(Slice.from_dict(data) for data in json.loads(text)) == slices


def test_a_changed_slice_is_refused():
    data = Slice(0, (OffsetRange(0, 5, 9),)).to_dict()
    data["ranges"] = [[0, 5, 10]]
    with pytest.raises(UsageError, match="slice 0 was changed after it was written"):
        Slice.from_dict(data)


@pytest.mark.parametrize(
    ("slices", "cause"),
    [
        ([(0, [(0, 0, 5)])], "end at 5, and the partition ends at 9"),
        ([(0, [(0, 0, 5)]), (1, [(0, 6, 9)])], "has offsets 6 to 9 of partition 0"),
        ([(0, [(0, 0, 5)]), (1, [(0, 4, 9)])], "has offsets 4 to 9 of partition 0"),
        ([(0, [(0, 0, 5)]), (2, [(0, 5, 9)])], "found slice 2, expected 1"),
        ([(0, [(0, 0, 9), (1, 0, 1)])], "partition 1, but the slices before it end at None"),
    ],
)
def test_gaps_and_overlaps_are_refused(slices, cause):
    made = [Slice(number, tuple(OffsetRange(*r) for r in ranges)) for number, ranges in slices]
    with pytest.raises(RefusedError) as caught:
        check_cover([OffsetRange(0, 0, 9)], made)
    assert cause in caught.value.cause


def test_ranges_that_make_no_sense_are_refused():
    with pytest.raises(UsageError, match="invalid range of offsets for partition 0: 5 to 3"):
        OffsetRange(0, 5, 3)
    with pytest.raises(UsageError, match="several ranges"):
        cut_slices([OffsetRange(0, 0, 1), OffsetRange(0, 1, 2)], {}, limits=Limits(1))
    with pytest.raises(UsageError, match="invalid number of offsets per slice"):
        Limits(0)


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 50))
def test_times_lie_between(first, last, count):
    times = choose_times(first, last, count=count)
    assert list(times) == sorted(set(times))
    assert all(first < time < last for time in times)
    assert len(times) <= count
