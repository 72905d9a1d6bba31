"""Offsets of one owner, and what REST can't tell of them."""

import pytest

from seamark.errors import UnsupportedError
from seamark.model.connector import State
from seamark.model.offset import Offset
from tests.unit.fleet.builders import StubConnect, connector, open_stub_fleet, settings, sink

FILE = Offset({"filename": "/tmp/in.txt"}, {"position": 8})


def read(found, *offsets, **changes):
    client = StubConnect(connectors=(found,), offsets={found.name: offsets})
    return open_stub_fleet({"game": client}, clusters=[settings(**changes)]).offsets.of(found.name)


def test_a_plain_source_has_its_offsets_and_no_notes():
    owned = read(connector("fs"), FILE)
    assert (owned.owner, owned.route, owned.offsets, owned.notes) == ("game/fs", "REST", (FILE,), ())
    assert owned.connector.name == "fs"


def test_null_is_noted():
    (note,) = read(connector("fs"), Offset({"filename": "a"}, None)).notes
    assert note == "Connect answered null for a partition: another spelling of the key may exist (REST can't tell)"


def test_several_fields_are_noted_because_their_order_is_hidden():
    (note,) = read(connector("jdbc"), Offset({"protocol": "1", "table": "t"}, {"incrementing": 3})).notes
    assert "spellings of the same key" in note


def test_an_own_offsets_topic_is_noted():
    (note,) = read(connector("fs", config={"offsets.storage.topic": "mine"}), FILE).notes
    assert "own offsets topic mine" in note


def test_a_source_without_offsets_starts_at_its_beginning():
    assert read(connector("fs")).notes == ("no offset is held: the connector reads from its beginning",)


SINK_OFFSET = Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5})


def test_a_running_sink_has_no_notes():
    assert read(sink("lake"), SINK_OFFSET).notes == ()


def test_a_sink_without_offsets_says_where_it_starts():
    (note,) = read(sink("lake")).notes
    assert "auto.offset.reset" in note


def test_a_stopped_sink_is_warned_of_retention():
    (note,) = read(sink("lake", state=State.STOPPED, tasks=()), SINK_OFFSET).notes
    assert "offsets.retention.minutes" in note


def test_a_worker_wide_group_is_noted_unless_overridden():
    (note,) = read(sink("lake"), SINK_OFFSET, consumer_group_id="all-sinks").notes
    assert "all-sinks" in note
    own = sink("lake", config={"consumer.override.group.id": "mine"})
    assert read(own, SINK_OFFSET, consumer_group_id="all-sinks").notes == ()


def test_a_worker_that_is_too_old_is_refused_by_the_client():
    client = StubConnect(connectors=(connector("fs"),), offsets={"fs": UnsupportedError("too old")})
    with pytest.raises(UnsupportedError):
        open_stub_fleet({"game": client}).offsets.of("fs")
