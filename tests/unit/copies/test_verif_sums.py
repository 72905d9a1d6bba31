"""What two scans counted, against the control records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.copies.verify.report import Coordinates, Gone, Kind
from seamark.copies.verify.sums import (
    NO_RUN,
    NOT_YET,
    SourceLoss,
    Sums,
    clip_ranges,
    join_ranges,
    judge_sums,
    list_source_ranges,
    list_target_ranges,
)
from seamark.kafka_sink.control import Checksum, Run
from seamark.spark.slices import OffsetRange

RUN = Run(3, 1, 10, first_source=0, last_source=19, first_target=5, last_target=14, checksum=Checksum(7, 9))
OURS = Sums(10, 0, 19, RUN.checksum, ordered=Checksum(1, 2))
THEIRS = Sums(10, 5, 14, RUN.checksum, ordered=Checksum(1, 2))
WHERE = (Coordinates(3, 0, 19), Coordinates(1, 5, 14))


def judge(ours=OURS, theirs=THEIRS, *, forgetting=None, is_ordered=True, source=(), target=()):
    return judge_sums(
        [RUN],
        {**({(3, 0): ours} if ours else {}), **dict(source)},
        {**({(1, 0): theirs} if theirs else {}), **dict(target)},
        forgetting=forgetting or SourceLoss(),
        is_ordered=is_ordered,
    )


def test_equal_sums_are_clean():
    found = judge()
    assert found.is_clean
    assert (found.findings, found.gone) == ((), ())


@pytest.mark.parametrize(
    ("ours", "theirs", "kind", "count"),
    [
        (OURS, None, Kind.LOST, 10),
        (OURS, replace(THEIRS, count=8), Kind.LOST, 2),
        (OURS, replace(THEIRS, checksum=Checksum(7, 8)), Kind.DIFFERENT, 1),
        (replace(OURS, count=12), THEIRS, Kind.LOST, 2),
        (replace(OURS, count=9), THEIRS, Kind.DIFFERENT, 1),
        (None, THEIRS, Kind.DIFFERENT, 1),
        (replace(OURS, checksum=Checksum(6, 9)), THEIRS, Kind.DIFFERENT, 1),
        (OURS, replace(THEIRS, ordered=Checksum(1, 3)), Kind.REORDERED, 1),
    ],
)
def test_sums_that_differ_make_the_run_suspect(ours, theirs, kind, count):
    found = judge(ours, theirs)
    assert [(one.kind, one.count, (one.source, one.target)) for one in found.findings] == [(kind, count, WHERE)]
    assert [one.run for one in found.suspects] == [RUN]


def test_order_counts_only_where_it_was_asked_for():
    assert judge(OURS, replace(THEIRS, ordered=Checksum(1, 3)), is_ordered=False).is_clean


@pytest.mark.parametrize("forgetting", [SourceLoss(is_compacted=True), SourceLoss(begins={3: 1})])
@pytest.mark.parametrize("left", [0, 4])
def test_what_the_source_may_have_lost_is_no_finding(forgetting, left):
    found = judge(replace(OURS, count=left) if left else None, forgetting=forgetting)
    assert found.findings == ()
    assert found.gone == (Gone(Coordinates(3, 0, 19), 10 - left),)
    # The order of what is left is looked into.
    assert [(one.is_gone, one.is_described) for one in found.suspects] == ([(True, True)] if left else [])


def test_source_that_begins_later_has_lost_nothing_of_other_partitions():
    assert judge(replace(OURS, count=4), forgetting=SourceLoss(begins={2: 50})).findings


def test_records_of_no_run_are_told_by_side():
    stray = Sums(2, 30, 40, Checksum(), ordered=Checksum())
    found = judge(source={(3, NO_RUN): stray, (2, NOT_YET): stray}, target={(0, NO_RUN): stray})
    assert [(one.kind, one.source or one.target, one.count) for one in found.findings] == [
        (Kind.LOST, Coordinates(3, 30, 40), 2),
        (Kind.FOREIGN, Coordinates(0, 30, 40), 2),
    ]
    assert (found.source_undescribed, found.target_undescribed) == (
        (OffsetRange(3, 30, 41),),
        (OffsetRange(0, 30, 41),),
    )
    assert not found.is_clean


def test_key_in_another_partition_is_described_with_its_place():
    found = judge(theirs=replace(THEIRS, misplaced=3, misplaced_at=8))
    assert [(one.kind, one.target, one.count) for one in found.findings] == [
        (Kind.WRONG_PARTITION, Coordinates(1, 8), 3)
    ]


def test_ranges_are_joined_where_they_are_near_and_clipped_to_what_is_there():
    far = replace(RUN, first_source=100, last_source=120)
    ranges = list_source_ranges([far, RUN, replace(RUN, first_source=15, last_source=30)])
    assert join_ranges(ranges, near=0) == (OffsetRange(3, 0, 31), OffsetRange(3, 100, 121))
    assert join_ranges([*ranges, OffsetRange(3, 9, 9)]) == (OffsetRange(3, 0, 121),)
    assert list_target_ranges([RUN]) == [OffsetRange(1, 5, 15)]
    assert clip_ranges(join_ranges(ranges, near=0), {3: 20}, {3: 100}) == [OffsetRange(3, 20, 31)]
