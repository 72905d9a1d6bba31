"""Files, mirrors, Debezium, sinks, and connectors nobody taught us."""

from __future__ import annotations

import pytest

from seamark.core.offsets import Certainty, Counted, FileBytes, Fixed, LogRange, Order, Unit, WalBytes, settle
from seamark.core.readings import Severity
from seamark.offsets.read.lag import database_url
from seamark.offsets.semantics import find_meaning
from seamark.offsets.semantics.debezium_postgres import show_lsn
from seamark.offsets.semantics.semantics import Harm

FILE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
MIRROR = "org.apache.kafka.connect.mirror.Mirror"
DEBEZIUM = "io.debezium.connector.postgresql.PostgresConnector"
AIVEN_S3 = "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector"
CONFLUENT_S3 = "io.confluent.connect.s3.S3SinkConnector"
JDBC_SOURCE = "io.aiven.connect.jdbc.JdbcSourceConnector"
JDBC_SINK = "io.aiven.connect.jdbc.JdbcSinkConnector"
COPIED = {"cluster": "eu", "partition": 2, "topic": "orders"}
READ = {"kafka_topic": "orders", "kafka_partition": 3}
PLACE = {
    "lsn": 0x16_B374D848,
    "lsn_proc": 0x16_B374D848,
    "lsn_commit": 0x16_B374D800,
    "txId": 9,
    "ts_usec": 1_700_000_000_000_000,
}


def worst(findings):
    order = [Severity.ERROR, Severity.WARNING, Severity.INFO]
    return min((finding.severity for finding in findings), key=order.index, default=Severity.OK)


@pytest.mark.parametrize(
    ("partition", "offset", "severity"),
    [
        ({"filename": "/in"}, {"position": 8}, Severity.OK),
        ({"filename": "/in"}, None, Severity.OK),
        ({"filename": "/other"}, {"position": 8}, Severity.WARNING),
        ({"filename": "/in"}, {"position": 8, "line": 2}, Severity.WARNING),
        ({"filename": "/in"}, {"position": -1}, Severity.ERROR),
        ({"filename": "/in"}, {"position": 8.0}, Severity.ERROR),
        ({"filename": "/in"}, {}, Severity.ERROR),
        ({"file": "/in"}, {"position": 8}, Severity.ERROR),
    ],
)
def test_a_file_is_checked(partition, offset, severity):
    assert worst(find_meaning(FILE, {"file": "/in"}).check(partition, offset)) is severity


def test_a_file_is_ordered_and_measured_in_bytes():
    meaning = find_meaning(FILE, {"file": "/in"})
    assert meaning.compare(None, {"position": 0}) is Order.EQUAL
    assert meaning.compare({"position": 9}, {"position": 10}) is Order.BEFORE
    assert meaning.compare({"position": "9"}, {"position": 10}) is Order.UNKNOWN
    assert meaning.describe({"filename": "/in"}, {"position": 9}) == ("file /in", "byte 9")
    distance = meaning.build_distance({"filename": "/in"}, {"position": 4}, {"position": 10})
    assert distance.count == FileBytes("/in", 4, 10)
    assert settle(distance) == Counted(Unit.BYTES, 6, Certainty.ESTIMATE, distance.reason)
    assert settle(meaning.build_distance({"filename": "/in"}, {"position": 4}, None)) is None
    assert meaning.build_distance({"filename": "/in"}, {"position": "x"}, None).count is None


@pytest.mark.parametrize(
    ("partition", "offset", "severity"),
    [
        (COPIED, {"offset": 5}, Severity.OK),
        (COPIED, {"offset": 0}, Severity.INFO),
        ({**COPIED, "cluster": "us"}, {"offset": 5}, Severity.WARNING),
        (COPIED, {"offset": -1}, Severity.ERROR),
        (COPIED, {"offset": None}, Severity.ERROR),
        ({**COPIED, "partition": "2"}, {"offset": 5}, Severity.ERROR),
        ({**COPIED, "topic": None}, {"offset": 5}, Severity.ERROR),
        ({"cluster": "eu", "topic": "t"}, {"offset": 5}, Severity.ERROR),
    ],
)
def test_a_mirror_is_checked(partition, offset, severity):
    meaning = find_meaning(f"{MIRROR}SourceConnector", {"source.cluster.alias": "eu"})
    assert worst(meaning.check(partition, offset)) is severity


