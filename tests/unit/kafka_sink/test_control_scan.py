"""The control records of a job are those of one moment, whoever else uses the topic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.errors import DeadlineError, NotFoundError
from seamark.kafka.model import RawRecord, ScanResult
from seamark.kafka_sink import control_reads as control_scan
from seamark.kafka_sink.control import Amount, Claim, ControlRecord, encode_control

CONFIG = {"bootstrap.servers": "nowhere:1"}


class Scan:
    """A topic that was read, in its place."""

    def __init__(self):
        self.records, self.held_back, self.failures, self.asked = [], {}, [], []

    def add(self, record, *, partition=0):
        self.records.append(
            RawRecord(partition, len(self.records), 0, key=record.claim.key, value=encode_control(record))
        )

    def __call__(self, config, topic, *, committed, patience_seconds):
        assert committed
        self.asked.append(patience_seconds)
        return self

    def read_newest(self, accept):
        if self.failures:
            raise self.failures.pop()
        found = tuple(record for record in self.records if record.key is None or accept(record.key))
        return ScanResult("control", 16, len(self.records), found, self.held_back)


@pytest.fixture
def scan(monkeypatch):
    made = Scan()
    monkeypatch.setattr(control_scan, "TopicScan", made)
    return made


def done(job, task, **more):
    return ControlRecord(Claim(job, task=task, **more), amount=Amount(5), is_done=True)


def read(job):
    return control_scan.read_records(CONFIG, "control", job=job, patience_seconds=7)


def test_records_are_those_of_the_job(scan):
    first, second = done("plan", 0), done("plan", 1)
    for record in (first, done("plane", 0), second):
        scan.add(record)
    scan.records.append(RawRecord(3, 9, 0, key=None, value=b"a stranger"))
    scan.records.append(RawRecord(3, 9, 0, key=b"\xff/0", value=b"another"))
    assert read("plan") == (first, second)
    assert scan.asked == [7]


def test_records_that_a_transaction_hides_are_an_error(scan):
    scan.add(done("plan", 0))
    scan.held_back = {3: (4, 9)}
    with pytest.raises(DeadlineError, match="could not be read to its end within 7 s"):
        read("plan")
    # Whoever only looks takes what there is.
    found = control_scan.scan_control(CONFIG, "control", jobs=["plan", "other"], patience_seconds=7)
    assert (len(found.records["plan"]), found.records["other"], found.is_whole) == (1, (), False)


def test_topic_that_was_just_made_is_waited_for(scan):
    scan.failures = [NotFoundError("the topic control is not there")]
    assert read("plan") == ()
    assert len(scan.asked) == 2


def test_what_is_known_of_a_job_is_that_of_its_tasks_alone(scan):
    scan.add(done("job", 0))
    scan.add(replace(done("job", 3), is_done=False))
    scan.add(done("job", 0, query="q", batch=1))
    found = control_scan.read_known(CONFIG, "control", job="job")
    assert {task: record.is_done for task, record in found.items()} == {0: True, 3: False}
