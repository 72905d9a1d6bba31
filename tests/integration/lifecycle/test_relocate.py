"""A source gets an offsets topic of its own, and goes back, without reading a line again. On real workers."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

import seamark
from seamark.changes.setup import make_setup
from seamark.context import open_context
from seamark.errors import RefusedError, UnsupportedError
from tests.integration.rest import DEADLINE_SECONDS, call_until

# Many changes, each with its rebalances: on a busy machine they take minutes.
pytestmark = pytest.mark.timeout(600)
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
OWN = "offsets.storage.topic"


class Stage:
    """File sources of one Connect cluster, and the topics that they leave."""

    def __init__(self, stack, folder, cluster):
        self.stack, self.folder, self.cluster = stack, folder, cluster
        self.mark = uuid.uuid4().hex[:8]
        self.endpoint = stack.connect[cluster]
        self.admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap_servers})
        self.names, self.topics = [], []
        context = {
            "journal": "file",
            "journal_folder": str(folder / "journal"),
            "in_flight_timeout": "5s",
            "policy": {"files": ["/**"]},
            "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
            "connect": {
                cluster: {"urls": list(self.endpoint.urls), "worker_config": self.endpoint.worker_config},
            },
        }
        (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        environ = {"SEAMARK_CONFIG": str(folder / "seamark.yaml"), "XDG_STATE_HOME": str(folder / "state")}
        make_setup(open_context(environ=environ))
        self.fleet = seamark.Fleet(open_context(environ=environ))

    def create(self, *, kind=SOURCE, **config):
        name = f"own-{self.mark}-{len(self.names)}"
        self.names.append(name)
        self.topics.append(name)
        more = {"topics": name} if kind == SINK else {"topic": name}
        body = {"connector.class": kind, "tasks.max": "1", "file": str(self.folder / name), **more, **config}
        url = f"{self.endpoint.urls[0]}/connectors/{name}/config"
        call_until(url, lambda status, _: status in (200, 201), method="PUT", body=body)
        # Right behind a create Connect has no status yet, and does not list it.
        call_until(f"{self.endpoint.urls[0]}/connectors/{name}/status", lambda status, _: status == 200)
        return name

    def append(self, name, *lines):
        with (self.folder / name).open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def await_all_read(self, name):
        """Until the position of the whole file is stored, where its tasks look."""
        size = (self.folder / name).stat().st_size
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            found = self.fleet.offsets.get(name, route="store").offsets
            if [one.offset for one in found] == [{"position": size}]:
                return
            time.sleep(0.5)
        raise AssertionError(f"{name} did not store the position {size} within {DEADLINE_SECONDS} s: {found}")

    def read(self, topic, count):
        """The values of a topic, once there are so many, and whatever comes within a second more."""
        consumer = Consumer({"bootstrap.servers": self.stack.kafka.bootstrap_servers, "group.id": topic})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found, deadline = [], time.monotonic() + DEADLINE_SECONDS
        while len(found) < count and time.monotonic() < deadline:
            found += [json.loads(message.value()) for message in consumer.consume(500, timeout=0.5)]
        found += [json.loads(message.value()) for message in consumer.consume(500, timeout=1.0)]
        consumer.close()
        return found

    def config(self, name, is_so=lambda _: True):
        """Its config, once it is so: this worker may lag behind the one that seamark asked."""
        url = f"{self.endpoint.urls[0]}/connectors/{name}/config"
        return call_until(url, lambda status, answer: status == 200 and is_so(answer))

    def apply(self, planned):
        result = self.fleet.apply(planned)
        assert result.is_done, result.failures
        return result

    def close(self):
        for name in self.names:
            url = f"{self.endpoint.urls[0]}/connectors/{name}"
            call_until(url, lambda status, _: status in (204, 404), method="DELETE")
        self.fleet.close()
        for future in self.admin.delete_topics(self.topics).values():
            # Some of them were never made.
            future.exception(30)


@pytest.fixture(params=["connect", "connect-3-5-2"])
def stage(request, stack, tmp_path):
    made = Stage(stack, tmp_path, request.param)
    yield made
    made.close()


def test_a_source_takes_its_offsets_to_a_topic_of_its_own_and_back_and_reads_no_line_again(stage):
    first = [f"first {number}" for number in range(300)]
    name = stage.create()
    stage.append(name, *first)
    stage.await_all_read(name)
    # Here a neighbour's rebalance may let Connect deliver some twice; what is behind these comes after the change.
    already = stage.read(name, len(first))
    assert list(dict.fromkeys(already)) == first
    own = f"{name}-offsets"
    stage.topics.append(own)

    planned = stage.fleet.offsets.relocate(name, own)
    assert f"stops, copies 1 offset to topic {own}, resumes: nothing is reprocessed" in str(planned)
    assert [step.kind for step in planned.plan.steps] == [
        "set-run-state",
        "prove-stopped",
        "create-offsets-topic",
        "relocate-records",
        "verify-relocated",
        "put-config",
        "set-run-state",
        "check-progress",
    ]
    result = stage.apply(planned)
    stage.config(name, lambda found: found.get(OWN) == own)
    (topic,) = stage.fleet._world.kafka().read_topics([own]).items
    assert topic.configs["cleanup.policy"].value == "compact"
    assert len(topic.partitions) == 5
    stage.append(name, "second")
    stage.await_all_read(name)
    found = stage.read(name, len(already) + 1)
    assert (found[: len(already)], set(found[len(already) :])) == (already, {"second"})
    assert stage.fleet.offsets.relocate(name, own).is_empty

    undo = stage.fleet.undo(result.change)
    assert [step.kind for step in undo.plan.steps] == [
        "set-run-state",
        "prove-stopped",
        "relocate-records",
        "verify-relocated",
        "put-config",
        "set-run-state",
        "check-progress",
    ]
    (effect,) = undo.effects
    assert effect.words == (
        f"stops, copies its offsets to topic {stage.endpoint.offsets_topic}, resumes: nothing is reprocessed"
    )
    assert [(field.key, field.before, field.after) for field in effect.fields] == [(OWN, own, None)]
    stage.apply(undo)
    stage.config(name, lambda found: OWN not in found)
    stage.append(name, "third")
    stage.await_all_read(name)
    already = found
    found = stage.read(name, len(already) + 1)
    assert (found[: len(already)], set(found[len(already) :])) == (already, {"third"})


def test_connect_itself_begins_anew_with_another_topic(stage):
    """The control: why all this is needed. Where it is not so any more, the command can go."""
    name = stage.create()
    stage.append(name, *(f"line {number}" for number in range(50)))
    stage.await_all_read(name)
    stage.topics.append(f"{name}-offsets")
    url = f"{stage.endpoint.urls[0]}/connectors/{name}/config"
    config = {**stage.config(name), OWN: f"{name}-offsets"}
    call_until(url, lambda status, _: status == 200, method="PUT", body=config)
    assert min(Counter(stage.read(name, 100)).values()) >= 2


def test_a_topic_that_is_there_is_used_and_what_it_holds_of_former_times_is_replaced(stage):
    name = stage.create()
    stage.append(name, *(f"line {number}" for number in range(50)))
    stage.await_all_read(name)
    own = f"{name}-offsets"
    stage.topics.append(own)
    stage.apply(stage.fleet.offsets.relocate(name, own))
    stage.apply(stage.fleet.offsets.relocate(name, None))
    stage.append(name, "more")
    stage.await_all_read(name)
    # By now the topic holds an older position. A stopped source stays stopped.
    stage.apply(stage.fleet.connectors.stop([name]))
    already = stage.read(name, 51)
    planned = stage.fleet.offsets.relocate(name, own)
    assert [step.kind for step in planned.plan.steps][-1] == "put-config"
    stage.apply(planned)
    stage.apply(stage.fleet.connectors.resume([name]))
    stage.append(name, "last")
    stage.await_all_read(name)
    assert set(stage.read(name, len(already) + 1)[len(already) :]) == {"last"}


def test_what_can_not_have_an_offsets_topic_is_refused(stage):
    sink = stage.create(kind=SINK)
    call_until(
        f"{stage.endpoint.urls[0]}/connectors/{sink}/status", lambda status, answer: status == 200 and answer["tasks"]
    )
    with pytest.raises(UnsupportedError, match="can't have an offsets topic of its own"):
        stage.fleet.offsets.relocate(sink, "anything")
    with pytest.raises(UnsupportedError, match="has no offsets topic"):
        stage.fleet.offsets.relocate("group/x", "anything")
    source = stage.create()
    stage.append(source, "line")
    stage.await_all_read(source)
    with pytest.raises(RefusedError, match=r"refusing to write records to topic .*, which is used by Connect cluster"):
        stage.fleet.offsets.relocate(source, stage.endpoint.config_topic)
    with pytest.raises(RefusedError, match="is not compacted"):
        stage.fleet.offsets.relocate(source, source)
