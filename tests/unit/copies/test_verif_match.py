"""What became of records that have no equal on the other side."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.copies.verify.match import ExtraRecord, Parts, UnmatchedRecord, index_hashes, tell_apart, tell_rest
from seamark.copies.verify.report import Coordinates, Kind

PARTS = Parts(key=1, value=2, headers=3, timestamp=4)
WANTED = UnmatchedRecord(Coordinates(7, 70), target=1, at=10, hash=99, parts=PARTS)


def lie(offset=10, *, partition=1, hashed=98, **parts):
    return ExtraRecord(Coordinates(partition, offset), hashed, parts=replace(PARTS, **parts))


def tell(*lying, wanted=(WANTED,)):
    told = tell_apart(wanted, lying)
    assert len(told.findings) == len(wanted)
    return [(one.kind, one.source, one.target) for one in told.findings], told.left


def test_nothing_like_it_is_lost():
    assert tell() == ([(Kind.LOST, Coordinates(7, 70), Coordinates(1, 10))], ())
    nowhere = replace(WANTED, at=None)
    assert tell(wanted=[nowhere])[0] == [(Kind.LOST, Coordinates(7, 70), None)]


def test_same_record_elsewhere_is_in_the_wrong_partition():
    found = lie(3, partition=0, hashed=99)
    assert tell(lie(value=8), found)[0] == [(Kind.WRONG_PARTITION, Coordinates(7, 70), found.target)]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"key": 9}, Kind.CHANGED),
        ({"value": 9}, Kind.CHANGED),
        ({"value": 9, "headers": 9, "timestamp": 9}, Kind.CHANGED),
        ({"headers": 9}, Kind.CHANGED_HEADER),
        ({"headers": 9, "timestamp": 9}, Kind.CHANGED_HEADER),
        ({"timestamp": 9}, Kind.WRONG_TIMESTAMP),
    ],
)
def test_record_in_its_place_is_told_by_what_differs(change, kind):
    assert tell(lie(**change)) == ([(kind, Coordinates(7, 70), Coordinates(1, 10))], ())


def test_another_record_in_its_place_is_not_it():
    stranger = lie(key=8, value=8)
    assert tell(stranger) == ([(Kind.LOST, Coordinates(7, 70), Coordinates(1, 10))], (stranger,))


def test_record_that_moved_is_known_by_what_it_kept():
    near, far = lie(11, timestamp=9), lie(90, timestamp=9)
    assert tell(far, near) == ([(Kind.WRONG_TIMESTAMP, Coordinates(7, 70), near.target)], (far,))
    # Two things changed and its place too: nobody could tell.
    assert tell(lie(11, timestamp=9, headers=9))[0][0][0] is Kind.LOST


def test_rest_is_doubled_foreign_or_without_a_control_record():
    left = [lie(1, hashed=5), lie(2, hashed=6), lie(3, hashed=7)]
    known = index_hashes([(5, Coordinates(2, 8)), (5, Coordinates(0, 9)), (7, Coordinates(0, 80))])
    told = tell_rest(left, known, covered={0: 50, 2: 50})
    assert [(one.kind, one.source, one.target.offset) for one in told] == [
        (Kind.DUPLICATED, Coordinates(0, 9), 1),
        (Kind.FOREIGN, None, 2),
        (Kind.FOREIGN, Coordinates(0, 80), 3),
    ]


SMALL = st.integers(0, 2)
SOME = st.builds(Parts, key=SMALL, value=SMALL, headers=SMALL, timestamp=SMALL)


@given(
    st.lists(st.tuples(SMALL, st.integers(0, 5), SOME), unique_by=lambda one: one[:2], max_size=8),
    st.lists(st.tuples(SMALL, st.integers(0, 5), SOME), unique_by=lambda one: one[:2], max_size=8),
)
def test_every_record_is_told_of_once(wanted, lying):
    ours = [
        UnmatchedRecord(Coordinates(9, number), target, at=at, hash=hash(parts), parts=parts)
        for number, (target, at, parts) in enumerate(wanted)
    ]
    theirs = [ExtraRecord(Coordinates(target, at), hash(parts), parts=parts) for target, at, parts in lying]
    told = tell_apart(ours, theirs)
    assert sorted(one.source.offset for one in told.findings) == list(range(len(ours)))
    paired = [one.target for one in told.findings if one.kind is not Kind.LOST]
    assert sorted(map(str, [*paired, *(one.target for one in told.left)])) == sorted(str(one.target) for one in theirs)
