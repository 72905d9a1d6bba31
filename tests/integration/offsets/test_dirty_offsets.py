"""Dirty records in a real offsets topic: seamark's verdict is that of a real worker."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from seamark.core.offsets import spell_identity
from seamark.kafka.partitioner import choose_partition
from seamark.offsets.codec.codec import decode_value, encode_key
from seamark.offsets.codec.verdicts import ValueVerdict
from tests.fakes.offsets.dirty import CASES, CONNECTOR
from tests.integration.rest import DEADLINE_SECONDS, call_until
from tests.integration.waits import IN_A_ROW, wait_for

PARTITIONS = 3
LINES = ("one", "two", "three")
SECOND_LINE = b'{"position":4}'


def is_done(status, _):
    return status in {200, 201, 202, 204}


class OffsetsTopic:
    """An offsets topic of its own, for connectors that name it in their config."""

    def __init__(self, bootstrap):
        self.name = f"dirty-offsets-{uuid.uuid4().hex[:8]}"
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._bootstrap = bootstrap
        # A compacted topic takes no record without a key, so it is one only after it was filled.
        topic = NewTopic(self.name, PARTITIONS, replication_factor=1, config={"cleanup.policy": "delete"})
        self._admin.create_topics([topic])[self.name].result(DEADLINE_SECONDS)

    def fill(self, records):
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})
        failures = []
        for key, value in records:
            partition = 0 if key is None else choose_partition(key, partitions=PARTITIONS)
            producer.produce(
                self.name,
                key=key,
                value=value,
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(DEADLINE_SECONDS) == 0
        assert failures == []
        entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(DEADLINE_SECONDS)
        # A task asks any broker for it when it starts, and fails where that one has not heard of the change.
        wait_for(
            lambda: {self._read_policy() for _ in range(IN_A_ROW)},
            lambda found: found == {"compact"},
            f"every broker to know that {self.name} is compacted",
        )

    def _read_policy(self):
        # A client of its own each time: it may find another broker.
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, self.name)]).values()
        try:
            return future.result(DEADLINE_SECONDS)["cleanup.policy"].value
        except KafkaException as error:
            return error.args[0].name()


# The topics stay until the stack ends. A worker of Connect 3.5.2 keeps the consumer of a connector's own offsets topic
# even after the connector is deleted. Without its topic that consumer fetches in a busy loop: 730,000 requests in 22
# minutes, half a core, and every other test waits for it.
@pytest.fixture(scope="module")
def topic(stack):
    return OffsetsTopic(stack.kafka.bootstrap_servers)


@pytest.fixture(scope="module")
def cases_topic(stack):
    made = OffsetsTopic(stack.kafka.bootstrap_servers)
    made.fill([(case.key, case.value) for case in CASES])
    return made


def read_listing(endpoint, offsets_topic, file):
    """What the worker lists for the connector whose records are dirty, by case."""
    url = f"{endpoint.urls[0]}/connectors/{CONNECTOR}"
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": "dirty"}
    config["offsets.storage.topic"] = offsets_topic
    call_until(f"{url}/config", is_done, method="PUT", body=config)
    try:
        answer = call_until(f"{url}/offsets", lambda status, _: status == 200)
    finally:
        call_until(url, lambda status, _: status in {204, 404}, method="DELETE")
    return {entry["partition"]["case"]: entry["offset"] for entry in answer["offsets"]}


@pytest.mark.parametrize("cluster", ["connect", "connect-3-5-2"])
def test_a_worker_lists_what_is_foretold(stack, cases_topic, tmp_path, cluster):
    endpoint = stack.connect[cluster]
    # There is no such file, so the task writes nothing.
    listed = read_listing(endpoint, cases_topic.name, tmp_path / "absent.txt")
    is_newest = endpoint.version == "4.3.1"
    asked = [case for case in CASES if is_newest or not case.only_newer]
    expected = {case.id: case.listing for case in asked if case.listing != "absent"}
    ids = {case.id for case in asked}
    shown = {case: "null" if offset is None else "offset" for case, offset in listed.items() if case in ids}
    assert shown == expected
    assert len(asked) >= 60
    for case in asked:
        if case.listing == "offset":
            assert spell_identity(listed[case.id]) == spell_identity(decode_value(case.value).offset), case.id


RESUMED = {
    "plain": (lambda key: key, SECOND_LINE),
    "spaces-in-the-key": (lambda key: key.replace(b",{", b", {"), SECOND_LINE),
    "mark-before-the-key": (lambda key: b"\xef\xbb\xbf" + key, SECOND_LINE),
    "more-behind-the-key": (lambda key: key + b" ", SECOND_LINE),
    "value-and-more": (lambda key: key, SECOND_LINE + b" and more"),
    "value-twice": (lambda key: key, b'{"position":0,"position":4}'),
    "value-null": (lambda key: key, b"null"),
    "value-nested": (lambda key: key, b'{"position":[4]}'),
    "value-not-json": (lambda key: key, b"position=4"),
    "tombstone": (lambda key: key, None),
}


def read_first(bootstrap, topic):
    """The first record of a topic, waited for."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "dirty-offsets", "enable.auto.commit": False})
    deadline = time.monotonic() + DEADLINE_SECONDS
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                return json.loads(message.value())
            assert time.monotonic() < deadline, f"nothing in {topic} after {DEADLINE_SECONDS} s"
    finally:
        consumer.close()


def test_a_task_resumes_where_its_bytes_say(stack, topic, tmp_path):
    endpoint, bootstrap = stack.connect["connect"], stack.kafka.bootstrap_servers
    file = tmp_path / "in.txt"
    file.write_text("".join(f"{line}\n" for line in LINES))
    names = {case: f"{topic.name}-{case}" for case in RESUMED}
    own = {case: encode_key(names[case], {"filename": str(file)}) for case in RESUMED}
    records = {case: (spell(own[case]), value) for case, (spell, value) in RESUMED.items()}
    topic.fill(records.values())
    expected = {}
    for case, (key, value) in records.items():
        is_found = key == own[case] and decode_value(value).verdict is ValueVerdict.GOOD
        expected[case] = "two" if is_found else "one"
    assert sorted(expected.values()).count("two") == 3

    converters = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.json.JsonConverter")
    schemaless = dict.fromkeys(("key.converter.schemas.enable", "value.converter.schemas.enable"), "false")
    try:
        for name in names.values():
            config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": name}
            config |= {"offsets.storage.topic": topic.name, **converters, **schemaless}
            call_until(f"{endpoint.urls[0]}/connectors/{name}/config", is_done, method="PUT", body=config)
        assert {case: read_first(bootstrap, name) for case, name in names.items()} == expected
    finally:
        for name in names.values():
            url = f"{endpoint.urls[0]}/connectors/{name}"
            call_until(url, lambda status, _: status in {204, 404}, method="DELETE")
