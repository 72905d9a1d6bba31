"""Plans of copies on a real broker: what is read for them, and the registry that keeps them. No Spark."""

from __future__ import annotations

import io
import json
import time
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.copies.plan.endpoints import KafkaLogs
from seamark.copies.plan.plan import build_tasks
from seamark.copies.plan.registrations import PREFIX, HeldRegistration, Registration, read_registered
from seamark.copies.plan.registry import read_copy_plan, register
from seamark.copies.run.runner import TargetTopic
from seamark.errors import FencedError, RefusedError
from seamark.fleet import open_fleet
from seamark.kafka.topics import TopicAdmin
from seamark.kafka_sink.control import Amount, Claim, ControlRecord, Copied, encode_control
from seamark.kafka_sink.control_reads import ensure_control_topic
from seamark.kafka_sink.routing import Partitioner, Routing

WAIT_SECONDS = 60
OLD_MS = 1_700_000_000_000
# Who runs beside this one must not fence it.
PLAN, OTHER = (f"01{word}{uuid4().hex[:8].upper()}" for word in ("PLAN", "OTHER"))


class Desk:
    """An operator's place: a context with its journal in a folder, and topics of its own."""

    def __init__(self, servers, folder):
        self.config = {"bootstrap.servers": servers}
        self.folder = folder
        self.control = f"control-{uuid4().hex[:8]}"
        self.admin = AdminClient(self.config)
        self.made = [self.control]
        context = {"journal": "file", "journal_folder": str(folder / "journal"), "insecure": True, "kafka": self.config}
        (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))

    def topic(self, partitions, **configs):
        name = f"copy-{uuid4().hex[:8]}"
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        self.admin.create_topics([NewTopic(name, partitions, -1, config=settings)])[name].result(timeout=30)
        self.made.append(name)
        deadline = time.monotonic() + WAIT_SECONDS
        with TopicAdmin(self.config) as admin:
            while not admin.read_found([name]):
                assert time.monotonic() < deadline, f"{name} is not known after {WAIT_SECONDS} s"
        return name

    def fill(self, topic, partitions, rows, *, rule=Partitioner.MURMUR2, keys=500):
        routing = Routing(rule, partitions, partitions)
        producer = Producer({**self.config, "linger.ms": 20})
        for number in range(rows):
            key = f"k{number % keys}".encode()
            at = routing.choose(key, source=0)
            producer.produce(topic, key=key, value=b"v", partition=at, timestamp=OLD_MS + number)
            producer.poll(0)
        assert producer.flush(WAIT_SECONDS) == 0

    def commit(self, group, topic, offsets):
        consumer = Consumer({**self.config, "group.id": group, "enable.auto.commit": False})
        spots = [TopicPartition(topic, partition, at) for partition, at in offsets.items()]
        consumer.commit(offsets=spots, asynchronous=False)
        consumer.close()

    def run(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        code = execute(argv, session=Session(out=out, err=err, stdin=io.StringIO()))
        return code, out.getvalue(), err.getvalue()

    def close(self):
        for future in self.admin.delete_topics(self.made, request_timeout=30).values():
            with suppress(Exception):
                future.result(timeout=30)


@pytest.fixture
def desk(stack, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEAMARK_CONFIG", str(tmp_path / "seamark.yaml"))
    made = Desk(stack.kafka.bootstrap_servers, tmp_path)
    yield made
    made.close()


def test_plan_of_a_real_topic_tells_rule_slices_and_readers(desk):
    topic = desk.topic(6)
    desk.fill(topic, 6, rows=6000)
    group = f"g-{topic}"
    desk.commit(group, topic, {0: 100, 1: 0})
    code, out, err = desk.run(
        "copies", "plan", topic, "--partitions", "6:4", "--slice-records", "1500", "--out", "p.json", "-o", "json"
    )
    assert code == 0, err
    shown = json.loads(out)
    plan = read_copy_plan(desk.folder / "p.json")
    assert shown["plan"] == plan.to_dict()
    assert (plan.size, plan.target.topic, plan.routing.rule) == (6000, f"{topic}-4", Partitioner.MURMUR2)
    assert shown["bytes"] > 6000
    # Cut at moments, each offset once: the planner itself checks the cover.
    assert 4 <= len(plan.slices) <= 8
    assert all(one.until_ms is not None for one in plan.slices[:-1])
    assert plan.slices[0].until_ms > OLD_MS
    (reader,) = shown["readers"]
    assert (reader["name"], reader["state"], reader["active"]) == (group, "EMPTY", False)
    sizes = {one.partition: one.size for one in plan.ranges}
    assert reader["lag"] == sizes[0] - 100 + sizes[1]
    assert reader["without_offset"] == [2, 3, 4, 5]
    assert reader["delay_seconds"] > 86400
    held = {choice.key: choice.value for choice in plan.configs}
    assert held["message.timestamp.before.max.ms"] == str((1 << 63) - 1)


def test_open_transaction_is_not_part_of_the_plan(desk):
    topic = desk.topic(2)
    desk.fill(topic, 2, rows=400)
    producer = Producer({**desk.config, "transactional.id": f"t-{topic}"})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, value=b"open", partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    desk.run("copies", "plan", topic, "--partitions", "3", "--out", "p.json")
    assert read_copy_plan(desk.folder / "p.json").size == 400
    producer.abort_transaction(WAIT_SECONDS)


def test_rule_of_librdkafka_and_a_mixture_are_told_apart(desk):
    topic = desk.topic(6)
    desk.fill(topic, 6, rows=600, rule=Partitioner.CRC32)
    code, out, _ = desk.run("copies", "plan", topic, "--partitions", "3")
    assert code == 0
    assert "placed by crc32" in out
    desk.fill(topic, 6, rows=600, rule=Partitioner.MURMUR2)
    code, out, _ = desk.run("copies", "plan", topic, "--partitions", "3")
    assert code == 5
    assert "refused" in out
    assert desk.run("copies", "plan", topic, "--partitions", "3", "--partitioner", "partition")[0] == 0


def test_times_and_offsets_bound_the_plan(desk):
    topic = desk.topic(2)
    desk.fill(topic, 2, rows=1000)
    desk.run(
        "copies", "plan", topic, "--partitions", "3", "--start", "50", "--end", "2023-11-14T22:13:20.700Z", "--out", "p"
    )
    plan = read_copy_plan(desk.folder / "p")
    assert [one.begin for one in plan.ranges] == [50, 50]
    assert sum(one.end for one in plan.ranges) == 700


def build_registration(plan=PLAN, generation=1, size=10):
    return Registration(
        plan, generation, "2026-11-16T00:00:00Z", by="me", body={"n": [uuid4().hex] * 1, "s": "x" * size}
    )


def test_registry_gives_the_newest_generation_and_leaves_no_others_keys(desk):
    assert read_registered(desk.config, desk.control).found == {}
    large = replace(build_registration(), body={"n": [uuid4().hex for _ in range(60_000)]})
    with HeldRegistration(desk.config, desk.control, plan=PLAN) as hold:
        assert hold.read() is None
        first = hold.write(large, former=None)
        assert first.pieces > 1
        assert hold.read() == large
        second = hold.write(build_registration(generation=2), former=first)
        assert second.pieces == 1
    assert read_registered(desk.config, desk.control).found == {PLAN: second}
    # What compaction will leave of the keys: one piece, and tombstones for the rest.
    newest = {}
    for record in read_all(desk.config, desk.control):
        newest[record.key()] = record.value()
    assert {key: value is None for key, value in newest.items() if key.startswith(PREFIX)} == {
        f"/plan/{PLAN}/0".encode(): False,
        **{f"/plan/{PLAN}/{number}".encode(): True for number in range(1, first.pieces)},
    }


def test_second_driver_fences_the_first(desk):
    first = HeldRegistration(desk.config, desk.control, plan=PLAN)
    written = first.write(build_registration(), former=None)
    other = HeldRegistration(desk.config, desk.control, plan=OTHER)
    other.write(build_registration(OTHER), former=None)
    with HeldRegistration(desk.config, desk.control, plan=PLAN) as second:
        assert second.read() == written
        with pytest.raises(FencedError, match=f"another process runs copy {PLAN}"):
            first.write(build_registration(generation=2), former=written)
        assert second.read() == written
        # Another plan is nobody's business.
        other.write(build_registration(OTHER, generation=2), former=None)
    for hold in (first, other):
        hold.close()


def test_status_is_told_from_the_control_topic_alone(desk):
    topic = desk.topic(4)
    desk.fill(topic, 4, rows=800)
    assert desk.run("copies", "plan", topic, "--partitions", "2", "--slice-records", "300", "--out", "p.json")[0] == 0
    plan = read_copy_plan(desk.folder / "p.json")
    desk.made.append(plan.target.topic)
    with open_fleet() as fleet:
        logs = KafkaLogs(fleet.context.kafka.client_config)
        target = TargetTopic(plan, fleet.copies.endpoints.target)
        made = target.ensure(is_begun=False)
        assert made.target.topic_id
        # A crash between the two: the topic is there and empty, and is taken as it is.
        assert target.ensure(is_begun=False) == made
        hold = logs.hold(desk.control, plan=plan.id)
        register(hold, made, former=hold.read(), actor=fleet._actor)
        hold.close()
    write_empty_slice(desk, made, number=0)
    code, out, err = desk.run("copies", "status", plan.id[:14], "--control-topic", desk.control, "-o", "json")
    assert code == 0, err
    status = json.loads(out)
    assert (status["state"], status["slices_done"], status["behind"]) == ("UNFINISHED", 1, 0)
    desk.fill(topic, 4, rows=100)
    code, out, _ = desk.run("copies", "status", "--control-topic", desk.control)
    assert code == 0
    assert plan.id in out
    assert "UNFINISHED" in out
    assert out.splitlines()[1].split()[-1] == "100"
    # The topic that a plan was made for is the one with its id.
    desk.admin.delete_topics([made.target.topic])[made.target.topic].result(timeout=30)
    code, out, _ = desk.run("copies", "status", plan.id, "--control-topic", desk.control)
    assert "✗ BROKEN" in out
    with open_fleet() as fleet, pytest.raises(RefusedError, match="of the copy was deleted"):
        TargetTopic(made, fleet.copies.endpoints.target).ensure(is_begun=True)


def write_empty_slice(desk, plan, *, number):
    """The control records of a slice whose tasks had nothing to write."""
    with TopicAdmin(desk.config) as admin:
        ensure_control_topic(admin, desk.control)
    producer = Producer({**desk.config, "transactional.id": f"fake-{plan.id}"})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    tasks = build_tasks(plan.routing)
    for task in tasks:
        claim = Claim(plan.id, task=task.number, part=plan.slices[number].id)
        record = ControlRecord(claim, Amount(0, 0), is_done=True, copied=Copied(len(tasks)))
        producer.produce(desk.control, key=claim.key, value=encode_control(record), partition=claim.partition)
    producer.commit_transaction(WAIT_SECONDS)


def read_all(config, topic):
    consumer = Consumer(
        {**config, "group.id": "copy-tests", "enable.auto.commit": False, "isolation.level": "read_committed"}
    )
    high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, deadline = [], time.monotonic() + WAIT_SECONDS
    while consumer.position([TopicPartition(topic, 0)])[0].offset < high:
        assert time.monotonic() < deadline, f"{topic}-0 is not read to {high} after {WAIT_SECONDS} s"
        found += [message for message in consumer.consume(100, 0.2) if message.error() is None]
    consumer.close()
    return found
