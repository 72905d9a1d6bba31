"""What Connect's converters can't read.

tests/integration/dead_letters/test_skip_decoding.py compares it with Connect itself.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.kafka.model import RecordLocation, WholeRecord
from seamark.offsets.codec.converter_faults import Decoder, DoubtError, SinkStage, find_json_fault

CONNECT = "org.apache.kafka.connect"


def record(key=None, value=None, headers=()):
    return WholeRecord(RecordLocation("t", 0, 0), 0, key, value, headers)


def decoder(key="storage.StringConverter", value="storage.StringConverter", worker=None, **more):
    config = {"key.converter": f"{CONNECT}.{key}", "value.converter": f"{CONNECT}.{value}", **more}
    return Decoder(config, worker or {})


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("IntegerConverter", bytes(4), bytes(3)),
        ("LongConverter", bytes(8), bytes(4)),
        ("ShortConverter", bytes(2), b""),
        ("FloatConverter", bytes(4), bytes(8)),
        ("DoubleConverter", bytes(8), bytes(9)),
        ("BooleanConverter", b"\1", b"\2"),
    ],
)
def test_numbers_have_their_size(name, good, bad):
    ours = decoder(value=f"converters.{name}")
    assert ours.find_fault(record(value=good)) is None
    assert ours.find_fault(record(value=None)) is None
    fault = ours.find_fault(record(value=bad))
    assert fault.stage is SinkStage.VALUE_CONVERTER
    assert fault.converter == f"{CONNECT}.converters.{name}"


def test_key_is_read_before_value_and_value_before_headers():
    header = {"header.converter": f"{CONNECT}.json.JsonConverter", "header.converter.schemas.enable": "false"}
    ours = decoder(key="converters.LongConverter", value="converters.LongConverter", **header)
    bad = record(b"k", b"v", (("h", b"{"),))
    assert ours.find_fault(bad).stage is SinkStage.KEY_CONVERTER
    assert ours.find_fault(record(None, b"v", (("h", b"{"),))).stage is SinkStage.VALUE_CONVERTER
    assert ours.find_fault(record(None, None, (("h", b"1"), ("h", b"{")))).stage is SinkStage.HEADER_CONVERTER
    assert ours.find_fault(record(None, None, (("h", None),))) is None


def test_workers_converter_counts_where_the_connector_names_none():
    worker = {"value.converter": f"{CONNECT}.json.JsonConverter", "value.converter.schemas.enable": "false"}
    config = {"key.converter": f"{CONNECT}.storage.StringConverter"}
    assert Decoder(config, worker).find_fault(record(value=b"{}")) is None
    assert Decoder(config, worker).find_fault(record(value=b"{")) is not None
    # Its own converter has its own settings: those of the workers say nothing of it.
    own = config | {"value.converter": f"{CONNECT}.json.JsonConverter"}
    assert Decoder(own, worker).find_fault(record(value=b"{}")) is not None


@pytest.mark.parametrize("name", ["", "io.confluent.connect.avro.AvroConverter", "com.example.json.JsonConverter"])
def test_nobody_guesses_for_a_converter_that_is_not_known_here(name):
    config = {"key.converter": f"{CONNECT}.storage.StringConverter", "value.converter": name}
    ours = Decoder(config, {})
    with pytest.raises(DoubtError):
        ours.find_fault(record(value=b"x"))


@pytest.mark.parametrize("bad", [b"{", b"NaN", b"1x", b"truex", b'"\xff"', b"\x00\x01", b"[1,]", b"'a'", b'"\t"'])
def test_what_is_no_json(bad):
    assert find_json_fault(bad, has_schema=False) == "it is not valid JSON"


@pytest.mark.parametrize("good", [None, b"", b" ", b"1 2", b"{} garbage", b"01", b"[007]", b"true false", b'"01x"'])
def test_what_jackson_takes(good):
    assert find_json_fault(good, has_schema=False) == ""


def test_nothing_of_a_record_is_in_what_is_said_of_it():
    secret = b'{"password": "hunter2"'
    for has_schema in (False, True):
        assert "hunter2" not in find_json_fault(secret, has_schema=has_schema)
    fields = [{"field": "hunter2", "type": "hunter2"}]
    data = json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": {}}).encode()
    assert "hunter2" not in find_json_fault(data, has_schema=True)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_every_json_value_is_taken(value):
    data = json.dumps(value).encode()
    assert find_json_fault(data, has_schema=False) == ""
    assert find_json_fault(json.dumps({"schema": None, "payload": value}).encode(), has_schema=True) == ""


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_have_an_answer(data, has_schema):
    assert isinstance(find_json_fault(data, has_schema=has_schema), str)


def test_depth_beyond_all_measure_is_not_called_a_fault():
    assert find_json_fault(b"[" * 100_000, has_schema=False) == ""
