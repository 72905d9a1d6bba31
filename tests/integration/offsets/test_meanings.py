"""Every family that seamark knows, really running: its offsets, their order, and what lies between two of them."""

from __future__ import annotations

import gzip
from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from seamark.core.offsets import Certainty, FileBytes, LogRange, Offset, Order, Unit, settle
from seamark.core.readings import Severity
from seamark.offsets.read.lag import measure_behind, rows_behind
from seamark.offsets.semantics.semantics import Harm
from seamark.tables import Database
from tests.integration.meaning_stage import Stage
from tests.integration.rest import call_until
from tests.integration.waits import commit_offsets, wait_for

JDBC_SOURCE = "io.aiven.connect.jdbc.JdbcSourceConnector"
JDBC_SINK = "io.aiven.connect.jdbc.JdbcSinkConnector"
S3_SINK = "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector"
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
MIRROR = "org.apache.kafka.connect.mirror.Mirror"
FIRST, MORE = 30, 12
BY_NUMBER = {"mode": "incrementing", "incrementing.column.name": "seq"}
JDBC_MODES = {
    "number": BY_NUMBER,
    "auto": {"mode": "incrementing"},
    "time": {"mode": "timestamp", "timestamp.column.name": "at"},
    "local": {"mode": "timestamp", "timestamp.column.name": "local", "db.timezone": "Asia/Seoul"},
    "both": {
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "changed,at",
        "incrementing.column.name": "seq",
    },
}
INT = {"type": "struct", "fields": [{"field": "id", "type": "int64"}, {"field": "name", "type": "string"}]}


@pytest.fixture
def stage(stack):
    made = Stage(stack)
    yield made
    made.close()


def check_family(meaning, early, late):
    """What holds for every family with a position: both are fine, one is before the other, both have words."""
    for found in (early, late):
        assert meaning.check(found.partition, found.offset) == ()
        assert all(meaning.describe(found.partition, found.offset))
    assert meaning.describe(early.partition, early.offset) != meaning.describe(late.partition, late.offset)
    assert meaning.compare(early.offset, late.offset) is Order.BEFORE
    assert meaning.compare(late.offset, early.offset) is Order.AFTER
    assert meaning.compare(late.offset, late.offset) is Order.EQUAL


def make_table(stage, table):
    stage.tables.append(table)
    stage.database.execute(
        f"CREATE TABLE {table} (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL "
        "DEFAULT clock_timestamp(), local timestamp NOT NULL DEFAULT (clock_timestamp() AT TIME ZONE 'Asia/Seoul'), "
        "changed timestamptz, name text)"
    )


def insert(stage, table, count):
    stage.database.execute(f"INSERT INTO {table} (name) SELECT 'n' || n FROM generate_series(1, %s::int) AS n", [count])


def jdbc_source(stage, word, table, mode):
    config = {"connector.class": JDBC_SOURCE, **stage.jdbc, "poll.interval.ms": "200", "topic.prefix": stage.name(word)}
    return stage.create(word, {**config, "table.whitelist": table, **mode})


@pytest.mark.parametrize("mode", JDBC_MODES)
def test_jdbc_source(stage, mode):
    table = f"{stage.run}_{mode}"
    topic = f"{stage.name(mode)}{table}"
    make_table(stage, table)
    insert(stage, table, FIRST)
    name, meaning = jdbc_source(stage, mode, table, JDBC_MODES[mode])
    wait_for(lambda: stage.read_end(topic), lambda end: end >= FIRST, f"{FIRST} records")
    with Database(stage.stack.postgres.dsn) as database:
        connector = stage.client.read_connector(name)

        def is_at_the_end(offset):
            return rows_behind(connector, Offset(place, offset), database).figure == 0

        place = stage.await_offset(name, lambda offset: True, "an offset").partition
        early = stage.await_offset(name, is_at_the_end, "the offset of all rows")
        insert(stage, table, MORE)
        wait_for(lambda: stage.read_end(topic), lambda end: end >= FIRST + MORE, f"{FIRST + MORE} records")
        assert rows_behind(connector, early, database).figure == MORE
        late = stage.await_offset(name, is_at_the_end, "the offset of the new rows")
        check_family(meaning, early, late)
        counted = measure_behind(meaning.build_distance(place, early.offset, late.offset), database)
        whole = measure_behind(meaning.build_distance(place, None, late.offset), database)
    assert meaning.family == "JDBC source"
    assert place == {"protocol": "1", "table": f"postgres.public.{table}"}
    assert (counted.figure, counted.certainty, counted.unit) == (MORE, Certainty.EXACT, Unit.ROWS)
    assert whole.figure == FIRST + MORE


