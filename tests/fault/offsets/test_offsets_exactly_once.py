"""Offsets of workers with exactly-once: what was never committed does not count, for them and for seamark."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from seamark.context import open_context
from seamark.devstack import StackSpec, start_stack
from seamark.fleet import open_fleet
from seamark.kafka.partitioner import choose_partition
from seamark.offsets.codec.codec import encode_key
from seamark.offsets.model import OffsetAnomaly
from seamark.offsets.service import Route
from tests.integration.offset_tools import Brokers, Connect

LINES = "one\ntwo\nthree\n"
END = {"position": len(LINES)}
SPEC = StackSpec(brokers=1, workers=1, connect_versions=("4.3.1",), exactly_once=True)


@pytest.fixture(scope="module")
def own_stack():
    with start_stack(SPEC, name="exactly-once") as started:
        yield started


def open_transaction(stack, key, value, partition):
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap_servers, "transactional.id": "somebody"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("connect-offsets", key=key, value=value, partition=partition)
    assert producer.flush(30) == 0
    return producer


def test_only_what_is_committed_counts(own_stack, tmp_path):
    file = tmp_path / "in.txt"
    file.write_text(LINES)
    connect, brokers = Connect(own_stack.connect["connect"].urls[0]), Brokers(own_stack.kafka.bootstrap_servers)
    connect.put_file_source("fs", file, topic="fs")
    connect.await_offsets("fs", lambda said: said == [END])
    context = open_context(own_stack.context, environ={"SEAMARK_CONFIG": own_stack.context_file})
    key = encode_key("fs", {"filename": str(file)})
    partition = choose_partition(key, partitions=brokers.count_partitions("connect-offsets"))
    with open_fleet(context=context) as fleet:
        owned = fleet.offsets.get("fs")
        assert ([found.offset for found in owned.offsets], owned.findings) == ([END], ())

        # Tasks and REST wait for the end of an open transaction. seamark says what is committed, and that one is open.
        producer = open_transaction(own_stack, key, b'{"position":4}', partition)
        held = fleet.offsets.get("fs", route=Route.STORE)
        assert [found.offset for found in held.offsets] == [END]
        assert [found.anomaly for found in held.findings] == [OffsetAnomaly.OPEN_TRANSACTION]
        assert f"connect-offsets-{partition}:" in held.findings[0].message

        # What it took back counts for nobody.
        producer.abort_transaction(30)
        connect.await_offsets("fs", lambda said: said == [END])
        after = fleet.offsets.get("fs")
        assert ([found.offset for found in after.offsets], after.findings) == ([END], ())


def test_a_source_takes_its_offsets_to_a_topic_of_its_own_and_back(own_stack, tmp_path):
    file = tmp_path / "own.txt"
    file.write_text(LINES)
    connect = Connect(own_stack.connect["connect"].urls[0])
    connect.put_file_source("own", file, topic="own")
    connect.await_offsets("own", lambda said: said == [END])
    environ = {
        "SEAMARK_CONTEXTS__DEV__JOURNAL": "file",
        "SEAMARK_CONTEXTS__DEV__JOURNAL_FOLDER": str(tmp_path / "journal"),
        "SEAMARK_CONTEXTS__DEV__IN_FLIGHT_TIMEOUT": "5s",
    }
    (tmp_path / "journal").mkdir()
    context = open_context(own_stack.context, environ={"SEAMARK_CONFIG": own_stack.context_file, **environ})
    with open_fleet(context=context) as fleet:
        result = fleet.apply(fleet.offsets.relocate("own", "own-offsets"))
        assert result.is_done, result.failures
        assert [found.offset for found in fleet.offsets.get("own").offsets] == [END]
        _append(file, "four")
        connect.await_offsets("own", lambda said: said == [{"position": file.stat().st_size}])
        result = fleet.apply(fleet.undo(result.change))
        assert result.is_done, result.failures
        _append(file, "five")
        connect.await_offsets("own", lambda said: said == [{"position": file.stat().st_size}])
    assert _read(own_stack, "own", 5) == ["one", "two", "three", "four", "five"]


def _read(stack, topic, count):
    """The values of a topic of one partition once there are so many, and what comes within two seconds more."""
    consumer = Consumer({"bootstrap.servers": stack.kafka.bootstrap_servers, "group.id": "exactly-once"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, deadline = [], time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(100, timeout=0.5)
    found += consumer.consume(100, timeout=2.0)
    consumer.close()
    return [json.loads(message.value()) for message in found]


def _append(file, line):
    with file.open("a") as opened:
        opened.write(f"{line}\n")
