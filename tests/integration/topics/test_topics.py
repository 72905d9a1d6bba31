"""Topics on real servers, through the command line: each verb, what it refuses, and the way back."""

from __future__ import annotations

import io
import json
import os
import runpy
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import seamark
from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.errors import NotFoundError
from seamark.kafka.brokers import Brokers
from seamark.kafka.groups import Committed
from tests.integration.kafka_tools import run_tool
from tests.integration.rest import DEADLINE_SECONDS, call, call_until
from tests.integration.waits import IN_A_ROW

EXAMPLE = Path(__file__).parents[3] / "examples" / "delete_topic.py"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


@dataclass
class Ended:
    code: int
    out: str
    err: str


class Typing(io.StringIO):
    """A terminal on which somebody types."""

    def isatty(self):
        return True


class Desk:
    """An operator's place: a context with a journal in a folder, names of its own, and command lines."""

    def __init__(self, stack, folder):
        self.folder = folder
        self.endpoint = stack.connect["connect"]
        self.name = f"topics-{uuid.uuid4().hex[:8]}"
        self.kafka = {"bootstrap.servers": stack.kafka.bootstrap_servers}
        self.brokers = Brokers(self.kafka)
        workers = {"urls": list(self.endpoint.urls), "worker_config": self.endpoint.worker_config}
        context = {
            "journal": "file",
            "journal_folder": str(folder / "journal"),
            "policy": {"files": ["/**"]},
            "kafka": self.kafka,
            "connect": {"connect": workers},
        }
        (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))

    def run(self, *argv, typed=None):
        """One command line in this process."""
        out, err = io.StringIO(), io.StringIO()
        stdin = io.StringIO() if typed is None else Typing(typed)
        code = execute(argv, session=Session(out=out, err=err, stdin=stdin))
        return Ended(code, out.getvalue(), err.getvalue())

    def must(self, *argv, typed=None):
        ended = self.run(*argv, typed=typed)
        assert ended.code == 0, ended.out + ended.err
        return ended

    def create(self, name, *argv, partitions):
        """A topic that every broker knows: each hears of it in its own time, and any of them may be asked."""
        made = self.must("topics", "create", name, "--partitions", str(partitions), *argv, "-y")
        self.await_topic(name, partitions)
        return made

    def await_topic(self, name, partitions):
        def is_there():
            found = self.brokers.read_topics([name]).items
            return bool(found) and len(found[0].led_spots) == partitions

        wait_until(lambda: all(is_there() for _ in range(IN_A_ROW)), f"every broker to know {name}")

    def await_gone(self, name):
        wait_until(
            lambda: not any(self.brokers.read_topics([name]).items for _ in range(IN_A_ROW)),
            f"every broker to forget {name}",
        )

    def await_configs(self, name, wanted):
        """Until every broker tells these configs of its own."""
        wait_until(
            lambda: all(self.brokers.read_topics([name]).items[0].own_configs == wanted for _ in range(IN_A_ROW)),
            f"every broker to tell {wanted} of {name}",
        )

    def show(self, name):
        return json.loads(self.must("topics", "show", name, "-o", "json").out)

    def undo(self):
        newest = self.must("journal", "list", "--limit", "1", "-o", "name").out.strip()
        return self.must("journal", "undo", newest, "--yes")

    def produce(self, topic, records, *, partition=0, timestamp=0):
        producer = Producer(self.kafka)
        for key, value in records:
            producer.produce(topic, key=key, value=value, partition=partition, timestamp=timestamp)
        assert producer.flush(30) == 0, f"records were not written to {topic} within 30 s"

    def commit(self, group, topic, at, *, partition=0):
        consumer = Consumer({**self.kafka, "group.id": group, "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition(topic, partition, at)], asynchronous=False)
        consumer.close()

    def committed(self, group, topic):
        (found,) = self.brokers.read_committed({group: None}).items
        return found.offsets[topic, 0].offset if (topic, 0) in found.offsets else None

    def is_quiet(self, group):
        return self.brokers.read_groups([group]).items[0].is_quiet

    def delete_before(self, topic, offset, *, partition):
        admin = AdminClient(self.kafka)  # the answer comes only while somebody holds it
        futures = admin.delete_records([TopicPartition(topic, partition, offset)])
        assert [future.result(30).low_watermark for future in futures.values()] == [offset]

    def url(self, name, path=""):
        return f"{self.endpoint.urls[0]}/connectors/{name}{path}"

    def create_sink(self, name, topic):
        config = {"connector.class": SINK, "tasks.max": "1", "topics": topic, "file": str(self.folder / "out.txt")}
        config |= dict.fromkeys(
            ("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter"
        )
        call_until(self.url(name, "/config"), lambda status, _: status in {200, 201}, method="PUT", body=config)
        call_until(
            self.url(name, "/status"),
            lambda status, found: status == 200 and [task["state"] for task in found["tasks"]] == ["RUNNING"],
        )

    def clean(self):
        listed = call_until(self.url("").rstrip("/"), lambda status, _: status == 200)
        for name in [name for name in listed if name.startswith(self.name)]:
            call_until(self.url(name), lambda status, _: status in {204, 404}, method="DELETE")
        for group in [found.name for found in self.brokers.read_consumer_groups() if self.name in found.name]:
            wait_until(lambda group=group: self.is_quiet(group), f"the group {group} to be empty")
            with suppress(NotFoundError):
                self.brokers.delete_group(group)
        mine = [found.name for found in self.brokers.read_all_topics() if found.name.startswith(self.name)]
        for topic in mine:
            # A broker may still list what the test has deleted.
            with suppress(NotFoundError):
                self.brokers.delete_topic(topic)
        self.brokers.close()


@pytest.fixture
def desk(stack, tmp_path, monkeypatch):
    for key in [key for key in os.environ if key.startswith("SEAMARK_")]:
        monkeypatch.delenv(key)
    made = Desk(stack, tmp_path)
    monkeypatch.setenv("SEAMARK_CONFIG", str(tmp_path / "seamark.yaml"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield made
    made.clean()


def wait_until(is_done, what):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_done():
        assert time.monotonic() < deadline, f"waited {DEADLINE_SECONDS} s for {what}"
        time.sleep(0.2)


def test_a_topic_is_created_looked_at_altered_grown_and_deleted(stack, desk):
    name = desk.name
    made = desk.create(name, "--replication-factor", "3", "--config", "retention.ms=86400000", partitions=2)
    assert f"+ topic/{name}" in made.out
    desk.produce(name, [(b"k", b"value")] * 5, partition=1)

    (row,) = json.loads(desk.must("topics", "list", name, "--sizes", "-o", "json").out)["items"]
    assert (row["partitions"], row["replication"], row["health"], row["records"]) == (2, 3, "HEALTHY", 5)
    assert row["bytes"] > 0
    body = desk.show(name)
    first, second = body["partitions"]
    assert [first["earliest"], first["latest"], second["earliest"], second["latest"]] == [0, 0, 0, 5]
    assert sorted(first["isr"]) == sorted(first["replicas"]) == [1, 2, 3]
    assert first["leader"] == first["replicas"][0]
    assert body["configs"] == {"retention.ms": "86400000"}
    # The same as Kafka's own program, which tells also what the brokers set for every topic.
    told = run_tool(stack, "TopicCommand", "--describe", "--topic", name)
    assert told.count(f"Topic: {name}") == 3
    configs = dict(pair.split("=") for pair in told.split("Configs: ")[1].split("\n")[0].strip().split(","))
    assert body["changed_configs"] == configs

    desk.must("topics", "update", name, "--config", "cleanup.policy=compact", "--unset", "retention.ms", "-y")
    desk.await_configs(name, {"cleanup.policy": "compact"})
    assert desk.show(name)["configs"] == {"cleanup.policy": "compact"}
    desk.undo()
    desk.await_configs(name, {"retention.ms": "86400000"})
    assert desk.show(name)["configs"] == {"retention.ms": "86400000"}

    grown = desk.must("topics", "add-partitions", name, "--total", "4", "-y")
    assert "add 2 partitions, permanently" in grown.out
    desk.await_topic(name, 4)
    assert [found["partition"] for found in desk.show(name)["partitions"]] == [0, 1, 2, 3]
    shrunk = desk.run("topics", "add-partitions", name, "--total", "1", "-y")
    assert shrunk.code == 5
    assert f"seamark copies plan {name} --partitions 4:1" in shrunk.err

    unasked = desk.run("topics", "delete", name)
    assert unasked.code == 64
    mistyped = desk.run("topics", "delete", name, typed="yes\n")
    assert (mistyped.code, "not confirmed" in mistyped.err) == (130, True), mistyped.err
    gone = desk.must("topics", "delete", name, typed=f"{name}\n")
    assert f"Type {name} to continue" in gone.err
    assert "5 records in 4 partitions, permanently" in gone.out
    assert "journal undo" not in gone.out
    desk.await_gone(name)
    assert desk.run("topics", "show", name).code == NotFoundError.exit_code


def test_a_new_topic_is_taken_back_only_while_it_is_empty(desk):
    desk.create(desk.name, partitions=1)
    desk.undo()
    desk.await_gone(desk.name)
    assert desk.run("topics", "show", desk.name).code == NotFoundError.exit_code
    desk.create(desk.name, partitions=1)
    desk.produce(desk.name, [(None, b"x")])
    newest = desk.must("journal", "list", "--limit", "1", "-o", "name").out.strip()
    refused = desk.run("journal", "undo", newest, "--yes")
    assert refused.code == 5
    assert f"seamark topics delete {desk.name}" in refused.err
    assert desk.show(desk.name)["records"] == 1


def test_the_delete_names_the_group_and_keeps_what_it_had_committed(desk):
    name, group = desk.name, f"group-{desk.name}"
    desk.create(name, partitions=1)
    desk.produce(name, [(None, b"x")] * 3)
    desk.commit(group, name, 2)
    done = desk.must("topics", "delete", name, "--yes")
    assert f"group/{group} has committed offsets on it (EMPTY)" in done.out
    assert f"the journal keeps the committed offsets of group/{group}" in done.out
    change = desk.must("journal", "list", "--limit", "1", "-o", "name").out.strip()
    exported = desk.must("journal", "export", change).out
    kept = [entry["body"]["extra"] for entry in map(json.loads, exported.splitlines()) if entry["body"].get("extra")]
    assert [found["groups"][group]["0"]["offset"] for found in kept] == [2]
    assert kept[0]["bounds"] == {"0": [0, 3]}
    refused = desk.run("journal", "undo", change, "--yes")
    assert refused.code == 5
    assert "records are deleted" in refused.err


def test_a_topic_that_a_running_sink_reads_is_neither_deleted_nor_grown_unsaid(desk):
    name, sink = desk.name, f"{desk.name}-sink"
    desk.create(name, "--config", "cleanup.policy=compact", partitions=1)
    desk.produce(name, [(b"k", b"one"), (b"k", b"two")])
    desk.create_sink(sink, name)

    def is_refused():
        refused = desk.run("topics", "delete", name, "--yes")
        assert refused.code == 5
        assert f"seamark connectors stop connect/{sink}" in refused.err
        return f"connector/connect/{sink} reads it (RUNNING)" in refused.err

    # In a neighbour's rebalance it shows UNASSIGNED for a moment.
    wait_until(is_refused, f"{sink} to be named as the one that reads it")

    planned = desk.must("topics", "add-partitions", name, "--total", "3", "--dry-run").out
    assert f"topic/{name} is compacted, so every record has a key" in planned
    assert f"connector/connect/{sink}" in planned.split("is compacted")[1]

    desk.must("connectors", "stop", f"connect/{sink}", "--yes")
    wait_until(lambda: desk.is_quiet(f"connect-{sink}"), "the sink's group to be empty")
    ended = []

    def is_deleted():
        ended.append(desk.run("topics", "delete", name, "--yes"))
        return ended[-1].code == 0

    # A neighbour's rebalance hides for a moment that the sink is stopped: then it is refused.
    wait_until(is_deleted, f"{name} to be deleted")
    assert f"connector/connect/{sink} reads it (STOPPED)" in ended[-1].out


def test_topics_of_a_spec_come_before_its_connectors(desk):
    name, source = desk.name, f"{desk.name}-source"
    (desk.folder / "in.txt").write_text("one\ntwo\n")
    spec = desk.folder / "spec"
    spec.mkdir()
    config = {"connector.class": SOURCE, "tasks.max": 1, "file": str(desk.folder / "in.txt"), "topic": name}

    def write(partitions, retention):
        topics = {name: {"partitions": partitions, "replication_factor": 2, "config": {"retention.ms": retention}}}
        body = {"connectors": [{"name": source, "config": config}], "topics": topics}
        (spec / "game.yaml").write_text(json.dumps(body))

    write(2, 600000)
    first = desk.must("apply", "-f", str(spec), "--yes").out
    assert first.index(f"topic/{name}") < first.index(f"connector/connect/{source}")
    desk.await_topic(name, 2)
    assert (len(desk.show(name)["partitions"]), desk.show(name)["configs"]) == (2, {"retention.ms": "600000"})
    change = desk.must("journal", "list", "--limit", "1", "-o", "name").out.strip()
    entries = [json.loads(line) for line in desk.must("journal", "export", change).out.splitlines()]
    steps = [step["subject"] for step in entries[0]["body"]["plan"]["steps"]]
    begun = [steps[found["body"]["step"]] for found in entries if found["kind"] == "intent"]
    ended = [steps[found["body"]["step"]] for found in entries if found["kind"] == "outcome"]
    assert begun[0] == ended[0] == f"topic/{name}"
    assert f"connector/connect/{source}" in begun[1:]
    wait_until(lambda: desk.show(name)["records"] == 2, "the source to write its two lines")
    again = desk.run("plan", "-f", str(spec), "--detailed-exitcode")
    assert again.code == 0, again.out

    write(3, 700000)
    changed = desk.must("apply", "-f", str(spec), "--yes").out
    assert "add 1 partition, permanently" in changed
    desk.await_topic(name, 3)
    desk.await_configs(name, {"retention.ms": "700000"})
    assert (len(desk.show(name)["partitions"]), desk.show(name)["configs"]) == (3, {"retention.ms": "700000"})
    write(1, 700000)
    refused = desk.run("plan", "-f", str(spec))
    assert refused.code == 5
    assert f"seamark copies plan {name} --partitions 3:1" in refused.err


def test_health_names_what_readers_lose_and_will_lose(desk):
    """Old records are written with old timestamps; nothing else on these brokers can be aged."""
    name, sink = desk.name, f"{desk.name}-sink"
    now, day = int(time.time() * 1000), 86_400_000
    desk.create(name, "--config", f"retention.ms={10 * day}", "--replication-factor", "3", partitions=2)
    desk.produce(name, [(None, b"x")] * 6, timestamp=now - 9 * day)
    desk.produce(name, [(None, b"x")] * 4, timestamp=now)
    desk.produce(name, [(None, b"x")] * 5, partition=1, timestamp=now)
    desk.delete_before(name, 3, partition=1)
    late, lost, beyond = (f"{word}-{name}" for word in ("late", "lost", "beyond"))
    desk.commit(late, name, 2)
    desk.commit(lost, name, 1, partition=1)
    desk.commit(beyond, name, 50)
    # A sink that has read all, and is stopped: nothing was written that tells since when.
    old = f"{name}-old"
    desk.create(old, "--config", "retention.ms=-1", "--replication-factor", "3", partitions=1)
    desk.produce(old, [(None, b"x")] * 2, timestamp=now - 8 * day)
    desk.create_sink(sink, old)
    wait_until(lambda: desk.committed(f"connect-{sink}", old) == 2, "the sink to commit what it has read")
    desk.must("connectors", "stop", f"connect/{sink}", "--yes")
    wait_until(lambda: desk.is_quiet(f"connect-{sink}"), "the sink's group to be empty")

    ended = desk.run("topics", "health", f"{name}*", "-o", "json")
    assert ended.code == 0, ended.out + ended.err
    found = {(one["check"], one["reader"]): one for one in json.loads(ended.out)["items"]}
    assert sorted(found) == [
        ("offsets-expire", f"connector/connect/{sink}"),
        ("reader-nearly-passed", f"group/{late}"),
        ("reader-passed", f"group/{lost}"),
        ("recreated", f"group/{beyond}"),
    ]
    nearly = found["reader-nearly-passed", f"group/{late}"]
    assert (nearly["topic"], nearly["partitions"], nearly["severity"]) == (name, [0], "info")
    assert nearly["what"].startswith("4 records that ")
    passed = found["reader-passed", f"group/{lost}"]
    assert (passed["partitions"], passed["what"][:9]) == ([1], "2 records")
    assert "the committed offset is 50, but the log ends at 10" in found["recreated", f"group/{beyond}"]["what"]
    assert "the time since its last commit is unknown" in found["offsets-expire", f"connector/connect/{sink}"]["what"]
    # One record more, as old as those, and it has not read it: now there is a sign of when it stopped.
    desk.produce(old, [(None, b"x")], timestamp=now - 7 * day)
    again = json.loads(desk.must("topics", "health", old, "-o", "json").out)["items"]
    assert [(one["check"], one["severity"]) for one in again] == [("offsets-expire", "warning")]


def test_a_commit_of_an_epoch_that_is_not_yet_is_found(desk):
    desk.create(desk.name, "--replication-factor", "3", partitions=1)
    desk.produce(desk.name, [(None, b"x")] * 5)
    group = f"epoch-{desk.name}"
    desk.brokers.alter_group_offsets(group, {(desk.name, 0): Committed(3, leader_epoch=7)})
    (found,) = json.loads(desk.must("topics", "health", desk.name, "-o", "json").out)["items"]
    assert (found["check"], found["reader"]) == ("recreated", f"group/{group}")
    assert "the offset was committed in leader epoch 7, but the leader epoch is 0" in found["what"]


def test_health_ends_with_1_where_an_internal_topic_is_wrong(desk):
    offsets, configs = f"{desk.name}-offsets", f"{desk.name}-configs"
    desk.create(offsets, "--replication-factor", "3", partitions=1)
    desk.create(configs, "--replication-factor", "3", "--config", "cleanup.policy=compact", partitions=2)
    file = desk.folder / "seamark.yaml"
    body = json.loads(file.read_text())
    workers = body["contexts"]["dev"]["connect"]["connect"]
    workers |= {"offsets_topic": offsets, "config_topic": configs, "status_topic": f"{desk.name}-none"}
    file.write_text(json.dumps(body))
    ended = desk.run("topics", "health")
    assert ended.code == 1, ended.out
    for words in (
        f"✗ ERROR    cleanup.policy is delete instead of compact  (internal-topic)\n    where: {offsets}\n",
        f"✗ ERROR    the config topic has 2 partitions  (internal-topic)\n    where: {configs}\n",
        f"✗ ERROR    the topic does not exist  (internal-topic)\n    where: {desk.name}-none\n",
    ):
        assert words in ended.out
    # What it says to do is what helps.
    desk.must("topics", "update", offsets, "--config", "cleanup.policy=compact", "-y")
    desk.await_configs(offsets, {"cleanup.policy": "compact"})
    assert desk.must("topics", "health", offsets).code == 0


def test_the_example_shows_all_topics_and_deletes_one(desk, capsys):
    with seamark.open() as fleet:
        assert fleet.apply(fleet.topics.create(desk.name, partitions=1, replication_factor=1)).is_done
        desk.await_topic(desk.name, 1)
    desk.produce(desk.name, [(None, b"x")] * 4)
    runpy.run_path(str(EXAMPLE))["main"](desk.name)
    said = capsys.readouterr().out
    assert f"\n{desk.name} 4 " in f"\n{said}"
    assert "\ndone " in said
    with seamark.open() as fleet:
        wait_until(lambda: desk.name not in [topic.name for topic in fleet.topics.list()], "every broker to forget it")


def test_topics_that_connect_lives_on_are_left_alone(desk):
    for topic in (desk.endpoint.config_topic, "__consumer_offsets"):
        refused = desk.run("topics", "delete", topic, "--yes")
        assert (refused.code, "refusing to modify internal topic" in refused.err) == (5, True), refused.err
    assert call(f"{desk.endpoint.urls[0]}/connectors")[0] == 200