def test_jdbc_source_goes_on_behind_the_row_that_is_named_and_a_rewind_sends_rows_twice(stage):
    """Also with an offset of protocol 0, and with nanoseconds that count in place of the milliseconds."""
    table = f"{stage.run}_rewind"
    topic = f"{stage.name('rewind')}{table}"
    make_table(stage, table)
    insert(stage, table, FIRST)
    name, meaning = jdbc_source(stage, "rewind", table, JDBC_MODES["both"])
    wait_for(lambda: stage.read_end(topic), lambda end: end >= FIRST, f"{FIRST} records")
    row = "SELECT seq, (extract(epoch FROM at) * 1000000)::bigint FROM {} WHERE seq = 21"
    number, micros = stage.database.execute(row.format(table)).fetchone()
    held = stage.await_offset(name, lambda offset: offset.get("incrementing") == FIRST, "the offset of all rows")
    stage.stop(name)
    old = {"table": table}
    position = {
        "incrementing": number,
        "timestamp": micros // 1_000_000 * 1000,
        "timestamp_nanos": micros % 1_000_000 * 1000,
    }
    (warning, *_) = [one for one in meaning.check(held.partition, position) if one.severity is Severity.WARNING] or [
        None
    ]
    assert warning is None or "below the second" in warning.message
    assert {one.severity for one in meaning.check(old, position)} <= {Severity.INFO, Severity.WARNING}
    with Database(stage.stack.postgres.dsn) as database:
        again = measure_behind(meaning.build_distance(old, position, held.offset), database)
    assert again.figure == FIRST - 21
    stage.client.patch_offsets(name, [Offset(held.partition, None), Offset(old, position)])
    already = stage.read_end(topic)
    stage.client.resume(name)
    wait_for(lambda: stage.read_end(topic), lambda end: end >= already + FIRST - 21, "the rows once more")
    # In a neighbour's rebalance Connect may deliver the same once more.
    seen = [value["seq"] for value in stage.read_values(topic)][already:]
    assert list(dict.fromkeys(seen)) == list(range(22, FIRST + 1))
    assert meaning.explain_rewind().harm is Harm.DUPLICATES


def test_jdbc_source_fails_with_what_is_called_an_error(stage):
    table = f"{stage.run}_wrong"
    make_table(stage, table)
    insert(stage, table, 1)
    config = {"connector.class": JDBC_SOURCE, **stage.jdbc, "topic.prefix": stage.run, "table.whitelist": table}
    place = {"protocol": "1", "table": f"postgres.public.{table}"}
    wrong = {
        "text": (BY_NUMBER, {"incrementing": "7"}, "ClassCastException"),
        "nanos": (JDBC_MODES["time"], {"timestamp": 1000, "timestamp_nanos": 10**9}, "IllegalArgumentException"),
    }
    for word, (mode, offset, _) in wrong.items():
        name, meaning = stage.create(word, {**config, **mode}, state="STOPPED")
        assert Severity.ERROR in {one.severity for one in meaning.check(place, offset)}
        stage.client.patch_offsets(name, [Offset(place, offset)])
        stage.client.resume(name)
    for word, (_, _, trace) in wrong.items():
        assert trace in stage.await_failure(stage.name(word))


