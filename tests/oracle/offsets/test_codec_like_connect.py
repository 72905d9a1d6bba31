"""The codec against Connect's own JsonConverter, OffsetStorageWriter and OffsetStorageReader."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seamark.errors import UsageError
from seamark.kafka.partitioner import choose_partition, hash_murmur2
from seamark.offsets.codec.codec import (
    NotJsonError,
    as_rest_map,
    decode_key,
    encode_key,
    encode_rest_key,
    encode_value,
    read_json,
)
from seamark.offsets.codec.spelling import order_as_hash_map, order_names, spell_double
from seamark.offsets.codec.verdicts import KeyVerdict
from tests.fakes.offsets.dirty import CASES, CONNECTOR
from tests.oracle.offsets.oracle import fields, hexed, tag, unhexed, untag
from tests.oracle.offsets.strategies import DOUBLES, FIELDS, NAMES, TEXTS, spoiled


def many(count):
    # One program serves all examples, and the machine may be busy: no time limit for a single one.
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=count, deadline=None, suppress_health_check=checks)


def sort_fields(tagged):
    kind, value = tagged
    if kind == "map":
        return [kind, sorted([name, sort_fields(item)] for name, item in value)]
    return [kind, [sort_fields(item) for item in value]] if kind == "list" else tagged


def written(oracle, connector, partition, offset, *, hashmap=False):
    question = {"ask": "write", "connector": connector, "hashmap": hashmap}
    answer = oracle.ask(question | {"partition": fields(partition), "offset": fields(offset)})
    assert "error" not in answer, answer
    return unhexed(answer["key"]), unhexed(answer["value"])


@many(1000)
@given(connector=TEXTS, partition=st.none() | FIELDS, offset=st.none() | FIELDS)
def test_bytes_are_those_of_the_offset_writer(oracle, connector, partition, offset):
    ours = (encode_key(connector, partition), encode_value(offset))
    assert ours == written(oracle, connector, partition, offset)


@many(500)
@given(connector=TEXTS, partition=FIELDS, offset=FIELDS)
def test_a_task_with_a_hash_map_writes_its_order(oracle, connector, partition, offset):
    ours = (encode_key(connector, order_as_hash_map(partition)), encode_value(order_as_hash_map(offset)))
    assert ours == written(oracle, connector, partition, offset, hashmap=True)


@many(300)
@given(names=NAMES)
def test_names_come_back_as_from_a_hash_map(oracle, names):
    assert order_names(names) == oracle.ask({"ask": "hashmap", "names": names})["order"]


def test_a_crowded_slot_doubles_the_table_early(oracle):
    # All 16 have one hash. The ninth and tenth double the table before it is three quarters full, the next makes a
    # tree, which is beyond what is foretold.
    crowd = [a + b + c + d for a in ("Aa", "BB") for b in ("Aa", "BB") for c in ("Aa", "BB") for d in ("Aa", "BB")]
    for count in range(1, 11):
        names = [*crowd[:count], "x", "y", "filename", "table", "offset"]
        assert order_names(names) == oracle.ask({"ask": "hashmap", "names": names})["order"], count


@many(800)
@given(data=spoiled())
def test_bytes_are_read_as_by_the_converter(oracle, data):
    answer = oracle.ask({"ask": "read", "bytes": data.hex()})
    try:
        ours = sort_fields(tag(read_json(data)[0]))
    except NotJsonError:
        assert "error" in answer, answer
    else:
        assert ours == sort_fields(answer["value"])


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "utf-32-le"]
)
@pytest.mark.parametrize("text", ['["c",{"x":"é😀"}]', "[1.50,-0,007]", '{"a":', "[1] and more"])
def test_other_encodings_are_read_as_by_the_converter(oracle, text, encoding):
    test_bytes_are_read_as_by_the_converter.hypothesis.inner_test(oracle, data=text.encode(encoding))


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"1" * 1000 + b"]",
        b"[" + b"1" * 1001 + b"]",
        b"[" + b"0" * 2000 + b"1]",
        b"[1." + b"1" * 999 + b"]",
        b"[1." + b"1" * 1000 + b"]",
        b"[1e2147483647]",
        b"[1e2147483648]",
        b"[1e-2147483647]",
        b"[1e-2147483648]",
        b"[1.5e-2147483647]",
        b'{"' + b"n" * 50_000 + b'":1}',
        b'{"' + b"n" * 50_001 + b'":1}',
        b'["' + b"t" * 200_000 + b'"]',
        b"[" * 90 + b"]" * 90,
        b"",
        b"\xef\xbb\xbf",
        b"{",
        b"1,",
        b"1 2",
        b"null:",
        b"truex",
        b'{"\\ud800":1}',
        b'{"\\ud83d\\ude00":1}',
    ],
    ids=lambda data: f"{data[:12]!r}-{len(data)}",
)
def test_limits_are_those_of_the_converter(oracle, data):
    test_bytes_are_read_as_by_the_converter.hypothesis.inner_test(oracle, data=data)


@pytest.mark.parametrize(("depth", "is_read"), [(1000, True), (1001, False), (100_000, False)])
def test_depth_is_bounded_as_by_the_converter(oracle, depth, is_read):
    data = b"[" * depth + b"]" * depth
    assert ("deep" in oracle.ask({"ask": "read", "bytes": data.hex()})) is is_read
    assert (decode_key(data).verdict is KeyVerdict.NOT_JSON) is not is_read


@many(300)
@given(connector=TEXTS, partition=FIELDS, offset=FIELDS)
def test_what_rest_writes_is_found_and_shown_by_rest(oracle, connector, partition, offset):
    try:
        key, value = encode_rest_key(connector, partition), encode_value(as_rest_map(offset))
    except UsageError:
        # Half of a surrogate pair in a name: Connect writes what it then can't read.
        assert any("\ud800" <= unit <= "\udfff" for name in (*partition, *offset) for unit in name)
        raw = written(oracle, connector, partition, offset)
        listed = oracle.ask({"ask": "worker", "records": [[raw[0].hex(), raw[1].hex()]]})["listed"]
        assert all(untag(shown) is None for _, shown in listed.get(connector, []))
        return
    answer = oracle.ask({"ask": "worker", "records": [[key.hex(), value.hex()]]})
    assert decode_key(key).is_rest_spelling
    ((shown_partition, shown_offset),) = answer["listed"][connector]
    assert sort_fields(shown_partition) == sort_fields(tag(dict(as_rest_map(partition))))
    assert sort_fields(shown_offset) == sort_fields(tag(dict(as_rest_map(offset))))


def read_listing(oracle, case):
    listed = oracle.ask({"ask": "worker", "records": [[hexed(case.key), hexed(case.value)]]})["listed"]
    shown = [untag(offset) for _, offset in listed.get(CONNECTOR, [])]
    return "absent" if not shown else "null" if shown[0] is None else "offset"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_dirty_record_is_shown_as_foretold(oracle, case):
    assert read_listing(oracle, case) == case.listing


def test_dirty_records_are_shown_as_foretold_by_an_older_connect(older_oracle):
    differing = {case.id for case in CASES if read_listing(older_oracle, case) != case.listing}
    assert differing == {case.id for case in CASES if case.only_newer}


@pytest.mark.parametrize(
    ("connector", "partition", "offset"), [("fs", {"filename": "é😀"}, {"position": 8, "x": 1e10})]
)
def test_an_older_connect_writes_the_same_bytes(older_oracle, connector, partition, offset):
    ours = (encode_key(connector, partition), encode_value(offset))
    assert ours == written(older_oracle, connector, partition, offset)


def test_two_spellings_of_one_partition(oracle):
    """Facts 1.4: a tombstone of one spelling hides the partition while the other lives on."""
    rest, other = encode_rest_key("fs", {"filename": "q", "extra": 1}), b'["fs",{"extra":1,"filename":"q"}]'
    assert rest != other
    assert decode_key(rest).key == decode_key(other).key
    only_other = oracle.ask({"ask": "worker", "records": [[other.hex(), b'{"position":11}'.hex()]]})
    assert [untag(offset) for _, offset in only_other["listed"]["fs"]] == [None]
    hidden = [[other.hex(), b'{"position":11}'.hex()], [rest.hex(), None]]
    assert oracle.ask({"ask": "worker", "records": hidden})["listed"] == {"fs": []}


@many(500)
@given(value=DOUBLES)
def test_doubles_are_those_of_java_17(oracle, value):
    answer = oracle.ask({"ask": "double", "bits": struct.pack(">d", value).hex()})
    assert spell_double(value, java=17) == answer["text"]


@many(300)
@given(key=st.binary(max_size=70), partitions=st.integers(1, 200))
def test_partition_is_that_of_the_java_producer(oracle, key, partitions):
    answer = oracle.ask({"ask": "murmur2", "bytes": key.hex(), "partitions": partitions})
    assert (hash_murmur2(key), choose_partition(key, partitions=partitions)) == (answer["hash"], answer["partition"])
