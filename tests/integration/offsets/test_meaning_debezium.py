"""Debezium for PostgreSQL, really running: what its offsets say, and what becomes of a rewind."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition

from seamark.connect.client import ConnectClient
from seamark.core.offsets import Certainty, Fixed, Order, Unit
from seamark.devstack import StackSpec, start_stack
from seamark.devstack.client import ask
from seamark.devstack.downloads import read_jars
from seamark.offsets.read.lag import database_url, rows_behind
from seamark.offsets.semantics import find_meaning
from seamark.offsets.semantics.debezium_postgres import show_lsn
from seamark.offsets.semantics.semantics import Harm
from seamark.tables import Database
from tests.integration.connectors.test_own_connector import find_plugin_path
from tests.integration.meaning_stage import check_stores
from tests.integration.waits import DEADLINE_SECONDS, wait_for

JARS = "plugin-debezium-3.6.0.Final"
CLASS = "io.debezium.connector.postgresql.PostgresConnector"
TOPIC = "shop.public.item"


def read_end(bootstrap):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "debezium-test"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)[1]
    finally:
        consumer.close()


def read_ids(bootstrap):
    """The keys of all records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "debezium-test", "enable.auto.commit": False})
    try:
        end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)[1]
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        return [json.loads(one.key())["id"] for one in consumer.consume(end, timeout=20)]
    finally:
        consumer.close()


def build_config(postgres):
    return {
        "connector.class": CLASS,
        "tasks.max": "1",
        "database.hostname": postgres.host,
        "database.port": str(postgres.port),
        "database.user": postgres.user,
        "database.password": postgres.password,
        "database.dbname": postgres.database,
        "topic.prefix": "shop",
        "table.include.list": "public.item",
        "plugin.name": "pgoutput",
        "slot.name": "shop",
        "publication.autocreate.mode": "filtered",
    }


@pytest.fixture
def shop():
    """A stack with the plugin, a table of ten rows, and the connector running over it."""
    with start_stack(StackSpec(brokers=1, workers=1, postgres=True), name="debezium") as stack:
        endpoint = stack.connect["connect"]
        shutil.copytree(read_jars(JARS), find_plugin_path(endpoint) / "debezium")
        ask(Path(stack.folder), "restart", "worker-1")
        with psycopg.connect(stack.postgres.dsn, autocommit=True) as database, ConnectClient(endpoint.urls) as client:
            database.execute("CREATE TABLE item (id bigint PRIMARY KEY, name text)")
            database.execute("INSERT INTO item SELECT n, 'item ' || n FROM generate_series(1, 10) AS n")
            client.create_connector("shop", build_config(stack.postgres))
            yield stack, client, database


def test_offsets_are_places_in_the_log_and_a_rewind_ends_at_the_slot(shop):
    stack, client, database = shop
    bootstrap = stack.kafka.bootstrap_servers

    def read_offset():
        return next(iter(client.read_offsets("shop")), None)

    def insert(count):
        """The next rows. Gives the number of the last."""
        query = """
            WITH last AS (SELECT max(id) AS id FROM item)
            INSERT INTO item SELECT id + n, 'item ' || id + n FROM last, generate_series(1, %s) AS n RETURNING id
        """
        return max(number for (number,) in database.execute(query, [count]))

    wait_for(lambda: client.read_offsets("shop"), len, "the first offset")
    insert(10)
    wait_for(lambda: read_end(bootstrap), lambda end: end >= 20, "20 records")
    early = wait_for(read_offset, lambda found: "messageType" in (found.offset or {}), "an offset of the stream")
    insert(30)
    wait_for(lambda: read_end(bootstrap), lambda end: end >= 50, "50 records")
    meaning = find_meaning(CLASS, client.read_config("shop"))
    late = wait_for(
        read_offset, lambda found: meaning.compare(found.offset, early.offset) is Order.AFTER, "a later offset"
    )

    assert meaning.family == "Debezium PostgreSQL"
    for found in (early, late):
        assert meaning.check(found.partition, found.offset) == ()
        where, what = meaning.describe(found.partition, found.offset)
        assert where == "server shop"
        assert what.startswith(f"LSN {show_lsn(found.offset['lsn_proc'])}, 20")
    assert meaning.compare(early.offset, late.offset) is Order.BEFORE
    assert meaning.compare(late.offset, late.offset) is Order.EQUAL

    distance = meaning.build_distance(late.partition, early.offset, late.offset)
    places = [show_lsn(found.offset["lsn_proc"]) for found in (late, early)]
    (between,) = database.execute("SELECT pg_wal_lsn_diff(%s, %s)", places).fetchone()
    assert (distance.unit, distance.count, distance.certainty) == (Unit.BYTES, Fixed(int(between)), Certainty.EXACT)
    assert between > 0

    connector = client.read_connector("shop")
    assert database_url(connector.config).endswith(f"{stack.postgres.port}/postgres")
    query = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), %s)"
    with Database(stack.postgres.dsn) as counting:
        (least,) = database.execute(query, [places[0]]).fetchone()
        behind = rows_behind(connector, late, counting)
        (most,) = database.execute(query, [places[0]]).fetchone()
    assert least <= behind.figure <= most
    assert behind.certainty is Certainty.EXACT

    check_rewind(stack, client, database, early=early, late=late, insert=insert)