def test_jdbc_query_is_bounded_and_bulk_keeps_nothing(stage):
    table = f"{stage.run}_query"
    make_table(stage, table)
    insert(stage, table, FIRST)
    config = {"connector.class": JDBC_SOURCE, **stage.jdbc, "poll.interval.ms": "200"}
    query, meaning = stage.create(
        "query", {**config, **BY_NUMBER, "query": f"SELECT * FROM {table}", "topic.prefix": stage.name("query")}
    )
    bulk, whole = stage.create(
        "bulk",
        {
            **config,
            "mode": "bulk",
            "table.whitelist": table,
            "topic.prefix": stage.name("bulk"),
            "poll.interval.ms": "500",
        },
    )
    early = stage.await_offset(query, lambda offset: offset["incrementing"] == FIRST, "the offset of all rows")
    insert(stage, table, MORE)
    late = stage.await_offset(
        query, lambda offset: offset["incrementing"] == FIRST + MORE, "the offset of all new rows"
    )
    check_family(meaning, early, late)
    assert early.partition == {"query": "query"}
    bound = settle(meaning.build_distance(early.partition, early.offset, late.offset))
    assert (bound.figure, bound.certainty) == (MORE, Certainty.BOUND)
    assert meaning.build_distance(early.partition, early.offset, None).certainty is Certainty.UNKNOWN

    # Every poll sends all rows, and Connect holds nothing for it.
    topic = f"{stage.name('bulk')}{table}"
    wait_for(lambda: stage.read_end(topic), lambda end: end >= 2 * (FIRST + MORE), "the table twice")
    assert [found for found in stage.client.read_offsets(bulk) if found.offset] == []
    with Database(stage.stack.postgres.dsn) as database:
        every = measure_behind(whole.build_distance({"table": table}, None, None), database)
    assert every.figure == FIRST + MORE
    assert whole.explain_rewind().harm is Harm.NOTHING


