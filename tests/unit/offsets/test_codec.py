"""Keys and values as bytes: every finding of the fact sheet on them, sections 1.1 to 1.6."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.core.offsets import OffsetKey
from seamark.errors import UsageError
from seamark.offsets.codec.codec import (
    MOST_BYTES,
    as_rest_map,
    decode_key,
    decode_value,
    encode_key,
    encode_rest_key,
    encode_value,
)
from seamark.offsets.codec.verdicts import Anomaly, KeyVerdict, ValueVerdict
from tests.fakes.offsets.dirty import CASES
from tests.unit.offsets.listing import Listing, foretell_listing


# 1.1 Record layout
def test_record_of_the_wire():
    assert encode_key("fs", {"filename": "/tmp/in.txt"}) == b'["fs",{"filename":"/tmp/in.txt"}]'
    assert encode_value({"position": 8}) == b'{"position":8}'
    assert encode_value(None) is None


@pytest.mark.parametrize(
    "nested", [{"a": {"b": 1}}, {"a": [1]}, {"a": (1,)}, {"a": 2**63}, {"a": -(2**63) - 1}, {1: "a"}]
)
def test_what_connect_rejects_is_not_written(nested):
    with pytest.raises(UsageError):
        encode_key("fs", nested)
    with pytest.raises(UsageError):
        encode_value(nested)


def test_empty_partition_is_a_partition():
    decoded = decode_key(b'["name",{}]')
    assert (decoded.verdict, decoded.key, decoded.is_rest_spelling) == (KeyVerdict.GOOD, OffsetKey("name", {}), True)
    assert encode_key("name", {}) == b'["name",{}]'


def test_null_partition_of_a_rest_patch_is_no_partition():
    assert encode_key("name", None) == b'["name",null]'
    decoded = decode_key(b'["name",null]')
    assert (decoded.verdict, decoded.connector, decoded.key) == (KeyVerdict.NO_PARTITION, "name", None)


# 1.2 Exact bytes
@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        ("😀", rb'"\uD83D\uDE00"'),
        ("\x1f", rb'"\u001F"'),
        ("\ud800", rb'"\uD800"'),
        (1e10, b"1.0E10"),
        (1e7, b"1.0E7"),
        (1e-4, b"1.0E-4"),
        (123456789.125, b"1.23456789125E8"),
        (1.0, b"1.0"),
        (0.1, b"0.1"),
        (0.001, b"0.001"),
        (9999999.0, b"9999999.0"),
        (-0.0, b"-0.0"),
        (float("nan"), b'"NaN"'),
        (float("inf"), b'"Infinity"'),
        (float("-inf"), b'"-Infinity"'),
        (b"ab\xff", b'"YWL/"'),
        ('\n\t\b\f\r"\\', rb'"\n\t\b\f\r\"\\"'),
        ("/\x7f\u2028é", b'"/\x7f\xe2\x80\xa8\xc3\xa9"'),
        (9223372036854775807, b"9223372036854775807"),
        (True, b"true"),
        (None, b"null"),
    ],
)
def test_value_is_spelled_as_by_jackson(value, spelled):
    assert encode_value({"v": value}) == b'{"v":' + spelled + b"}"


def test_integer_beyond_64_bits_wraps_in_silence_and_is_named():
    decoded = decode_value(b'{"v":12345678901234567890}')
    assert (decoded.offset, decoded.oddities) == ({"v": -6101065172474983726}, (Anomaly.WRAPPED,))


def test_whole_numbers_and_decimals_stay_apart():
    keys = [decode_key(f'["c",{{"v":{spelled}}}]'.encode()).key for spelled in ("1", "1.0", "true", '"1"', "1.00")]
    assert [keys[0] == other for other in keys] == [True, False, False, False, False]
    assert keys[1] == keys[4]
    assert len(set(keys)) == 4


# 1.3 Field order
@pytest.mark.parametrize(
    "order",
    [
        ("server", "database"),
        ("protocol", "table"),
        ("cluster", "partition", "topic"),
        ("partition", "topic", "group"),
        ("rs", "server_id"),
        ("filename", "extra"),
        ("container", "prefix"),
        ("bucket", "objectKey"),
        ("kafka_partition", "kafka_topic"),
    ],
)
def test_rest_writes_the_order_of_a_hash_map_whatever_it_is_sent(order):
    expected = '["c",{' + ",".join(f'"{name}":"{name}"' for name in order) + "}]"
    for sent in itertools.permutations(order):
        assert encode_rest_key("c", {name: name for name in sent}) == expected.encode()


def test_a_task_writes_its_own_order():
    assert encode_key("c", {"table": "t", "protocol": "1"}) == b'["c",{"table":"t","protocol":"1"}]'
    assert encode_value({"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    assert encode_value(as_rest_map({"b": 1, "a": 2})) == b'{"a":2,"b":1}'


def test_a_map_of_random_order_owns_two_keys():
    """Map.of of the Aiven S3 source: one object, two spellings, of which REST knows one."""
    spellings = [
        decode_key(encode_key("s3", dict(order)))
        for order in itertools.permutations([("bucket", "b"), ("objectKey", "k")])
    ]
    assert len({decoded.raw for decoded in spellings}) == 2
    assert len({decoded.key for decoded in spellings}) == 1
    assert [decoded.is_rest_spelling for decoded in spellings] == [True, False]


# 1.4 Two spellings of one partition
def test_spaces_make_another_key_of_the_same_partition():
    written, found = decode_key(b'["fs", {"filename": "q"}]'), decode_key(b'["fs",{"filename":"q"}]')
    assert written.key == found.key
    assert (written.is_rest_spelling, found.is_rest_spelling) == (False, True)


def test_rest_says_null_of_a_key_in_another_order():
    decoded = decode_key(b'["fs",{"extra":1,"filename":"q"}]')
    assert foretell_listing(decoded, decode_value(b'{"position":11}')) is Listing.NULL
    assert encode_rest_key("fs", decoded.key.partition) == b'["fs",{"filename":"q","extra":1}]'


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_dirty_record_gets_its_verdict(case):
    key, value = decode_key(case.key), decode_value(case.value)
    assert (key.verdict, value.verdict) == (case.key_verdict, case.value_verdict)
    assert {*key.oddities, *value.oddities} == case.oddities
    assert foretell_listing(key, value) is case.listing
    assert (key.raw, value.raw) == (case.key, case.value)
    assert (key.key is not None) is (key.verdict is KeyVerdict.GOOD)
    assert (value.offset is not None) is (value.verdict is ValueVerdict.GOOD)
    if key.verdict in {KeyVerdict.NOT_JSON, KeyVerdict.NESTED, KeyVerdict.NOT_TWO}:
        assert key.detail


def test_there_are_cases_enough_and_each_has_its_name():
    assert len(CASES) >= 60
    assert len({case.id for case in CASES}) == len(CASES)
    assert {case.key_verdict for case in CASES} >= set(KeyVerdict) - {KeyVerdict.TOO_LARGE}
    assert {case.value_verdict for case in CASES} >= set(ValueVerdict) - {ValueVerdict.TOO_LARGE}


def test_a_detail_says_where():
    assert decode_key(b'["c",{"a":1,}]').detail == "byte 12: expected a field name"
    assert decode_key(b'["c",{"a":[]}]').detail == "the field 'a' is a list"
    assert decode_value(b"7").detail == "it is a number"


# Hostile bytes
@given(data=st.binary(max_size=60))
def test_no_bytes_make_it_raise(data):
    assert decode_key(data).raw == data
    assert decode_value(data).raw == data


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b'{"a":' * 300_000,
        b'["c",{"a":' + b"9" * 1_000_000 + b"}]",
        b'["c",{"a":1e' + b"9" * 1_000_000 + b"}]",
        b'["c",{"' + b"n" * 1_000_000 + b'":1}]',
    ],
    ids=["lists", "maps", "digits", "exponent", "name"],
)
def test_hostile_size_ends_in_a_verdict(data):
    assert decode_key(data).verdict is KeyVerdict.NOT_JSON
    assert decode_value(data).verdict is ValueVerdict.NOT_JSON


def test_what_is_too_large_is_not_looked_at():
    data = b"[" + b" " * MOST_BYTES
    assert decode_key(data).verdict is KeyVerdict.TOO_LARGE
    assert decode_value(data).verdict is ValueVerdict.TOO_LARGE


def test_a_map_connect_could_not_read_back_is_refused_for_rest():
    assert encode_key("c", {"\ud800": 1}) == b'["c",{"\\uD800":1}]'
    with pytest.raises(UsageError, match="can't read"):
        encode_rest_key("c", {"\ud800": 1})


PLAIN = st.dictionaries(
    st.text(max_size=8),
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    max_size=8,
)


@given(connector=st.text(max_size=8), partition=PLAIN, java=st.sampled_from([17, 19]))
def test_what_is_written_is_read_back(connector, partition, java):
    # A decimal number has no negative zero on its way through Java.
    partition = {name: value + 0.0 if isinstance(value, float) else value for name, value in partition.items()}
    decoded = decode_key(encode_key(connector, partition, java=java))
    assert decoded.key == OffsetKey(connector, partition)
    assert list(decoded.key.partition) == list(partition)
    assert decode_key(encode_rest_key(connector, partition, java=java)).is_rest_spelling


@pytest.mark.parametrize(
    ("spelled", "read"), [("-0.0", "0.0"), ("-0.0e5", "0.0"), ("-1e-400", "-0.0"), ("1e-400", "0.0"), ("-0", "0")]
)
def test_negative_zero_is_as_java_makes_it(spelled, read):
    assert str(decode_value(f'{{"v":{spelled}}}'.encode()).offset["v"]) == read
