"""Tables of PostgreSQL, JDBC sources, topics, and Delta tables on S3 in one application, while things fail.

    python -m tests.spark.pipelines.lake_soak --logs 40 --codes 5 --bulks 5 --changes 2000000 --faults 20

Log tables only grow. Code tables have updates and deletes: some mark a deleted row, and bulk ones are sent whole, again
and again. At the end every record of a log table is a row once, and every code table equals its source.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

import seamark
from seamark.devstack.client import ask, load_stack
from seamark.errors import SeamarkError
from seamark.tables.delta.table import LakeTable
from tests.spark.driver_stage import wait_for
from tests.spark.lake_stage import build_lake

ROOT = Path(__file__).parents[3]
PARTITIONS = 3
EXPIRE_SECONDS, BULK_SECONDS = 45, 8
MOST_MEMORY_MB = 2560


class LakeSoak:
    """One fleet of tables, and what is done to it."""

    def __init__(self, stack, folder, *, logs, codes, bulks, changes, seconds, seed=0, master="local[2]", say=print):
        self.stack, self.folder, self.say, self.master = stack, Path(folder), say, master
        self.run = f"k{uuid4().hex[:5]}"
        self.logs = [f"{self.run}_log{number}" for number in range(logs)]
        self.codes = [f"{self.run}_code{number}" for number in range(codes)]
        self.bulks = [f"{self.run}_bulk{number}" for number in range(bulks)]
        self.changes, self.seconds = changes, seconds
        self.dice = random.Random(seed)
        self.counts = Counter()
        self.lake = build_lake(stack, "s3")
        self.process = None
        self.memory = []
        self.stop = threading.Event()
        self.written = threading.Event()

    # --- the tables, and what changes in them

    def connect(self):
        return psycopg.connect(self.stack.postgres.dsn, autocommit=True)

    def create(self):
        with self.connect() as connection:
            for name in self.logs:
                connection.execute(
                    f"CREATE TABLE {name} (id bigserial PRIMARY KEY, words text, amount numeric(12, 2), "
                    "at timestamptz DEFAULT clock_timestamp())"
                )
            for name in self.codes:
                connection.execute(
                    f"CREATE TABLE {name} (id bigserial PRIMARY KEY, words text, version bigint NOT NULL DEFAULT 0, "
                    "deleted boolean NOT NULL DEFAULT false, "
                    "updated_at timestamptz NOT NULL DEFAULT clock_timestamp())"
                )
            for name in self.bulks:
                connection.execute(f"CREATE TABLE {name} (id bigserial PRIMARY KEY, words text, version bigint)")
            for name in [*self.codes, *self.bulks]:
                connection.execute(
                    f"INSERT INTO {name} (words, version) SELECT 'w' || n, 0 FROM generate_series(1, 400) n"
                )
            # The target of the pipeline whose rights are revoked.
            connection.execute(f"CREATE ROLE {self.run} LOGIN PASSWORD 'soak'")
            connection.execute(f"GRANT CREATE, USAGE ON SCHEMA public TO {self.run}")
            connection.execute(f"CREATE TABLE {self.run}_rights (id bigint, words text)")
            connection.execute(f"GRANT SELECT, INSERT ON {self.run}_rights TO {self.run}")
            connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {self.run}")

    def write(self):
        """Change rows until so many changes are made. One session, so that sources see changes in their order."""
        left, connection, began = self.changes, self.connect(), time.monotonic()
        while left > 0 and not self.stop.is_set():
            try:
                left -= self.change(connection)
                # At an even pace, so that every fault meets records.
                due = began + self.seconds * (1 - left / self.changes)
                self.stop.wait(max(0.0, due - time.monotonic()))
            except psycopg.OperationalError:
                time.sleep(0.5)
                connection = wait_for(self.try_connect, "the database was back")
        self.counts["changes"] = self.changes - left
        self.written.set()

    def try_connect(self):
        try:
            return self.connect()
        except psycopg.OperationalError:
            return None

    def change(self, connection):
        """Change some rows of a table. Returns how many."""
        size = max(20, self.changes // 2000)
        chance = self.dice.random()
        if self.logs and chance < 0.7:
            name = self.dice.choice(self.logs)
            text = f"INSERT INTO {name} (words, amount) SELECT 'w' || n, n / 100.0 FROM generate_series(1, {size}) n"
            return connection.execute(text).rowcount
        if self.codes and (chance < 0.85 or not self.bulks):
            return self.change_code(connection, self.dice.choice(self.codes), size // 4)
        return self.change_bulk(connection, self.dice.choice(self.bulks), size // 8)

    def change_code(self, connection, name, size):
        what = self.dice.choice(("insert", "update", "update", "delete"))
        stamp = "version = version + 1, updated_at = clock_timestamp()"
        some = f"id IN (SELECT id FROM {name} WHERE NOT deleted ORDER BY random() LIMIT {size})"
        if what == "insert":
            text = f"INSERT INTO {name} (words) SELECT 'new' FROM generate_series(1, {size}) n"
        elif what == "update":
            text = f"UPDATE {name} SET words = md5(random()::text), {stamp} WHERE {some}"
        else:
            text = f"UPDATE {name} SET deleted = true, {stamp} WHERE {some}"
        return connection.execute(text).rowcount

    def change_bulk(self, connection, name, size):
        what = self.dice.choice(("insert", "update", "update", "delete"))
        some = f"id IN (SELECT id FROM {name} ORDER BY random() LIMIT {size})"
        if what == "insert":
            text = f"INSERT INTO {name} (words, version) SELECT 'new', 0 FROM generate_series(1, {size}) n"
        elif what == "update":
            text = f"UPDATE {name} SET words = md5(random()::text), version = version + 1 WHERE {some}"
        else:
            text = f"DELETE FROM {name} WHERE {some}"
        return connection.execute(text).rowcount

    # --- as code

    def open(self):
        postgres, s3 = self.stack.postgres, self.stack.s3
        endpoint = self.stack.connect["connect"]
        url = f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}"
        dsn = f"postgresql://{self.run}:soak@{postgres.host}:{postgres.port}/{postgres.database}"
        context = {
            "journal": "file",
            "journal_folder": str(self.folder / "journal"),
            "insecure": True,
            "policy": {"provider_paths": ["default", f"{self.stack.folder}/secrets/**"]},
            "kafka": {"bootstrap.servers": self.stack.kafka.bootstrap_servers},
            "connect": {"connect": {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config}},
            "databases": {"limited": {"jdbc_url": url, "dsn": "secret://env/SOAK_DSN"}},
            "lakes": {
                "lake": {
                    "url": self.lake.url,
                    "endpoint": self.lake.endpoint,
                    "access_key": "secret://env/SOAK_ACCESS",
                    "secret_key": "secret://env/SOAK_SECRET",
                }
            },
        }
        config = self.folder / "seamark.yaml"
        config.write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        self.environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SEAMARK_")},
            "SOAK_DSN": dsn,
            "SOAK_ACCESS": s3.access_key,
            "SOAK_SECRET": s3.secret_key,
            "SEAMARK_CONFIG": str(config),
            "SEAMARK_SPARK_JARS": self.stack.spark.jars,
            "SEAMARK_SPARK_MASTER": self.master,
            "XDG_STATE_HOME": str(self.folder / "state"),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "PGPASSWORD": postgres.password,
        }
        os.environ.update(
            {key: value for key, value in self.environ.items() if key.startswith(("SOAK_", "SEAMARK_", "XDG_"))}
        )
        return seamark.open()

    def build_spec(self):
        """One file: sources, topics, and a pipeline for each table."""
        postgres = self.stack.postgres
        base = {
            "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
            "tasks.max": 1,
            "connection.url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/{postgres.database}",
            "connection.user": postgres.user,
            "connection.password": f"${{file:{self.stack.folder}/secrets/postgres.properties:password}}",
            "connection.attempts": 60,
            "connection.backoff.ms": 1000,
            "topic.prefix": "",
            "poll.interval.ms": 1000,
            "batch.max.rows": 5000,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": False,
            "value.converter.decimal.format": "NUMERIC",
            "errors.tolerance": "none",
        }
        kinds = {
            "log": (self.logs, {"mode": "incrementing", "incrementing.column.name": "id"}),
            "code": (
                self.codes,
                {
                    "mode": "timestamp+incrementing",
                    "timestamp.column.name": "updated_at",
                    "incrementing.column.name": "id",
                    "timestamp.delay.interval.ms": 1000,
                },
            ),
            "bulk": (self.bulks, {"mode": "bulk", "poll.interval.ms": BULK_SECONDS * 1000}),
        }
        connectors = {
            f"{self.run}-{kind}": {"config": {**base, **more, "table.whitelist": ",".join(tables)}}
            for kind, (tables, more) in kinds.items()
            if tables
        }
        pipelines = {name: self.build_pipeline(name) for name in self.tables}
        rights = {
            **self.build_pipeline(self.logs[0]),
            "to": {"database": "limited", "table": f"{self.run}_rights"},
            "columns": {"id": "bigint", "words": "text"},
        }
        del rights["maintain"]
        pipelines[f"{self.run}_rights"] = rights
        topics = {name: {"partitions": PARTITIONS, "replication_factor": 1} for name in self.tables}
        return {"connectors": connectors, "topics": topics, "pipelines": pipelines}

    @property
    def tables(self):
        return [*self.logs, *self.codes, *self.bulks]

    def build_pipeline(self, name):
        to, more = {"lake": "lake", "table": f"raw/{name}"}, {}
        columns = {"id": "bigint", "words": "string", "amount": "decimal(12, 2)", "at": "timestamp"}
        if name in self.logs:
            to["date"] = "at"
        else:
            columns = {"id": "bigint", "words": "string", "version": "bigint"}
            to |= {"key": ["id"], "mode": "upsert", "order": ["version"]}
        if name in self.codes:
            columns["deleted"] = "boolean"
            more["where"] = "NOT deleted"
        if name in self.bulks:
            # A bulk source doesn't say which record of a row is newer: the default is the record's time.
            del to["order"]
            to |= {"mode": "snapshot", "expire_after": f"{EXPIRE_SECONDS}s", "max_delete": "90%"}
        return {
            "kind": "land",
            "from": {"topic": name},
            "to": to,
            "columns": columns,
            "every": "5s",
            "application": self.run,
            "maintain": {"compact": "2m", "vacuum": "1h"},
            **more,
        }

    def apply(self, fleet):
        file = self.folder / "lake.yaml"
        file.write_text(json.dumps(self.build_spec()))
        began = time.monotonic()
        done = fleet.apply(fleet.plan(file))
        assert done.is_done, done.failures
        self.say(f"one apply: {time.monotonic() - began:.1f} s")

    # --- the application, as a service manager runs it

    def start(self):
        self.counts["starts"] += 1
        self.process = self.spawn(f"driver-{self.counts['starts']}.log")

    def spawn(self, log_name):
        command = [sys.executable, "-m", "seamark.cli", "pipelines", "run", "--application", self.run, "--yes"]
        with (self.folder / log_name).open("w") as log:
            return subprocess.Popen(
                command, env=self.environ, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )

    def supervise(self):
        """Start the application again whenever it has ended, and measure its memory."""
        while not self.stop.wait(1):
            if self.process.poll() is not None:
                self.counts["restarts"] += 1
                self.start()
            self.memory.append(measure_pss(self.process.pid, self.list_executors()))

    def list_executors(self):
        if not self.master.startswith("spark:"):
            return []
        found = subprocess.run(
            ["pgrep", "-f", f"CoarseGrainedExecutorBackend.*{self.master.rpartition(':')[2]}"],
            capture_output=True,
            text=True,
            check=False,
        )
        return [int(word) for word in found.stdout.split()]

    # --- what fails

    def kill_driver(self, fleet):
        del fleet
        process = self.process
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)

    def kill_executor(self, fleet):
        """A Python worker of the tasks; with a cluster an executor."""
        del fleet
        workers = self.list_executors() or find_workers(self.process.pid)
        if workers:
            os.kill(self.dice.choice(workers), signal.SIGKILL)

    def restart_s3(self, fleet):
        del fleet
        ask(Path(self.stack.folder), "restart", "s3")

    def restart_broker(self, fleet):
        del fleet
        ask(Path(self.stack.folder), "restart", "broker-1")

    def restart_postgres(self, fleet):
        del fleet
        ask(Path(self.stack.folder), "restart", "postgres")

    def revoke_rights(self, fleet, seconds=20):
        del fleet
        with wait_for(self.try_connect, "the database was back") as connection:
            connection.execute(f"REVOKE INSERT ON {self.run}_rights FROM {self.run}")
        self.stop.wait(seconds)
        with wait_for(self.try_connect, "the database was back") as connection:
            connection.execute(f"GRANT INSERT ON {self.run}_rights TO {self.run}")

    def start_twice(self, fleet):
        del fleet
        other = self.spawn(f"other-{self.counts['faults']}.log")
        self.stop.wait(40)
        os.killpg(other.pid, signal.SIGKILL)
        other.wait(30)

    def move_offsets(self, fleet):
        """Set a code table back: its records are processed again, and the table is the same afterwards."""
        owner = f"pipeline/{self.dice.choice(self.codes)}"

        def move():
            try:
                return fleet.apply(fleet.offsets.move(owner, to="earliest")).is_done
            except SeamarkError as error:
                self.say(f"  {owner}: {error.message}")
                return False

        wait_for(move, "the offsets were moved", seconds=120, every=2)

    FAULTS = (
        "kill_driver",
        "restart_s3",
        "kill_executor",
        "move_offsets",
        "restart_broker",
        "start_twice",
        "restart_postgres",
        "revoke_rights",
    )

    def break_things(self, fleet, faults, *, every):
        for number in range(faults):
            self.stop.wait(every)
            name = self.FAULTS[number % len(self.FAULTS)]
            self.say(f"fault {number + 1}: {name.replace('_', ' ')}")
            getattr(self, name)(fleet)
            self.counts["faults"] += 1
            self.counts[name] += 1

    # --- what is right

    def read_lake(self, name, *columns):
        place = self.lake.below(f"raw/{name}")
        table = DeltaTable(place.table_url, storage_options=place.build_options())
        found = table.to_pyarrow_table(columns=list(columns))
        return list(zip(*(found.column(one).to_pylist() for one in columns), strict=True))

    def read_source(self, name, columns, where="true"):
        with self.connect() as connection:
            return sorted(connection.execute(f"SELECT {columns} FROM {name} WHERE {where}").fetchall())

    def is_equal(self, name):
        """Whether a table of the lake has all rows of its source."""
        try:
            if name in self.logs:
                return {row[0] for row in self.read_lake(name, "id")} == {
                    row[0] for row in self.read_source(name, "id")
                }
            where = "NOT deleted" if name in self.codes else "true"
            found = sorted(self.read_lake(name, "id", "words", "version"))
            return found == self.read_source(name, "id, words, version", where)
        except OSError:
            return False

    def await_equal(self, seconds):
        left = list(self.tables)

        def check():
            left[:] = [name for name in left if not self.is_equal(name)]
            return not left

        try:
            wait_for(check, "the lake equaled its sources", seconds=seconds, every=3)
        except AssertionError:
            raise AssertionError(f"not equal: {left}") from None

    def pause_sources(self, fleet):
        for kind in ("log", "code", "bulk"):
            fleet.apply(fleet.connectors.pause([f"{self.run}-{kind}"]))

    def read_ends(self, name):
        consumer = Consumer({"bootstrap.servers": self.stack.kafka.bootstrap_servers, "group.id": "ends"})
        try:
            spots = [TopicPartition(name, number) for number in range(PARTITIONS)]
            return {spot.partition: consumer.get_watermark_offsets(spot, timeout=30)[1] for spot in spots}
        finally:
            consumer.close()

    def check(self):
        for name in self.tables:
            if name in self.bulks:
                continue
            table = LakeTable(self.lake.below(f"raw/{name}"), owner=f"pipeline/{name}")
            found = {partition: entry.next_offset for (_, partition), entry in table.read().items()}
            assert found == self.read_ends(name), name
        for name in self.logs:
            places = self.read_lake(name, "_partition", "_offset")
            assert len(set(places)) == len(places) == sum(self.read_ends(name).values()), name
            ids = Counter(row[0] for row in self.read_lake(name, "id"))
            self.counts["records of sources sent twice"] += sum(count - 1 for count in ids.values())
        with self.connect() as connection:
            rows = connection.execute(f"SELECT count(*), count(DISTINCT id) FROM {self.run}_rights").fetchone()
        assert rows[1] == len(self.read_source(self.logs[0], "id"))
        for log in self.folder.glob("*.log"):
            assert self.stack.s3.secret_key not in log.read_text()

    def remove(self):
        self.stop.set()
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
        for kind in ("log", "code", "bulk"):
            url = f"{self.stack.connect['connect'].urls[0]}/connectors/{self.run}-{kind}"
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=60).close()
        with wait_for(self.try_connect, "the database was back") as connection:
            for name in [*self.tables, f"{self.run}_rights"]:
                connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(f"DROP OWNED BY {self.run}")
            connection.execute(f"DROP ROLE IF EXISTS {self.run}")


def list_children(pid):
    found, todo = [], [pid]
    while todo:
        for child in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
            try:
                numbers = [int(word) for word in child.read_text().split()]
            except OSError:
                continue
            found += numbers
            todo += numbers
    return found


def find_workers(pid):
    """The Python processes that run tasks of a driver."""
    found = []
    for child in list_children(pid):
        try:
            text = Path(f"/proc/{child}/cmdline").read_text()
        except OSError:
            continue
        if "pyspark.daemon" in text:
            found.append(child)
    return found


def measure_pss(pid, others=()):
    """The memory of a driver, its executors and its Python workers, in MB. Pages that they share count once."""
    total = 0
    for one in {pid, *others, *(child for root in (pid, *others) for child in list_children(root))}:
        try:
            found = re.search(r"^Pss: +(\d+)", Path(f"/proc/{one}/smaps_rollup").read_text(), re.MULTILINE)
        except OSError:
            continue
        total += int(found[1]) if found else 0
    return total // 1024


def soak(stack, folder, *, faults, every, end_seconds=600, **more):
    """Run it all. Returns what was counted."""
    stage = LakeSoak(stack, folder, seconds=1.3 * faults * every, **more)
    began = time.monotonic()
    try:
        stage.create()
        with stage.open() as fleet:
            stage.apply(fleet)
            stage.start()
            threads = [threading.Thread(target=stage.supervise), threading.Thread(target=stage.write)]
            for thread in threads:
                thread.start()
            stage.break_things(fleet, faults, every=every)
            wait_for(stage.written.is_set, "all changes were made", seconds=end_seconds)
            stage.say(f"all changes made after {time.monotonic() - began:.0f} s")
            stage.await_equal(end_seconds)
            stage.say(f"equal after {time.monotonic() - began:.0f} s")
            stage.pause_sources(fleet)
            time.sleep(15)
            stage.check()
            assert max(stage.memory) < MOST_MEMORY_MB, max(stage.memory)
            stage.counts["memory in MB"] = max(stage.memory)
            stage.counts["seconds"] = int(time.monotonic() - began)
            return stage.counts
    finally:
        stage.remove()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--codes", type=int, default=5)
    parser.add_argument("--bulks", type=int, default=5)
    parser.add_argument("--changes", type=int, default=2_000_000)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--every", type=float, default=45.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cluster", action="store_true")
    options = vars(parser.parse_args())
    stack = load_stack(os.environ["SEAMARK_DEVSTACK"])
    master = stack.spark.master if options.pop("cluster") else "local[2]"
    folder = tempfile.mkdtemp(prefix="lake-soak-")
    print(folder, flush=True)
    counts = soak(stack, folder, master=master, end_seconds=1800, say=lambda text: print(text, flush=True), **options)
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    main()
