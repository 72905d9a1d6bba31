"""A stage for connectors of any family on the shared stack: names of its own, cleaned up behind it."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import seamark
from seamark.connect.client import ConnectClient
from seamark.context import open_context
from seamark.core.offsets import spell_identity
from seamark.errors import NotFoundError
from seamark.offsets.semantics import find_meaning
from tests.integration.offset_tools import read_partition
from tests.integration.waits import DEADLINE_SECONDS, IN_A_ROW, NOT_YET, wait_for


def check_stores(stack, client, name):
    """Where its writers are quiet, a connector's store holds what REST tells, and nothing odd. Gives the offsets.

    A task that ends late writes behind its stop, and a worker hears of that a little later: so both are read again.
    """
    endpoint = stack.connect["connect"]
    context = {
        "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
        "connect": {"connect": {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config}},
    }
    with TemporaryDirectory() as folder:
        file = Path(folder) / "seamark.yaml"
        file.write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        with seamark.Fleet(open_context(environ={"SEAMARK_CONFIG": str(file)})) as fleet:

            def read():
                owned = fleet.offsets.get(f"connect/{name}")
                told = {spell_identity(found.partition): found.offset for found in client.read_offsets(name)}
                return owned, {partition: offset for partition, offset in told.items() if offset is not None}

            owned, _ = wait_for(read, is_same, f"the store of {name} to hold what REST tells, and nothing odd")
    return owned.offsets


def is_same(read):
    """Whether a store holds what REST tells."""
    owned, told = read
    held = {spell_identity(found.partition): found.offset for found in owned.offsets}
    return owned.route == "store" and not owned.findings and held == told


def await_stopped(client, name):
    """Stop a connector, until no task is left. Right behind its create Connect has no status yet."""

    def read():
        with suppress(NotFoundError):
            return client.read_status(name)

    client.stop(name)
    wait_for(read, lambda found: found and found.state == "STOPPED" and not found.tasks, f"{name} to stop")


class Stage:
    """One run's connectors, topics and tables."""

    def __init__(self, stack):
        self.stack = stack
        self.run = f"m{uuid4().hex[:8]}"
        self.client = ConnectClient(stack.connect["connect"].urls)
        self.bootstrap = stack.kafka.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        # Without idempotence a retry may change the order, and tests rely on offsets.
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        self.database = psycopg.connect(stack.postgres.dsn, autocommit=True)
        self.tables = []

    def close(self):
        """Leave nothing behind."""
        # Also one whose create had no answer. A task that still runs would make its topics anew behind us.
        names = [name for name in self.client.read_names() if name.startswith(self.run)]
        try:
            for name in names:
                self.client.stop(name)
            for name in names:
                self.stop(name)
                check_stores(self.stack, self.client, name)
        finally:
            self._delete_all(names)

    def _delete_all(self, names):
        # Connect takes all that wait at its door, then rebalances once: one after the other costs a rebalance each.
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(self.client.delete_connector, names))
        self.client.close()
        groups = [self.run, *(f"connect-{name}" for name in names)]
        for future in self.admin.delete_consumer_groups(groups, request_timeout=20).values():
            future.exception()
        for table in self.tables:
            self.database.execute(f"DROP TABLE IF EXISTS {table}")
        self.database.close()
        for bucket in Path(self.stack.s3.data).glob(f"{self.run}*"):
            shutil.rmtree(bucket)
        known = set(self.admin.list_topics(timeout=20).topics)
        if mine := [topic for topic in known if self.run in topic]:
            for future in self.admin.delete_topics(mine, operation_timeout=20).values():
                future.exception()

    @property
    def jdbc(self):
        """How connectors reach the database."""
        pg = self.stack.postgres
        return {
            "connection.url": f"jdbc:postgresql://{pg.host}:{pg.port}/{pg.database}",
            "connection.user": pg.user,
            "connection.password": pg.password,
        }

    def name(self, word):
        """A name that nobody else has."""
        return f"{self.run}-{word}"

    def create(self, word, config, *, state=None):
        """A connector, and the meaning of its offsets."""
        name = self.name(word)
        whole = {"tasks.max": "1", **config}
        self.client.create_connector(name, whole, initial_state=state)
        return name, find_meaning(whole["connector.class"], whole)

    def make_topic(self, word):
        """A topic with one partition."""
        topic = self.name(word)
        copies = min(3, len(self.admin.list_topics(timeout=20).brokers))
        self.admin.create_topics([NewTopic(topic, 1, copies)])[topic].result(30)
        return topic

    def produce(self, topic, values, *, key=None):
        """Records, flushed."""
        for value in values:
            self.producer.produce(topic, value if isinstance(value, bytes) else json.dumps(value).encode(), key=key)
        assert self.producer.flush(30) == 0

    def read_end(self, topic):
        """How many records a topic's only partition has, where nothing is compacted; 0 where there is none."""
        if not any(topic in self.admin.list_topics(timeout=20).topics for _ in range(IN_A_ROW)):
            return 0
        if self.stack.connect["connect"].exactly_once:
            # Behind its records a transaction leaves a marker, which is none.
            return len(read_partition(self.bootstrap, topic))
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.run})
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1]
        except KafkaException as error:
            if error.args[0].name() not in NOT_YET:
                raise
            return 0
        finally:
            consumer.close()

    def read_values(self, topic):
        """All values of a topic's only partition."""
        end = self.read_end(topic)
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.run, "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            return [json.loads(one.value()) for one in consumer.consume(end, timeout=DEADLINE_SECONDS)]
        finally:
            consumer.close()

    def await_offset(self, name, is_done, what):
        """The one offset of a connector, as soon as it is as wanted."""

        def read():
            found = self.client.read_offsets(name)
            return found[0] if len(found) == 1 else None

        return wait_for(read, lambda found: found is not None and found.offset and is_done(found.offset), what)

    def stop(self, name):
        """Stopped, and no task left."""
        await_stopped(self.client, name)

    def rewind(self, *moves):
        """Stop the connectors, put each offset there, and let them go on."""
        for name, _ in moves:
            self.client.stop(name)
        for name, offset in moves:
            self.stop(name)
            self.client.patch_offsets(name, [offset])
        for name, _ in moves:
            self.client.resume(name)

    def await_failure(self, name):
        """The trace of the first task that failed. Right behind a create Connect has no status yet.

        Each worker hears of it in its own time, and any may be asked later: it has failed when all of them say so.
        """

        def read(client):
            try:
                return [task.trace for task in client.read_status(name).tasks if task.state == "FAILED"]
            except NotFoundError:
                return []

        def read_all():
            found = [read(client) for client in clients]
            return found[0] if all(found) else []

        with ExitStack() as stack:
            clients = [stack.enter_context(ConnectClient((url,))) for url in self.client.urls]
            return wait_for(read_all, bool, f"a task of {name} to fail")[0]
