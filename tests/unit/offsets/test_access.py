"""What Kafka does not allow is known before anything is stopped."""

from __future__ import annotations

import pytest

from seamark.core.offsets import Offset
from seamark.core.readings import Reading
from seamark.errors import AuthorizationError, NotFoundError, UnreachableError
from seamark.groups.actions import DeleteGroup, MoveGroup
from seamark.kafka.groups import GroupStatus
from seamark.kafka.model import HeldRecord, TopicStatus
from seamark.offsets.model import WriteRoute
from seamark.offsets.port import Planning
from seamark.offsets.write.rights import find_offset_rights
from seamark.offsets.write.steps import WriteOffsets
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.offsets.moving import Place

FILE = {"filename": "/in"}


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.game.add("fs", SOURCE_CONFIG)
    made.game.add("own", {**SOURCE_CONFIG, "offsets.storage.topic": "mine"})
    made.game.add("far", {**SOURCE_CONFIG, "producer.override.bootstrap.servers": "elsewhere:9092"})
    made.game.add("lake", SINK_CONFIG)
    made.scan.put(("fs", FILE), {"position": 100})
    with made.fleet:
        yield made


def rights(place, step):
    clusters = place.fleet._clusters
    connector = clusters.client(step.cluster).read_connector(step.name)
    found = find_offset_rights(step, connector, Planning(place.fleet.context, clusters))
    return sorted(right.words for right in found)


def write(name, *, partition=FILE, **more):
    return WriteOffsets("game", name, (Offset(partition, None),), **more)


def allow(place, *, topics=None, groups=None, failures=None):
    """Let the brokers tell what is allowed, by name."""

    def read(known, build, names):
        found = tuple(build(name, known[name]) for name in names if name in known)
        return Reading(found, failures={name: error for name, error in (failures or {}).items() if name in names})

    place.brokers.read_topics = lambda names: read(
        topics or {}, lambda name, allowed: TopicStatus(name, "", (), operations=frozenset(allowed)), names
    )
    place.brokers.read_groups = lambda names: read(
        groups or {}, lambda name, allowed: GroupStatus(name, "EMPTY", 0, operations=frozenset(allowed)), names
    )


def test_each_step_says_what_it_needs(place):
    assert rights(place, write("fs")) == ["READ on topic offsets"]
    assert rights(place, write("own")) == ["READ on topic mine", "READ on topic offsets"]
    record = HeldRecord("offsets", 3, b"k", b"{}")
    topic = write("fs", route=WriteRoute.TOPIC, records=(record, record))
    assert set(rights(place, topic)) == {"READ on topic offsets", "WRITE on topic offsets"}
    sink = write("lake", partition={"kafka_topic": "t", "kafka_partition": 0})
    assert rights(place, sink) == ["DESCRIBE on group connect-lake", "DESCRIBE on topic t"]
    move = MoveGroup("g", {"t": {0: None}})
    assert sorted(right.words for right in move.find_rights()) == ["READ on group g", "READ on topic t"]
    assert [right.words for right in DeleteGroup("g").find_rights()] == ["DELETE on group g"]


def test_what_lies_in_another_kafka_cluster_is_not_asked(place):
    assert rights(place, write("far")) == []


def test_a_missing_right_is_a_note_in_the_plan_and_a_refusal_of_the_change(place):
    allow(place, topics={"offsets": {"DESCRIBE"}})
    planned = place.fleet.offsets.move("fs", to=30)
    assert "missing Kafka permissions: READ on topic offsets; the change would be rejected" in planned.plan.notes
    with pytest.raises(AuthorizationError, match="READ on topic offsets; no changes were made") as refused:
        place.fleet.apply(planned)
    assert refused.value.hint.endswith("--operation Read --topic offsets")
    assert place.game.writes == 0
    assert place.fleet.journal.list() == ()


def test_what_may_not_even_be_looked_at_allows_nothing(place):
    allow(place, failures={"offsets": AuthorizationError("no")})
    with pytest.raises(AuthorizationError, match="READ on topic offsets"):
        place.fleet.apply(place.fleet.offsets.move("fs", to=30))


@pytest.mark.parametrize(
    "told",
    [
        {"topics": {"offsets": {"READ", "DESCRIBE"}}},
        {"topics": {"offsets": set()}},
        {"failures": {"offsets": NotFoundError("no topic")}},
    ],
)
def test_what_is_allowed_or_not_told_is_done(place, told):
    allow(place, **told)
    planned = place.fleet.offsets.move("fs", to=30)
    assert planned.plan.notes == ()
    place.apply(planned)
    assert place.held("fs") == [{"position": 30}]


def test_brokers_that_do_not_answer_are_told_before_the_stop(place):
    allow(place, failures={"offsets": UnreachableError("the brokers can't be reached")})
    planned = place.fleet.offsets.move("fs", to=30)
    assert planned.plan.notes == ("your Kafka permissions are unknown: the brokers can't be reached",)
    with pytest.raises(UnreachableError):
        place.fleet.apply(planned)
    assert place.game.writes == 0
