"""Offsets of one owner: from the stores, with what REST says beside them."""

from __future__ import annotations

import pytest

from seamark.connect.model import State
from seamark.core.offsets import Offset
from seamark.core.readings import Reading
from seamark.errors import NotFoundError, UnreachableError, UnsupportedError
from seamark.fleet.fleet import Fleet
from seamark.kafka.groups import Committed, GroupOffsets
from seamark.offsets.codec.java_map import write_java_map
from seamark.offsets.model import OffsetAnomaly
from seamark.offsets.service import Route
from tests.unit.fleet.builders import StubConnect, connector, context, settings, sink
from tests.unit.fleet.builders import topic as build_topic
from tests.unit.offsets.scans import FakeScan

FILE = Offset({"filename": "/tmp/in.txt"}, {"position": 8})
SINK_OFFSET = Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5})


class StubBrokers:
    def __init__(self, groups):
        self.groups = groups

    def read_committed(self, groups, *, only_stable=False):
        found = tuple(GroupOffsets(name, self.groups[name]) for name in groups if name in self.groups)
        return Reading(found, failures={name: NotFoundError("no") for name in groups if name not in self.groups})

    def read_topics(self, names):
        return Reading(tuple(build_topic(name) for name in names))

    def close(self):
        pass


class Environment:
    """One Connect cluster, its offsets topics, its groups. `opened` says how each topic was read."""

    def __init__(self, *connectors, rest=None, topics=(), groups=None, **changes):
        self.client = StubConnect(connectors=connectors, offsets=rest or {})
        self.topics = {scan.topic: scan for scan in topics}
        self.opened = []
        self.fleet = Fleet(
            context(settings(**changes)),
            build_connect=lambda found: self.client,
            build_brokers=lambda found: StubBrokers(groups or {}),
            open_scan=self.open_scan,
        )

    def open_scan(self, config, topic, committed):
        self.opened.append((config["bootstrap.servers"], topic, committed))
        if topic not in self.topics:
            raise UnreachableError("the brokers can't be reached")
        return self.topics[topic]

    def read(self, owner, **options):
        return self.fleet.offsets.get(owner, **options)


def topic(*records, name="game-offsets", **options):
    scan = FakeScan(name, **options)
    for key, value in records:
        scan.put(key, value)
    return scan


def fs(position, name="fs"):
    return ((name, {"filename": "/tmp/in.txt"}), None if position is None else {"position": position})


def oddities(owned):
    return [finding.anomaly for finding in owned.findings]


# --- through REST alone


def rest(found, *offsets, **changes):
    return Environment(found, rest={found.name: offsets}, **changes).read(found.name, route=Route.REST)


def test_a_plain_source_has_its_offsets_and_no_notes():
    owned = rest(connector("fs"), FILE)
    assert (owned.owner, owned.route, owned.offsets, owned.notes) == ("game/fs", "REST", (FILE,), ())
    assert (owned.connector.name, owned.rest) == ("fs", (FILE,))


def test_null_is_noted():
    (note,) = rest(connector("fs"), Offset({"filename": "a"}, None)).notes
    assert note == "Connect returned null for a partition: another encoding of the key may exist"


def test_several_fields_are_noted_because_their_order_is_hidden():
    (note,) = rest(connector("jdbc"), Offset({"protocol": "1", "table": "t"}, {"incrementing": 3})).notes
    assert "encodings of the same key" in note


def test_an_own_offsets_topic_is_noted():
    (note,) = rest(connector("fs", config={"offsets.storage.topic": "mine"}), FILE).notes
    assert "own offsets topic mine" in note


def test_a_source_without_offsets_starts_at_its_beginning():
    assert rest(connector("fs")).notes == ("no stored offsets: the connector starts from the beginning",)


def test_a_running_sink_has_no_notes():
    assert rest(sink("lake"), SINK_OFFSET).notes == ()


def test_a_sink_without_offsets_says_where_it_starts():
    (note,) = rest(sink("lake")).notes
    assert "auto.offset.reset" in note


def test_a_stopped_sink_is_warned_of_retention():
    (note,) = rest(sink("lake", state=State.STOPPED, tasks=()), SINK_OFFSET).notes
    assert "offsets.retention.minutes" in note


def test_a_worker_wide_group_is_noted_unless_overridden():
    (note,) = rest(sink("lake"), SINK_OFFSET, consumer_group_id="all-sinks").notes
    assert "all-sinks" in note
    own = sink("lake", config={"consumer.override.group.id": "mine"})
    assert rest(own, SINK_OFFSET, consumer_group_id="all-sinks").notes == ()


def test_a_worker_that_is_too_old_is_refused_by_the_client():
    client = Environment(connector("fs"), rest={"fs": UnsupportedError("too old")})
    with pytest.raises(UnsupportedError):
        client.read("fs", route=Route.REST)


# --- from the store


