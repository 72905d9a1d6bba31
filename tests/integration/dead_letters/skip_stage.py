"""Sinks with a poison record among good ones, on the shared stack."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

import seamark
from seamark.changes.setup import make_setup
from seamark.context import open_context
from seamark.errors import NotFoundError, RefusedError, UnreachableError
from tests.integration.meaning_stage import Stage
from tests.integration.waits import DEADLINE_SECONDS, IN_A_ROW, NOT_YET, wait_for

JDBC = "io.aiven.connect.jdbc.JdbcSinkConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
SCHEMA = {
    "type": "struct",
    "fields": [{"field": "id", "type": "int32"}, {"field": "word", "type": "string", "optional": True}],
}
NO_JSON = b"\x00\x01 no JSON at all"


def row(number, word="good"):
    """A record that the JDBC sink makes a row of."""
    return json.dumps({"schema": SCHEMA, "payload": {"id": number, "word": word}}).encode()


class SkipStage(Stage):
    """A stage whose sinks write to PostgreSQL, in one transaction for each batch."""

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
        }
        (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        self.environ = {"SEAMARK_CONFIG": str(folder / "seamark.yaml"), "XDG_STATE_HOME": str(folder / "state")}
        make_setup(open_context(environ=self.environ))
        self.fleet = seamark.Fleet(open_context(environ=self.environ))

    def close(self):
        """Leave nothing behind. What is held is not compared: some of these have failed on purpose."""
        self.fleet.close()
        names = [name for name in self.client.read_names() if name.startswith(self.run)]
        for name in names:
            self.client.stop(name)
        for name in names:
            self.stop(name)
        self._delete_all(names)
        shutil.rmtree(self.folder / "journal", ignore_errors=True)

    def make_topics(self, word, partitions=1):
        """A topic with so many partitions."""
        topic = self.name(word)
        self.admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(30)
        return topic

    def send(self, topic, records, *, partition=0, key=None, headers=None):
        """Records to one partition, flushed, in their order."""
        for value in records:
            self.producer.produce(topic, value, key=key, partition=partition, headers=headers)
        assert self.producer.flush(30) == 0

    def make_table(self, word):
        """A table that takes every row but those whose word is poison."""
        table = f"{self.run}_{word}"
        self.tables.append(table)
        self.database.execute(f"CREATE TABLE {table} (id int, word text CHECK (word <> 'poison'))")
        return table

    def create_sink(self, word, topic, table, **config):
        """A JDBC sink with one task, that gives up at the first failure."""
        name, _ = self.create(
            word,
            {
                "connector.class": JDBC,
                **self.jdbc,
                "topics": topic,
                "table.name.format": table,
                "insert.mode": "insert",
                "pk.mode": "none",
                "auto.create": "false",
                "max.retries": "0",
                "key.converter": STRING,
                "value.converter": JSON,
                "value.converter.schemas.enable": "true",
                **config,
            },
        )
        return name

    def read_ids(self, table):
        """The ids in a table, with their doubles."""
        return sorted(number for (number,) in self.database.execute(f"SELECT id FROM {table}").fetchall())

    def await_ids(self, table, count):
        """The ids, once there are so many."""
        return wait_for(lambda: self.read_ids(table), lambda found: len(found) >= count, f"{count} rows in {table}")

    def skip(self, name, **options):
        """Find, by trying where it must be, and skip. Gives the plan and the result."""
        at = options.pop("at", None)
        poison = self.ask_of_failed(name, lambda: self.fleet.skips.find(name, at=at))
        if poison is None:
            search = self.ask_of_failed(name, lambda: self.fleet.skips.search(name))
            found = self.fleet.apply(search.planned)
            assert found.is_done, found.failures
            poison = search.read_poison()
        planned = self.ask_of_failed(name, lambda: self.fleet.skips.plan(name, poison, **options))
        return planned, self.fleet.apply(planned)

    def ask_of_failed(self, name, ask):
        """Plan for a sink that has failed. A rebalance caused by another test restarts its task: seamark refuses until
        the rebalance is over and the task has failed again."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                return ask()
            except RefusedError as error:
                if "has failed" not in error.message or time.monotonic() > deadline:
                    raise
            except UnreachableError:
                if time.monotonic() > deadline:
                    raise
            self.await_failure(name)

    def undo(self, change):
        """Plan an undo. While other tests cause a rebalance, Connect answers nothing: seamark says to try again."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                return self.fleet.undo(change)
            except UnreachableError:
                if time.monotonic() > deadline:
                    raise

    def await_config(self, name, config):
        """Until Connect holds it again: each worker hears of it in its own time."""
        wait_for(lambda: self.client.read_config(name), lambda found: found == config, f"the config of {name}")

    def read_parked(self, topic):
        """Every record of a topic's partitions, as messages; none where no broker knows it yet."""
        partitions = range(max(self._count_partitions(topic) for _ in range(IN_A_ROW)))
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": uuid4().hex, "enable.auto.commit": False})
        try:
            ends = [consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=20)[1] for one in partitions]
            consumer.assign([TopicPartition(topic, one, 0) for one in partitions])
            return consumer.consume(sum(ends), timeout=DEADLINE_SECONDS) if sum(ends) else []
        except KafkaException as error:
            if error.args[0].name() not in NOT_YET:
                raise
            return []
        finally:
            consumer.close()

    def _count_partitions(self, topic):
        return len(self.admin.list_topics(topic, timeout=20).topics[topic].partitions)

    def read_positions(self, name):
        """The committed offset of each partition."""
        found = self.client.read_offsets(name)
        return {one.partition["kafka_partition"]: one.offset["kafka_offset"] for one in found}

    def is_running(self, name):
        """Whether its task runs. Right behind a create Connect has no status yet."""
        with suppress(NotFoundError):
            return [str(task.state) for task in self.client.read_status(name).tasks] == ["RUNNING"]
        return False

    def start_skip(self, name, **environ):
        """The skip of a sink that has failed, as a process of its own: again where seamark refuses, as above."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (
            "has failed; no record was skipped"
            in (ended := self.start("offsets", "skip", name, "--yes", **environ)).stderr
            and time.monotonic() < deadline
        ):
            self.await_failure(name)
        return ended

    def start(self, *argv, **environ):
        """The command line as a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "tests.fault.cli", *argv],
            env={**os.environ, **self.environ, "NO_COLOR": "1", **environ},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
