"""Many pipelines in one Spark application: a bad record, `apply` while it runs, two applications at once, a kill."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.spark.settings import SparkOptions
from tests.spark.lake_stage import build_lake
from tests.spark.land_fleet import open_land_fleet

ROOT = Path(__file__).parents[3]
LAKE_TABLES, DATABASE_TABLES, PARTITIONS = 4, 2, 3
WAIT_SECONDS = 180


class LakeFleet:
    """Topics, and a pipeline for each: most to Delta on S3, some to PostgreSQL."""

    def __init__(self, stack, kafka, folder, fleet, lake):
        self.stack, self.kafka, self.folder, self.fleet, self.lake = stack, kafka, folder, fleet, lake
        self.run = f"f{uuid4().hex[:6]}"
        self.names = []
        self.topics, self.produced = {}, Counter()
        for number in range(LAKE_TABLES + DATABASE_TABLES):
            self.add(f"{self.run}-{number}", is_lake=number < LAKE_TABLES)

    def add(self, name, *, is_lake=True):
        self.names.append((name, is_lake))
        self.topics[name] = self.kafka.topic(PARTITIONS)

    def find_table(self, name):
        return f"raw/{name}" if dict(self.names)[name] else name.replace("-", "_")

    def apply(self):
        """One file with all pipelines, as `seamark apply` takes it."""
        pipelines = {
            name: {
                "kind": "land",
                "from": {"topic": self.topics[name]},
                "to": {"lake": "lake", "table": self.find_table(name)}
                if is_lake
                else {"database": "shop", "table": self.find_table(name)},
                "columns": {"number": "bigint", "words": "text"},
                "every": "1s",
                "application": "lake",
            }
            for name, is_lake in self.names
        }
        (self.folder / "lake.yaml").write_text(json.dumps({"pipelines": pipelines}))
        done = self.fleet.apply(self.fleet.plan(self.folder / "lake.yaml"))
        assert done.is_done, done.failures

    def produce(self, name, count, *, bad=False):
        producer = Producer({"bootstrap.servers": self.kafka.servers, "linger.ms": 20})
        for _ in range(count):
            number = self.produced[name]
            value = json.dumps({"number": number, "words": f"w{number}"}).encode()
            producer.produce(self.topics[name], value=value, partition=number % PARTITIONS)
            self.produced[name] += 1
        if bad:
            producer.produce(self.topics[name], value=b"{", partition=0)
        assert producer.flush(60) == 0

    def read(self, name):
        """How often each number is in the table; empty before the table is there."""
        if dict(self.names)[name]:
            place = self.lake.below(self.find_table(name))
            if not DeltaTable.is_deltatable(place.table_url, place.build_options()):
                return Counter()
            table = DeltaTable(place.table_url, storage_options=place.build_options())
            return Counter(table.to_pyarrow_table(columns=["number"]).column("number").to_pylist())
        with psycopg.connect(self.stack.postgres.dsn) as connection:
            try:
                return Counter(row[0] for row in connection.execute(f"SELECT number FROM {self.find_table(name)}"))
            except psycopg.errors.UndefinedTable:
                return Counter()

    def is_whole(self, name):
        return self.read(name).total() >= self.produced[name]

    def check(self):
        """Every record is a row, once."""
        for name, _ in self.names:
            assert self.read(name) == Counter(range(self.produced[name])), name

    def await_whole(self, *names):
        for name in names or self.topics:
            await_for(lambda name=name: self.is_whole(name), f"{name} to be whole")

    @contextmanager
    def running(self, spark, statuses, **more):
        """The application in a thread of this process."""
        stop, errors = threading.Event(), []
        pipelines = self.fleet.pipelines

        def run():
            try:
                pipelines.run_all(
                    pipelines.choose(application="lake"),
                    spark=SparkOptions(session=spark),
                    follow=lambda: pipelines.choose(application="lake"),
                    on_status=statuses.append,
                    stop=stop,
                    **more,
                )
            except Exception as error:  # noqa: BLE001 - told by the test
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(WAIT_SECONDS)
        assert not thread.is_alive()
        assert errors == []


def await_for(check, what, seconds=WAIT_SECONDS):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.3)


@pytest.fixture
def fleet(stack, kafka, tmp_path, monkeypatch):
    lake = build_lake(stack, "s3")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'src'}")
    with open_land_fleet(stack, tmp_path, monkeypatch, lake=lake) as opened:
        yield LakeFleet(stack, kafka, tmp_path, opened, lake)


def test_bad_record_suspends_its_table_alone_until_its_offsets_are_moved(spark, fleet):
    fleet.apply()
    bad, statuses = fleet.names[0][0], []
    with fleet.running(spark, statuses):
        for name in fleet.topics:
            fleet.produce(name, 300, bad=name == bad)
        others = [name for name in fleet.topics if name != bad]
        fleet.await_whole(*others)
        await_for(lambda: any(one.name == bad and one.state == "suspended" for one in statuses), "the suspension")
        reason = next(one.reason for one in statuses if one.name == bad and one.state == "suspended")
        assert "can't be a row of" in reason
        assert fleet.read(bad).total() == 0
        # The record is skipped, and the pipeline continues without a restart.
        for name in others:
            fleet.produce(name, 50)
        done = fleet.fleet.apply(fleet.fleet.offsets.move(f"pipeline/{bad}", to=101, topics=[f"{fleet.topics[bad]}:0"]))
        assert done.is_done, done.failures
        fleet.await_whole(*others)
        await_for(lambda: fleet.read(bad).total() == 200, "the rest of the suspended table")
    for name in others:
        assert fleet.read(name) == Counter(range(350)), name
    assert set(fleet.read(bad)) == {number for number in range(300) if number % PARTITIONS}
    assert {one.state.value for one in statuses if one.name != bad} <= {"starting", "running", "retrying"}


def run_cli(*argv):
    """The command line in this process, which finds the context by its environment."""
    out, err = io.StringIO(), io.StringIO()
    code = execute(argv, session=Session(out=out, err=err))
    return code, out.getvalue(), err.getvalue()


def read_states():
    found = json.loads(run_cli("pipelines", "list", "-o", "json")[1])
    return {one["name"]: one for one in found["items"]}


def test_other_processes_see_states_rows_and_lag_of_a_running_application(spark, fleet):
    fleet.apply()
    (bad, _), (good, _), *_ = fleet.names
    table = fleet.names[-1][0]
    assert {one["state"] for one in read_states().values()} == {"not running"}
    lags = {}
    with fleet.running(spark, [], on_lag=lags.__setitem__):
        for name in fleet.topics:
            fleet.produce(name, 300, bad=name == bad)
        await_for(lambda: read_states()[bad]["state"] == "suspended", "the suspension")
        fleet.await_whole(*(name for name in fleet.topics if name != bad))
        await_for(lambda: read_states()[good]["lag"] == 0, "the lag of the good one")
        found = read_states()
        assert (found[good]["state"], found[good]["rows"], found[good]["lag_seconds"]) == ("running", 300, 0)
        assert (found[good]["application"], found[good]["severity"], found[good]["problems"]) == ("dev", "ok", [])
        assert found[good]["last_commit"]
        assert "can't be a row of" in found[bad]["reason"]
        assert (found[bad]["rows"], found[bad]["lag"]) == (0, 301)
        assert 0 < found[bad]["lag_seconds"] < WAIT_SECONDS
        with psycopg.connect(fleet.stack.postgres.dsn, autocommit=True) as connection:
            connection.execute(f"ANALYZE {fleet.find_table(table)}")
        assert (read_states()[table]["rows"], read_states()[table]["rows_estimated"]) == (300, True)
        code, out, err = run_cli("pipelines", "status", "--fail-on", "error")
        assert (code, err) == (1, "")
        (line,) = [line for line in out.splitlines() if line.startswith(bad)]
        assert "✗ suspended: " in line
        assert "can't be a row of" in line
        assert run_cli("pipelines", "status", good, "--fail-on", "warning")[0] == 0
        code, out, _ = run_cli("doctor")
        assert code == 1
        assert "(pipelines.state)" in out
        # The first look at the lag is a second after the start, before there was any.
        await_for(lambda: bad in lags and lags[bad].records == 301, "the lag", seconds=60)
        assert lags[bad].seconds > 0
    states = {one["state"] for one in read_states().values()}
    assert states == {"ended"}


def test_records_that_retention_will_delete_are_an_error(spark, fleet):
    name, topic = fleet.names[0][0], fleet.topics[fleet.names[0][0]]
    producer = Producer({"bootstrap.servers": fleet.kafka.servers})

    def produce(number, days):
        at_ms = int((time.time() - days * 86_400) * 1000)
        producer.produce(topic, value=json.dumps({"number": number}).encode(), partition=1, timestamp=at_ms)
        assert producer.flush(30) == 0
        fleet.produced[name] += 1

    fleet.apply()
    produce(0, 6.6)
    with fleet.running(spark, []):
        fleet.await_whole(name)
    produce(1, 6.5)
    assert run_cli("pipelines", "status", name, "--fail-on", "error")[0] == 0
    done = fleet.fleet.apply(fleet.fleet.topics.update(topic, set={"retention.ms": 7 * 86_400_000}))
    assert done.is_done, done.failures
    code, out, _ = run_cli("pipelines", "status", name, "--fail-on", "error")
    assert code == 1, out
    # The time of a record is known to 2%: 12 h of 6.5 days.
    assert re.search(r"retention deletes records that are not processed in (8|9|1[012]) h", out), out
    assert f"seamark topics update {topic}" in out


def test_applied_pipelines_join_a_running_application(spark, fleet):
    fleet.apply()
    statuses = []
    with fleet.running(spark, statuses):
        for name in fleet.topics:
            fleet.produce(name, 60)
        fleet.await_whole()
        new = f"{fleet.run}-new"
        fleet.add(new)
        fleet.produce(new, 40)
        fleet.apply()
        began = time.monotonic()
        await_for(lambda: fleet.is_whole(new), "the new pipeline")
        assert time.monotonic() - began < 30
        gone = fleet.names.pop(0)
        fleet.apply()
        await_for(lambda: any(one.name == gone[0] and one.state == "ended" for one in statuses), "the end of one")
        fleet.names.append(gone)
    fleet.check()


def test_two_applications_and_a_kill_write_each_record_once(spark, fleet):
    fleet.apply()
    command = [sys.executable, "-m", "seamark.cli", "pipelines", "run", "--application", "lake", "--yes"]
    environ = {**os.environ, "SEAMARK_SPARK_JARS": fleet.stack.spark.jars, "SEAMARK_SPARK_MASTER": "local[1]"}
    with (fleet.folder / "other.log").open("w") as log:
        other = subprocess.Popen(command, env=environ, cwd=fleet.folder, stdout=log, stderr=log)
    try:
        for name in fleet.topics:
            fleet.produce(name, 200)
        fleet.await_whole()
        with fleet.running(spark, []):
            for _ in range(8):
                for name in fleet.topics:
                    fleet.produce(name, 25)
                time.sleep(1)
            other.send_signal(signal.SIGKILL)
            for name in fleet.topics:
                fleet.produce(name, 25)
            fleet.await_whole()
    finally:
        other.kill()
        other.wait(30)
    fleet.check()
    assert fleet.stack.s3.secret_key not in (fleet.folder / "other.log").read_text()
