"""What a copy refuses before it asks a server, and how a failed task of it reads. Needs pyspark, and no server."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from seamark.errors import RefusedError, UsageError
from seamark.kafka.topics import TopicFound
from seamark.model.control import Amount, Claim, ControlRecord, Copied
from seamark.model.copy_run import Run
from seamark.pipelines.copy_plan import CopyPlan, TopicEnd
from seamark.pipelines.routing import Routing, Rule
from seamark.pipelines.slices import OffsetRange, Slice
from seamark.spark import copy_job
from seamark.spark.copy_job import CopyEnds, run_copy
from seamark.spark.copy_sink import CopySink, CopyWriter

SERVERS = {"kafka.bootstrap.servers": "nowhere:1"}
ENDS = CopyEnds(SERVERS, target=SERVERS)
ROUTING = Routing(Rule.MURMUR2, 1, 1)
RANGES = (OffsetRange(0, 0, 5),)
PLAN = CopyPlan(
    id="p",
    made_at="2026-11-15T00:00:00Z",
    source=TopicEnd("c", "a", "", partitions=1, replication_factor=1),
    target=TopicEnd("c", "b", "", partitions=1, replication_factor=1),
    routing=ROUTING,
    evidence="a test",
    ranges=RANGES,
    slices=(Slice(0, RANGES),),
    configs=(),
)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ({"minPartitions": "9"}, {}, "no source option minPartitions"),
        ({"kafka.isolation.level": "read_uncommitted"}, {}, "read_uncommitted"),
        ({}, {"ordered": "true"}, "no option ordered"),
    ],
)
def test_copy_is_refused_before_a_server_is_asked(source, target, words):
    with pytest.raises(UsageError, match=words):
        run_copy(None, PLAN, CopyEnds({**SERVERS, **source}, target={**SERVERS, **target}))


class Target:
    """A target of one partition, with so many offsets, and a control topic."""

    def __init__(self, end=0, *, records=(), control=()):
        self.end, self.records, self.control = end, records, control

    def __call__(self, *_, **__):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read_found(self, names):
        return {name: TopicFound(name, 1, 1) for name in names}

    def read_end_offsets(self, spots):
        return dict.fromkeys(spots, self.end)

    def read(self):
        return iter(self.records)

    def read_control(self, *_, **__):
        return self.control


@pytest.fixture
def run(monkeypatch):
    """Run the plan against a target that is told; gives the slices that were written."""

    def against(target):
        written = []
        monkeypatch.setattr(copy_job, "TopicAdmin", target)
        monkeypatch.setattr(copy_job, "PartitionLog", target)
        monkeypatch.setattr(copy_job, "read_records", target.read_control)
        monkeypatch.setattr(copy_job, "ensure_control_topic", lambda *_: None)
        monkeypatch.setattr(copy_job, "write_slice", lambda _, __, part, **___: written.append(part.number))
        run_copy(SimpleNamespace(dataSource=SimpleNamespace(register=lambda _: None)), PLAN, ENDS)
        return written

    return against


def done(*runs):
    copied = Copied(1, runs=runs)
    claim = Claim("p", 0, part=PLAN.slices[0].id)
    return (ControlRecord(claim, Amount(copied.count), is_done=True, copied=copied),)


FIVE = done(Run(0, 0, 5, first_source=0, last_source=4, first_target=0, last_target=4))


def test_new_target_is_written_to_and_a_finished_one_is_not(run):
    assert run(Target()) == [0]
    assert run(Target(6, records=["one"], control=FIVE)) == []


def test_debris_of_a_run_that_committed_nothing_is_no_reason_to_stop(run):
    assert run(Target(9)) == [0]


def test_target_with_records_that_no_control_record_tells_of_is_refused(run):
    # A copy goes on with another control topic than it was begun with: every record would be there twice.
    with pytest.raises(RefusedError, match="the topic b has records, and the control topic") as caught:
        run(Target(9, records=["one"]))
    assert "another control topic" in caught.value.cause


def test_task_of_an_earlier_run_that_commits_meanwhile_is_no_stranger(run):
    target = Target(6, records=["one"])
    target.read = lambda: (setattr(target, "control", FIVE), iter(["one"]))[1]
    assert run(target) == [0]


def test_target_that_was_made_anew_is_refused(run):
    with pytest.raises(RefusedError, match="partition 0 of the target ends at 0"):
        run(Target(0, control=FIVE))


def options(**more):
    return {**SERVERS, "topic": "b", "plan": "p", "slice": "s", "routing": json.dumps(ROUTING.to_dict()), **more}


def test_sink_of_a_copy_says_why_it_refuses():
    with pytest.raises(UsageError, match="ordered") as caught:
        CopySink(options(ordered="true")).writer(None, overwrite=False)
    assert "cause: a task of a copy is one transaction" in str(caught.value)
    assert "hint: leave it out" in str(caught.value)
    assert isinstance(CopySink(options()).writer(None, overwrite=False), CopyWriter)


@pytest.mark.parametrize("call", ["write", "commit"])
def test_failed_task_of_a_copy_tells_cause_and_hint(monkeypatch, call):
    def fail(*_):
        raise RefusedError("it went wrong", cause="of something", hint="do this")

    writer = CopySink(options()).writer(None, overwrite=False)
    monkeypatch.setattr(CopyWriter, "_write", fail)
    monkeypatch.setattr(CopyWriter, "_place", fail)

    class Batch:
        num_rows = 1

    given = {"write": iter([Batch()]), "commit": []}
    with pytest.raises(RefusedError) as caught:
        getattr(writer, call)(given[call])
    assert str(caught.value) == "it went wrong\n  cause: of something\n  hint: do this"