def test_the_store_is_read_and_rest_agrees():
    world = Environment(connector("fs"), rest={"fs": (FILE,)}, topics=[topic(fs(4), fs(8), fs(1, "other"))])
    owned = world.read("fs")
    assert (owned.route, owned.stores, owned.offsets) == ("store", ("topic game-offsets",), (FILE,))
    assert (owned.findings, owned.notes, owned.rest) == ((), (), (FILE,))
    assert owned.stored[0].evidence.value == b'{"position":8}'
    assert world.opened == [("127.0.0.1:9092", "game-offsets", False)]
    assert world.client.calls["offsets"] == 1


def test_with_exactly_once_only_committed_records_count():
    world = Environment(connector("fs"), rest={"fs": (FILE,)}, topics=[topic(fs(8))], exactly_once=True)
    world.read("fs")
    assert world.opened == [("127.0.0.1:9092", "game-offsets", True)]


def test_the_route_store_does_not_ask_rest():
    world = Environment(connector("fs"), topics=[topic(fs(8))])
    owned = world.read("fs", route=Route.STORE)
    assert (owned.offsets, owned.rest) == ((FILE,), None)
    assert world.client.calls["offsets"] == 0


def test_what_rest_says_otherwise_is_named():
    # The fault of 1.4: REST looks for its own spelling and answers null.
    world = Environment(connector("fs"), rest={"fs": (Offset(FILE.partition, None),)}, topics=[topic(fs(8))])
    owned = world.read("fs")
    assert owned.offsets == (FILE,)
    assert oddities(owned) == [OffsetAnomaly.REST_NULL]
    assert 'the stored offset is {"position":8}' in owned.findings[0].message
    # Asked a second time: it could have moved.
    assert world.client.calls["offsets"] == 2


@pytest.mark.parametrize(
    ("said", "anomaly"),
    [
        ((Offset(FILE.partition, {"position": 4}),), OffsetAnomaly.REST_DIFFERS),
        ((), OffsetAnomaly.REST_ABSENT),
        ((FILE, Offset({"filename": "b"}, {"position": 1})), OffsetAnomaly.REST_ALONE),
    ],
)
def test_other_disagreements_have_their_names(said, anomaly):
    owned = Environment(connector("fs"), rest={"fs": said}, topics=[topic(fs(8))]).read("fs")
    assert oddities(owned) == [anomaly]


def test_an_owner_that_moved_on_between_the_two_readings_is_no_disagreement():
    world = Environment(connector("fs"), rest={"fs": (Offset(FILE.partition, {"position": 4}),)}, topics=[topic(fs(8))])
    given = world.client._give

    def move(what, value):
        answer = given(what, value)
        world.client.offsets["fs"] = (FILE,)
        return answer

    world.client._give = move
    assert world.read("fs").findings == ()


def test_rest_that_does_not_answer_is_noted():
    owned = Environment(
        connector("fs"), rest={"fs": UnreachableError("no worker answers")}, topics=[topic(fs(8))]
    ).read("fs")
    assert owned.offsets == (FILE,)
    assert owned.notes == ("REST was not read: no worker answers",)


def test_where_kafka_can_t_be_reached_rest_must_do():
    world = Environment(connector("fs"), rest={"fs": (FILE,)})
    owned = world.read("fs")
    assert (owned.route, owned.offsets) == ("REST", (FILE,))
    assert owned.notes == ("read only through REST: the brokers can't be reached",)
    with pytest.raises(UnreachableError):
        world.read("fs", route=Route.STORE)


def test_a_context_that_does_not_tell_the_topic_is_said():
    owned = Environment(connector("fs"), rest={"fs": (FILE,)}, offsets_topic=None).read("fs")
    assert owned.route == "REST"
    assert "offsets_topic" in owned.notes[0]


# --- a connector with its own topic


OWN = {"offsets.storage.topic": "mine"}


def test_an_own_topic_counts_and_the_copy_agrees():
    world = Environment(
        connector("fs", config=OWN), rest={"fs": (FILE,)}, topics=[topic(fs(8), name="mine"), topic(fs(8))]
    )
    owned = world.read("fs")
    assert (owned.offsets, owned.findings) == ((FILE,), ())
    assert owned.stores == ("topic mine", "topic game-offsets")
    # Connect reads a connector's own topic committed, and its workers' not.
    assert set(world.opened) == {("127.0.0.1:9092", "mine", True), ("127.0.0.1:9092", "game-offsets", False)}


def test_connect_does_not_fall_back_and_seamark_says_so():
    # The fault of 1.6.
    said = (Offset(FILE.partition, None),)
    world = Environment(connector("fs", config=OWN), rest={"fs": said}, topics=[topic(name="mine"), topic(fs(6))])
    owned = world.read("fs")
    assert owned.offsets == ()
    assert oddities(owned) == [OffsetAnomaly.NO_FALLBACK]
    assert "starts from the beginning" in owned.findings[0].message
    assert owned.rest == said


