"""Offsets are moved in every way under real connectors: what the plan counts is what happens, and it is undone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

import seamark
from seamark.changes.setup import make_setup
from seamark.context import open_context
from seamark.core.offsets import Certainty, Offset, Unit
from seamark.errors import UnsupportedError
from seamark.offsets.model import Tolerance
from seamark.offsets.read.export_file import write_export
from seamark.offsets.write.plans import merge
from tests.integration.meaning_stage import Stage
from tests.integration.offsets.test_meanings import s3_sink
from tests.integration.waits import commit_offsets, wait_for

# Many changes, each with its rebalances: on a busy machine they take minutes.
pytestmark = pytest.mark.timeout(600)
JDBC_SOURCE = "io.aiven.connect.jdbc.JdbcSourceConnector"
FILE = "org.apache.kafka.connect.file.FileStream"
ROWS = 40
MODES = {
    "number": {"mode": "incrementing", "incrementing.column.name": "seq"},
    "time": {"mode": "timestamp", "timestamp.column.name": "at"},
    "both": {"mode": "timestamp+incrementing", "timestamp.column.name": "at", "incrementing.column.name": "seq"},
}


class Moved(Stage):
    """A stage with the context of whoever moves things on it."""

    def __init__(self, stack, folder):
        super().__init__(stack)
        self.folder = folder
        endpoint = stack.connect["connect"]
        context = {
            "journal": "file",
            "journal_folder": str(folder / "journal"),
            "in_flight_timeout": "5s",
            "policy": {"files": ["/**"]},
            "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
            "connect": {"connect": {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config}},
            "databases": {"shop": {"jdbc_url": self.jdbc["connection.url"], "dsn": stack.postgres.dsn}},
        }
        (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        environ = {"SEAMARK_CONFIG": str(folder / "seamark.yaml"), "XDG_STATE_HOME": str(folder / "state")}
        opened = open_context(environ=environ)
        make_setup(opened)
        self.fleet = seamark.Fleet(opened)

    def close(self):
        self.fleet.close()
        super().close()

    def apply(self, planned):
        result = self.fleet.apply(planned)
        # A rebalance of another test's connectors may end the new task, which then stores its offset sooner than the
        # last step expects. That step refuses; the offsets and records that the test reads decide.
        failed = [step.error.message for step in result.steps if step.error is not None]
        is_early = len(failed) == 1 and "another process wrote its offsets" in failed[0]
        assert result.is_done or is_early, result.failures
        return result

    def held(self, name):
        return {json.dumps(one.partition): one.offset for one in self.client.read_offsets(name)}

    def await_held(self, name, wanted):
        """Until REST tells this: a worker that lags does not list a partition yet that was written anew."""
        wait_for(lambda: self.held(name), lambda found: found == wanted, f"{name} to hold {wanted}")

    def make_table(self, word):
        table = f"{self.run}_{word}"
        self.tables.append(table)
        self.database.execute(
            f"CREATE TABLE {table} (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "at timestamptz NOT NULL, name text)"
        )
        return table

    def insert(self, table, count):
        """Rows a minute apart, the newest of them now or later."""
        self.database.execute(
            f"INSERT INTO {table} (at, name) SELECT '2026-01-01T00:00:00Z'::timestamptz + (m + n) * interval '1 min', "
            f"'n' || n FROM generate_series(1, %s::int) AS n, (SELECT count(*) AS m FROM {table}) AS c",
            [count],
        )

    def jdbc_source(self, word, table, mode):
        config = {"connector.class": JDBC_SOURCE, **self.jdbc, "poll.interval.ms": "200", "topic.prefix": self.name("")}
        name, _ = self.create(word, {**config, "table.whitelist": table, **mode})
        topic = f"{self.name('')}{table}"
        wait_for(lambda: self.read_end(topic), lambda end: end >= ROWS, f"{ROWS} records")
        return name, topic

    def await_rows(self, topic, already, count):
        """The numbers of so many rows behind those that came already; in a neighbour's rebalance Connect may deliver
        some twice, which count once."""

        def read():
            return list(dict.fromkeys(value["seq"] for value in self.read_values(topic)[already:]))

        return wait_for(read, lambda found: len(found) >= count, f"{count} rows in {topic}")


@pytest.fixture
def stage(stack, tmp_path):
    made = Moved(stack, tmp_path)
    yield made
    made.close()


def previews(planned):
    """What a plan counts: direction, figure and certainty of each partition."""
    return [
        (found.preview.as_dict()["direction"], found.preview.counted.figure, found.preview.counted.certainty)
        for effect in planned.effects
        for found in effect.fields
    ]


MORE = 8
# Where each goes in each round. Before a round all have stopped, and MORE rows or records have come that nobody read.
# Rows are a minute apart: row N is of minute N.
ROUNDS = (
    {"number": {"to": 25}, "time": {"back": "10m"}, "both": {"to": "2026-01-01T00:31:00Z"}, "lake": {"shift": -30}},
    {"number": {"shift": 5}, "time": {"to": "2026-01-01T00:53:30Z"}, "both": {"back": "3m"}, "lake": {"shift": 3}},
    {"number": {"to": "earliest"}, "time": {"back": 90}, "both": {"to": "earliest"}, "lake": {"to": 1}},
    {"number": {"shift": -1}, "time": {"to": "earliest"}, "both": {"back": "1h"}, "lake": {"to": "latest"}},
    {"number": {"to": 79}, "time": {"to": "2026-01-01T01:20:00Z"}, "both": {"back": "61s"}, "lake": {"shift": -7}},
)


class Reader:
    """A connector and its count of what it has delivered so far."""

    def __init__(self, name, count):
        self.name, self.count, self.seen = name, count, 0


def deliver(stage, readers, end):
    """Let all run until they have read everything; what each delivered."""
    for reader in readers.values():
        stage.client.resume(reader.name)
    for mode, reader in readers.items():
        stage.await_offset(reader.name, lambda held: is_at_end(held, end), f"{mode} to be at its end")
    for reader in readers.values():
        stage.client.stop(reader.name)
    for reader in readers.values():
        stage.stop(reader.name)
    delivered = {}
    for mode, reader in readers.items():
        total = reader.count()
        delivered[mode], reader.seen = total - reader.seen, total
    return delivered


def is_at_end(held, end):
    minute = datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000 + end * 60_000
    ends = {"incrementing": end, "timestamp": minute, "kafka_offset": end}
    return all(ends[field] == value for field, value in held.items() if field in ends)


def test_what_the_plan_counts_is_what_is_delivered_in_twenty_cases(stage):
    """JDBC in each mode and an S3 sink, five rounds, each as one plan with a lane for each of them."""
    tables = {mode: stage.make_table(mode) for mode in MODES}
    readers = {}
    for mode, table in tables.items():
        stage.insert(table, ROWS)
        name, topic = stage.jdbc_source(mode, table, MODES[mode])
        readers[mode] = Reader(name, lambda topic=topic: stage.read_end(topic))
    events = stage.make_topic("events")
    stage.produce(events, range(ROWS), key="k")
    name, _, bucket = s3_sink(stage, "lake", events, "{{topic}}-{{partition}}-{{start_offset}}")
    readers["lake"] = Reader(name, Lines(Path(stage.stack.s3.data) / bucket))
    end = ROWS
    assert deliver(stage, readers, end) == dict.fromkeys(readers, ROWS)
    assert len(readers) * len(ROUNDS) >= 20
    for where in ROUNDS:
        for table in tables.values():
            stage.insert(table, MORE)
        stage.produce(events, range(end, end + MORE), key="k")
        end += MORE
        plans = [stage.fleet.offsets.move(reader.name, **where[mode]) for mode, reader in readers.items()]
        expected = {}
        for mode, planned in zip(readers, plans, strict=True):
            ((direction, figure, certainty),) = previews(planned)
            assert certainty is (Certainty.BOUND if mode == "lake" else Certainty.EXACT)
            assert figure > 0
            expected[mode] = MORE + figure if direction == "again" else MORE - figure
        readers["lake"].count.watch()
        stage.apply(merge("a round", plans))
        assert deliver(stage, readers, end) == expected, where


class Lines:
    """Counts the lines that come into a bucket, also where an object is written anew."""

    def __init__(self, folder):
        self.folder, self.total, self.known = folder, 0, {}

    def watch(self):
        self.known = self._look()

    def __call__(self):
        now = self._look()
        changed = [path for path, seen in now.items() if self.known.get(path) != seen]
        self.total += sum(len(path.read_bytes().split()) for path in changed)
        self.known = now
        return self.total

    def _look(self):
        paths = [path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return {path: path.stat().st_mtime_ns for path in paths}


def test_jdbc_source_skips_as_many_rows_as_the_plan_says_and_the_undo_brings_them(stage):
    table = stage.make_table("skip")
    stage.insert(table, ROWS)
    name, topic = stage.jdbc_source("skip", table, MODES["number"])
    stage.await_offset(name, lambda found: found["incrementing"] == ROWS, "the offset of all rows")
    stage.stop(name)
    already = stage.read_end(topic)
    stage.insert(table, 12)
    planned = stage.fleet.offsets.move(name, shift=5)
    assert previews(planned) == [("skipped", 5, Certainty.EXACT)]
    assert "5 rows skipped" in str(planned)
    # It was stopped, and stays so.
    assert [step.kind for step in planned.plan.steps] == [
        "set-run-state",
        "prove-stopped",
        "check-preview",
        "write-offsets",
        "verify-offsets",
    ]
    result = stage.apply(planned)
    stage.client.resume(name)
    assert stage.await_rows(topic, already, 7) == list(range(ROWS + 6, ROWS + 13))
    stage.await_offset(name, lambda found: found["incrementing"] == ROWS + 12, "the offset of the other rows")
    already = stage.read_end(topic)
    # By now it runs: the way back stops it.
    undo = stage.fleet.undo(result.change)
    assert previews(undo) == [("again", 12, Certainty.EXACT)]
    stage.apply(undo)
    assert stage.await_rows(topic, already, 12) == list(range(ROWS + 1, ROWS + 13))


def test_what_moved_too_far_before_the_stop_is_not_written_and_runs_on(stage):
    table = stage.make_table("far")
    stage.insert(table, ROWS)
    name, topic = stage.jdbc_source("far", table, MODES["number"])
    stage.await_offset(name, lambda found: found["incrementing"] == ROWS, "the offset of all rows")
    planned = stage.fleet.offsets.move(name, to=30, tolerance=Tolerance(0.0, 5))
    assert previews(planned) == [("again", 10, Certainty.EXACT)]
    stage.insert(table, 6)
    wait_for(lambda: stage.read_end(topic), lambda end: end >= ROWS + 6, "the new rows")
    stage.await_offset(name, lambda found: found["incrementing"] == ROWS + 6, "the offset of the new rows")
    already = stage.read_end(topic)
    result = stage.fleet.apply(planned)
    assert not result.is_done
    (failure,) = [step.error for step in result.steps if step.error is not None]
    assert "16 rows would be reprocessed; the plan has 10" in failure.cause
    wait_for(lambda: stage.client.read_status(name), lambda found: found.state == "RUNNING", "it to run")
    assert [held["incrementing"] for held in stage.held(name).values()] == [ROWS + 6]
    assert stage.read_end(topic) == already


LINES = 100


def make_file_source(stage):
    file = stage.folder / "in.txt"
    file.write_text("".join(f"line {number:04d}\n" for number in range(LINES)))
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": stage.make_topic("lines")}
    name, _ = stage.create("file", config)
    stage.await_offset(name, lambda found: found["position"] == 10 * LINES, "the end of the file")
    return name, {"filename": str(file)}


def test_file_source_is_moved_in_every_way_and_put_back(stage):
    name, partition = make_file_source(stage)
    early = datetime.now(UTC)
    stage.stop(name)
    stage.client.patch_offsets(name, [Offset(partition, {"position": 990})])
    export = stage.folder / "export.json"
    export.write_text(json.dumps({name: [{"partition": partition, "offset": {"position": 300}}]}))
    # Some are put back, the others go on from there.
    ways = [
        ({"to": "500"}, 500, ("again", 490), True),
        ({"shift": -90}, 900, ("again", 90), False),
        ({"to": '{"position": 995}'}, 995, ("skipped", 95), False),
        ({"source": export}, 300, ("again", 695), False),
        ({"at": early}, 1000, ("skipped", 700), False),
        ({"to": "earliest"}, None, ("again", 1000), True),
    ]
    for where, position, counted, is_undone in ways:
        before = stage.held(name)
        offsets = stage.fleet.offsets
        planned = offsets.restore(where["at"], [name]) if "at" in where else offsets.move(name, **where)
        assert previews(planned) == [(*counted, Certainty.ESTIMATE)], where
        result = stage.apply(planned)
        stage.await_held(name, {} if position is None else {json.dumps(partition): {"position": position}})
        if is_undone:
            stage.apply(stage.fleet.undo(result.change))
            stage.await_held(name, before)
    with pytest.raises(UnsupportedError) as refused:
        stage.fleet.offsets.move(name, back="1h")
    assert "--to NUMBER" in refused.value.hint
    with pytest.raises(UnsupportedError, match=r"does not reach back to 2020.*in\.txt"):
        stage.fleet.offsets.restore("2020-01-01T00:00:00Z", [name])
    planned = stage.fleet.offsets.reset(name)
    assert "reprocessed: the rows are duplicated in its topics" in str(planned)
    stage.apply(planned)
    already = stage.read_end(stage.name("lines"))
    stage.client.resume(name)
    wait_for(lambda: stage.read_end(stage.name("lines")), lambda end: end >= already + LINES, "all lines again")


def make_sink(stage, word="sink"):
    topic = stage.make_topic(word)
    stage.produce(topic, [f"line {number}".encode() for number in range(LINES)])
    file = stage.folder / f"{word}.txt"
    converter = "org.apache.kafka.connect.storage.StringConverter"
    config = {
        "connector.class": f"{FILE}SinkConnector",
        "file": str(file),
        "topics": topic,
        "key.converter": converter,
        "value.converter": converter,
    }
    name, _ = stage.create(word, config)
    wait_for(lambda: count_lines(file), lambda count: count >= LINES, "all lines")
    stage.await_offset(name, lambda found: found["kafka_offset"] == LINES, "the commit of all lines")
    return name, file


def count_lines(file):
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_sink_delivers_again_as_many_records_as_the_plan_says(stage):
    name, file = make_sink(stage)
    before, already = stage.held(name), count_lines(file)
    planned = stage.fleet.offsets.move(name, shift=-30)
    assert previews(planned) == [("again", 30, Certainty.BOUND)]
    assert "at most 30 records reprocessed" in str(planned)
    assert "appended to the file again" in str(planned)
    result = stage.apply(planned)
    wait_for(lambda: count_lines(file), lambda count: count >= already + 30, "thirty lines again")
    stage.await_offset(name, lambda found: found["kafka_offset"] == LINES, "the commit of all lines")
    # In a neighbour's rebalance Connect may deliver some of them twice.
    again = file.read_text().splitlines()[already:]
    assert list(dict.fromkeys(again)) == [f"line {number}" for number in range(LINES - 30, LINES)]
    stage.apply(stage.fleet.undo(result.change))
    assert stage.held(name) == before
    assert count_lines(file) == already + len(again)


def test_group_and_sink_take_each_others_place(stage):
    name, _ = make_sink(stage)
    topic = stage.name("sink")
    group = stage.run
    commit_offsets(stage.admin, group, [TopicPartition(topic, 0, 40)])
    moved = stage.fleet.offsets.move(f"group/{group}", shift=-15)
    assert "15 records reprocessed" in str(moved)
    result = stage.apply(moved)
    (held,) = stage.fleet.offsets.get(f"group/{group}").offsets
    assert held.offset == {"kafka_offset": 25}
    stage.apply(stage.fleet.undo(result.change))
    stage.stop(name)
    copied = stage.fleet.offsets.copy(f"group/{group}", name)
    assert previews(copied) == [("again", 60, Certainty.BOUND)]
    result = stage.apply(copied)
    assert [found["kafka_offset"] for found in stage.held(name).values()] == [40]
    stage.apply(stage.fleet.undo(result.change))
    back = stage.fleet.offsets.copy(name, f"group/{group}")
    stage.apply(back)
    (held,) = stage.fleet.offsets.get(f"group/{group}").offsets
    assert held.offset == {"kafka_offset": LINES}


def test_export_of_several_owners_is_imported_as_one_plan(stage):
    source, partition = make_file_source(stage)
    sink, _ = make_sink(stage)
    for name in (source, sink):
        stage.stop(name)
    before = {name: stage.held(name) for name in (source, sink)}
    file = stage.folder / "export.json"
    write_export(stage.fleet.offsets.export([source, sink]), file)
    stage.client.patch_offsets(source, [Offset(partition, {"position": 10})])
    (held,) = stage.client.read_offsets(sink)
    stage.client.patch_offsets(sink, [Offset(held.partition, {"kafka_offset": 7})])
    planned = stage.fleet.offsets.import_file(file)
    assert {step.lane for step in planned.plan.steps} == {f"connector/connect/{source}", f"connector/connect/{sink}"}
    assert sorted(previews(planned)) == [("skipped", 93, Certainty.BOUND), ("skipped", 990, Certainty.ESTIMATE)]
    result = stage.apply(planned)
    for name, offsets in before.items():
        stage.await_held(name, offsets)
    assert stage.fleet.offsets.import_file(file).is_empty
    stage.apply(stage.fleet.undo(result.change))
    stage.await_held(source, {json.dumps(partition): {"position": 10}})
    assert [found["kafka_offset"] for found in stage.held(sink).values()] == [7]
    assert previews(stage.fleet.offsets.move(sink, to="earliest"))[0][0] == "again"
    bare = stage.folder / "bare.json"
    bare.write_text(json.dumps({"offsets": [{"partition": partition, "offset": {"position": 970}}]}))
    new, topic = stage.name("new"), stage.make_topic("new-lines")
    config = {**stage.client.read_config(source), "topic": topic}
    del config["name"]
    created = stage.apply(stage.fleet.connectors.create(new, config, offsets_file=bare))
    wait_for(lambda: stage.read_end(topic), lambda end: end >= 3, "the last three lines")
    stage.apply(stage.fleet.undo(created.change))
    assert new not in stage.client.read_names()
    # In a neighbour's rebalance Connect may deliver them twice.
    assert list(dict.fromkeys(stage.read_values(topic))) == ["line 0097", "line 0098", "line 0099"]
    assert {found.preview.counted.unit for found in stage.fleet.offsets.move(source, to=5).effects[0].fields} == {
        Unit.BYTES
    }


def test_rename_takes_the_offsets_along_and_nothing_is_read_twice(stage):
    table = stage.make_table("named")
    stage.insert(table, ROWS)
    name, topic = stage.jdbc_source("named", table, MODES["number"])
    stage.await_offset(name, lambda found: found["incrementing"] == ROWS, "the offset of all rows")
    new = stage.name("renamed")
    planned = stage.fleet.connectors.rename(name, new)
    # What it reads between the plan and its stop goes along too.
    stage.insert(table, 5)
    wait_for(lambda: stage.read_end(topic), lambda end: end >= ROWS + 5, "the new rows")
    # A task that is slow to end is cut off, and what it has not stored by then Connect itself reads again.
    stage.await_offset(name, lambda found: found["incrementing"] == ROWS + 5, "the offset of the new rows")
    already = stage.read_end(topic)
    stage.apply(planned)
    stage.insert(table, 3)
    stage.await_rows(topic, already, 3)
    stage.await_offset(new, lambda found: found["incrementing"] == ROWS + 8, "the offset of all rows")
    assert [name in stage.client.read_names(), new in stage.client.read_names()] == [False, True]
    assert stage.await_rows(topic, already, 3) == [ROWS + 6, ROWS + 7, ROWS + 8]