def test_file_source(stage, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    config = {"connector.class": FILE_SOURCE, "file": str(file), "topic": stage.make_topic("lines")}
    name, meaning = stage.create("file", config)

    def append(line, position):
        with file.open("a", encoding="utf-8") as more:
            more.write(line)
        return stage.await_offset(name, lambda offset: offset["position"] == position, f"position {position}")

    early = stage.await_offset(name, lambda offset: offset["position"] == 8, "the offset of two lines")
    late = append("three\n", 14)
    check_family(meaning, early, late)
    distance = meaning.build_distance(early.partition, early.offset, late.offset)
    assert distance.count == FileBytes(str(file), 8, file.stat().st_size)
    assert settle(distance).figure == len("three\n")

    # It counts characters while it reads, but bytes when it starts: so no more than an estimate is claimed.
    append("é\n", 16)
    assert file.stat().st_size == 17
    assert distance.certainty is Certainty.ESTIMATE
    assert "characters" in distance.reason


def read_bucket(stage, bucket):
    """The values in all objects of a bucket, by the object's name."""
    found = {}
    for path in sorted((Path(stage.stack.s3.data) / bucket).rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            data = path.read_bytes()
            text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            found[path.name] = [int(line) for line in text.split()]
    return found


def s3_sink(stage, word, topic, template):
    bucket = stage.name(word)
    (Path(stage.stack.s3.data) / bucket).mkdir()
    s3 = stage.stack.s3
    name, meaning = stage.create(
        word,
        {
            "connector.class": S3_SINK,
            "topics": topic,
            "aws.access.key.id": s3.access_key,
            "aws.secret.access.key": s3.secret_key,
            "aws.s3.bucket.name": bucket,
            "aws.s3.endpoint": s3.endpoint,
            "aws.s3.region": s3.region,
            "format.output.type": "jsonl",
            "format.output.fields": "value",
            "format.output.envelope": "false",
            "file.compression.type": "none",
            "file.name.template": template,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        },
    )
    return name, meaning, bucket


def test_s3_sink(stage):
    topic = stage.make_topic("events")
    stage.produce(topic, range(FIRST), key="k")
    name, meaning, bucket = s3_sink(stage, "objects", topic, "{{topic}}-{{partition}}-{{start_offset}}")
    keyed, by_key, keyed_bucket = s3_sink(stage, "keyed", topic, "{{key}}")
    early = stage.await_offset(name, lambda offset: offset["kafka_offset"] == FIRST, "the first records")
    stage.produce(topic, range(FIRST, FIRST + MORE), key="k")
    for one in (keyed, name):
        late = stage.await_offset(one, lambda offset: offset["kafka_offset"] == FIRST + MORE, "all records")
    check_family(meaning, early, late)
    distance = meaning.build_distance(early.partition, early.offset, late.offset)
    assert distance.count == LogRange(topic, 0, FIRST, FIRST + MORE)
    assert settle(distance).figure == MORE == stage.read_end(topic) - FIRST

    before = read_bucket(stage, bucket)
    assert sorted(chain(*before.values())) == list(range(FIRST + MORE))
    back = Offset(early.partition, {"kafka_offset": 5})
    stage.rewind((name, back), (keyed, back))
    for one in (name, keyed):
        stage.await_offset(one, lambda offset: offset["kafka_offset"] == FIRST + MORE, "the records once more")
    after = read_bucket(stage, bucket)
    assert meaning.explain_rewind().harm is Harm.DUPLICATES
    assert sorted(set(chain(*after.values()))) == list(range(FIRST + MORE))
    assert len(list(chain(*after.values()))) > FIRST + MORE
    assert by_key.explain_rewind().harm is Harm.OVERWRITES
    assert read_bucket(stage, keyed_bucket) == {"k": [FIRST + MORE - 1]}


def test_jdbc_sink(stage):
    topic = stage.make_topic("rows")
    config = {
        "connector.class": JDBC_SINK,
        **stage.jdbc,
        "topics": topic,
        "auto.create": "true",
        # By default it tries a row that can't be written ten times more, 3 s apart.
        "max.retries": "0",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
    }
    modes = {
        "plain": ({"insert.mode": "insert", "pk.mode": "none"}, Harm.DUPLICATES),
        "upsert": ({"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}, Harm.OVERWRITES),
        "keyed": ({"insert.mode": "insert", "pk.mode": "record_value", "pk.fields": "id"}, Harm.FAILURE),
    }
    stage.produce(topic, [{"schema": INT, "payload": {"id": n, "name": f"n{n}"}} for n in range(FIRST)])
    meanings = {}
    for word, (mode, _) in modes.items():
        table = f"{stage.run}_{word}"
        stage.tables.append(table)
        _, meanings[word] = stage.create(word, {**config, **mode, "table.name.format": table})
    early = {
        word: stage.await_offset(stage.name(word), lambda offset: offset["kafka_offset"] == FIRST, "the first records")
        for word in modes
    }
    stage.produce(topic, [{"schema": INT, "payload": {"id": n, "name": f"n{n}"}} for n in range(FIRST, FIRST + MORE)])
    for word in modes:
        late = stage.await_offset(
            stage.name(word), lambda offset: offset["kafka_offset"] == FIRST + MORE, "all the records"
        )
        check_family(meanings[word], early[word], late)
        distance = meanings[word].build_distance(late.partition, early[word].offset, late.offset)
        assert settle(distance).figure == MORE
        assert count_rows(stage, word) == FIRST + MORE

    for word, (_, harm) in modes.items():
        assert meanings[word].explain_rewind().harm is harm
    stage.rewind(*[(stage.name(word), early[word]) for word in modes])
    for word in ("plain", "upsert"):
        stage.await_offset(stage.name(word), lambda offset: offset["kafka_offset"] == FIRST + MORE, "the same again")
    assert (count_rows(stage, "plain"), count_rows(stage, "upsert")) == (FIRST + 2 * MORE, FIRST + MORE)
    assert "duplicate key" in stage.await_failure(stage.name("keyed"))
    assert count_rows(stage, "keyed") == FIRST + MORE


def count_rows(stage, word):
    return stage.database.execute(f"SELECT count(*) FROM {stage.run}_{word}").fetchone()[0]


def test_mirror_maker(stage):
    topic = stage.make_topic("orders")
    # Names of clusters become names of topics, so they must be ours alone.
    alias = {"source.cluster.alias": stage.name("eu"), "target.cluster.alias": stage.name("us")}
    bytes_converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    config = {
        **alias,
        "source.cluster.bootstrap.servers": stage.bootstrap,
        "target.cluster.bootstrap.servers": stage.bootstrap,
        "key.converter": bytes_converter,
        "value.converter": bytes_converter,
    }
    stage.produce(topic, range(FIRST))
    source, meaning = stage.create(
        "mirror",
        {
            **config,
            "connector.class": f"{MIRROR}SourceConnector",
            "topics": topic,
            "sync.topic.acls.enabled": "false",
            "sync.topic.configs.enabled": "false",
            "offset.lag.max": "1",
            # It looks for topics when it starts, and then not for ten minutes: a broker may not tell a new one yet.
            "refresh.topics.interval.seconds": "2",
            # Everybody's topics of that name are copied too, unless one says no.
            "heartbeats.replication.enabled": "false",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
        },
    )
    early = stage.await_offset(source, lambda offset: offset["offset"] == FIRST - 1, "the first records to be copied")
    stage.produce(topic, range(FIRST, FIRST + MORE))
    late = stage.await_offset(source, lambda offset: offset["offset"] == FIRST + MORE - 1, "all to be copied")
    check_family(meaning, early, late)
    distance = meaning.build_distance(early.partition, early.offset, late.offset)
    assert distance.count == LogRange(topic, 0, FIRST, FIRST + MORE, cluster=alias["source.cluster.alias"])
    copy = f"{alias['source.cluster.alias']}.{topic}"
    assert settle(distance).figure == MORE
    # At least: in a neighbour's rebalance Connect may copy the same once more.
    already = stage.read_end(copy)
    assert already >= FIRST + MORE
    assert meaning.describe(early.partition, early.offset)[1] == f"record {FIRST - 1} copied"

    stage.rewind((source, early))
    wait_for(lambda: stage.read_end(copy), lambda end: end >= already + MORE, "the records once more")
    assert meaning.explain_rewind().harm is Harm.DUPLICATES
    # A position below the last sync that the connector found at its start is too old for it to translate.
    commit_group(stage, topic, FIRST + MORE)
    check_unused(stage, config, topic)


def commit_group(stage, topic, offset):
    """A group whose position the checkpoints translate."""
    commit_offsets(stage.admin, stage.run, [TopicPartition(topic, 0, offset)])


def check_unused(stage, config, topic):
    """Checkpoints and heartbeats: offsets that Connect holds and nobody reads.

    The topic `heartbeats` stays: its name can't be chosen, so that it may be somebody else's too.
    """
    words = {
        "Checkpoint": {"groups": stage.run, "topics": topic, "emit.checkpoints.interval.seconds": "1"},
        "Heartbeat": {"emit.heartbeats.interval.seconds": "1"},
    }
    copies = {"checkpoints.topic.replication.factor": "1", "heartbeats.topic.replication.factor": "1"}
    for word, more in words.items():
        name, meaning = stage.create(word, {**config, **copies, **more, "connector.class": f"{MIRROR}{word}Connector"})
        found = stage.await_offset(name, lambda offset: True, f"the offset of {word}")
        assert meaning.check(found.partition, found.offset) == ()
        assert meaning.describe(found.partition, found.offset)[1] == "not used"
        assert settle(meaning.build_distance(found.partition, found.offset, None)).figure == 0


def stopped_connectors(stage, tmp_path):
    """One stopped connector of each family whose offsets Connect itself looks at, with offsets that are to be tried."""
    topic = stage.make_topic("tried")
    file = str(tmp_path / "in.txt")
    clusters = {"source.cluster.alias": "eu", "target.cluster.alias": "us"}
    servers = {f"{side}.cluster.bootstrap.servers": stage.bootstrap for side in ("source", "target")}
    copied = {"cluster": "eu", "partition": 0, "topic": topic}
    beat = {"sourceClusterAlias": "eu", "targetClusterAlias": "us"}
    checked = {"partition": 0, "topic": topic, "group": "g"}
    read = {"kafka_topic": topic, "kafka_partition": 0}
    sink = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    yield (
        {"connector.class": FILE_SOURCE, "file": file, "topic": topic},
        [({"filename": file}, {"position": value}) for value in (0, 5, -1, "5", 5.5, True, None, [5], 2**63)]
        + [
            ({"filename": file}, None),
            ({"filename": file}, {}),
            ({"file": file}, {"position": 1}),
            ({}, {"position": 1}),
        ],
    )
    yield (
        {"connector.class": f"{MIRROR}SourceConnector", "topics": topic, **clusters, **servers},
        [(copied, {"offset": value}) for value in (1, 7, -1, "7", 7.5, None)]
        + [(copied, None), (copied, {}), ({"cluster": "eu", "topic": topic}, {"offset": 1})]
        + [({**copied, "partition": value}, {"offset": 1}) for value in (-1, "x", None)]
        + [({**copied, key: None}, {"offset": 1}) for key in ("cluster", "topic")],
    )
    yield (
        {"connector.class": f"{MIRROR}HeartbeatConnector", **clusters, **servers},
        [(beat, {"offset": value}) for value in (0, 1, -1, "0", None)]
        + [({"sourceClusterAlias": "eu"}, {"offset": 0})],
    )
    yield (
        {"connector.class": f"{MIRROR}CheckpointConnector", **clusters, **servers},
        [(checked, {"offset": value}) for value in (0, 1, None)] + [({"topic": topic}, {"offset": 0})],
    )
    yield (
        {"connector.class": sink, "topics": topic, "file": file},
        [(read, {"kafka_offset": value}) for value in (0, 5, "5", -1, "x", 5.5, None)]
        + [(read, None), (read, {}), ({"kafka_topic": topic}, {"kafka_offset": 1})]
        + [({**read, "kafka_partition": value}, {"kafka_offset": 1}) for value in ("0", "x", None, 0.5)]
        + [({**read, "kafka_topic": None}, {"kafka_offset": 1})],
    )


def test_connect_refuses_what_is_called_an_error_and_takes_the_rest(stage, tmp_path):
    url = stage.stack.connect["connect"].urls[0]
    tried = []
    for number, (config, cases) in enumerate(stopped_connectors(stage, tmp_path)):
        name, meaning = stage.create(f"tried-{number}", config, state="STOPPED")
        stage.stop(name)
        for partition, offset in cases:
            wrong = any(one.severity is Severity.ERROR for one in meaning.check(partition, offset))
            body = {"offsets": [{"partition": partition, "offset": offset}]}
            # A rebalance is a refusal of its own kind, also under another number: what is taken is taken in the end.
            answer = call_until(
                f"{url}/connectors/{name}/offsets",
                lambda status, _, wrong=wrong: status != 409 if wrong else status == 200,
                method="PATCH",
                body=body,
            )
            tried.append((meaning.family, partition, offset, wrong, answer is None))
    differing = [case for case in tried if case[3] != case[4]]
    assert differing == []
    assert len(tried) == 52