def test_a_mirror_remembers_the_last_record_not_the_next():
    meaning = find_meaning(f"{MIRROR}SourceConnector", {})
    assert meaning.describe(COPIED, {"offset": 41}) == ("eu: orders-2", "record 41 copied")
    assert meaning.compare({"offset": 41}, {"offset": 42}) is Order.BEFORE
    assert meaning.compare(None, {"offset": 0}) is Order.UNKNOWN
    distance = meaning.build_distance(COPIED, {"offset": 41}, {"offset": 50})
    assert distance.count == LogRange("orders", 2, 42, 51, cluster="eu")
    assert settle(distance).figure == 9
    assert meaning.build_distance(COPIED, None, None).count == LogRange("orders", 2, None, None, cluster="eu")


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("Checkpoint", {"partition": 0, "topic": "t", "group": "g"}),
        ("Heartbeat", {"sourceClusterAlias": "a", "targetClusterAlias": "b"}),
    ],
)
def test_offsets_that_nobody_reads_are_said_to_be_unused(name, partition):
    meaning = find_meaning(f"{MIRROR}{name}Connector", {})
    assert meaning.check(partition, {"offset": 0}) == ()
    assert worst(meaning.check(partition, {"offset": 1})) is Severity.ERROR
    assert worst(meaning.check({"x": "y"}, {"offset": 0})) is Severity.ERROR
    assert meaning.describe(partition, {"offset": 0})[1] == "not used"
    assert meaning.compare({"offset": 0}, None) is Order.EQUAL
    assert (meaning.explain_rewind().harm, meaning.explain_skip().harm) == (Harm.NOTHING, Harm.NOTHING)
    assert settle(meaning.build_distance(partition, None, None)).figure == 0


@pytest.mark.parametrize(
    ("offset", "severity"),
    [
        (PLACE, Severity.OK),
        ({**PLACE, "snapshot": "INITIAL", "snapshot_completed": True}, Severity.OK),
        ({**PLACE, "snapshot": True, "last_snapshot_record": False}, Severity.WARNING),
        ({**PLACE, "lsn_proc": PLACE["lsn"] + 1}, Severity.WARNING),
        ({"lsn": 5}, Severity.WARNING),
        ({"ts_usec": 5}, Severity.ERROR),
        ({**PLACE, "lsn": "16/B374D848"}, Severity.ERROR),
        ({**PLACE, "lsn": -4}, Severity.ERROR),
    ],
)
def test_a_place_in_the_log_is_checked(offset, severity):
    meaning = find_meaning(DEBEZIUM, {"topic.prefix": "shop"})
    assert worst(meaning.check({"server": "shop"}, offset)) is severity


def test_debezium_is_ordered_by_commits_and_measured_in_bytes_of_the_log():
    meaning = find_meaning(DEBEZIUM, {"topic.prefix": "shop"})
    server = {"server": "shop"}
    assert worst(meaning.check({"server": "other"}, PLACE)) is Severity.WARNING
    assert meaning.describe(server, PLACE) == ("server shop", "LSN 16/B374D848, 2023-11-14 22:13:20 UTC")
    # A transaction that began earlier and committed later is sent later, though its events lie before.
    assert meaning.compare({"lsn": 50, "lsn_commit": 200}, {"lsn": 150, "lsn_commit": 100}) is Order.AFTER
    assert meaning.compare({"lsn": 50}, {"lsn": 60}) is Order.BEFORE
    assert meaning.compare(None, PLACE) is Order.UNKNOWN
    later = {**PLACE, "lsn_proc": PLACE["lsn_proc"] + 4096, "ts_usec": PLACE["ts_usec"] + 2_500_000}
    distance = meaning.build_distance(server, PLACE, later)
    assert (distance.unit, distance.count, distance.seconds) == (Unit.BYTES, Fixed(4096), 2.5)
    assert meaning.build_distance(server, PLACE, None).count == WalBytes(PLACE["lsn"])
    assert meaning.build_distance(server, None, None).count is None
    assert "confirmed_flush_lsn" in meaning.explain_rewind().words
    assert meaning.explain_skip().harm is Harm.LOSS
    assert show_lsn(0x16_B374D848) == "16/B374D848"


