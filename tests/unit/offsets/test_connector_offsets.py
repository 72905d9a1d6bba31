"""What a change sees of a connector's offsets: which records count, where its group is, and who is kept out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import seamark.kafka.transaction as exact_writer
import seamark.kafka.transaction as fence
import seamark.kafka.worker_group as worker_group
from seamark.connect.model import Connector
from seamark.context import ConnectSettings
from seamark.core.readings import Reading
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, RefusedError, UnreachableError
from seamark.kafka.groups import GroupStatus
from seamark.kafka.model import HeldRecord, RawRecord
from seamark.offsets.codec.codec import encode_key, encode_rest_key
from seamark.offsets.read.connector import ConnectorOffsets
from seamark.offsets.stores.stores import OwnerStores, find_own_topic
from seamark.offsets.stores.topic import build_reading

NAME = "orders"
PARTITION = {"topic": "t", "shard": 1, "area": "north"}
OWN_KEY, REST_KEY = encode_key(NAME, PARTITION), encode_rest_key(NAME, PARTITION)
SPACED_KEY = REST_KEY.replace(b",{", b", {")
HOME, AWAY = 0, 1


class Store:
    """A topic that holds some records; without any argument one that is not there."""

    def __init__(self, name, *records):
        self.name, self.records = f"topic {name}", records

    def read(self, owners=None):
        if not self.records:
            raise NotFoundError("no such topic")
        rows = [RawRecord(where, number, 1000 + number, key, b"{}") for number, (key, where) in enumerate(self.records)]
        return build_reading(rows, store=self.name, home=lambda _: HOME, owners=owners)


def build(first=None, second=None, *, kind=ConnectorType.SOURCE, config=None, brokers=None, **settings):
    connector = Connector(NAME, "game", kind, config or {}, None)
    stores = SimpleNamespace(find=lambda _: OwnerStores(first, second), find_brokers=lambda _: brokers)
    kafka = SimpleNamespace(client_config=lambda: {"bootstrap.servers": "127.0.0.1:1"})
    return ConnectorOffsets(
        NAME,
        context=SimpleNamespace(
            kafka=kafka,
            journal=SimpleNamespace(in_flight_seconds=90.0),
            missing=lambda key: RefusedError(f"{key} is missing"),
        ),
        client=SimpleNamespace(read_connector=lambda _: connector),
        settings=ConnectSettings("game", (), offsets_topic="connect-offsets", **settings),
        stores=stores,
    )


def read(*stores):
    (found,) = build(*stores).read([PARTITION])
    return found


@pytest.mark.parametrize("key", [OWN_KEY, REST_KEY])
def test_one_record_of_a_tasks_spelling_is_certain(key):
    found = read(Store("connect-offsets", (key, HOME)))
    assert (found.ambiguity, found.is_misplaced, found.offset) == ("", False, {})
    assert [record.key for record in found.records] == [key]


def test_record_that_no_task_reads_is_a_doubt():
    found = read(Store("connect-offsets", (SPACED_KEY, HOME)))
    assert "never read" in found.ambiguity
    beside = read(Store("connect-offsets", (SPACED_KEY, HOME), (REST_KEY, HOME)))
    assert beside.ambiguity == ""
    assert beside.records[0].key == REST_KEY


def test_record_on_another_partition_is_a_stray():
    assert read(Store("connect-offsets", (REST_KEY, AWAY))).is_misplaced
    assert read(Store("own", (REST_KEY, HOME)), Store("connect-offsets", (REST_KEY, AWAY))).is_misplaced


def test_topic_of_its_own_that_is_not_made_yet_holds_nothing():
    found = read(Store("own"), Store("connect-offsets", (REST_KEY, HOME)))
    assert (found.offset, found.ambiguity) == (None, "")
    assert [record.topic for record in found.records] == ["connect-offsets"]


def test_key_that_rest_does_not_spell_so_is_a_doubt_where_only_the_workers_have_it():
    """A write to the workers' topic alone would never be read."""
    assert "only in the workers' topic" in read(Store("own"), Store("connect-offsets", (OWN_KEY, HOME))).ambiguity


