"""What sources have not read: from the stores and the databases, each with its reason where it can't be told."""

from __future__ import annotations

import pytest

from seamark.connect.model import Plugin
from seamark.core.offsets import Certainty, Counted, OffsetKey, Unit
from seamark.errors import UnreachableError
from seamark.offsets.exports import PartitionLag, SourceLag
from seamark.offsets.model import StoredOffset, StoredRecord, StoreReading
from seamark.offsets.read.lag import read_source_lags
from tests.unit.fleet.builders import StubConnect, connector, open_stub_fleet, sink

JDBC = "io.aiven.connect.jdbc.JdbcSourceConnector"


class Stores:
    """One store for all. `reads` are the names that were asked for, one entry for each scan."""

    def __init__(self, error=None):
        self.reads = []
        self.error = error

    def find_workers(self, _cluster):
        return self

    def find(self, _connector):
        return type("Found", (), {"first": self})()

    def read(self, names):
        self.reads.append(sorted(names))
        if self.error:
            raise self.error
        return StoreReading(
            "topic t",
            tuple(
                StoredOffset(
                    OffsetKey(name, {"protocol": "1", "table": "db.s.t"}), {"incrementing": 5}, StoredRecord("t")
                )
                for name in names
            ),
        )


def source(name, **config):
    return connector(name, config={"connector.class": JDBC, "mode": "incrementing", **config})


def read(stub, stores):
    fleet = open_stub_fleet({"game": stub})
    return read_source_lags(fleet.context, clusters=fleet._clusters, stores=stores)


def test_a_shared_topic_is_read_once_and_sinks_are_left_out():
    stores = Stores()
    reading = read(StubConnect(connectors=(source("a"), source("b"), sink("lake"))), stores)
    assert stores.reads == [["a", "b"]]
    assert [(lag.owner, lag.total, lag.certainty) for lag in reading.items] == [
        ("game/a", None, Certainty.UNKNOWN),
        ("game/b", None, Certainty.UNKNOWN),
    ]
    assert "has no database" in reading.items[0].reason


def test_a_topic_of_its_own_is_read_for_itself():
    stores = Stores()
    read(StubConnect(connectors=(source("a"), source("b", **{"offsets.storage.topic": "own"}))), stores)
    assert sorted(stores.reads) == [["a"], ["b"]]


def test_stores_that_can_not_be_read_are_failures_by_name():
    reading = read(StubConnect(connectors=(source("a"),)), Stores(UnreachableError("no broker")))
    assert list(reading.failures) == ["game"]
    assert reading.items == ()


def count(figure, certainty=Certainty.EXACT, reason=""):
    return Counted(Unit.ROWS, figure, certainty, reason)


@pytest.mark.parametrize(
    ("parts", "total", "certainty", "worst"),
    [
        ((), None, Certainty.UNKNOWN, None),
        ((count(3), count(9)), 12, Certainty.EXACT, "t1"),
        ((count(3), count(9, Certainty.ESTIMATE)), 12, Certainty.ESTIMATE, "t1"),
        ((count(3), count(None, Certainty.UNKNOWN, "no")), 3, Certainty.EXACT, "t0"),
    ],
)
def test_a_sum_is_worth_as_much_as_its_worst_part(parts, total, certainty, worst):
    lag = SourceLag("game/a", partitions=tuple(PartitionLag(f"t{number}", part) for number, part in enumerate(parts)))
    assert (lag.total, lag.certainty) == (total, certainty)
    assert (lag.worst.partition if lag.worst else None) == worst


def test_a_short_class_name_is_that_of_its_plugin():
    stub = StubConnect(connectors=(source("a", **{"connector.class": "JdbcSource"}),))
    stub.plugins = (Plugin(JDBC, "source", "1"),)
    (lag,) = read(stub, Stores()).items
    assert lag.unit == "rows"
