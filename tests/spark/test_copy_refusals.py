"""What a copy refuses before it asks a server, and how a failed task of it reads. Needs pyspark, and no server."""

from __future__ import annotations

import json

import pytest

from seamark.errors import RefusedError, UsageError
from seamark.pipelines.copy_plan import CopyPlan, TopicEnd
from seamark.pipelines.routing import Routing, Rule
from seamark.pipelines.slices import OffsetRange, Slice
from seamark.spark.copy_job import CopyEnds, run_copy
from seamark.spark.copy_sink import CopySink, CopyWriter

SERVERS = {"kafka.bootstrap.servers": "nowhere:1"}
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
