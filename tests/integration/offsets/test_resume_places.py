"""What seamark reads from the stores is where a worker goes on: every family is stopped, given more, and started."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest

from seamark.core.offsets import Offset, settle
from seamark.offsets.read.lag import measure_behind
from seamark.tables import Database
from tests.integration.meaning_stage import Stage, check_stores
from tests.integration.offsets.test_meanings import (
    FILE_SOURCE,
    INT,
    JDBC_MODES,
    JDBC_SINK,
    JDBC_SOURCE,
    MIRROR,
    insert,
    jdbc_source,
    make_table,
    read_bucket,
    s3_sink,
)
from tests.integration.waits import wait_for

FIRST, MORE = 30, 12
FAMILIES = {"JDBC source": len(JDBC_MODES) + 1, "file source": 1, "MirrorMaker 2": 1, "S3 sink": 1, "JDBC sink": 1}


@dataclass(frozen=True)
class Play:
    """A connector: how to give it so many more, and how often each of everything has arrived."""

    name: str
    family: str
    meaning: Any
    give: Any
    count: Any


@pytest.fixture
def stage(stack):
    made = Stage(stack)
    yield made
    made.close()


def play_jdbc(stage, mode):
    table = f"{stage.run}_{mode}"
    make_table(stage, table)
    name, meaning = jdbc_source(stage, mode, table, JDBC_MODES[mode])
    return Play(
        name,
        "JDBC source",
        meaning,
        lambda first, count: insert(stage, table, count),
        lambda: Counter(read_fields(stage, f"{stage.name(mode)}{table}", "seq")),
    )


def play_query(stage):
    table = f"{stage.run}_query"
    make_table(stage, table)
    topic = stage.name("query")
    config = {"connector.class": JDBC_SOURCE, **stage.jdbc, "poll.interval.ms": "200", "topic.prefix": topic}
    way = {"mode": "incrementing", "incrementing.column.name": "seq", "query": f"SELECT * FROM {table}"}
    name, meaning = stage.create("query", {**config, **way})
    return Play(
        name,
        "JDBC source",
        meaning,
        lambda first, count: insert(stage, table, count),
        lambda: Counter(read_fields(stage, topic, "seq")),
    )


def read_fields(stage, topic, field):
    return [value.get("payload", value)[field] for value in stage.read_values(topic)]


def play_file(stage, folder):
    file, topic = folder / "lines.txt", stage.make_topic("lines")
    file.write_text("")
    name, meaning = stage.create(
        "file",
        {
            "connector.class": FILE_SOURCE,
            "file": str(file),
            "topic": topic,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        },
    )

    def give(first, count):
        with file.open("a") as more:
            more.writelines(f"line {number}\n" for number in range(first, first + count))

    return Play(name, "file source", meaning, give, lambda: Counter(stage.read_values(topic)))


def play_mirror(stage):
    topic, here = stage.make_topic("orders"), stage.name("eu")
    plain = "org.apache.kafka.connect.converters.ByteArrayConverter"
    name, meaning = stage.create(
        "mirror",
        {
            "connector.class": f"{MIRROR}SourceConnector",
            "source.cluster.alias": here,
            "target.cluster.alias": stage.name("us"),
            "source.cluster.bootstrap.servers": stage.bootstrap,
            "target.cluster.bootstrap.servers": stage.bootstrap,
            "key.converter": plain,
            "value.converter": plain,
            "topics": topic,
            "sync.topic.acls.enabled": "false",
            "sync.topic.configs.enabled": "false",
            "refresh.topics.interval.seconds": "2",
            "heartbeats.replication.enabled": "false",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
        },
    )
    return Play(
        name,
        "MirrorMaker 2",
        meaning,
        lambda first, count: stage.produce(topic, range(first, first + count)),
        lambda: Counter(stage.read_values(f"{here}.{topic}")),
    )


def play_s3(stage):
    topic = stage.make_topic("events")
    name, meaning, bucket = s3_sink(stage, "objects", topic, "{{topic}}-{{partition}}-{{start_offset}}")
    return Play(
        name,
        "S3 sink",
        meaning,
        lambda first, count: stage.produce(topic, range(first, first + count), key="k"),
        lambda: Counter(chain(*read_bucket(stage, bucket).values())),
    )


def play_jdbc_sink(stage):
    topic, table = stage.make_topic("rows"), f"{stage.run}_sunk"
    stage.tables.append(table)
    # With the table there from the start it can be counted before the first record.
    stage.database.execute(f"CREATE TABLE {table} (id bigint, name text)")
    name, meaning = stage.create(
        "sunk",
        {
            "connector.class": JDBC_SINK,
            **stage.jdbc,
            "topics": topic,
            "table.name.format": table,
            "insert.mode": "insert",
            "pk.mode": "none",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "true",
        },
    )

    def give(first, count):
        rows = [{"id": number, "name": f"n{number}"} for number in range(first, first + count)]
        stage.produce(topic, [{"schema": INT, "payload": row} for row in rows])

    def count():
        return Counter(row[0] for row in stage.database.execute(f"SELECT id FROM {table}").fetchall())

    return Play(name, "JDBC sink", meaning, give, count)


def read_place(stage, play):
    """The one offset that seamark reads from the store, and REST tells too."""
    owned = check_stores(stage.stack, stage.client, play.name)
    (found,) = owned
    return found


def is_flushed(stage, play, before):
    """Whether a position has been stored that is another one."""
    found = stage.client.read_offsets(play.name)
    return len(found) == 1 and found[0].offset is not None and found[0].offset != before


def await_rest(stage, plays):
    """Until no position moves any more. Workers store them each second; a task that is cut off stores none."""

    def read_twice():
        seen = []
        for _ in range(2):
            seen.append([[one.offset for one in stage.client.read_offsets(play.name)] for play in plays])
            time.sleep(2.5)
        return seen

    wait_for(read_twice, lambda seen: seen[0] == seen[1], "every position to rest")


@pytest.mark.timeout(600)
def test_a_worker_goes_on_where_the_store_says(stage, tmp_path):
    plays = [
        *(play_jdbc(stage, mode) for mode in JDBC_MODES),
        play_query(stage),
        play_file(stage, tmp_path),
        play_mirror(stage),
        play_s3(stage),
        play_jdbc_sink(stage),
    ]
    assert Counter(play.family for play in plays) == FAMILIES
    for play in plays:
        play.give(0, FIRST)
    for play in plays:
        wait_for(play.count, lambda found: len(found) == FIRST, f"{FIRST} of {play.name} to arrive")
        wait_for(lambda play=play: is_flushed(stage, play, None), bool, f"the position of {play.name}")
    await_rest(stage, plays)
    # Stopping flushes what is left, and then nobody writes.
    for play in plays:
        stage.client.stop(play.name)
    early, arrived = {}, {}
    for play in plays:
        stage.stop(play.name)
        early[play.name] = read_place(stage, play)
        # In a neighbour's rebalance Connect itself may deliver some twice, before it has stored where it is.
        arrived[play.name] = play.count()
        assert len(arrived[play.name]) == FIRST, play.name
        play.give(FIRST, MORE)
    for play in plays:
        stage.client.resume(play.name)
    for play in plays:
        wait_for(play.count, lambda found: len(found) >= FIRST + MORE, f"{MORE} more of {play.name} to arrive")
        wait_for(
            lambda play=play: is_flushed(stage, play, early[play.name].offset), bool, f"a new position of {play.name}"
        )
    await_rest(stage, plays)
    for play in plays:
        stage.client.stop(play.name)
    for play in plays:
        stage.stop(play.name)
        # None was lost and none of the first came again: it went on exactly where the store had said.
        found = play.count()
        assert len(found) == FIRST + MORE, play.name
        assert {one: found[one] for one in arrived[play.name]} == arrived[play.name], play.name
        check_distance(stage, play, early[play.name], read_place(stage, play))


def check_distance(stage, play, early, late):
    """What the meaning says of the way between both is what has arrived; a file's is told in bytes."""
    distance = play.meaning.build_distance(early.partition, early.offset, late.offset)
    with Database(stage.stack.postgres.dsn) as database:
        found = measure_behind(distance, database) if play.family == "JDBC source" else settle(distance)
    expected = sum(len(f"line {n}\n") for n in range(FIRST, FIRST + MORE)) if play.family == "file source" else MORE
    assert found.figure == expected, (play.name, found)
    assert isinstance(early, Offset)
