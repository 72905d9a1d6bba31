"""Control records are read to the true end, once, and only those of the job are kept."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import ClassVar
from uuid import uuid4

import pytest

from seamark.errors import SeamarkError
from seamark.kafka.log import LogRecord
from seamark.kafka_sink import control_reads as control
from seamark.kafka_sink import control_reads as control_clients
from seamark.kafka_sink.control import Amount, Claim, ControlRecord, encode_control

CONFIG = {"bootstrap.servers": "nowhere:1"}


class Log:
    """A partition that hands out what is in it, and notes from where it was asked."""

    records: ClassVar[list[LogRecord]] = []
    end = 0
    topic_id = "first"
    asked: ClassVar[list[tuple[int, int]]] = []

    opened = closed = 0

    def __init__(self, config, topic, *, partition, patience_seconds):
        Log.opened += 1

    def close(self):
        Log.closed += 1

    def read_bounds(self):
        return 0, Log.end

    def read(self, start=0, end=1000):
        Log.asked.append((start, end))
        return (record for record in Log.records if start <= record.offset < end)


class Admin:
    def __init__(self, config):
        pass

    def close(self):
        pass


@pytest.fixture
def claim(monkeypatch):
    monkeypatch.setattr(control, "CLIENTS", control_clients.ControlClients())
    monkeypatch.setattr(control_clients, "PartitionLog", Log)
    monkeypatch.setattr(control_clients, "TopicAdmin", Admin)
    monkeypatch.setattr(control, "read_control_id", lambda *_, **__: Log.topic_id)
    Log.records, Log.end, Log.asked, Log.topic_id = [], 0, [], "first"
    Log.opened = Log.closed = 0
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
    Log.records, Log.end, Log.topic_id = [], 0, "second"
    # By now it has come further than the first one was.
    for _ in range(4):
        add(ControlRecord(Claim("another", task=0), amount=Amount(1), is_done=True))
    assert read(claim) is None
    assert Log.asked == [(0, 6), (0, 8)]


def test_partition_that_has_lost_records_is_read_from_its_start(claim):
    for _ in range(3):
        add(ControlRecord(claim, amount=Amount(5), is_done=True))
    assert read(claim).is_done
    Log.records, Log.end = [], 0
    assert read(claim) is None


def test_clients_are_kept_for_the_next_task_and_not_after_a_failure(claim):
    for _ in range(3):
        assert read(claim) is None
    assert (Log.opened, Log.closed) == (1, 0)
    Log.records.append(LogRecord(0, timestamp_ms=0, key=claim.key, value=b"not ours"))
    Log.end = 1
    with pytest.raises(SeamarkError):
        read(claim)
    assert (Log.opened, Log.closed) == (1, 1)


def test_only_few_clients_are_kept(claim):
    jobs = [Claim(f"job-{number}", task=0) for number in range(40)]
    for job in jobs:
        read(job)
    assert len({job.partition for job in jobs}) > 4
    assert Log.opened - Log.closed == 4


class SlowLog(Log):
    """Two attempts in one process: the first asked earlier, and reads on while the second does."""

    second_is_through = threading.Event()
    first_is_through = threading.Event()

    def read_bounds(self):
        self.is_first = threading.current_thread().name == "first"
        return 0, 2 if self.is_first else 4

    def read(self, start, end):
        if self.is_first:
            assert self.second_is_through.wait(5)
        yield from super().read(start, end)
        if not self.is_first:
            self.second_is_through.set()
            assert self.first_is_through.wait(5)


def test_what_one_attempt_reads_does_not_hide_what_another_has_read(claim, monkeypatch):
    monkeypatch.setattr(control_clients, "PartitionLog", SlowLog)
    whole = ControlRecord(claim, amount=Amount(9), is_done=True)
    add(replace(whole, amount=Amount(5), is_done=False))
    add(whole)

    def read_first():
        found["first"] = read(claim)
        SlowLog.first_is_through.set()

    found = {}
    first = threading.Thread(target=read_first, name="first")
    first.start()
    found["second"] = read(claim)
    first.join(5)
    assert (found["first"].is_done, found["second"].is_done) == (False, True)
    # The first came back last, with less.
    monkeypatch.setattr(control_clients, "PartitionLog", Log)
    assert read(claim) == whole


def test_records_of_others_are_not_looked_into(claim):
    Log.records.append(LogRecord(0, timestamp_ms=0, key=b"somebody/0", value=b"not ours"))
    Log.end = 1
    assert read(claim) is None