def test_a_copy_that_differs_is_named():
    world = Environment(
        connector("fs", config=OWN), rest={"fs": (FILE,)}, topics=[topic(fs(8), name="mine"), topic(fs(6))]
    )
    assert oddities(world.read("fs")) == [OffsetAnomaly.COPY_DIFFERS]


class Absent(FakeScan):
    def read_newest(self, accept=None):
        raise NotFoundError(f"could not read the topic {self.topic}: it does not exist")


def test_an_own_topic_that_is_not_there_yet_holds_nothing():
    world = Environment(connector("fs", config=OWN), rest={"fs": ()}, topics=[Absent("mine"), topic(fs(6))])
    owned = world.read("fs")
    assert (owned.offsets, oddities(owned)) == ((), [OffsetAnomaly.NO_FALLBACK])
    assert any(note.startswith("topic mine does not exist yet") for note in owned.notes)


def test_a_workers_topic_that_is_not_there_is_an_error_of_the_context():
    with pytest.raises(NotFoundError):
        Environment(connector("fs"), rest={"fs": ()}, topics=[Absent("game-offsets")]).read("fs")


def test_a_standalone_worker_that_has_not_flushed_yet_holds_nothing(tmp_path):
    world = Environment(connector("fs"), rest={"fs": ()}, offsets_file=tmp_path / "none", offsets_topic=None)
    owned = world.read("fs", route="store")
    assert owned.offsets == ()
    assert "does not exist yet" in owned.notes[-1]


def test_an_own_topic_that_is_the_workers_is_one_store():
    world = Environment(
        connector("fs", config={"offsets.storage.topic": "game-offsets"}), rest={"fs": (FILE,)}, topics=[topic(fs(8))]
    )
    assert world.read("fs").stores == ("topic game-offsets",)


def test_an_own_topic_in_another_cluster_is_read_there():
    config = {**OWN, "producer.override.bootstrap.servers": "127.0.0.1:9999"}
    world = Environment(
        connector("fs", config=config), rest={"fs": (FILE,)}, topics=[topic(fs(8), name="mine"), topic(fs(8))]
    )
    assert world.read("fs").offsets == (FILE,)
    assert ("127.0.0.1:9999", "mine", True) in world.opened


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ({"bootstrap.servers": "${file:/x:y}"}, "only the workers can resolve"),
        ({"bootstrap.servers": "h:1", "security.protocol": "SASL_SSL"}, "no credentials"),
    ],
)
def test_a_cluster_that_can_t_be_known_is_refused_with_the_reason(overrides, why):
    config = {**OWN, **{f"producer.override.{key}": value for key, value in overrides.items()}}
    world = Environment(connector("fs", config=config), rest={"fs": (FILE,)}, topics=[topic(fs(8))])
    with pytest.raises(UnsupportedError) as caught:
        world.read("fs", route=Route.STORE)
    assert why in caught.value.cause


def test_an_isolation_of_its_own_is_heard():
    config = {**OWN, "consumer.override.isolation.level": "read_uncommitted"}
    world = Environment(
        connector("fs", config=config), rest={"fs": (FILE,)}, topics=[topic(fs(8), name="mine"), topic(fs(8))]
    )
    world.read("fs")
    assert ("127.0.0.1:9092", "mine", False) in world.opened


# --- sinks, groups, files, the gone


def test_a_sink_is_read_from_its_group():
    world = Environment(sink("lake"), rest={"lake": (SINK_OFFSET,)}, groups={"connect-lake": {("t", 0): Committed(5)}})
    owned = world.read("lake")
    assert (owned.offsets, owned.stores, owned.findings) == ((SINK_OFFSET,), ("group connect-lake",), ())


def test_a_plain_group_is_an_owner_too():
    world = Environment(groups={"billing": {("t", 0): Committed(5)}})
    owned = world.read("group/billing")
    assert (owned.owner, owned.connector, owned.offsets) == ("group/billing", None, (SINK_OFFSET,))
    with pytest.raises(NotFoundError, match="no committed offsets for group other"):
        world.read("group/other")


def test_a_standalone_worker_is_read_from_its_file(tmp_path):
    path = tmp_path / "connect.offsets"
    path.write_bytes(write_java_map([(b'["fs",{"filename":"/tmp/in.txt"}]', b'{"position":8}')]))
    world = Environment(connector("fs"), rest={"fs": (FILE,)}, offsets_file=path, offsets_topic=None)
    owned = world.read("fs")
    assert (owned.offsets, owned.stores) == ((FILE,), (f"file {path}",))


def test_what_a_connector_that_is_gone_has_left_is_shown():
    world = Environment(topics=[topic(fs(8))])
    owned = world.read("fs")
    assert (owned.owner, owned.connector, owned.offsets) == ("game/fs", None, (FILE,))
    assert "orphaned" in owned.notes[0]
    with pytest.raises(NotFoundError, match="nobody"):
        world.read("nobody")
