"""Control records: strict in reading, the same bytes in writing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import RefusedError, UsageError
from seamark.pipelines.control import ControlRecord, decode_control, encode_control
from seamark.pipelines.run import Checksum, Run

RUN = Run(0, 1, 3, first_source=10, last_source=19, first_target=100, last_target=102, checksum=Checksum(7, 9))
RECORD = ControlRecord("01PLAN", "000002-0a1b2c3d", task=1, tasks=4, runs=(RUN, replace(RUN, target=5)))

hashes = st.lists(st.integers(-(2**63), 2**64 - 1), max_size=20)


@st.composite
def runs(draw, source, target):
    count = draw(st.integers(1, 10**6))
    first_source, first_target = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**40))
    return Run(
        source,
        target,
        count,
        first_source=first_source,
        last_source=first_source + count - 1 + draw(st.integers(0, 10**6)),
        first_target=first_target,
        last_target=first_target + count - 1,
        checksum=Checksum(draw(st.integers(0, 2**64 - 1)), draw(st.integers(0, 2**64 - 1))),
    )


@st.composite
def records(draw):
    pairs = sorted(draw(st.sets(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8)))
    tasks = draw(st.integers(1, 100))
    return ControlRecord(
        plan=draw(st.text(max_size=30)),
        slice_id=draw(st.text(max_size=30)),
        task=draw(st.integers(0, tasks - 1)),
        tasks=tasks,
        runs=tuple(draw(runs(*pair)) for pair in pairs),
    )


@given(records())
def test_what_is_written_is_read(record):
    data = encode_control(record)
    assert decode_control(data) == record
    assert encode_control(decode_control(data)) == data


def test_bytes_are_pinned():
    # Topics hold these for as long as copies do: a change needs a new format version.
    assert encode_control(replace(RECORD, runs=(RUN,))) == (
        b'{"v":1,"plan":"01PLAN","slice":"000002-0a1b2c3d","task":1,"tasks":4,"hash":"xxhash64",'
        b'"runs":[[0,1,3,10,19,100,102,"00000000000000070000000000000009"]]}'
    )
    assert RECORD.key == "01PLAN/000002-0a1b2c3d/1"
    assert RECORD.count == 6


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"v": 2}, "format 2, and this seamark reads format 1"),
        ({"v": True}, "format True"),
        ({"v": None}, "format None"),
        ({"more": 1}, "unknown keys: ['more']"),
        ({"plan": 7}, "not a string"),
        ({"task": 4}, "no task 4 among 4"),
        ({"task": True}, "not a whole number"),
        ({"task": 1.0}, "not a whole number"),
        ({"tasks": 0}, "no task 1 among 0"),
        ({"runs": {}}, "not a list"),
        ({"runs": [[1, 2]]}, "not a list of 8"),
        ({"runs": [[0, 1, 3, 10, 19, 100, 102, "7"]]}, "32 hexadecimal digits"),
        ({"runs": [[0, 1, 3, 10, 19, 100, 102, "0" * 31 + "G"]]}, "32 hexadecimal digits"),
        ({"runs": [[0, 1, 3, 10, 11, 100, 102, "0" * 32]]}, "3 records can't lie in 10 to 11"),
        ({"runs": [[0, 1, 3, 10, 19, 100, 103, "0" * 32]]}, "something came in between"),
        ({"runs": [[0, 1, 0, 10, 9, 100, 99, "0" * 32]]}, "0 records"),
        ({"runs": [[0, 1, -3, 10, 19, 100, 102, "0" * 32]]}, "not a whole number"),
        ({"runs": [RUN.to_list(), RUN.to_list()]}, "not in order, or overlap"),
    ],
)
def test_anything_else_is_refused(change, cause):
    data = json.dumps(json.loads(encode_control(RECORD)) | change).encode()
    with pytest.raises(RefusedError, match="control record can't be read") as caught:
        decode_control(data)
    assert cause in caught.value.cause
    assert "control topic" in caught.value.hint


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"v":1,"v":1}', b'{"v":NaN}', b"[" * 100_000, b'{"v":1}']
)
def test_what_is_no_record_is_refused(data):
    with pytest.raises(RefusedError, match="control record can't be read"):
        decode_control(data)


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_read(data):
    with pytest.raises(RefusedError):
        decode_control(data)


@given(hashes, st.randoms())
def test_checksum_is_free_of_order(found, random):
    shuffled = list(found)
    random.shuffle(shuffled)
    first = second = Checksum()
    for one in found:
        first = first.add(one)
    for one in shuffled:
        second = second.add(one)
    assert first == second
    assert Checksum.from_text(first.text) == first


@given(hashes, hashes)
def test_checksums_of_parts_make_that_of_the_whole(left, right):
    parts, whole = [Checksum(), Checksum()], Checksum()
    for side, found in enumerate((left, right)):
        for one in found:
            parts[side], whole = parts[side].add(one), whole.add(one)
    assert parts[0].combine(parts[1]) == whole


def test_checksum_sees_a_record_that_is_there_three_times():
    once = Checksum().add(5)
    assert once.add(5).add(5).xor == once.xor
    assert once.add(5).add(5) != once


def test_negative_hashes_are_taken_by_their_bits():
    assert Checksum().add(-1) == Checksum().add(2**64 - 1)


def test_two_partitions_may_have_several_runs_in_order():
    later = replace(RUN, first_source=20, last_source=22, first_target=104, last_target=106)
    record = replace(RECORD, runs=(RUN, later))
    assert decode_control(encode_control(record)) == record
    for wrong in (replace(later, first_source=19), replace(later, first_target=102, last_target=104)):
        with pytest.raises(UsageError, match="not in order, or overlap"):
            replace(RECORD, runs=(RUN, wrong))
    with pytest.raises(UsageError, match="not in order"):
        replace(RECORD, runs=(later, RUN))


def test_a_task_beyond_its_slice_can_not_be_made():
    with pytest.raises(UsageError, match="no task 4 among 4"):
        replace(RECORD, task=4)
