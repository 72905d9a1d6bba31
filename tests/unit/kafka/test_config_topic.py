"""The names of connectors in a config topic."""

from __future__ import annotations

import pytest

from seamark.errors import UnreachableError
from seamark.kafka.model import RawRecord, ScanResult
from seamark.kafka.topic_scan import read_connector_names


class Scan:
    def __init__(self, records, held_back=None):
        self.records, self.held_back = records, held_back or {}

    def read_newest(self, accept=None):
        kept = [
            RawRecord(0, offset, 0, key, value)
            for offset, (key, value) in enumerate(self.records)
            if key is None or accept(key)
        ]
        return ScanResult("configs", 1, len(self.records), tuple(kept), self.held_back)


def read(*records, **more):
    return read_connector_names({}, "configs", scan=Scan(records, **more))


def test_names_are_those_of_connectors_that_were_not_deleted():
    found = read(
        (b"connector-orders", b"{}"),
        (b"connector-connector-x", b"{}"),
        (b"connector-gone", None),
        (b"task-orders-0", b"{}"),
        (b"commit-orders", b"{}"),
        (b"target-state-orders", b"{}"),
        (b"session-key", b"{}"),
        (None, b"{}"),
    )
    assert found == {"orders", "connector-x"}


def test_an_empty_topic_has_none():
    assert read() == frozenset()


def test_a_topic_that_can_not_be_read_to_its_end_is_an_error():
    with pytest.raises(UnreachableError, match="to its end"):
        read((b"connector-orders", b"{}"), held_back={0: (1, 2)})
