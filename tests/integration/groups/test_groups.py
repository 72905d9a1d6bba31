"""Groups on real brokers: each move against what kafka-consumer-groups computes, each undone; and what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
import subprocess
import time
import warnings
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import KafkaAdminClient
    from kafka.structs import OffsetAndMetadata
    from kafka.structs import TopicPartition as SpotName

import seamark
from seamark.cli.main import execute
from seamark.cli.session import Session
from tests.integration.groups.group_cases import (
    CASES,
    DELETED,
    ENDS,
    FILES,
    FROM_GROUPS,
    HOUR_MS,
    MINUTE_MS,
    POSITIONS,
    RECORDS,
)
from tests.integration.kafka_tools import build_command, open_tools
from tests.integration.rest import call_until
from tests.integration.waits import await_topic

PATIENCE_SECONDS = 120.0


def wait_until(is_so, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS:g} s for {what}"
        time.sleep(0.1)


class Member:
    """A consumer in a group, until it is closed."""

    def __init__(self, address, group, topics, *, protocol):
        session = {"session.timeout.ms": 30000, "heartbeat.interval.ms": 1000} if protocol == "classic" else {}
        self._consumer = Consumer(
            {"bootstrap.servers": address, "group.id": group, "group.protocol": protocol, "client.id": "a-member"}
            | {"enable.auto.commit": False, "auto.offset.reset": "earliest", **session}
        )
        self._consumer.subscribe(topics)
        wait_until(self._is_assigned, f"a place in group {group}")

    def _is_assigned(self):
        self._consumer.poll(0.2)
        return bool(self._consumer.assignment())

    def commit(self, positions):
        spots = [TopicPartition(topic, number, offset) for (topic, number), offset in positions.items()]
        self._consumer.commit(offsets=spots, asynchronous=False)

    def close(self):
        self._consumer.close()


@dataclass
class Place:
    """Topics and groups of this test's own, on the shared brokers. Bare clients, so that nothing tests itself."""

    address: str
    token: str
    first_ms: int
    admin: AdminClient = field(init=False)
    second: KafkaAdminClient = field(init=False)

    def __post_init__(self):
        self.admin = AdminClient({"bootstrap.servers": self.address})
        # confluent_kafka ends metadata with a zero byte where it writes it, and hides one where it reads it.
        self.second = KafkaAdminClient(bootstrap_servers=self.address.split(","))

    def topic(self, short):
        return f"test-groups-{self.token}-{short}"

    def group(self, short):
        return f"test-groups-{self.token}-{short}"

    def spots(self, positions):
        """Positions by short names, by the names they have here."""
        return {(self.topic(topic), number): value for (topic, number), value in positions.items()}

    def fill(self, text):
        """A text of a case with the names and times of this place."""
        if text.startswith("{time:"):
            moment = self.first_ms + int(text[len("{time:") : -1])
            return datetime.fromtimestamp(moment / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        return text.replace("{t}", self.topic("t")).replace("{u}", self.topic("u"))

    def create(self):
        counts = {"t": 4, "u": 2}
        made = self.admin.create_topics([NewTopic(self.topic(name), count, 1) for name, count in counts.items()])
        for future in made.values():
            future.result(30)
        for name, count in counts.items():
            await_topic(self.admin, self.topic(name), count)
        producer = Producer({"bootstrap.servers": self.address, "acks": "all"})
        for (topic, number), count in RECORDS.items():
            for index in range(count):
                # All partitions end at the same time, an hour ago.
                moment = self.first_ms + MINUTE_MS * (19 - (count - 1 - index))
                producer.produce(self.topic(topic), b"v", partition=number, timestamp=moment)
        assert producer.flush(30) == 0
        spots = [TopicPartition(topic, number, at) for (topic, number), at in self.spots(DELETED).items()]
        for future in self.admin.delete_records(spots).values():
            future.result(30)
        for name, positions in POSITIONS.items():
            if name in {"classic", "consumer"}:
                member = Member(self.address, self.group(name), [self.topic("t"), self.topic("u")], protocol=name)
                try:
                    member.commit({spot: offset for spot, (offset, _) in self.spots(positions).items()})
                finally:
                    member.close()
            elif positions:
                self.commit(name, positions)
        wait_until(lambda: all(self.is_quiet(name) for name in ("classic", "consumer")), "the groups to be empty")

    def commit(self, group, positions):
        wanted = {
            SpotName(*spot): OffsetAndMetadata(offset, metadata, -1)
            for spot, (offset, metadata) in self.spots(positions).items()
        }
        answers = self.second.alter_group_offsets(self.group(group), wanted)
        assert [kind.errno for kind in answers.values()] == [0] * len(wanted)

    def is_quiet(self, group):
        return self.is_empty(self.group(group))

    def is_empty(self, name):
        (future,) = self.admin.describe_consumer_groups([name]).values()
        return future.result(30).state.name == "EMPTY"

    def read(self, group):
        return self.read_group(self.group(group))

    def read_group(self, name):
        """All that a group has committed: offset, metadata and leader epoch."""
        found = self.second.list_group_offsets(name)[name]
        return {
            (spot.topic, spot.partition): (held.offset, held.metadata, held.leader_epoch)
            for spot, held in found.items()
            if held.offset >= 0
        }

    def read_offsets(self, name, url=None):
        return {spot: held[0] for spot, held in self.read_group(name).items()}

    def clean(self):
        for future in self.admin.delete_topics([self.topic("t"), self.topic("u")]).values():
            future.result(30)
        for name in (*POSITIONS, "active-classic", "active-consumer", "share"):
            self.delete_group(self.group(name))
        self.second.close()

    def delete_group(self, name):
        """Whether the group is gone now."""
        (future,) = self.admin.delete_consumer_groups([name]).values()
        try:
            future.result(30)
        except KafkaException as failure:
            return failure.args[0].name() == "GROUP_ID_NOT_FOUND"
        return True


@pytest.fixture(scope="module")
def place(stack):
    # On the second: the other program's times have milliseconds, and ours must have the same.
    first_ms = int(time.time()) * 1000 - HOUR_MS - 19 * MINUTE_MS
    made = Place(stack.kafka.bootstrap_servers, secrets.token_hex(4), first_ms)
    try:
        made.create()
        yield made
    finally:
        made.clean()


@pytest.fixture(scope="module")
def tools(stack):
    with open_tools(stack) as opened:
        yield opened


@pytest.fixture(scope="module")
def environ(stack, tmp_path_factory):
    """A context with a journal of its own."""
    folder = tmp_path_factory.mktemp("groups")
    context = {
        "journal": "file",
        "journal_folder": str(folder / "journal"),
        "kafka": {"bootstrap.servers": stack.kafka.bootstrap_servers},
        "connect": {
            name: {"urls": list(found.urls), "worker_config": found.worker_config}
            for name, found in stack.connect.items()
        },
    }
    (folder / "seamark.yaml").write_text(json.dumps({"current": "dev", "contexts": {"dev": context}}))
    with pytest.MonkeyPatch.context() as patch:
        for key in [key for key in os.environ if key.startswith("SEAMARK_")]:
            patch.delenv(key)
        patch.setenv("SEAMARK_CONFIG", str(folder / "seamark.yaml"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield folder


@pytest.fixture(scope="module")
def fleet(environ):
    with seamark.open() as opened:
        yield opened


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    code = execute(argv, session=Session(out=out, err=err, stdin=io.StringIO()))
    return code, out.getvalue(), err.getvalue()


def compute(tools, group, *how):
    """What kafka-consumer-groups would commit: by partition, from its export. A dry run, as it says itself."""
    said = tools("ConsumerGroupCommand", "--reset-offsets", "--group", group, *how, "--dry-run", "--export")
    rows = [row for row in csv.reader(said.splitlines()) if len(row) == 3]
    return {(topic, int(number)): int(offset) for topic, number, offset in rows}


def plan_and_compute(plan, compute_theirs, *, is_by_clock):
    """Our plan, and what the other program would commit.

    Back from now is another record a minute later: where one got too old between the two, both are asked again.
    """
    while True:
        computed, planned = compute_theirs(), plan()
        if not is_by_clock or compute_theirs() == computed:
            return planned, computed


def check_moved_and_back(place, fleet, group, planned, computed):
    """Apply the plan: the group stands where the other program says; undo it: it stands as it stood."""
    before = place.read(group)
    if {spot: before[spot][0] for spot in computed if spot in before} == computed:
        assert planned.is_empty
        return
    result = fleet.apply(planned)
    assert result.is_done, result.failures
    after = place.read(group)
    assert {spot: after[spot][0] for spot in computed} == computed
    assert {spot: held for spot, held in after.items() if spot not in computed} == {
        spot: held for spot, held in before.items() if spot not in computed
    }
    undone = fleet.apply(fleet.undo(result))
    assert undone.is_done, undone.failures
    assert place.read(group) == before


def test_there_are_as_many_cases_as_are_claimed():
    """Each is a test of its own, so that one that is lost would not be missed."""
    assert len({case.name for case in CASES}) == len(CASES) >= 40
    assert len(CASES) + len(FILES) + len(FROM_GROUPS) >= 50


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_move_is_what_kafka_computes_and_is_undone(case, place, fleet, tools):
    topics = [place.fill(topic) for topic in case.topics]
    ours = {way: place.fill(value) if isinstance(value, str) else value for way, value in case.ours.items()}
    theirs = [*case.theirs, *([ours["to"]] if case.theirs[-1] == "--to-datetime" else [])]
    chosen = [part for topic in topics for part in ("--topic", topic)] or ["--all-topics"]
    assert place.read(case.group).keys() == place.spots(POSITIONS[case.group]).keys()
    planned, computed = plan_and_compute(
        lambda: fleet.groups.move(place.group(case.group), topics=topics, **ours),
        lambda: compute(tools, place.group(case.group), *theirs, *chosen),
        is_by_clock=str(ours.get("to", "")).startswith("-"),
    )
    assert computed
    assert computed.items() >= place.spots(case.expected).items()
    check_moved_and_back(place, fleet, case.group, planned, computed)


@pytest.mark.parametrize("name", FILES)
def test_a_move_from_a_file_is_what_kafka_computes_from_it(name, place, fleet, tools, tmp_path):
    group, how, to = FILES[name]
    text = tools(
        "ConsumerGroupCommand",
        *("--reset-offsets", "--group", place.group(group), *how, "--all-topics", "--dry-run", "--export"),
    )
    path = tmp_path / "export.csv"
    path.write_text("".join(f"{row}\n" for row in text.splitlines() if row.strip()))
    computed = compute(tools, place.group(to), "--from-file", str(path))
    assert computed.keys() == place.spots(POSITIONS[group]).keys()
    planned = fleet.groups.move(place.group(to), source=path)
    check_moved_and_back(place, fleet, to, planned, computed)


@pytest.mark.parametrize(("group", "source"), FROM_GROUPS)
def test_a_move_to_another_group_is_what_kafka_makes_of_its_export(group, source, place, fleet, tools, tmp_path):
    exported = compute(tools, place.group(source), "--to-current", "--all-topics")
    assert exported == {spot: offset for spot, (offset, _) in place.spots(POSITIONS[source]).items()}
    path = tmp_path / "export.csv"
    path.write_text("".join(f"{topic},{number},{offset}\n" for (topic, number), offset in exported.items()))
    computed = compute(tools, place.group(group), "--from-file", str(path))
    planned = fleet.groups.move(place.group(group), source=place.group(source))
    check_moved_and_back(place, fleet, group, planned, computed)


def compute_several(tools, names, *how):
    """What kafka-consumer-groups would commit for several groups: by group and partition."""
    chosen = [part for name in names for part in ("--group", name)]
    said = tools("ConsumerGroupCommand", "--reset-offsets", *chosen, *how, "--dry-run", "--export")
    rows = [row for row in csv.reader(said.splitlines()) if len(row) == 4]
    return {(group, topic, int(number)): int(offset) for group, topic, number, offset in rows}


def test_an_export_is_what_kafka_reads_and_writes(place, environ, tools, tmp_path):
    """One group without its name, several with it: in both directions, byte for byte the same offsets."""
    path = tmp_path / "offsets.csv"
    code, text, err = run("groups", "export", place.group("plain"))
    assert code == 0, err
    path.write_text(text)
    offsets = {spot: offset for spot, (offset, _) in place.spots(POSITIONS["plain"]).items()}
    assert compute(tools, place.group("plain"), "--from-file", str(path)) == offsets
    assert compute(tools, place.group("plain"), "--to-current", "--all-topics") == offsets
    # All groups with committed offsets that are within the log, because the other program clamps the rest.
    names = [place.group(name) for name in ("plain", "classic", "consumer")]
    code, text, err = run("groups", "export", *names)
    assert code == 0, err
    path.write_text(text)
    theirs = compute_several(tools, names, "--from-file", str(path))
    ours = {(name, *spot): offset for name in names for spot, (offset, *_) in place.read_group(name).items()}
    assert theirs == ours
    # What the other program exports of several groups moves them.
    said = tools(
        "ConsumerGroupCommand",
        *("--reset-offsets", *[part for name in names for part in ("--group", name)]),
        *("--to-earliest", "--all-topics", "--dry-run", "--export"),
    )
    path.write_text("".join(f"{row}\n" for row in said.splitlines() if row.strip()))
    before = {name: place.read_group(name) for name in names}
    code, _, err = run("groups", "move", f"test-groups-{place.token}-*", "--from-file", str(path), "--yes")
    assert code == 0, err
    now = {(name, *spot): offset for name in names for spot, offset in place.read_offsets(name).items()}
    assert now == compute_several(tools, names, "--to-earliest", "--all-topics")
    code, change, _ = run("journal", "list", "--limit", "1", "-o", "name")
    code, _, err = run("journal", "undo", change.strip(), "--yes")
    assert code == 0, err
    assert {name: place.read_group(name) for name in names} == before


def test_groups_of_a_glob_are_moved_in_one_plan(place, environ):
    before = {name: place.read(name) for name in POSITIONS}
    code, out, err = run("groups", "move", f"test-groups-{place.token}-[pc]*", "--to", "latest", "--yes")
    assert code == 0, err
    assert "move 3 groups" in out
    moved = {name: {spot: found[0] for spot, found in place.read(name).items()} for name in POSITIONS}
    for name, positions in before.items():
        ends = place.spots(ENDS)
        expected = name in {"plain", "classic", "consumer"}
        assert moved[name] == {spot: ends[spot] if expected else found[0] for spot, found in positions.items()}
    code, change, _ = run("journal", "list", "--limit", "1", "-o", "name")
    code, _, err = run("journal", "undo", change.strip(), "--yes")
    assert code == 0, err
    assert {name: place.read(name) for name in POSITIONS} == before


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_somebody_is_in_is_refused(protocol, place, environ):
    group = place.group(f"active-{protocol}")
    member = Member(place.address, group, [place.topic("t")], protocol=protocol)
    try:
        member.commit({(place.topic("t"), 0): 3})
        before = place.read(f"active-{protocol}")
        for command in (("move", group, "--to", "earliest"), ("delete", group)):
            code, out, err = run("groups", *command, "--yes")
            assert (code, out) == (5, "")
            assert f"group {group} is in use; no changes were made" in err
            assert "with 1 member" in err
        assert place.read(f"active-{protocol}") == before
        code, out, _ = run("groups", "show", group, "-o", "json")
        shown = json.loads(out)
        assert (code, shown["state"], shown["type"], len(shown["members"])) == (0, "STABLE", protocol, 1)
    finally:
        member.close()
    # Once it has left, the same is done, and undone by what the journal says.
    wait_until(lambda: place.is_quiet(f"active-{protocol}"), "the member to be gone")
    code, _, err = run("groups", "move", group, "--to", "earliest", "--yes")
    assert code == 0, err
    assert place.read(f"active-{protocol}")[place.topic("t"), 0][0] == 0
    code, change, _ = run("journal", "list", "--limit", "1", "-o", "name")
    code, _, err = run("journal", "undo", change.strip(), "--yes")
    assert code == 0, err
    assert place.read(f"active-{protocol}") == before
    # Deleted, and back with all that it had committed.
    assert run("groups", "delete", group, "--yes")[0] == 0
    assert place.read(f"active-{protocol}") == {}
    code, change, _ = run("journal", "list", "--limit", "1", "-o", "name")
    assert run("journal", "undo", change.strip(), "--yes")[0] == 0
    assert place.read(f"active-{protocol}") == before


def test_a_group_that_is_joined_after_the_plan_was_made_is_not_touched(place, fleet):
    planned = fleet.groups.move(place.group("lost"), to="earliest")
    before = place.read("lost")
    member = Member(place.address, place.group("lost"), [place.topic("u")], protocol="consumer")
    try:
        result = fleet.apply(planned)
        assert not result.is_done
        assert "is in use" in str(result.failures[f"group/{place.group('lost')}"])
        assert place.read("lost") == before
    finally:
        member.close()
    wait_until(lambda: place.is_quiet("lost"), "the member to be gone")


def test_a_share_group_is_listed_and_never_touched(stack, place, environ):
    share = place.group("share")
    command = build_command(stack, "ConsoleShareConsumer", "--topic", place.topic("t"), "--group", share)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as member:
        try:
            wait_until(lambda: share in run("groups", "list", "-o", "name")[1].split(), "the share group")
        finally:
            member.kill()
    listed = json.loads(run("groups", "list", share, "-o", "json")[1])["items"]
    assert [(found["group"], found["type"], found["connector"]) for found in listed] == [(share, "share", "")]
    for command in (("move", share, "--to", "earliest", "--topic", place.topic("t")), ("delete", share)):
        code, out, err = run("groups", *command, "--yes")
        assert (code, out) == (5, "")
        assert f"{share} is a share group" in err
    assert run("groups", "show", share)[0] == 5
    assert share not in run("lag", "-o", "name")[1].split()


@pytest.fixture
def sink(stack, place, tmp_path):
    """A sink on both of the topics, which has read all that is there."""
    name = place.group("sink")
    url = f"{stack.connect['connect'].urls[0]}/connectors/{name}"
    topics = f"{place.topic('t')},{place.topic('u')}"
    config = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": topics}
    config |= {
        "file": str(tmp_path / "out.txt"),
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    }
    config |= {"key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
    try:
        call_until(f"{url}/config", lambda status, _: status in {200, 201}, method="PUT", body=config)
        # It stands at the end of all partitions: also of those that never had a record.
        ends = place.spots(RECORDS)
        wait_until(
            lambda: {at: held[0] for at, held in place.read_group(f"connect-{name}").items()} == ends, "the sink"
        )
        yield name
    finally:
        call_until(url, lambda status, _: status in {204, 404}, method="DELETE")
        wait_until(lambda: place.delete_group(f"connect-{name}"), "the sink's group to be gone")


def test_the_group_of_a_sink_is_named_by_its_connector(sink, stack, place, environ):
    group = f"connect-{sink}"

    def is_listed():
        listed = json.loads(run("groups", "list", group, "-o", "json")[1])["items"]
        return [(found["connector"], found["state"]) for found in listed] == [(f"connect/{sink}", "STABLE")]

    # A neighbour's rebalance may move its task: then nobody is in the group for a moment.
    wait_until(is_listed, f"{group} to be listed as the group of {sink}, with somebody in it")
    code, _, err = run("groups", "move", group, "--to", "earliest", "--yes")
    assert code == 5
    assert f"it belongs to connector/connect/{sink}" in err
    assert f"seamark connectors stop connect/{sink}" in err
    assert run("connectors", "stop", f"connect/{sink}", "--yes")[0] == 0
    # Connect says that no task is left before its consumer has left the group.
    wait_until(lambda: place.is_empty(group), f"{group} to be empty")
    before = place.read_group(group)
    code, out, err = run("groups", "move", group, "--shift", "-2", "--yes")
    assert code == 0, out + err
    assert f"the group belongs to connector/connect/{sink}" in out + err
    assert place.read_group(group)[place.topic("t"), 0][0] == 18
    code, change, _ = run("journal", "list", "--limit", "1", "-o", "name")
    assert run("journal", "undo", change.strip(), "--yes")[0] == 0
    assert place.read_group(group) == before
