"""Offsets that connectors left behind are taken away, and nothing else is; undo puts every byte back."""

from __future__ import annotations

import io
import json
from contextlib import ExitStack, contextmanager
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import seamark
from seamark.changes.setup import make_setup
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.connect.client import ConnectClient
from seamark.context import open_context
from seamark.errors import NotFoundError, RefusedError
from seamark.kafka.partitioner import choose_partition
from seamark.offsets.read.export_file import check_export
from tests.fakes.connect import FILE_SOURCE
from tests.integration.waits import await_topic, wait_for

PARTITIONS = 5
ORPHANS = 1000


class Ground:
    """A Connect cluster that is told another offsets topic than it has: what lies there is nobody else's."""

    def __init__(self, stack, folder):
        self.run = f"p{uuid4().hex[:8]}"
        self.topic = f"{self.run}-offsets"
        self.bootstrap = stack.kafka.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.admin.create_topics([NewTopic(self.topic, PARTITIONS, 3, config={"cleanup.policy": "compact"})])[
            self.topic
        ].result(30)
        await_topic(self.admin, self.topic, PARTITIONS)
        self.client = ConnectClient(stack.connect["connect"].urls)
        self.file = folder / "seamark.yaml"
        context = {
            "kafka": {"bootstrap.servers": self.bootstrap},
            "connect": {
                "connect": {
                    "urls": list(stack.connect["connect"].urls),
                    "group_id": self.run,
                    "offsets_topic": self.topic,
                }
            },
            "journal": "file",
            "journal_folder": str(folder / "journal"),
        }
        self.file.write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        self.names = []

    @contextmanager
    def fleet(self):
        opened = open_context(environ={"SEAMARK_CONFIG": str(self.file)})
        make_setup(opened)
        with seamark.Fleet(opened) as fleet:
            yield fleet

    def write(self, connector, partition, position, *, spaced=False, stray=False):
        """A record, as Connect spells it or not, at home or not."""
        separators = (", ", ": ") if spaced else (",", ":")
        key = json.dumps([connector, partition], separators=separators).encode()
        home = choose_partition(key, partitions=PARTITIONS)
        value = None if position is None else json.dumps({"position": position}).encode()
        self.producer.produce(self.topic, key=key, value=value, partition=(home + stray) % PARTITIONS)
        self.producer.poll(0)

    def create(self, word):
        name = f"{self.run}-{word}"
        config = {"connector.class": FILE_SOURCE, "file": "/nowhere", "topic": self.run}
        self.client.create_connector(name, config, initial_state="STOPPED")
        self.names.append(name)
        # One that a worker does not list yet, for want of a status, would be one that is gone.
        with ExitStack() as opened:
            each = [opened.enter_context(ConnectClient((url,))) for url in self.client.urls]
            wait_for(lambda: [is_listed(name, one) for one in each], all, f"every worker to list {name}")
        return name

    def read(self):
        """The newest value of every key on every partition, to the byte; what has none is not there."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.run, "enable.auto.commit": False})
        held = {}
        try:
            for number in range(PARTITIONS):
                _, end = consumer.get_watermark_offsets(TopicPartition(self.topic, number), timeout=30)
                consumer.assign([TopicPartition(self.topic, number, 0)])
                while end and consumer.position([TopicPartition(self.topic, number)])[0].offset < end:
                    for record in consumer.consume(1000, timeout=5):
                        assert record.error() is None
                        held[number, record.key()] = record.value()
        finally:
            consumer.close()
        return {place: value for place, value in held.items() if value is not None}

    def close(self):
        for name in self.names:
            self.client.delete_connector(name)
        self.client.close()
        self.admin.delete_topics([self.topic])[self.topic].result(30)


def is_listed(name, client):
    return name in [found.name for found in client.read_connectors()]


@pytest.fixture
def ground(stack, tmp_path):
    made = Ground(stack, tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(400)
def test_a_thousand_orphans_are_taken_away_and_every_other_key_stays(ground):
    lives = ground.create("lives")
    for number in range(ORPHANS):
        ground.write(f"{ground.run}-gone-{number}", {"filename": f"f{number}"}, number)
    # Everything that is odd about keys, of a connector that is there and of one that is gone.
    for name in (lives, f"{ground.run}-gone-0"):
        ground.write(name, {"filename": "a"}, 1)
        ground.write(name, {"filename": "b", "more": 2}, 2, spaced=True)
        ground.write(name, {"filename": "c"}, 3, stray=True)
        ground.write(name, {"filename": "d"}, None)
    ground.producer.produce(ground.topic, key=b"not JSON", value=b"{}")
    ground.producer.produce(ground.topic, key=b'"name"', value=b"{}")
    assert ground.producer.flush(60) == 0
    before = ground.read()
    gone = {place for place in before if b"-gone-" in place[1]}
    assert len(gone) == ORPHANS + 3
    assert len(before) == ORPHANS + 3 + 3 + 2

    with ground.fleet() as fleet:
        assert len(fleet.offsets.orphans().items) == ORPHANS
        planned = fleet.offsets.purge(everything=True)
        assert len(planned.effects) == ORPHANS
        result = fleet.apply(planned)
        assert result.is_done, result.failures
        assert ground.read() == {place: value for place, value in before.items() if place not in gone}
        assert fleet.offsets.orphans().items == ()
        undone = fleet.apply(fleet.undo(result))
        assert undone.is_done, undone.failures
    assert ground.read() == before


def test_one_that_came_back_is_left_alone(ground):
    name = f"{ground.run}-back"
    ground.write(name, {"filename": "a"}, 7)
    assert ground.producer.flush(60) == 0
    before = ground.read()
    with ground.fleet() as fleet:
        planned = fleet.offsets.purge([name])
        ground.create("back")
        result = fleet.apply(planned)
        assert not result.is_done
        assert any("created meanwhile" in error.message for error in result.failures.values()), result.failures
        with pytest.raises(NotFoundError, match="has no orphaned offsets"):
            fleet.offsets.purge([f"connect/{name}"])
    assert ground.read() == before


def test_what_was_taken_away_is_not_written_under_one_that_came_back(ground):
    name = f"{ground.run}-again"
    ground.write(name, {"filename": "a"}, 7)
    assert ground.producer.flush(60) == 0
    with ground.fleet() as fleet:
        result = fleet.apply(fleet.offsets.purge([name]))
        assert result.is_done, result.failures
        ground.create("again")
        undone = fleet.apply(fleet.undo(result))
        assert not undone.is_done
        assert all(isinstance(error, RefusedError) for error in undone.failures.values())
    assert ground.read() == {}


def test_the_command_backs_up_shows_and_asks(ground, tmp_path):
    for word in ("x", "y"):
        ground.write(f"{ground.run}-{word}", {"filename": word}, 3)
    assert ground.producer.flush(60) == 0
    before = ground.read()
    backup = tmp_path / "backup.json"
    # Nothing is that old: a purge of every night finds nothing to do, and nothing to keep.
    code, out, err = run_command(
        ground, "offsets", "purge", "--all", "--older-than", "1h", "--backup", str(backup), "--yes"
    )
    assert code == 0, err
    assert not backup.exists()
    assert ground.read() == before
    code, out, err = run_command(ground, "offsets", "purge", "--all", "--backup", str(backup), "--yes")
    assert code == 0, err
    assert f"offsets/connect/{ground.run}-x" in out
    assert ground.read() == {}
    check = check_export(backup)
    assert (check.owners, check.offsets, check.problems) == (2, 2, ())
    assert len(before) == 2


def run_command(ground, *words):
    out, err = io.StringIO(), io.StringIO()
    with ground.fleet() as fleet:
        code = execute(list(words), session=Session(out=out, err=err, open_fleet=lambda _: fleet))
    return code, out.getvalue(), err.getvalue()