@pytest.mark.parametrize("plugin", [AIVEN_S3, CONFLUENT_S3, JDBC_SINK, FILE_SINK, "com.example.Sink"])
@pytest.mark.parametrize(
    ("partition", "offset", "severity"),
    [
        (READ, {"kafka_offset": 12}, Severity.OK),
        ({**READ, "kafka_partition": "3"}, {"kafka_offset": "12"}, Severity.OK),
        (READ, None, Severity.OK),
        ({**READ, "kafka_topic": "gone"}, {"kafka_offset": 1}, Severity.WARNING),
        (READ, {"kafka_offset": -1}, Severity.ERROR),
        (READ, {"kafka_offset": 1.5}, Severity.ERROR),
        (READ, {"kafka_ofset": 1}, Severity.ERROR),
        ({"kafka_topic": "orders"}, {"kafka_offset": 1}, Severity.ERROR),
        ({"kafka_topic": 5, "kafka_partition": 0}, {"kafka_offset": 1}, Severity.ERROR),
        ({"kafka_topic": "orders", "kafka_partition": "x"}, {"kafka_offset": 1}, Severity.ERROR),
    ],
)
def test_a_sink_is_checked(plugin, partition, offset, severity):
    assert worst(find_meaning(plugin, {"topics": "orders, other"}).check(partition, offset)) is severity


def test_a_sink_remembers_the_next_record():
    meaning = find_meaning("com.example.Sink", {"topics.regex": "o.*"})
    assert meaning.family == "sink"
    assert meaning.describe(READ, {"kafka_offset": 12}) == ("orders-3", "next record 12")
    assert meaning.compare({"kafka_offset": 12}, {"kafka_offset": "13"}) is Order.BEFORE
    assert meaning.compare(None, {"kafka_offset": 13}) is Order.UNKNOWN
    distance = meaning.build_distance(READ, {"kafka_offset": 12}, {"kafka_offset": 20})
    assert distance.count == LogRange("orders", 3, 12, 20)
    assert distance.certainty is Certainty.BOUND
    assert settle(distance).figure == 8
    assert meaning.build_distance(READ, {"kafka_offset": "x"}, None).count is None
    assert meaning.explain_rewind().harm is Harm.UNKNOWN


@pytest.mark.parametrize(
    ("plugin", "config", "harm"),
    [
        (AIVEN_S3, {}, Harm.DUPLICATES),
        (AIVEN_S3, {"file.name.template": "{{topic}}-{{partition}}-{{start_offset}}"}, Harm.DUPLICATES),
        (AIVEN_S3, {"file.name.template": "{{ key }}.gz"}, Harm.OVERWRITES),
        (AIVEN_S3, {"aws.s3.prefix": "{{ utc_date }}/"}, Harm.DUPLICATES),
        (CONFLUENT_S3, {"flush.size": "100"}, Harm.OVERWRITES),
        (CONFLUENT_S3, {"rotate.schedule.interval.ms": "60000"}, Harm.NOTHING),
        (CONFLUENT_S3, {"rotate.schedule.interval.ms": "60000", "enable.conditional.writes": "false"}, Harm.DUPLICATES),
        (JDBC_SINK, {}, Harm.DUPLICATES),
        (JDBC_SINK, {"insert.mode": "insert", "pk.mode": "kafka"}, Harm.FAILURE),
        (JDBC_SINK, {"insert.mode": "upsert", "pk.mode": "record_key"}, Harm.OVERWRITES),
        (JDBC_SINK, {"insert.mode": "update", "pk.mode": "record_key"}, Harm.OVERWRITES),
        (JDBC_SINK, {"insert.mode": "bogus"}, Harm.UNKNOWN),
        (FILE_SINK, {}, Harm.DUPLICATES),
    ],
)
def test_what_a_rewind_does_depends_on_how_the_sink_writes(plugin, config, harm):
    meaning = find_meaning(plugin, {"topics": "orders", **config})
    assert meaning.explain_rewind().harm is harm
    assert meaning.explain_rewind().words
    assert meaning.explain_skip().harm is Harm.LOSS


