"""The health of topics while a broker is dead and another one hangs, against what Kafka's own program says."""

from __future__ import annotations

import io
import json
import re
import time
from contextlib import closing
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.devstack import StackSpec, start_stack
from seamark.devstack.client import ask
from seamark.errors import UnreachableError
from seamark.kafka.brokers import Brokers
from seamark.kafka.kafka_python import load
from tests.integration.kafka_tools import open_tools

# Every node is a voter of the controllers' quorum. Of three, one dead and one paused leave no majority, and no broker
# is ever told that another has gone: both programs would name nothing. Of five, three go on.
BROKERS = 5
# On a machine that is busy otherwise brokers are late to be seen as gone, and a client that meets the one that hangs
# waits for half a minute, several times.
DEADLINE_SECONDS = 300
FLAGS = {
    "under-replicated": "--under-replicated-partitions",
    "under-min-isr": "--under-min-isr-partitions",
    "leaderless": "--unavailable-partitions",
}


@pytest.fixture
def stack():
    with start_stack(StackSpec(brokers=BROKERS, workers=0), name="health") as started:
        yield started


def read_tool(tools):
    """What kafka-topics names, by our name of the check."""
    return {
        check: sorted(
            (topic, int(number))
            for topic, number in re.findall(
                r"Topic: (\S+)\s+Partition: (\d+)", tools("TopicCommand", "--describe", flag)
            )
        )
        for check, flag in FLAGS.items()
    }


def read_health():
    """What seamark names, and how it ended."""
    out, err = io.StringIO(), io.StringIO()
    code = execute(["topics", "health", "-o", "json"], session=Session(out=out, err=err, stdin=io.StringIO()))
    body = json.loads(out.getvalue())
    named = {
        check: sorted(
            (found["topic"], number)
            for found in body["items"]
            if found["check"] == check
            for number in found["partitions"]
        )
        for check in FLAGS
    }
    return named, code, body, err.getvalue()


def compare(tools, is_reached):
    """Read both until the tool said the same before and after seamark did, in the state that is waited for.

    A broker may be out and in again just while seamark looks, and the tool sees it neither before nor after. So a
    difference must last.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    before, differences = read_tool(tools), 0
    while True:
        named, code, body, err = read_health()
        after = read_tool(tools)
        # A broker that forwards a question to a controller that hangs waits half a minute for it.
        if before == after and is_reached(after) and not body["failures"]:
            if named == after:
                return named, code, body, err
            differences += 1
            assert differences < 3, f"seamark names {named}, kafka-topics {after}"
        assert time.monotonic() < deadline, f"the brokers did not come to rest in {DEADLINE_SECONDS} s: {after}"
        before = after
        time.sleep(0.3)


def is_well(said):
    return not said["leaderless"] and not said["under-replicated"]


def keep_living(stack, gone):
    """The stack without the addresses of some brokers: Kafka's own program waits a minute for one that hangs."""
    addresses = stack.kafka.bootstrap_servers.split(",")
    living = ",".join(address for node, address in enumerate(addresses, start=1) if node not in gone)
    return replace(stack, kafka=replace(stack.kafka, bootstrap_servers=living))


def is_known(living, gone):
    """Whether no broker counts a copy on those that are gone, but the one that nobody can replace.

    Until then a client may be told to ask the paused broker, and waits: a new client each time, and not for long.
    """
    try:
        with Brokers({"bootstrap.servers": living.kafka.bootstrap_servers}, timeout_seconds=2) as brokers:
            parts = [one for found in brokers.read_all_topics() for one in found.partitions]
            up = {one.id for one in brokers.read_cluster().brokers}
    except UnreachableError:
        return False
    return not gone & up and not any(gone & {one.leader, *(one.isr if one.leader else ())} for one in parts)


def create_spread(living, name, *, copies, least):
    """A topic with a partition on each choice of brokers, so that whoever goes, some partition had just those.

    The brokers' own choice begins anywhere: of thirty partitions with two copies none may be on the two that go.
    """
    places = [list(chosen) for chosen in combinations(range(1, BROKERS + 1), copies)]
    admin = AdminClient({"bootstrap.servers": living.kafka.bootstrap_servers})
    configs = {"min.insync.replicas": str(least)}
    new = NewTopic(name, num_partitions=len(places), replica_assignment=places, config=configs)
    admin.create_topics([new])[name].result(timeout=60)


def begin_reassignment(living, *, to, gone):
    """Have one copy go to a broker that is gone: it stays on its way for good. Its leader is one that stays."""
    addresses = living.kafka.bootstrap_servers
    with Brokers({"bootstrap.servers": addresses}) as brokers:
        (topic,) = brokers.read_topics(["r1-m1"]).items
    part = next(one for one in topic.partitions if one.leader is not None and one.leader not in gone)
    moving = {load("kafka.structs").TopicPartition("r1-m1", part.id): [*part.replicas, to]}
    with closing(load("kafka.admin").KafkaAdminClient(bootstrap_servers=addresses.split(","))) as admin:
        admin.alter_partition_reassignments(moving)
    spot = ("r1-m1", part.id)
    wait_until(lambda: is_missed(addresses, spot), "the partition to miss the copy that is on its way")
    return spot


def is_missed(addresses, spot):
    try:
        with Brokers({"bootstrap.servers": addresses}) as brokers:
            (topic,) = brokers.read_topics([spot[0]]).items
            return spot in brokers.read_moving() and spot[1] in topic.under_replicated
    except UnreachableError:
        return False


def wait_until(is_done, what):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_done():
        assert time.monotonic() < deadline, f"waited {DEADLINE_SECONDS} s for {what}"
        time.sleep(0.3)


@pytest.mark.timeout(1000)
def test_health_names_the_partitions_that_kafka_topics_names(stack, monkeypatch):
    folder, gone = Path(stack.folder), {2, 4}
    monkeypatch.setenv("SEAMARK_CONFIG", stack.context_file)
    shapes = [(copies, least) for copies in (3, 2, 1) for least in (1, 2, 3)]
    living = keep_living(stack, gone)
    with Brokers({"bootstrap.servers": living.kafka.bootstrap_servers}) as brokers, open_tools(living) as tools:
        for copies, least in shapes:
            create_spread(living, f"r{copies}-m{least}", copies=copies, least=least)
        made = {f"r{copies}-m{least}" for copies, least in shapes}
        # A broker that was late with its heartbeat is out for a moment, right after the start.
        well, _, _, _ = compare(
            tools, lambda said: is_well(said) and made <= {found.name for found in brokers.read_all_topics()}
        )
        assert {topic for topic, _ in well["under-min-isr"]} == {"r2-m3", "r1-m2", "r1-m3"}

        ask(folder, "kill", "broker-2")
        wait_until(lambda: is_known(living, {2}), "the brokers to know that one of them is dead")
        # Now, as a broker may wait half a minute for a controller that hangs.
        spot = begin_reassignment(living, to=2, gone=gone)
        ask(folder, "stop", "broker-4")
        wait_until(lambda: is_known(living, gone), "the brokers to know that two of them are gone")
        named, code, body, err = compare(tools, lambda said: said["leaderless"])
        assert spot not in named["under-replicated"]
        assert code == 1, err
        assert all(named.values()), named
        assert {topic[:2] for topic, _ in named["leaderless"]} >= {"r1", "r2"}
        assert {topic[:2] for topic, _ in named["under-replicated"]} >= {"r2", "r3"}
        said = [found["next_step"] for found in body["items"] if found["check"] == "under-replicated"]
        assert any("restart brokers 2, 4" in step for step in said), said
        ask(folder, "cont", "broker-4")
