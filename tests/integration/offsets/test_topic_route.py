"""Offsets whose keys REST can't reach are written to their topic: to the byte, read by the task, and put back."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from seamark.devstack import StackSpec, start_stack
from seamark.devstack.client import ask
from seamark.devstack.java import find_java
from seamark.errors import RefusedError
from seamark.offsets.codec.codec import encode_key, encode_rest_key
from seamark.offsets.model import OffsetAnomaly, WriteRoute
from tests.integration.offset_rig import OffsetRig, without_tombstones
from tests.integration.waits import wait_for

SOURCE = Path(__file__).parent / "java" / "OrderedSource.java"
CLASS = "seamark.test.OrderedSource"
LIMIT = 40
# The first test waits for the servers, and on a busy machine for the restart of a worker.
pytestmark = pytest.mark.timeout(900)


def build_plugin(libs, target):
    """The connector that keeps the fields of its partition in an order of its own."""
    classes = target.parent / "classes"
    javac, jar = (str(Path(find_java()).with_name(tool)) for tool in ("javac", "jar"))
    command = [javac, "--release", "17", "-Xlint:all", "-Werror", "-classpath", f"{libs}/*", "-d", str(classes)]
    subprocess.run([*command, str(SOURCE)], check=True, timeout=120)
    manifest = classes / "META-INF" / "services" / "org.apache.kafka.connect.source.SourceConnector"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(f"{CLASS}\n")
    target.mkdir(parents=True)
    archive = str(target / "ordered-source.jar")
    subprocess.run([jar, "--create", "--file", archive, "-C", str(classes), "."], check=True, timeout=120)


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory):
    with start_stack(StackSpec(brokers=1, workers=1), name="topic-route") as stack:
        built = tmp_path_factory.mktemp("plugin") / "ordered-source"
        build_plugin(stack.kafka.libs, built)
        lines = Path(stack.connect["connect"].worker_config).read_text().splitlines()
        path = next(line.partition("=")[2] for line in lines if line.startswith("plugin.path="))
        shutil.copytree(built, Path(path) / built.name)
        ask(Path(stack.folder), "restart", "worker-1")
        yield stack


@pytest.fixture
def rig(own_stack, tmp_path):
    made = OffsetRig(own_stack, tmp_path)
    yield made
    made.close()


class Counting:
    """A connector that has counted to its limit and stopped, and its one key."""

    def __init__(self, rig, word, **config):
        self.rig, self.name, self.topic = rig, rig.name(word), rig.name(f"{word}-numbers")
        self.partition = {"topic": self.topic, "shard": 1, "area": "north"}
        self.key = encode_key(self.name, self.partition)
        self.rest_key = encode_rest_key(self.name, self.partition)
        assert self.key != self.rest_key
        rig.brokers.make_topic(self.topic, partitions=1, **{"cleanup.policy": "delete"})
        whole = {"connector.class": CLASS, "tasks.max": "1", "topic": self.topic, "limit": str(LIMIT), **config}
        rig.client.create_connector(self.name, whole)
        self.own = config.get("offsets.storage.topic")
        self.await_count(LIMIT)
        rig.stop(self.name)

    def await_count(self, count):
        """Wait until the task has written its position under its own key."""
        value = json.dumps({"count": count}, separators=(",", ":")).encode()

        def read():
            return set(self.rig.read_raw(self.name, topic=self.own).values())

        wait_for(read, lambda values: value in values, f"{self.name} to hold {count}")

    def numbers(self):
        return self.rig.brokers.read_values(self.topic)

    def move(self, to):
        return self.rig.plan(lambda: self.rig.fleet.offsets.move(self.name, to={"count": to}))


def find_write(planned):
    """The step that writes."""
    (step,) = [step for step in planned.steps if step.kind == "write-offsets"]
    return step


def test_position_under_the_tasks_own_key_is_moved_resumed_from_and_put_back(rig):
    source = Counting(rig, "ordered")
    before = rig.read_raw(source.name)
    ((place, value),) = before.items()
    assert (place[1], value) == (source.key, b'{"count":%d}' % LIMIT)
    # REST asks for another spelling, and finds nothing.
    (told,) = rig.client.read_offsets(source.name)
    assert told.offset is None

    planned = source.move(25)
    assert find_write(planned).route is WriteRoute.TOPIC
    assert "in its topic" in str([step.describe() for step in planned.steps])
    result = rig.apply(planned)
    assert rig.read_raw(source.name) == {place: b'{"count":25}'}

    rig.client.resume(source.name)
    wait_for(source.numbers, lambda seen: len(seen) >= LIMIT + 15, "the task to go on from 25")
    source.await_count(LIMIT)
    rig.stop(source.name)
    assert source.numbers() == [*range(1, LIMIT + 1), *range(26, LIMIT + 1)]

    # By now it stands where it stood: the undo has nothing to do, and one from elsewhere has.
    assert rig.fleet.undo(result.change).is_empty
    result = rig.apply(source.move(3))
    assert rig.read_raw(source.name) == {place: b'{"count":3}'}
    rig.undo(result)
    assert rig.read_raw(source.name) == before


def test_position_is_forgotten_in_the_topic_and_comes_back(rig):
    source = Counting(rig, "forgotten")
    before = rig.read_raw(source.name)
    planned = rig.fleet.offsets.reset(source.name)
    assert find_write(planned).route is WriteRoute.TOPIC
    result = rig.apply(planned)
    assert rig.read_raw(source.name) == dict.fromkeys(before)
    assert rig.fleet.offsets.get(source.name).offsets == ()
    rig.undo(result)
    assert rig.read_raw(source.name) == before


def test_both_topics_of_a_connector_with_its_own_are_written_and_put_back(rig):
    own = rig.brokers.make_topic(rig.name("own-offsets"))
    source = Counting(rig, "own", **{"offsets.storage.topic": own})
    before = [rig.read_raw(source.name, topic=topic) for topic in (own, None)]
    assert [list(found.values()) for found in before] == [[b'{"count":%d}' % LIMIT]] * 2
    planned = source.move(30)
    assert [record.topic for record in find_write(planned).records] == [rig.endpoint.offsets_topic, own]
    result = rig.apply(planned)
    after = [rig.read_raw(source.name, topic=topic) for topic in (own, None)]
    assert after == [dict.fromkeys(found, b'{"count":30}') for found in before]
    rig.undo(result)
    assert [rig.read_raw(source.name, topic=topic) for topic in (own, None)] == before
    rig.apply(source.move(38))
    rig.client.resume(source.name)
    wait_for(source.numbers, lambda seen: len(seen) == LIMIT + 2, "the task to go on from 38")


def test_two_spellings_that_agree_move_together_and_two_that_differ_do_not(rig):
    source = Counting(rig, "variants")
    held = b'{"count":%d}' % LIMIT
    rig.write_raw(source.rest_key, held)
    both = rig.read_raw(source.name)
    assert sorted(both.values()) == [held, held]
    result = rig.apply(source.move(10))
    assert rig.read_raw(source.name) == dict.fromkeys(both, b'{"count":10}')
    rig.undo(result)
    assert rig.read_raw(source.name) == both

    # As if somebody had used curl: which one the task reads, only its plugin knows.
    rig.write_raw(source.rest_key, b'{"count":7}')
    differing = rig.read_raw(source.name)
    with pytest.raises(RefusedError, match="can't determine which record") as caught:
        source.move(10)
    assert source.name in caught.value.message
    assert "connect-offsets-" in caught.value.cause
    assert rig.read_raw(source.name) == differing


def test_stray_moves_with_its_twin_so_that_a_restart_finds_what_was_written(rig):
    source = Counting(rig, "stray")
    held = b'{"count":%d}' % LIMIT
    rig.write_raw(source.key, held, aside=1)
    both = rig.read_raw(source.name)
    assert list(both.values()) == [held, held]
    rig.apply(source.move(20))
    assert rig.read_raw(source.name) == dict.fromkeys(both, b'{"count":20}')
    ask(Path(rig.stack.folder), "restart", "worker-1")
    rig.client.resume(source.name)
    wait_for(source.numbers, lambda seen: len(seen) >= LIMIT + 20, "the task to go on from 20")
    rig.stop(source.name)
    assert source.numbers() == [*range(1, LIMIT + 1), *range(21, LIMIT + 1)]

    # It has written at home alone since, so now the two differ.
    wait_for(lambda: set(rig.read_raw(source.name).values()), lambda found: len(found) == 2, "the two to differ")
    with pytest.raises(RefusedError, match="can't determine which record"):
        source.move(5)


def make_file_source(rig, word):
    """A stopped source whose key REST spells as its task does."""
    name, file = rig.name(word), rig.folder / f"{word}.txt"
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": name}
    rig.client.create_connector(name, config, initial_state="STOPPED")
    # Right behind a create Connect has no status yet.
    rig.stop(name)
    return name, encode_key(name, {"filename": str(file)})


def test_rest_is_not_used_where_a_record_strayed(rig):
    name, key = make_file_source(rig, "alone")
    place = rig.write_raw(key, b'{"position":5}', aside=1)
    assert [found.anomaly for found in rig.fleet.offsets.get(name).findings] == [OffsetAnomaly.MISPLACED]
    planned = rig.fleet.offsets.move(name, to=9)
    assert find_write(planned).route is WriteRoute.TOPIC
    result = rig.apply(planned)
    # REST would have written a second one, and a restarted worker may have found either.
    assert rig.read_raw(name) == {place: b'{"position":9}'}
    rig.undo(result)
    assert rig.read_raw(name) == {place: b'{"position":5}'}


def test_key_that_no_task_spells_is_not_moved_in_vain(rig):
    name, key = make_file_source(rig, "spaced")
    spaced = key.replace(b",{", b", {")
    place = rig.write_raw(spaced, b'{"position":5}')
    with pytest.raises(RefusedError, match="can't determine which record") as caught:
        rig.fleet.offsets.move(name, to=9)
    assert "never read" in caught.value.cause
    # Beside one that is read it stays as it is.
    home = rig.write_raw(key, b'{"position":6}')
    planned = rig.fleet.offsets.move(name, to=9)
    assert find_write(planned).route is WriteRoute.REST
    rig.apply(planned)
    assert rig.read_raw(name) == {place: b'{"position":5}', home: b'{"position":9}'}


def test_bytes_of_the_value_come_back_as_odd_as_they_were(rig):
    source = Counting(rig, "odd")
    odd = b'{ "count" : 4.0e1,"count":40 }'
    rig.write_raw(source.key, odd)
    before = rig.read_raw(source.name)
    result = rig.apply(source.move(11))
    assert set(rig.read_raw(source.name).values()) == {b'{"count":11}'}
    rig.undo(result)
    assert rig.read_raw(source.name) == before
    assert set(before.values()) == {odd}


def test_task_that_has_not_heard_of_the_stop_is_kept_from_writing(own_stack, tmp_path):
    """With exactly-once Connect does so before its own write; by the topic seamark must."""
    rig = OffsetRig(own_stack, tmp_path, exactly_once=True)
    try:
        source = Counting(rig, "fenced")
        (place,) = rig.read_raw(source.name)
        zombie = Producer(
            {
                "bootstrap.servers": own_stack.kafka.bootstrap_servers,
                "transactional.id": f"{rig.endpoint.group_id}-{source.name}-0",
            }
        )
        zombie.init_transactions(30)
        rig.apply(source.move(12))
        # As a task that stood still goes on.
        zombie.begin_transaction()
        zombie.produce(rig.endpoint.offsets_topic, key=source.key, value=b'{"count":99}', partition=place[0])
        with pytest.raises(KafkaException) as caught:
            zombie.commit_transaction(30)
        assert caught.value.args[0].name() in {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
        assert without_tombstones(rig.read_raw(source.name)) == {place: b'{"count":12}'}
    finally:
        rig.close()
