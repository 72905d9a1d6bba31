"""A plan, and a change in the journal, is carried out on the clusters that it was made for, and on no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

import seamark.changes.executor as executor
from seamark.changes.file_journal import FileJournal
from seamark.changes.locks import (
    base_name,
    cluster_lock,
    conflicts,
    connector_lock,
    file_lock,
    find_wide_labels_lock,
    group_lock,
    labels_lock,
    loggers_lock,
)
from seamark.changes.plan import read_plan_file
from seamark.connect.model import Worker
from seamark.connectors.config import DesiredConnector
from seamark.core.files import FileLocation
from seamark.errors import RefusedError, UnreachableError
from seamark.fleet.fleet import Fleet
from seamark.specs.model import Spec
from tests.unit.fleet.builders import EmptyScan, StubKafka, kafka_cluster
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, living_context, register
from tests.unit.offsets.moving import Leaping


class Killed(BaseException):
    """What a SIGKILL is to a test in one process."""


class Cluster(LivingConnect):
    """A Connect cluster on a Kafka cluster, with a worker group; a context gives it any name."""

    def __init__(self, group, *, kafka="kafka-1"):
        super().__init__()
        self.group, self.kafka, self.is_up = group, kafka, True
        self.add("orders", SOURCE_CONFIG)

    def read_workers(self):
        error = "" if self.is_up else "connection refused"
        return (
            Worker(self.cluster, f"http://{self.group}:8083", self.version, kafka_cluster_id=self.kafka, error=error),
        )

    def named(self, name):
        """Return the same cluster as a client that was opened under a name."""
        seen = type(self).__new__(type(self))
        seen.__dict__ = self.__dict__ | {"cluster": name}
        return seen


def open_fleet(folder, clusters, *, context="dev", kafka="kafka-1", has_brokers=True):
    """Return a fleet of clusters by name. The journal is that of the Kafka cluster: everybody has the same."""
    settings = living_context(
        folder, clusters=list(clusters), groups={name: one.group for name, one in clusters.items()}
    )
    settings = replace(settings, name=context)
    if not has_brokers:
        settings = replace(settings, kafka=replace(settings.kafka, values={}))
    known = {one.group: one for one in clusters.values()}
    fleet = Fleet(
        settings,
        build_connect=lambda one: known[one.group_id].named(one.name),
        build_kafka=lambda _: StubKafka(cluster=kafka_cluster(cluster_id=kafka)),
        open_journal=lambda opened: FileJournal(opened.journal.folder),
        open_scan=lambda config, topic, committed: EmptyScan(topic),
    )
    fleet._world._clock = Leaping()
    return fleet


def kill_before_intent(monkeypatch, fleet, planned):
    """Apply a plan with a process that dies before its first step."""

    def reach(point, number=0):
        if point == "before-intent":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(executor, "reach", reach)
        with pytest.raises(Killed):
            fleet.apply(planned)
    (head,) = fleet.journal.list(only_open=True)
    return head


COMMANDS = ("apply", "review", "undo", "resume", "unlock")


def prepare(command, fleet, tmp_path, monkeypatch):
    """Let the first operator come as far as the second one takes over. Returns what the second one does."""
    planned = fleet.connectors.delete(["orders"])
    if command in ("apply", "review"):
        path = tmp_path / "plan.json"
        assert fleet.save(planned, path) is None
        plan = read_plan_file(path)
        return (lambda other: other.apply(plan)) if command == "apply" else (lambda other: other.review(plan))
    if command == "undo":
        change = fleet.apply(planned).change
        return lambda other: other.apply(other.undo(change))
    head = kill_before_intent(monkeypatch, fleet, planned)
    if command == "resume":
        return lambda other: other.journal.resume(head.change)
    return lambda other: other.journal.unlock(head.change, nonce=head.nonce)


# Two Connect clusters of one name on one Kafka cluster; two Kafka clusters behind one name; two laptops whose contexts
# have the same name and the same names for everything.
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("context", "group", "kafka"),
    [("prod-us", "workers-us", "kafka-1"), ("prod-eu", "workers-eu", "kafka-2"), ("prod-eu", "workers-us", "kafka-2")],
    ids=["two-connect-clusters", "two-kafka-clusters", "two-laptops"],
)
def test_another_cluster_of_the_same_name_is_refused(tmp_path, monkeypatch, command, context, group, kafka):
    mine, theirs = Cluster("workers-eu"), Cluster(group, kafka=kafka)
    act = prepare(command, open_fleet(tmp_path, {"game": mine}, context="prod-eu"), tmp_path, monkeypatch)
    other = open_fleet(tmp_path, {"game": theirs}, context=context, kafka=kafka)
    heads = other.journal.list()
    with pytest.raises(RefusedError, match=r"for another (Connect|Kafka) cluster") as caught:
        act(other)
    assert "workers-eu" in caught.value.cause or "kafka-1" in caught.value.cause
    assert theirs.writes == 0
    assert other.journal.list() == heads, "the holder was fenced, or a change was opened"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_cluster_under_other_names_is_the_same(tmp_path, monkeypatch, command):
    cluster = Cluster("workers-eu")
    act = prepare(command, open_fleet(tmp_path, {"game": cluster}, context="prod-eu"), tmp_path, monkeypatch)
    # Here the name of the plan's cluster is that of another one.
    rival = Cluster("workers-us")
    other = open_fleet(tmp_path, {"game": rival, "europe": cluster}, context="production")
    result = act(other)
    if command == "review":
        assert str(result).startswith("Plan for context production: ")
    assert rival.writes == 0
    is_there = {"apply": False, "review": True, "undo": True, "resume": False, "unlock": True}[command]
    assert ("orders" in cluster.configs) is is_there
    assert other.journal.list(only_open=True) == ()


@pytest.mark.parametrize("command", COMMANDS)
def test_cluster_that_another_one_replaced_under_the_lock_is_refused(tmp_path, monkeypatch, command):
    mine, theirs = Cluster("workers-eu"), Cluster("workers-us", kafka="kafka-1")
    fleet = open_fleet(tmp_path, {"game": mine}, context="prod-eu")
    act = prepare(command, fleet, tmp_path, monkeypatch)
    other = open_fleet(tmp_path, {"game": mine}, context="prod-eu")
    reading = other._identities.read
    answers = []

    def read(names):
        answers.append(names)
        found = reading(names)
        # The first looks see the right cluster; the last one, under the lock, sees another.
        late = len(answers) > {"apply": 3, "undo": 4, "resume": 2, "unlock": 2}.get(command, 99)
        connect = {name: replace(one, group="workers-us") if late else one for name, one in found.connect.items()}
        return replace(found, connect=connect)

    monkeypatch.setattr(other._identities, "read", read)
    if command == "review":
        act(other)
    else:
        writes = mine.writes
        with pytest.raises(RefusedError, match="for another Connect cluster"):
            act(other)
        assert mine.writes == writes
    assert theirs.writes == 0


@pytest.mark.parametrize("command", ["resume", "unlock"])
def test_holder_is_not_fenced_for_another_cluster(tmp_path, monkeypatch, command):
    mine = Cluster("workers-eu")
    fleet = open_fleet(tmp_path, {"game": mine}, context="prod-eu")
    act = prepare(command, fleet, tmp_path, monkeypatch)
    other = open_fleet(tmp_path, {"game": mine}, context="prod-eu")
    reading, answers = other._identities.read, []

    def read(names):
        answers.append(names)
        found = reading(names)
        # Only the first look sees the right cluster.
        late = len(answers) > 1
        connect = {name: replace(one, group="workers-us") if late else one for name, one in found.connect.items()}
        return replace(found, connect=connect)

    monkeypatch.setattr(other._identities, "read", read)
    heads = other.journal.list()
    with pytest.raises(RefusedError, match="for another Connect cluster"):
        act(other)
    assert other.journal.list() == heads


def test_workers_of_another_kafka_cluster_than_the_context_are_refused(tmp_path):
    cluster = Cluster("workers", kafka="kafka-2")
    with pytest.raises(RefusedError, match="game uses another Kafka cluster than the context") as caught:
        open_fleet(tmp_path, {"game": cluster}).connectors.pause("orders")
    assert caught.value.cause == "its workers use kafka-2, bootstrap.servers of context dev is kafka-1"
    assert cluster.writes == 0


def test_workers_that_report_no_kafka_cluster_are_refused(tmp_path):
    with pytest.raises(RefusedError, match="don't report one Kafka cluster"):
        open_fleet(tmp_path, {"game": Cluster("workers", kafka="")}).connectors.pause("orders")


def test_all_workers_down_is_only_enough_with_brokers_and_a_group(tmp_path):
    cluster = Cluster("workers")
    cluster.is_up = False
    found = open_fleet(tmp_path, {"game": cluster})._identities.read(["game"])
    assert str(found.connect["game"]) == "worker group workers on Kafka cluster kafka-1"
    with pytest.raises((RefusedError, UnreachableError)):
        open_fleet(tmp_path, {"game": cluster}, has_brokers=False)._identities.read(["game"])


def test_without_brokers_workers_identify_the_cluster(tmp_path):
    mine, theirs = Cluster("eu"), Cluster("us")
    fleet = open_fleet(tmp_path, {"game": mine}, has_brokers=False)
    planned = fleet.connectors.pause("orders")
    plan = register(fleet, planned.plan)
    assert str(plan.identity.connect["game"]) == "workers w1:8083 on Kafka cluster kafka-1"
    assert plan.locks == ("source.kafka-kafka-1/orders",)
    assert fleet.apply(planned).is_done
    other = open_fleet(tmp_path, {"game": theirs}, has_brokers=False)
    # Its connectors run on another worker.
    theirs._build = lambda name: replace(
        found := LivingConnect._build(theirs, name),
        status=replace(found.status, worker_id="w9:8083", tasks=()),
    )
    theirs.read_statuses = lambda: {"orders": theirs._build("orders").status}
    with pytest.raises(RefusedError, match="for another Connect cluster"):
        other.review(plan)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (connector_lock("orders@eu", workers="w"), connector_lock("orders", workers="w")),
        (connector_lock("b", workers="a/b"), connector_lock("b/b", workers="a")),
        (connector_lock("b", workers="w@x"), connector_lock("b@x", workers="w")),
        (group_lock("team@svc"), group_lock("team")),
        (group_lock("team@svc"), group_lock("team", workers="svc")),
        (group_lock("a", workers="w"), cluster_lock("w@")),
        (file_lock("/b", host="a"), file_lock("b", host="a/")),
        (loggers_lock("w"), cluster_lock("w2")),
        (labels_lock("a", workers="w"), labels_lock("b", workers="w")),
        (labels_lock("b", workers="a/b"), labels_lock("b/b", workers="a")),
        (labels_lock("a", workers="w"), connector_lock("a", workers="w")),
        (labels_lock("a", workers="w"), cluster_lock("w")),
    ],
)
def test_no_name_can_share_or_leave_the_lock_of_another(one, other):
    assert base_name(one) != base_name(other)
    assert not conflicts(one, other)


@pytest.mark.parametrize("name", ["orders", "orders@eu", "a/b", "a%40b", "a.b", "ordér"])
def test_cluster_lock_covers_every_name(name):
    workers = f"connect-{name}"
    for inner in (connector_lock(name, workers=workers), group_lock(name, workers=workers), loggers_lock(workers)):
        assert conflicts(cluster_lock(workers), inner)
        assert conflicts(inner, cluster_lock(workers))
        assert not conflicts(inner, cluster_lock("other"))
    assert conflicts(group_lock(name, workers=workers), group_lock(name))


@pytest.mark.parametrize("name", ["orders", "orders@eu", "a/b", "a%40b", "a.b", "ordér"])
def test_the_lock_of_all_labels_covers_every_name(name):
    workers = f"connect-{name}"
    one = labels_lock(name, workers=workers)
    wide = find_wide_labels_lock(one)
    assert conflicts(one, wide)
    assert conflicts(wide, one)
    assert conflicts(wide, wide)
    assert not conflicts(wide, find_wide_labels_lock(labels_lock(name, workers="other")))
    assert not conflicts(wide, labels_lock(name, workers=f"{workers}2"))


# --- what a spec owns


def want(name, cluster="game"):
    return DesiredConnector(name, SOURCE_CONFIG, FileLocation("spec.yaml"), cluster=cluster)


def build_spec(*connectors):
    return Spec("shop", connectors)


def test_spec_never_deletes_in_another_cluster_of_the_same_name(tmp_path):
    """One spec for two regions, whose Connect clusters are on one Kafka cluster: they share the journal."""
    eu, us = Cluster("workers-eu"), Cluster("workers-us")
    ours = open_fleet(tmp_path, {"game": eu}, context="prod-eu")
    theirs = open_fleet(tmp_path, {"game": us}, context="prod-us")
    assert ours.apply(ours.plan(build_spec(want("old"), want("kept")), validate=False)).is_done
    # Somebody made a connector of that name there, without the spec.
    us.add("old", SOURCE_CONFIG)
    planned = theirs.plan(build_spec(want("kept")), validate=False)
    assert {(str(effect.sign), effect.subject) for effect in planned.effects} == {("+", "connector/game/kept")}
    assert theirs.apply(planned).is_done
    # The first one still owns what it made.
    planned = ours.plan(build_spec(want("kept")), validate=False)
    assert {(str(effect.sign), effect.subject) for effect in planned.effects} == {("-", "connector/game/old")}
    assert ours.apply(planned).is_done
    assert set(us.configs) == {"orders", "old", "kept"}
    # And the second one owns what it made, though the newest change of the spec is that of the first.
    planned = theirs.plan(build_spec(want("other")), validate=False)
    assert {(str(effect.sign), effect.subject) for effect in planned.effects} == {
        ("+", "connector/game/other"),
        ("-", "connector/game/kept"),
    }


def test_spec_owns_its_connectors_under_another_name_of_the_cluster(tmp_path):
    cluster = Cluster("workers-eu")
    first = open_fleet(tmp_path, {"game": cluster}, context="prod-eu")
    assert first.apply(first.plan(build_spec(want("old"), want("kept")), validate=False)).is_done
    second = open_fleet(tmp_path, {"europe": cluster}, context="production")
    planned = second.plan(build_spec(want("kept", cluster="europe")), validate=False)
    assert {(str(effect.sign), effect.subject) for effect in planned.effects} == {("-", "connector/europe/old")}
