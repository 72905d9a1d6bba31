"""Control records in Kafka: strict in reading, the same bytes in writing; those of jobs, streams and copies alike."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import RefusedError
from seamark.kafka_sink.control import (
    Amount,
    Checksum,
    Claim,
    ControlRecord,
    Copied,
    Run,
    decode_control,
    encode_control,
)

RUN = Run(0, 1, 3, first_source=10, last_source=19, first_target=100, last_target=102, checksum=Checksum(7, 9))
BATCH = ControlRecord(Claim("orders", task=7), amount=Amount(3, bytes=40), is_done=True)
STREAM = ControlRecord(
    Claim("orders", task=7, query="q", batch=12), amount=Amount(3, bytes=40), is_done=False, transactions=4
)
COPY = ControlRecord(
    Claim("01PLAN", task=1, part="000002-0a1b2c3d"),
    amount=Amount(6, bytes=40),
    is_done=True,
    copied=Copied(4, runs=(RUN, replace(RUN, target=5))),
)


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
        checksum=Checksum(draw(st.integers(0, 2**63 - 1)), draw(st.integers(0, 2**63 - 1))),
    )


@st.composite
def records(draw):
    kind = draw(st.sampled_from(["job", "stream", "copy"]))
    tasks = draw(st.integers(1, 100))
    name = st.text(min_size=1, max_size=30)
    more, copied = {}, None
    if kind == "stream":
        more = {"query": draw(name), "batch": draw(st.integers(0, 2**40))}
    if kind == "copy":
        pairs = sorted(draw(st.sets(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8)))
        copied = Copied(tasks, runs=tuple(draw(runs(*pair)) for pair in pairs), hash_name=draw(name))
        more = {"part": draw(name)}
    count = draw(st.integers(0, 2**40)) if copied is None else copied.count
    return ControlRecord(
        Claim(draw(name), task=draw(st.integers(0, tasks - 1)), **more),
        amount=Amount(count, bytes=draw(st.integers(0, 2**40)), sum=draw(st.integers(0, 2**63 - 1))),
        is_done=kind == "copy" or draw(st.booleans()),
        transactions=draw(st.integers(1, 100)),
        copied=copied,
    )


@given(records())
def test_what_is_written_is_read(record):
    data = encode_control(record)
    assert decode_control(data, place="c-0@1") == record
    assert encode_control(decode_control(data, place="c-0@1")) == data


def test_bytes_are_pinned():
    # Topics hold these for as long as jobs and copies are told of: a change needs a new format version.
    assert encode_control(BATCH) == (
        b'{"format_version":3,"job":"orders","part":"","query":"","batch":null,"task":7,"records":3,"bytes":40,"sum":0,'
        b'"done":true,"transactions":1,"copy":null,"run":""}'
    )
    assert encode_control(STREAM) == (
        b'{"format_version":3,"job":"orders","part":"","query":"q","batch":12,"task":7,"records":3,"bytes":40,"sum":0,'
        b'"done":false,"transactions":4,"copy":null,"run":""}'
    )
    assert encode_control(replace(COPY, amount=Amount(3), copied=Copied(4, runs=(RUN,)))) == (
        b'{"format_version":3,"job":"01PLAN","part":"000002-0a1b2c3d","query":"","batch":null,"task":1,"records":3,"bytes":0,"sum":0,'
        b'"done":true,"transactions":1,"copy":{"tasks":4,"hash":"xxhash64",'
        b'"runs":[[0,1,3,10,19,100,102,"00000000000000070000000000000009"]]},"run":""}'
    )


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"more": 1}, "unknown keys: ['more']"),
        ({"job": 7}, "not a string"),
        ({"task": 4}, "task 4 does not exist: the slice has 4 tasks"),
        ({"task": True}, "not an integer"),
        ({"task": 1.0}, "not an integer"),
        ({"done": 1}, "neither true nor false"),
        ({"records": "6"}, "not an integer"),
        ({"records": 5}, "its runs have 6 records, but its total is 5"),
        ({"query": "q", "batch": 1}, "contradict each other"),
        ({"batch": 1}, "contradict each other"),
        ({"copy": None}, "only some of the fields of a topic copy"),
        ({"part": ""}, "only some of the fields of a topic copy"),
        ({"copy": {"tasks": 4}}, "missing keys: ['hash', 'runs']"),
    ],
)
def test_anything_else_is_refused(change, cause):
    refuse(json.loads(encode_control(COPY)) | change, cause)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"tasks": 0}, "task 1 does not exist: the slice has 0 tasks"),
        ({"more": 1}, "unknown keys: ['more']"),
        ({"runs": {}}, "not a list"),
        ({"runs": [[1, 2]]}, "not a list of 8"),
        ({"runs": [[0, 1, 3, 10, 19, 100, 102, "7"]]}, "32 hexadecimal digits"),
        ({"runs": [[0, 1, 3, 10, 19, 100, 102, "0" * 31 + "G"]]}, "32 hexadecimal digits"),
        ({"runs": [[0, 1, 3, 10, 11, 100, 102, "0" * 32]]}, "3 records don't fit into source offsets 10 to 11"),
        ({"runs": [[0, 1, 3, 10, 19, 100, 103, "0" * 32]]}, "another producer wrote between them"),
        ({"runs": [[0, 1, 0, 10, 9, 100, 99, "0" * 32]]}, "0 records"),
        ({"runs": [[0, 1, -3, 10, 19, 100, 102, "0" * 32]]}, "not an integer"),
        ({"runs": [RUN.to_list(), RUN.to_list()]}, "not in order, or overlap"),
    ],
)
def test_anything_else_in_a_copy_is_refused(change, cause):
    body = json.loads(encode_control(COPY))
    refuse(body | {"copy": body["copy"] | change}, cause)


def refuse(body, cause):
    with pytest.raises(RefusedError, match="control record c-0@1 can't be read") as caught:
        decode_control(json.dumps(body).encode(), place="c-0@1")
    assert cause in caught.value.cause
    assert "control topic" in caught.value.hint


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff\xfe", b'{"format_version":2,"format_version":1}', b'{"format_version":3}', b"[" * 100_000],
)
def test_what_is_no_record_is_refused(data):
    with pytest.raises(RefusedError, match="control record c-0@1 can't be read"):
        decode_control(data, place="c-0@1")


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_read(data):
    with pytest.raises(RefusedError):
        decode_control(data, place="c-0@1")
