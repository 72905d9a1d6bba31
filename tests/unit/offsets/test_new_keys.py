"""Keys for partitions without a record: as REST spells them, unless others of the connector show another order."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from seamark.connect.model import Connector
from seamark.core.refs import ConnectorType
from seamark.errors import NotFoundError, RefusedError
from seamark.kafka.model import HeldRecord
from seamark.offsets.codec.codec import encode_key, encode_rest_key
from seamark.offsets.model import CurrentOffset, TopicHolding
from seamark.offsets.read.connector import NewKeys

NEW = {"table": "new", "protocol": "1"}
OLD = {"table": "old", "protocol": "1"}
WORKERS, OWN = "connect-offsets", "own-offsets"


class Stores:
    def __init__(self, *keys, missing=(), knows_home=True):
        self.keys, self.missing, self.is_known = keys, missing, knows_home

    def knows_home(self, _connector):
        return self.is_known

    def read_holding(self, _connector, topic):
        if topic in self.missing:
            raise NotFoundError(f"topic {topic} does not exist")
        return TopicHolding(topic, tuple(HeldRecord(topic, 3, key, b"{}") for key in self.keys), len)


def complete(stores, *held, **config):
    connector = Connector("orders", "game", ConnectorType.SOURCE, config)
    settings = SimpleNamespace(offsets_topic=WORKERS, exactly_once=False)
    context = SimpleNamespace(kafka=SimpleNamespace(client_config=dict), insecure=True)
    return NewKeys(connector, context=context, settings=settings, stores=stores).complete(held)


def test_what_has_a_record_stays_as_it_is_and_no_topic_is_read():
    held = CurrentOffset(OLD, {}, (HeldRecord(WORKERS, 7, encode_key("orders", OLD), b"{}"),))
    assert complete(Stores(missing=[WORKERS]), held).held == (held,)


def test_a_new_key_is_spelled_as_rest_would_and_lies_where_java_puts_it():
    key = encode_rest_key("orders", NEW)
    found = complete(Stores(), CurrentOffset(NEW))
    assert found.held[0].records == (HeldRecord(WORKERS, len(key), key),)
    assert "encoding of Connect's REST API" in found.notes[0]


@pytest.mark.parametrize("order", [("table", "protocol"), ("protocol", "table")])
def test_the_order_of_the_connectors_other_keys_is_taken(order):
    others = encode_key("orders", {field: OLD[field] for field in order})
    (one,) = complete(Stores(others, encode_key("orders", {"other": 1})), CurrentOffset(NEW)).held
    assert one.records[0].key == encode_key("orders", {field: NEW[field] for field in order})


def test_two_orders_are_nobodys_guess():
    both = [encode_key("orders", {field: OLD[field] for field in order}) for order in (OLD, reversed(OLD))]
    with pytest.raises(RefusedError, match="can't determine the key encoding that the tasks"):
        complete(Stores(*both), CurrentOffset(NEW))


def test_with_a_topic_of_its_own_both_are_written_and_its_own_is_named_first():
    own = {"offsets.storage.topic": OWN}
    (one,) = complete(Stores(), CurrentOffset(NEW), **own).held
    assert [record.topic for record in one.records] == [OWN, WORKERS]
    there = CurrentOffset(OLD, None, (HeldRecord(WORKERS, 7, encode_key("orders", OLD), b"{}"),))
    (one,) = complete(Stores(), there, **own).held
    key = encode_key("orders", OLD)
    assert one.records == (HeldRecord(OWN, len(key), key), there.records[0])
    with pytest.raises(RefusedError, match="does not exist yet"):
        complete(Stores(missing=[OWN]), CurrentOffset(NEW), **own)


def test_a_partitioner_of_its_own_is_a_refusal():
    with pytest.raises(RefusedError, match="can't determine the topic partition"):
        complete(Stores(knows_home=False), CurrentOffset(NEW))
    elsewhere = {"offsets.storage.topic": OWN, "producer.override.bootstrap.servers": "other:9092"}
    with pytest.raises(RefusedError, match="another Kafka cluster"):
        complete(Stores(), CurrentOffset(NEW), **elsewhere)