def test_group_of_a_sink_is_looked_at_in_the_cluster_that_it_reads_from():
    busy = GroupStatus("connect-orders", "STABLE", 1)
    there = SimpleNamespace(read_groups=lambda names: Reading((busy,) if names == ["connect-orders"] else (), {}))
    assert build(kind=ConnectorType.SINK, brokers=there).read_members() == busy


@pytest.mark.parametrize(
    ("config", "exactly_once", "topic"),
    [
        ({}, False, None),
        ({}, True, "connect-offsets"),
        ({"offsets.storage.topic": "own"}, False, "own"),
        ({"offsets.storage.topic": "own"}, True, "own"),
    ],
)
def test_with_exactly_once_a_source_has_a_topic_where_its_records_go(config, exactly_once, topic):
    settings = ConnectSettings("game", (), offsets_topic="connect-offsets", exactly_once=exactly_once)
    assert find_own_topic(Connector(NAME, "game", ConnectorType.SOURCE, config, None), settings) == topic


class Calls:
    """What was asked of the brokers, in its order."""

    def __init__(self, monkeypatch, *, trouble=None):
        self.made = []

        def take(config, transactional_id, *, timeout_seconds):
            self.made.append(transactional_id)
            if trouble is not None:
                raise trouble

        class Writer:
            def __init__(self, config, *, timeout_seconds):
                pass

            def __enter__(self):
                return self

            def __exit__(self, *failure):
                return None

            def write(this, records, *, until):  # noqa: N805 - self is the outer one
                assert until > 0
                self.made.append([record.key for record in records])

        monkeypatch.setattr(fence, "fence_producer", take)
        monkeypatch.setattr(exact_writer, "ExactWriter", Writer)


RECORD = HeldRecord("connect-offsets", HOME, OWN_KEY, b"{}")


def test_with_exactly_once_every_task_is_kept_out_before_anything_is_written(monkeypatch):
    calls = Calls(monkeypatch)
    build(config={"tasks.max": "3"}, exactly_once=True, group_id="workers").write([RECORD])
    assert sorted(calls.made[:3]) == [f"workers-orders-{task}" for task in range(3)]
    assert calls.made[3:] == [[OWN_KEY]]


def test_without_exactly_once_nobody_has_an_id_to_take(monkeypatch):
    calls = Calls(monkeypatch)
    build(config={"tasks.max": "3"}, group_id="workers").write([RECORD])
    assert calls.made == [[OWN_KEY]]


@pytest.mark.parametrize(
    ("more", "config", "trouble", "error"),
    [
        ({"group_id": "workers"}, {}, UnreachableError("it may still write"), UnreachableError),
        ({"group_id": "workers"}, {"tasks.max": "1000"}, None, RefusedError),
        ({}, {}, None, RefusedError),
    ],
    ids=["not taken", "too many", "nobody knows the ids"],
)
def test_who_can_not_be_kept_out_keeps_it_from_being_written(monkeypatch, more, config, trouble, error):
    calls = Calls(monkeypatch, trouble=trouble)
    with pytest.raises(error):
        build(config=config, exactly_once=True, **more).write([RECORD])
    assert [OWN_KEY] not in calls.made


def build_asking(asked, **settings):
    port = build(**settings)
    port._client = SimpleNamespace(find_silent=lambda workers, **more: asked.append((workers, more)) or ("w1:8083",))
    return port


def test_workers_are_alive_by_their_membership_in_the_worker_group(monkeypatch):
    monkeypatch.setattr(worker_group, "read_worker_loads", lambda *_, **__: {"http://w2:8083": frozenset()})
    asked = []
    assert build_asking(asked, group_id="workers").find_silent(["w1:8083"]) == ("w1:8083",)
    assert asked == [(["w1:8083"], {"members": frozenset({"w2:8083"})})]


def test_without_a_worker_group_only_answers_are_known():
    asked = []
    build_asking(asked).find_silent(["w1:8083"])
    assert asked == [(["w1:8083"], {})]


def test_with_exactly_once_no_worker_is_asked():
    assert build_asking([], exactly_once=True).find_silent(["w1:8083"]) == ()
