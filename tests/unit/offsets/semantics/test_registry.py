"""Families that others bring, and those that are broken."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.core.offsets import Order
from seamark.offsets.semantics import Registry, registry
from seamark.offsets.semantics.semantics import GenericMeaning

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = st.sampled_from(
    [
        "protocol", "table", "query", "incrementing", "timestamp", "timestamp_nanos", "filename", "position", "cluster",
        "partition", "topic", "offset", "group", "server", "lsn", "lsn_proc", "lsn_commit", "ts_usec", "snapshot",
        "kafka_topic", "kafka_partition", "kafka_offset", "ts_sec", "sec", "server_id",
        "sourceClusterAlias", "targetClusterAlias", "other",
    ]
)  # fmt: skip
MAPS = st.dictionaries(KEYS, VALUES, max_size=5)
CLASSES = st.sampled_from(
    [
        "io.aiven.connect.jdbc.JdbcSourceConnector",
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        "io.aiven.connect.jdbc.JdbcSinkConnector",
        "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        "io.confluent.connect.s3.S3SinkConnector",
        "io.debezium.connector.postgresql.PostgresConnector",
        "io.debezium.connector.mysql.MySqlConnector",
        "io.debezium.connector.mongodb.MongoDbConnector",
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "com.example.Unknown",
    ]
)
MODES = st.sampled_from(["bulk", "incrementing", "timestamp", "timestamp+incrementing", "", "odd"])


class Counter(GenericMeaning):
    family = "counter"

    @classmethod
    def matches(cls, connector_class, config):
        return connector_class == "example.Counter"


class Broken(GenericMeaning):
    family = "broken"

    @classmethod
    def matches(cls, connector_class, config):
        raise RuntimeError("boom")


def points(monkeypatch, **named):
    found = [EntryPoint(name, value, registry.GROUP) for name, value in named.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: found if group == registry.GROUP else [])
    return registry.load_registry()


def test_a_family_of_others_is_asked_first():
    class Mine(GenericMeaning):
        family = "mine"

        @classmethod
        def matches(cls, connector_class, config):
            return connector_class.endswith("FileStreamSourceConnector")

    found = Registry([Counter, Mine])
    assert found.find("example.Counter", {}).family == "counter"
    assert found.find("org.apache.kafka.connect.file.FileStreamSourceConnector", {}).family == "mine"
    assert found.find("org.apache.kafka.connect.file.FileStreamSinkConnector", {"topics": "t"}).family == "file sink"


def test_an_entry_point_is_loaded(monkeypatch):
    loaded = points(monkeypatch, other="seamark.offsets.semantics.file_stream:FileStreamMeaning")
    assert (loaded.failures, len(loaded.families)) == ({}, len(registry.OWN) + 1)


@pytest.mark.parametrize("value", ["no.such.module:Thing", "json:dumps", "json:nothing", "seamark.core.offsets:Order"])
def test_one_that_can_not_be_loaded_is_named_and_the_rest_works(monkeypatch, value):
    loaded = points(monkeypatch, bad=value, good="seamark.offsets.semantics.sinks:SinkMeaning")
    assert list(loaded.failures) == ["bad"]
    assert loaded.find("com.example.Sink", {"topics": "t"}).family == "sink"


def test_one_that_raises_does_not_take_the_fleet_with_it():
    found = Registry([Broken])
    assert found.find("com.example.Source", {}).family == "source"
    assert found.failures == {"Broken": "RuntimeError: boom"}


@given(CLASSES, MODES, MAPS, st.none() | MAPS, st.none() | MAPS)
def test_whatever_stands_in_an_offset_no_family_raises(plugin, mode, partition, left, right):
    meaning = registry.find_meaning(plugin, {"mode": mode, "topics": "t"})
    meaning.check(partition, left)
    assert all(isinstance(words, str) for words in meaning.describe(partition, left))
    find_times = getattr(meaning, "find_times", lambda *_: {})
    assert set(find_times(partition, left or {})) <= set(left or {})
    assert meaning.compare(left, right) is meaning.compare(right, left).turned
    assert meaning.compare(left, left) in (Order.EQUAL, Order.UNKNOWN)
    distance = meaning.build_distance(partition, left, right)
    assert (distance.count is None) <= bool(distance.reason)
