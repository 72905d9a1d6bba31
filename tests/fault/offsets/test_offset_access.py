"""Brokers with ACLs: what this principal may not do is told by name before anything is stopped.

It stands here and not among the integration tests because it needs brokers of its own, with an authorizer.
"""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import seamark
from seamark.changes.setup import make_setup
from seamark.context import open_context
from seamark.devstack import StackSpec, start_stack
from seamark.devstack.process import wait_until
from seamark.errors import AuthorizationError, SeamarkError
from tests.fault.rig import Rig

LINES = "".join(f"line {number}\n" for number in range(100))
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


@pytest.fixture(scope="module")
def guarded():
    with start_stack(StackSpec(brokers=1, workers=1, authorizer=True), name="acl") as stack:
        yield stack


class Desk:
    """Somebody who has a login and no rights but those that a test gives."""

    def __init__(self, stack, folder, *, journal="file"):
        self.stack = stack
        self.rig = Rig(stack, folder)
        self.name = self.rig.name
        self.topic = stack.connect["connect"].offsets_topic
        self.admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap_servers})
        endpoint = stack.connect["connect"]
        context = {
            "journal": journal,
            "journal_folder": str(folder / "journal"),
            "journal_topic": f"journal-{self.name}",
            "in_flight_timeout": "5s",
            "insecure": True,
            "policy": {"files": ["/**"]},
            "kafka": {
                "bootstrap.servers": stack.kafka.login_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": stack.kafka.login_user,
                "sasl.password": stack.kafka.login_password,
            },
            "connect": {"connect": {"urls": list(endpoint.urls), "worker_config": endpoint.worker_config}},
        }
        (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        self.environ = {"SEAMARK_CONFIG": str(folder / "seamark.yaml"), "XDG_STATE_HOME": str(folder / "state")}
        # Workers count as alive while they are members of their group, which only those see who may describe it.
        self.allow("GROUP", endpoint.group_id, "DESCRIBE")

    def open(self):
        return seamark.Fleet(open_context(environ=self.environ))

    def create_source(self):
        self.rig.input.write_text(LINES)
        self.rig.create()
        wait_until(lambda: self.position() == len(LINES), "every line was read", seconds=60)

    def position(self):
        found = self.rig.read(f"/connectors/{self.name}/offsets")["offsets"]
        return found[0]["offset"]["position"] if found else None

    def runs(self):
        return self.rig.runs() and self.rig.state() == "RUNNING"

    def bind(self, kind, name, operation):
        user = f"User:{self.stack.kafka.login_user}"
        allow = AclPermissionType.ALLOW
        return AclBinding(kind, name, ResourcePatternType.LITERAL, user, "*", operation, allow)

    def allow(self, kind, name, *operations):
        rights = [self.bind(ResourceType[kind], name, AclOperation[operation]) for operation in operations]
        for future in self.admin.create_acls(rights).values():
            future.result(30)

    def take_away(self, kind, name):
        every = AclBindingFilter(
            ResourceType[kind],
            name,
            ResourcePatternType.LITERAL,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for future in self.admin.delete_acls([every]).values():
            assert future.result(30)

    def tell(self, kind, name):
        """Wait until the brokers have heard of the newest ACLs: what they allow by now."""
        with self.open() as fleet:
            kafka = fleet._world.kafka()
            reading = kafka.read_topics([name]) if kind == "TOPIC" else kafka.read_groups([name])
            return next((one.operations for one in reading.items), frozenset())

    def await_right(self, kind, name, operation, *, is_there=True):
        words = "had" if is_there else "had lost"
        wait_until(
            lambda: (operation in self.tell(kind, name)) is is_there, f"it {words} {operation} on {name}", seconds=60
        )


@pytest.fixture
def desk(guarded, tmp_path):
    desk = Desk(guarded, tmp_path)
    desk.create_source()
    yield desk
    desk.rig.delete()


def test_a_right_that_was_taken_away_is_named_before_the_stop(desk):
    desk.allow("TOPIC", desk.topic, "READ")
    desk.await_right("TOPIC", desk.topic, "READ")
    with desk.open() as fleet:
        planned = fleet.offsets.move(desk.name, to=10)
        assert not any("does not allow" in note for note in planned.plan.notes)
        desk.take_away("TOPIC", desk.topic)
        desk.await_right("TOPIC", desk.topic, "READ", is_there=False)
        with pytest.raises(AuthorizationError, match=f"READ on topic {desk.topic}; no changes were made") as refused:
            fleet.apply(planned)
        assert f"--operation Read --topic {desk.topic}" in refused.value.hint
        assert fleet.journal.list() == ()
    assert desk.runs()
    assert desk.position() == len(LINES)


def test_who_may_not_read_the_offsets_gets_no_plan(desk):
    with desk.open() as fleet, pytest.raises(AuthorizationError) as refused:
        fleet.offsets.move(desk.name, to=10)
    assert desk.topic in refused.value.message
    assert desk.runs()


def test_the_right_to_write_the_topic_is_needed_where_rest_does_not_reach(desk):
    _put_stray(desk)
    desk.allow("TOPIC", desk.topic, "READ")
    desk.await_right("TOPIC", desk.topic, "READ")
    with desk.open() as fleet:
        planned = fleet.offsets.move(desk.name, to=10)
        (write,) = (step for step in planned.plan.steps if step.kind == "write-offsets")
        assert write.arguments["route"] == "topic"
        said = f"missing Kafka permissions: WRITE on topic {desk.topic}; the change would be rejected"
        assert said in planned.plan.notes
        with pytest.raises(AuthorizationError, match=f"WRITE on topic {desk.topic}"):
            fleet.apply(planned)
        assert desk.runs()
        assert desk.position() == len(LINES)

        desk.allow("TOPIC", desk.topic, "WRITE")
        desk.await_right("TOPIC", desk.topic, "WRITE")
        planned = fleet.offsets.move(desk.name, to=10)
        assert not any("does not allow" in note for note in planned.plan.notes)
        result = fleet.apply(planned)
        assert result.is_done, result.failures
    desk.take_away("TOPIC", desk.topic)
    desk.await_right("TOPIC", desk.topic, "READ", is_there=False)


def test_a_sinks_group_and_a_plain_group_are_looked_at(desk, tmp_path):
    sink, group = f"sink-{uuid.uuid4().hex[:8]}", f"plain-{uuid.uuid4().hex[:8]}"
    config = {"connector.class": SINK, "topics": desk.name, "file": str(tmp_path / "out.txt"), "tasks.max": "1"}
    desk.rig.put(sink, config)
    wait_until(lambda: _committed(desk, sink) == 100, "the sink had written every line", seconds=90)
    _commit(desk, group, 60)
    desk.allow("TOPIC", desk.name, "DESCRIBE", "READ")
    desk.allow("GROUP", f"connect-{sink}", "DESCRIBE")
    desk.allow("GROUP", group, "DESCRIBE")
    desk.await_right("GROUP", group, "DESCRIBE")
    desk.await_right("TOPIC", desk.name, "READ")
    with desk.open() as fleet:
        # Kafka asks for READ where somebody commits in a group's place.
        planned = fleet.offsets.move(f"group/{group}", to=10)
        with pytest.raises(AuthorizationError, match=f"READ on group {group}; no changes were made"):
            fleet.apply(planned)
        with pytest.raises(AuthorizationError, match=f"DELETE on group {group}"):
            fleet.apply(fleet.groups.delete(group))

        # Connect moves a sink's group; we only look whether it did.
        planned = fleet.offsets.move(sink, to=40)
        desk.take_away("GROUP", f"connect-{sink}")
        desk.await_right("GROUP", f"connect-{sink}", "DESCRIBE", is_there=False)
        with pytest.raises(AuthorizationError, match=f"DESCRIBE on group connect-{sink}"):
            fleet.apply(planned)
        status = desk.rig.read(f"/connectors/{sink}/status")
        assert {status["connector"]["state"], *(task["state"] for task in status["tasks"])} == {"RUNNING"}

        desk.allow("GROUP", f"connect-{sink}", "DESCRIBE")
        desk.await_right("GROUP", f"connect-{sink}", "DESCRIBE")
        result = fleet.apply(planned)
        assert result.is_done, result.failures
    desk.rig.remove(sink)


def test_a_journal_that_may_not_be_written_is_named_before_the_stop(desk, tmp_path):
    (tmp_path / "kafka").mkdir()
    other = Desk(desk.stack, tmp_path / "kafka", journal="kafka")
    names = (f"journal-{other.name}", f"journal-{other.name}-heads")
    as_admin = {
        "SEAMARK_CONFIG": desk.stack.context_file,
        "SEAMARK_CONTEXTS__DEV__JOURNAL": "kafka",
        "SEAMARK_CONTEXTS__DEV__JOURNAL_TOPIC": names[0],
    }
    assert set(make_setup(open_context(environ=as_admin))) == set(names)
    for topic in (desk.topic, *names):
        desk.allow("TOPIC", topic, "READ")
        desk.await_right("TOPIC", topic, "READ")
    with other.open() as fleet:
        planned = fleet.offsets.move(desk.name, to=10)
        assert any(f"WRITE on topic {names[0]}" in note for note in planned.plan.notes)
        with pytest.raises(SeamarkError, match=f"WRITE on topic {names[0]}"):
            fleet.apply(planned)
    assert desk.runs()
    desk.take_away("TOPIC", desk.topic)
    desk.await_right("TOPIC", desk.topic, "READ", is_there=False)


def _put_stray(desk):
    """The newest record once more, on another partition: REST would write the one and leave the other."""
    with seamark.Fleet(open_context(environ={"SEAMARK_CONFIG": desk.stack.context_file})) as fleet:
        stored = fleet._stores.find(fleet.connectors.get(desk.name)).first.read([desk.name]).offsets[0].evidence
    producer = Producer({"bootstrap.servers": desk.stack.kafka.bootstrap_servers})
    producer.produce(desk.topic, stored.value, stored.key, partition=(stored.partition + 1) % 5)
    assert producer.flush(30) == 0


def _commit(desk, group, offset):
    consumer = Consumer({"bootstrap.servers": desk.stack.kafka.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(desk.name, 0, offset)], asynchronous=False)
    consumer.close()


def _committed(desk, sink):
    found = desk.rig.read(f"/connectors/{sink}/offsets")["offsets"]
    return found[0]["offset"]["kafka_offset"] if found else None
