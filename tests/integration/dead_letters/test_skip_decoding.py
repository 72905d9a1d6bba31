"""The decoder refuses what Connect's own converters refuse, and nothing else: Connect's dead-letter topic tells."""

from __future__ import annotations

import json

import pytest

from seamark.kafka.model import RecordLocation, WholeRecord
from seamark.offsets.codec.converter_faults import Decoder
from tests.integration.dead_letters.skip_stage import SkipStage
from tests.integration.waits import wait_for

CONNECT = "org.apache.kafka.connect"
JSON = f"{CONNECT}.json.JsonConverter"
SIMPLE = {"type": "string"}


def envelope(schema, payload, **more):
    return json.dumps({"schema": schema, "payload": payload, **more}).encode()


def struct(**fields):
    return {"type": "struct", "fields": [{"field": name, **schema} for name, schema in fields.items()]}


NUMBERS = [None, b"", b"\0", b"\1", b"\2", *(bytes(size) for size in (2, 3, 4, 5, 7, 8, 9, 16))]
PLAIN = [
    None,
    b"",
    b" ",
    b"{}",
    b"[]",
    b"1",
    b" 1 ",
    b"1 2",
    b"1x",
    b"1,",
    b"01",
    b"-",
    b"-0",
    b"+1",
    b".5",
    b"1.",
    b"1e",
    b"1e5",
    b"1E400",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"nul",
    b"null",
    b"true",
    b"truex",
    b"true false",
    b'"a"',
    b'"a"b',
    b"'a'",
    b'"a',
    b'"\t"',
    b'"\\u12"',
    b'"\\ud800"',
    b'"\\x"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"\xc3\xa4"',
    b"\xef\xbb\xbf{}",
    b"\x00\x01",
    b"\xff\xfe{\x00}\x00",
    b"{\x00}\x00",
    b"\x00{\x00}",
    b'{"a":1,}',
    b'{"a":1} garbage',
    b'{"a":1}{"b":2}',
    b'{"a":1}]',
    b'{"a":1,"a":2}',
    b"{a:1}",
    b"[1,]",
    b"[1 2]",
    b"[NaN]",
    b"[01]",
    b"/* a */ 1",
    b"# a\n1",
    b"[" * 20 + b"]" * 20,
    b"[" * 20 + b"]" * 19,
    b"123456789012345678901234567890",
    b"1.7976931348623157e309",
]
ENVELOPES = [
    *PLAIN,
    envelope(None, {"a": 1}),
    envelope(SIMPLE, "a"),
    envelope(SIMPLE, "a", more=1),
    envelope(SIMPLE, None),
    envelope({"type": "string", "optional": True}, None),
    envelope({"type": "string", "default": "x"}, None),
    envelope({"type": "string"}, 5),
    envelope({"type": "int32"}, "five"),
    envelope({"type": "int32"}, 1.5),
    envelope({"type": "int8"}, 1000),
    envelope({"type": "boolean"}, "yes"),
    envelope({"type": "bytes"}, "AAEC"),
    envelope({"type": "bytes"}, "no base64 !"),
    envelope({"type": "bytes"}, 7),
    envelope({"type": "wrong"}, 1),
    envelope({"optional": True}, 1),
    envelope("string", "a"),
    envelope([], "a"),
    envelope({"type": "struct"}, {}),
    envelope({"type": "struct", "fields": []}, {}),
    envelope({"type": "struct", "fields": [{"type": "int32"}]}, {"a": 1}),
    envelope({"type": "struct", "fields": [{"field": "a"}]}, {"a": 1}),
    envelope(struct(a={"type": "int32"}), {"a": 1}),
    envelope(struct(a={"type": "int32"}), {"a": 1, "b": 2}),
    envelope(struct(a={"type": "int32"}), {"b": 1}),
    envelope(struct(a={"type": "int32"}), {"a": None}),
    envelope(struct(a={"type": "int32", "optional": True}), {}),
    envelope(struct(a={"type": "int32", "default": 3}), {}),
    envelope(struct(a={"type": "int32"}), []),
    envelope(struct(a={"type": "int32"}), "a"),
    envelope(struct(a={"type": "string"}), {"a": 5}),
    envelope(struct(a={"type": "string", "optional": True}), {"a": 5}),
    envelope(struct(a={"type": "boolean"}), {"a": "x"}),
    envelope(struct(a={"type": "bytes"}), {"a": 5}),
    envelope(struct(a=struct(b={"type": "int32"})), {"a": {}}),
    envelope(struct(a=struct(b={"type": "int32"})), {"a": {"b": 1}}),
    envelope({"type": "array", "items": {"type": "int32"}}, [1, 2]),
    envelope({"type": "array", "items": {"type": "int32"}}, [1, None]),
    envelope({"type": "array", "items": {"type": "int32"}}, {"a": 1}),
    envelope({"type": "array", "items": {"type": "string"}}, [1]),
    envelope(struct(a={"type": "array", "items": {"type": "string"}}), {"a": [1]}),
    envelope({"type": "array"}, [1]),
    envelope({"type": "map", "keys": SIMPLE, "values": SIMPLE}, {"a": "b"}),
    envelope({"type": "map", "keys": SIMPLE, "values": SIMPLE}, [["a", "b"]]),
    envelope({"type": "map", "keys": SIMPLE, "values": SIMPLE}, {"a": None}),
    envelope({"type": "map", "keys": {"type": "int32"}, "values": SIMPLE}, [[1, "b"]]),
    envelope({"type": "map", "keys": {"type": "int32"}, "values": SIMPLE}, {"1": "b"}),
    envelope({"type": "map", "keys": {"type": "int32"}, "values": SIMPLE}, [[1]]),
    envelope({"type": "map", "keys": SIMPLE}, {"a": "b"}),
    envelope({"type": "int64", "name": f"{CONNECT}.data.Timestamp", "version": 1}, 1000),
    envelope({"type": "int64", "name": f"{CONNECT}.data.Timestamp", "version": 1}, "x"),
    envelope({"type": "int32", "name": f"{CONNECT}.data.Date", "version": 1}, 10),
    envelope({"type": "bytes", "name": f"{CONNECT}.data.Decimal", "parameters": {"scale": "2"}}, "AQ=="),
    envelope({"type": "bytes", "name": f"{CONNECT}.data.Decimal"}, "AQ=="),
    envelope({"type": "bytes", "name": f"{CONNECT}.data.Decimal", "parameters": {"scale": "2"}}, 1.5),
    envelope({"type": "bytes", "name": f"{CONNECT}.data.Decimal", "parameters": {"scale": "2"}}, True),
    envelope({"type": "bytes", "name": f"{CONNECT}.data.Decimal", "parameters": {"scale": "2"}}, "no base64 !"),
    envelope({"type": "int32", "name": f"{CONNECT}.data.Date", "version": 1}, 1.5),
    envelope({"type": "int32", "name": f"{CONNECT}.data.Time", "version": 1}, "10"),
    envelope(struct(a={"type": "array", "items": {"type": "string", "optional": True}}), {"a": [1, None]}),
    envelope(struct(a={"type": "array", "items": {"type": "string"}}), {"a": "text"}),
    envelope(struct(a={"type": "map", "keys": SIMPLE, "values": SIMPLE}), {"a": {"b": 1}}),
    envelope({"type": "map", "keys": SIMPLE, "values": SIMPLE}, {"b": 1}),
    envelope(struct(a={"type": "int32"}), {"a": "x"}),
    envelope(struct(a={"type": "int32"}), {"a": [1]}),
    envelope(struct(a={"type": "string", "optional": True}), {"a": []}),
]
# Key and value converter of each sink, and what is sent as keys and as values; a header is JSON for all of them.
PAIRS = [
    ("converters.IntegerConverter", {}, NUMBERS, "json.JsonConverter", {"schemas.enable": "false"}, PLAIN),
    ("converters.LongConverter", {}, NUMBERS, "json.JsonConverter", {}, ENVELOPES),
    ("converters.ShortConverter", {}, NUMBERS, "converters.FloatConverter", {}, NUMBERS),
    ("converters.DoubleConverter", {}, NUMBERS, "converters.BooleanConverter", {}, NUMBERS),
    ("storage.StringConverter", {}, PLAIN, "converters.ByteArrayConverter", {}, PLAIN),
]