@pytest.mark.parametrize(
    ("plugin", "partition", "offset", "time"),
    [
        (DEBEZIUM, {"server": "s"}, PLACE, {"ts_usec": "2023-11-14T22:13:20+00:00"}),
        (DEBEZIUM, {"server": "s"}, {"ts_usec": 2**62}, {}),
        (DEBEZIUM, {"server": "s"}, {"ts_usec": "1700000000000000"}, {}),
        (
            "io.debezium.connector.mysql.MySqlConnector",
            {"server": "s"},
            {"file": "b", "pos": 4, "ts_sec": 1_700_000_000},
            {"ts_sec": "2023-11-14T22:13:20+00:00"},
        ),
        (
            "io.debezium.connector.mongodb.MongoDbConnector",
            {"server_id": "s"},
            {"sec": 1_700_000_000, "ord": 3},
            {"sec": "2023-11-14T22:13:20+00:00"},
        ),
        ("com.example.Source", {"server": "s"}, {"timestamp": 1_700_000_000_000}, {}),
        (FILE, {"filename": "/in"}, {"position": 1_700_000_000}, {}),
        (
            JDBC_SOURCE,
            {"table": "t"},
            {"timestamp": 1_700_000_000_123},
            {"timestamp": "2023-11-14T22:13:20.123000+00:00"},
        ),
        (JDBC_SOURCE, {"table": "t"}, {"incrementing": 1_700_000_000_123}, {}),
    ],
)
def test_times_in_an_offset_are_found(plugin, partition, offset, time):
    found = find_meaning(plugin, {}).find_times(partition, offset)
    assert {key: value.isoformat() for key, value in found.items()} == time


def test_a_connector_nobody_knows_is_not_guessed_at():
    meaning = find_meaning("com.example.Source", {})
    assert meaning.family == "source"
    assert meaning.check({"a": 1}, {"b": 2}) == ()
    assert meaning.compare({"b": 2}, {"b": 2}) is Order.EQUAL
    assert meaning.compare({"b": 1}, {"b": 2}) is Order.UNKNOWN
    assert meaning.compare({"b": 1}, {"b": True}) is Order.UNKNOWN
    assert meaning.describe({"a": 1, "x": None}, {"b": "two", "c": True}) == ("a 1, x null", "b two, c true")
    assert meaning.build_distance({"a": 1}, None, None).certainty is Certainty.UNKNOWN


@pytest.mark.parametrize("bad", [{"b": {"c": 1}}, {"b": [1]}, {"b": 2**63}])
def test_what_connect_itself_refuses_is_an_error_everywhere(bad):
    assert worst(find_meaning("com.example.Source", {}).check({"a": 1}, bad)) is Severity.ERROR


@pytest.mark.parametrize(
    ("plugin", "partition", "offset", "owner", "severity"),
    [
        ("io.debezium.connector.mysql.MySqlConnector", {"server": "s"}, {"pos": 4}, "Debezium MySQL", Severity.ERROR),
        (
            "io.debezium.connector.mysql.MySqlConnector",
            {"server": "s"},
            {"file": "b.1", "pos": 4},
            "Debezium MySQL",
            Severity.INFO,
        ),
        (
            "io.debezium.connector.mariadb.MariaDbConnector",
            {"server": "s"},
            {"file": "b.1", "pos": "4"},
            "Debezium MySQL",
            Severity.ERROR,
        ),
        (
            "io.debezium.connector.oracle.OracleConnector",
            {"server": "s"},
            {"scn": "1", "snapshot": True},
            "Debezium Oracle",
            Severity.WARNING,
        ),
        (
            "io.debezium.connector.sqlserver.SqlServerConnector",
            {"server": "s", "database": "d"},
            {"commit_lsn": "x"},
            "Debezium SQL Server",
            Severity.INFO,
        ),
        (
            "io.debezium.connector.mongodb.MongoDbConnector",
            {"server_id": "s"},
            {"sec": 1, "ord": 1},
            "Debezium MongoDB",
            Severity.INFO,
        ),
        (
            "com.mongodb.kafka.connect.MongoSourceConnector",
            {"ns": "mongodb://h/d.c"},
            {},
            "MongoDB source",
            Severity.ERROR,
        ),
        (
            "io.aiven.kafka.connect.s3.source.S3SourceConnector",
            {"bucket": "b", "objectKey": "k"},
            {"recordCount": 1},
            "S3 source",
            Severity.INFO,
        ),
    ],
)
def test_documented_shapes_are_known(plugin, partition, offset, owner, severity):
    meaning = find_meaning(plugin, {})
    assert meaning.describe(partition, offset)[0].startswith(f"{owner}: ")
    assert worst(meaning.check(partition, offset)) is severity


def test_the_database_of_a_connector_is_told_from_its_config():
    assert database_url({"connection.url": " jdbc:postgresql://h/d?x=1 "}) == "jdbc:postgresql://h/d?x=1"
    debezium = {"database.hostname": "h", "database.port": "5433", "database.dbname": "d"}
    assert database_url(debezium) == "jdbc:postgresql://h:5433/d"
    assert database_url({"file": "/in"}) is None
