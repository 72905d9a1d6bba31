"""docs/runbooks/moved-to-another-cluster.md: a Connect 3.9 whose connectors go to a 4.3, on a stack of its own."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from seamark.devstack import StackSpec, start_stack
from seamark.devstack.process import wait_until
from tests.fault.runbook_stage import PATIENCE_SECONDS, RunbookStage
from tests.integration.runbook import Runbook

PAGE = "moved-to-another-cluster.md"
SPEC = StackSpec(brokers=1, workers=1, connect_versions=("3.9.2", "4.3.1"))
CLUSTERS = (("old", "connect"), ("new", "connect-4-3-1"))
MIRROR = "mirror.purchase"
# So many of the first records the mirror does not have, as if retention had taken them before it began.
MISSING = 4
pytestmark = [pytest.mark.recovery, pytest.mark.timeout(1200)]


@pytest.fixture
def stage(tmp_path):
    with start_stack(SPEC, name="moved-cluster") as stack:
        stage = RunbookStage(stack, tmp_path, clusters=CLUSTERS)
        stage.run("init", "--yes")
        yield stage
        stage.close()


def read_records(stage, topic, count):
    """The records of a topic of one partition, once there are so many."""
    settings = {"bootstrap.servers": stage.stack.kafka.bootstrap_servers, "group.id": "mirror"}
    consumer, found = Consumer(settings), []

    def is_read():
        # A consumer that has not heard of the topic yet gives an error.
        found.extend(record for record in consumer.consume(100, timeout=1) if record.error() is None)
        return len(found) >= count

    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    wait_until(is_read, f"{topic} had {count} records", seconds=PATIENCE_SECONDS)
    consumer.close()
    return found


def mirror(stage, records):
    """The records with their times, and so with other offsets, as a mirror has them."""
    producer = Producer({"bootstrap.servers": stage.stack.kafka.bootstrap_servers, "acks": "all"})
    for record in records[MISSING:]:
        producer.produce(MIRROR, value=record.value(), timestamp=record.timestamp()[1])
    assert producer.flush(60) == 0


def spell(milliseconds):
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def save_configs(stage):
    for name in ("log-purchase", "lake"):
        config = stage.clients["old"].read_config(name)
        (stage.folder / f"{name}.json").write_text(json.dumps(config))
    pond = {"name": "pond-2", **stage.build_sink(MIRROR, file="pond.txt")}
    (stage.folder / "pond-2.json").write_text(json.dumps(pond))


def prepare(stage):
    """All three have delivered 10 rows; the source has read 3 more when the sinks are stopped. Gives all records."""
    stage.write_rows(8)
    stage.create("log-purchase", stage.build_source(), cluster="old")
    stage.create("lake", stage.build_sink(), cluster="old")
    stage.create("pond", stage.build_sink(file="pond.txt"), cluster="old")
    stage.await_delivered()
    # Behind the others in time, so that a time can be told that lies between.
    stage.write_rows(2)
    stage.await_delivered()
    stage.await_delivered(file="pond.txt")
    for name in ("lake", "pond"):
        stage.await_committed(f"old/{name}", 10)
        stage.clients["old"].stop(name)
        wait_until(
            lambda name=name: stage.find_states(name, cluster="old") == ("STOPPED",), f"{name} stopped", seconds=60
        )
    stage.write_rows(3)
    records = read_records(stage, "purchase", 13)
    stage.await_stored("old/log-purchase", 13)
    return records


def test_nothing_is_lost_and_doubles_are_those_that_the_page_tells(stage):
    records = prepare(stage)
    save_configs(stage)
    book = Runbook(
        PAGE,
        names={"/data": stage.folder, "2026-11-15T20:00:00Z": spell(records[8].timestamp()[1])},
        environ=stage.environ,
        folder=stage.folder,
    )
    book.run("connectors stop")
    book.run("offsets export")
    book.run("offsets verify")
    # What the source finds when it comes up on the other cluster.
    stage.write_rows(3)
    book.run("connectors create -f log-purchase.json")
    book.run("connectors create -f lake.json")
    stage.await_delivered()
    mirror(stage, read_records(stage, "purchase", 16))
    book.run("connectors create -f pond-2.json")
    book.run("offsets move new/pond-2")
    book.run("connectors resume pond-2")
    stage.await_delivered(file="pond.txt")
    stage.await_stored("new/log-purchase", 16)
    book.run("connectors list")
    book.run("offsets show")
    book.run("connectors delete")
    book.finish()

    rows = stage.read_rows()
    assert len(rows) == 16
    assert stage.count_topic() == dict.fromkeys(rows, 1)
    assert stage.count_sink() == dict.fromkeys(rows, 1)
    assert stage.count_sink("pond.txt") == {row: 2 if row in rows[8:10] else 1 for row in rows}
