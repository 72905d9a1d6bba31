"""Control records are read to the true end, once, and only those of the job are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar
from uuid import uuid4

import pytest

from seamark.kafka import control
from seamark.kafka.log import LogRecord
from seamark.model.control import Amount, Claim, ControlRecord
from seamark.model.control_codec import encode_control

CONFIG = {"bootstrap.servers": "nowhere:1"}


class Log:
    """A partition that hands out what is in it, and notes from where it was asked."""

    records: ClassVar[list[LogRecord]] = []
    end = 0
    asked: ClassVar[list[tuple[int, int]]] = []

    def __init__(self, config, topic, *, partition, patience_seconds):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read_bounds(self):
        return 0, Log.end

    def read(self, start, end):
        Log.asked.append((start, end))
        return (record for record in Log.records if start <= record.offset < end)


@pytest.fixture
def claim(monkeypatch):
    monkeypatch.setattr(control, "PartitionLog", Log)
    Log.records, Log.end, Log.asked = [], 0, []
    return Claim(uuid4().hex, task=0)


def add(record):
    Log.records.append(LogRecord(Log.end, timestamp_ms=0, key=record.claim.key, value=encode_control(record)))
    # Each transaction ends with a marker, which has an offset too.
    Log.end += 2


def read(claim, **keywords):
    return control.read_progress(CONFIG, "control", claim=claim, patience_seconds=1, **keywords)


def test_newest_record_of_the_task_counts(claim):
    half = ControlRecord(claim, amount=Amount(5), is_done=False)
    whole = replace(half, amount=Amount(9), is_done=True)
    for record in (half, whole, replace(half, claim=replace(claim, task=1)), replace(half, claim=Claim("x", task=0))):
        add(record)
    assert read(claim) == whole


def test_what_was_read_is_not_read_again(claim):
    add(ControlRecord(claim, amount=Amount(5), is_done=False))
    assert read(claim).amount == Amount(5)
    add(ControlRecord(claim, amount=Amount(9), is_done=True))
    assert read(claim).amount == Amount(9)
    assert read(claim).amount == Amount(9)
    assert Log.asked == [(0, 2), (2, 4), (4, 4)]


def test_new_job_does_not_read_the_past(claim):
    add(ControlRecord(claim, amount=Amount(5), is_done=False))
    assert read(claim, start=2) is None
    assert Log.asked == [(2, 2)]


def test_topic_that_was_made_anew_is_read_from_its_start(claim):
    for _ in range(3):
        add(ControlRecord(claim, amount=Amount(5), is_done=True))
    assert read(claim).is_done
    Log.records, Log.end = [], 0
    assert read(claim) is None


def test_records_of_others_are_not_looked_into(claim):
    Log.records.append(LogRecord(0, timestamp_ms=0, key=b"somebody/0", value=b"not ours"))
    Log.end = 1
    assert read(claim) is None