def check_rewind(stack, client, database, *, early, late, insert):
    """What the slot has confirmed is not sent again, whatever the offset says; before its restart the task fails."""
    bootstrap = stack.kafka.bootstrap_servers
    meaning = find_meaning(CLASS, client.read_config("shop"))
    assert meaning.explain_rewind().harm is Harm.DUPLICATES
    # The slot is confirmed up to the transaction before the last one.
    insert(1)
    wait_for(lambda: read_end(bootstrap), lambda end: end >= 51, "51 records")
    place = late.offset["lsn_proc"]
    wait_for(
        lambda: read_slot(database, "confirmed_flush_lsn"), lambda found: found >= place, "the slot's confirmation"
    )
    stop(client)
    # What it wrote, also read from the store; then what REST wrote.
    check_stores(stack, client, "shop")
    earliest = max(early.offset["lsn_proc"], read_slot(database, "restart_lsn"))
    client.patch_offsets("shop", [replace(early, offset={**early.offset, "lsn": earliest, "lsn_proc": earliest})])
    check_stores(stack, client, "shop")
    client.resume("shop")
    seen = insert_until_read(client, bootstrap, insert=insert)
    assert [number for number, times in Counter(seen).items() if times > 1 and number <= 50] == []
    assert set(range(1, max(seen) + 1)) == set(seen)

    check_before_restart(client, database, bootstrap, early=early, insert=insert)


def check_before_restart(client, database, bootstrap, *, early, insert):
    """PostgreSQL has let go of what lies before the slot's restart_lsn: the task fails, until the offset is later."""
    place, deadline = early.offset["lsn_proc"], time.monotonic() + DEADLINE_SECONDS
    while read_slot(database, "restart_lsn") <= place:
        assert time.monotonic() < deadline, "the slot's restart_lsn does not move"
        # The server moves it on where it has noted which transactions are open, as at a checkpoint.
        database.execute("CHECKPOINT")
        insert(1)
        time.sleep(1)
    stop(client)
    (good,) = client.read_offsets("shop")
    client.patch_offsets("shop", [early])
    client.resume("shop")
    failed = wait_for(
        lambda: client.read_status("shop"), lambda found: any(task.trace for task in found.tasks), "a failed task"
    )
    assert "no longer available on the server" in failed.tasks[0].trace
    stop(client)
    client.patch_offsets("shop", [good])
    client.resume("shop")
    seen = insert_until_read(client, bootstrap, insert=insert)
    assert set(range(1, max(seen) + 1)) == set(seen)


def read_slot(database, column):
    (found,) = database.execute(
        f"SELECT ({column} - '0/0'::pg_lsn)::bigint FROM pg_replication_slots WHERE slot_name = 'shop'"
    ).fetchone()
    return found


def stop(client):
    client.stop("shop")
    wait_for(lambda: client.read_status("shop"), lambda found: found.state == "STOPPED" and not found.tasks, "stop")


def insert_until_read(client, bootstrap, *, insert):
    """Insert a row, and more until it is read. Gives the keys of all records."""
    wanted, deadline = insert(1), time.monotonic() + DEADLINE_SECONDS
    while wanted not in (seen := read_ids(bootstrap)):
        assert time.monotonic() < deadline, f"no new record in {DEADLINE_SECONDS} s: {client.read_status('shop')}"
        # The connector looks for its place by what comes in; a quiet log may keep it waiting.
        time.sleep(2)
        insert(1)
    return seen
