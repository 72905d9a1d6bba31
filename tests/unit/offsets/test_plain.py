"""The fast way and the long way come to the same."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seamark.kafka.model import RawRecord
from seamark.offsets.codec.codec import decode_key, decode_value, encode_key, encode_value, read_json
from seamark.offsets.codec.jackson import NotJsonError, Scanner
from seamark.offsets.stores.topic import TopicStore, build_home, split_plain
from tests.fakes.offsets.dirty import CASES
from tests.unit.offsets.scans import FakeScan


def long_way(scan):
    reading = TopicStore(scan).read()
    pairs = Counter(
        (found.key.connector, json.dumps(found.key.partition, sort_keys=True), json.dumps(found.offset, sort_keys=True))
        for found in reading.offsets
        if found.offset is not None
    )
    return pairs, Counter(finding.message for finding in reading.findings)


def fast_way(scan):
    plain, reading = TopicStore(scan).read_pairs()
    pairs = Counter(
        (found.key.connector, json.dumps(found.key.partition, sort_keys=True), json.dumps(found.offset, sort_keys=True))
        for found in reading.offsets
        if found.offset is not None
    )
    for connector, partition, offset in plain:
        maps = [json.dumps(read_json(raw)[0], sort_keys=True) for raw in (partition, offset)]
        pairs[json.loads(connector), *maps] += 1
    return pairs, Counter(finding.message for finding in reading.findings)


TEXTS = st.one_of(st.sampled_from(["", "a", "a!", "ab", "b", 'q"', "é", "a,", "x:", "}"]), st.text(max_size=4))
VALUES = st.one_of(TEXTS, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.none(), st.floats(allow_nan=False))
MAPS = st.dictionaries(TEXTS, VALUES, max_size=3)
# Few names and few maps, so that partitions meet each other.
FEW = st.dictionaries(st.sampled_from(["a", "a!", "b"]), st.sampled_from([0, 1, 1.0, "1", True, None]), max_size=3)


@st.composite
def keys(draw):
    name, partition = draw(st.sampled_from(["c", "c!", "d"])), draw(st.one_of(FEW, MAPS))
    order = draw(st.permutations(list(partition)))
    partition = {field: partition[field] for field in order}
    if draw(st.booleans()):
        return encode_key(name, partition)
    spaces = draw(st.sampled_from([(", ", ": "), (",", ":"), (" ,", ":")]))
    return json.dumps([name, partition], separators=spaces).encode()


VALUE_BYTES = st.one_of(
    MAPS.map(encode_value),
    st.none(),
    st.sampled_from(
        [b"null", b"{", b'{"a":1,"a":2}', b'{"a":01}', b'{"a":-0}', b'{"a":[1]}', b'{"a":1} x', b'{"a": 1}']
    ),
)


@settings(max_examples=300, deadline=None)
@example([(b'["c!",{"a":0}]', b"{}", 1), (b'["c!",{"a":0}]', b"{}", -1), (b'["c!",{"a":0}]', None, 0)])
@given(st.lists(st.tuples(keys(), VALUE_BYTES, st.integers(-2, 4)), max_size=6))
def test_both_ways_come_to_the_same(records):
    scan = FakeScan()
    for key, value, partition in records:
        scan.put(key, value, partition=None if partition < 0 else partition)
    assert fast_way(scan) == long_way(scan)


def test_both_ways_come_to_the_same_for_dirt():
    scan = FakeScan()
    for case in CASES:
        scan.put(case.key, case.value)
    assert fast_way(scan) == long_way(scan)
    assert sum(fast_way(scan)[0].values()) > 10


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_piece_of_dirt_alone(case):
    scan = FakeScan().put(case.key, case.value)
    assert fast_way(scan) == long_way(scan)


NUMBERS = ["0", "-0", "0.0", "-0.0", "-0.5", "1.0E10", "-1.5E-3", "9" * 18, "9" * 19, "-" + "9" * 18, "01", "1.", "1e5"]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_read_as_jackson_reads_them(number):
    raw = f'{{"n":{number}}}'.encode()
    try:
        expected = Scanner(raw).read()
    except NotJsonError:
        expected = None
    assert repr(decode_value(raw).offset) == repr(expected)


@settings(deadline=None)
@given(st.one_of(keys(), MAPS.map(encode_value)))
def test_what_is_plain_is_read_as_jackson_reads_it(raw):
    try:
        expected = Scanner(raw).read()
    except NotJsonError:
        # Python writes infinity as no JSON has it.
        assert (decode_key(raw).key, decode_value(raw).offset) == (None, None)
        return
    found = decode_key(raw)
    if raw.startswith(b"["):
        assert repr([found.connector, found.key.partition]) == repr(expected)
    else:
        assert repr(decode_value(raw).offset) == repr(expected)


def test_the_usual_goes_the_fast_way():
    partitions = [{"filename": "/in"}, {"protocol": "1", "table": "db.public.t"}, {"partition": 3, "topic": "t"}, {}]
    offsets = [{"position": 8}, {"incrementing": 5, "timestamp": 1}, {"offset": -1}, {"lsn": 1.5, "last": True}]
    scan = FakeScan()
    for partition, offset in zip(partitions, offsets, strict=True):
        scan.put(("c", partition), offset)
    pairs, rest = split_plain(scan.log, build_home(5))
    assert (len(pairs), rest) == (4, [])
    assert pairs[1] == (b'"c"', b'{"protocol":"1","table":"db.public.t"}', b'{"incrementing":5,"timestamp":1}')


def test_a_plain_tombstone_is_nothing_and_a_stray_goes_the_long_way():
    scan = FakeScan().put(("c", {"k": 1}), None)
    assert split_plain(scan.log, build_home(5)) == ([], [])
    (record,) = FakeScan().put(("c", {"k": 1}), {"v": 1}).log
    stray = RawRecord((record.partition + 1) % 5, *record[1:])
    assert split_plain([stray], build_home(5)) == ([], [stray])