@pytest.fixture
def stage(stack, tmp_path):
    stage = SkipStage(stack, tmp_path)
    yield stage
    stage.close()


def build_config(pair):
    key, key_settings, _, value, value_settings, _ = pair
    return {
        "key.converter": f"{CONNECT}.{key}",
        **{f"key.converter.{name}": setting for name, setting in key_settings.items()},
        "value.converter": f"{CONNECT}.{value}",
        **{f"value.converter.{name}": setting for name, setting in value_settings.items()},
        "header.converter": JSON,
        "header.converter.schemas.enable": "false",
    }


def build_records(pair):
    """Each odd key alone, each odd value alone, and headers that are and are no JSON."""
    keys, values = pair[2], pair[5]
    alone = [(key, None, ()) for key in keys] + [(None, value, ()) for value in values]
    return [*alone, *((None, None, (("h", value),)) for value in (b"1", b"{", b"", None))]


def read_refused(stage, topic):
    """The offsets that Connect refused, each with the stage."""
    found = [dict(message.headers()) for message in stage.read_parked(f"{topic}-dead")]
    return {int(one["__connect.errors.offset"]): one["__connect.errors.stage"].decode() for one in found}


def test_decoder_refuses_what_connect_refuses(stage):
    sinks = []
    for number, pair in enumerate(PAIRS):
        topic, records = stage.make_topics(f"odd{number}"), build_records(pair)
        for key, value, headers in records:
            stage.producer.produce(topic, value, key=key, headers=list(headers), partition=0)
        assert stage.producer.flush(30) == 0
        config = {
            "connector.class": f"{CONNECT}.file.FileStreamSinkConnector",
            "file": str(stage.folder / f"odd{number}.txt"),
            "topics": topic,
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{topic}-dead",
            "errors.deadletterqueue.context.headers.enable": "true",
            **build_config(pair),
        }
        name, _ = stage.create(f"odd{number}", config)
        sinks.append((name, topic, records, config))
    judged = 0
    for name, topic, records, config in sinks:
        wanted = len(records)
        wait_for(lambda name=name: stage.read_positions(name), lambda held, n=wanted: held == {0: n}, f"all of {topic}")
        decoder = Decoder(config, {})
        ours = {}
        for offset, (key, value, headers) in enumerate(records):
            fault = decoder.find_fault(WholeRecord(RecordLocation(topic, 0, offset), 0, key, value, headers))
            if fault is not None:
                ours[offset] = str(fault.stage)
            judged += 1
        # Connect does not wait for its dead letters before it commits.
        refused = wait_for(
            lambda topic=topic: read_refused(stage, topic),
            lambda found, ours=ours: len(found) >= len(ours),
            f"{len(ours)} dead letters of {topic}",
        )
        different = {
            offset: (records[offset], refused.get(offset), ours.get(offset))
            for offset in refused.keys() | ours.keys()
            if refused.get(offset) != ours.get(offset)
        }
        assert different == {}, config["value.converter"]
        assert refused or "String" in config["key.converter"], "some must be refused"
    assert judged > 300
