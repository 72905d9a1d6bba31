"""What a copy refuses before it asks a server, and how a failed task of it reads. Needs pyspark, and no server."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from seamark.copies.plan.endpoints import CopyEnds
from seamark.copies.plan.plan import CopyPlan, TopicEnd
from seamark.copies.run import spark_copy as copy_job
from seamark.copies.run.spark_copy import CopySink, CopyWriter, run_copy
from seamark.core.readings import Reading
from seamark.errors import ConfigurationError, RefusedError, UsageError
from seamark.kafka.model import PartitionStatus, TopicStatus
from seamark.kafka_sink import spark as batch_limit
from seamark.kafka_sink.control import Amount, Claim, ControlRecord, Copied, Run
from seamark.kafka_sink.routing import Partitioner, Routing
from seamark.spark.settings import build_source_client
from seamark.spark.slices import OffsetRange, Slice

SERVERS = {"kafka.bootstrap.servers": "nowhere:1"}
ENDS = CopyEnds(SERVERS, target=SERVERS)
ROUTING = Routing(Partitioner.MURMUR2, 1, 1)
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
        ({"minPartitions": "9"}, {}, "unsupported source option minPartitions"),
        ({"kafka.isolation.level": "read_uncommitted"}, {}, "read_uncommitted"),
        ({}, {"ordered": "true"}, "option ordered is not supported"),
    ],
)
def test_copy_is_refused_before_a_server_is_asked(source, target, words):
    with pytest.raises(UsageError, match=words):
        run_copy(None, PLAN, CopyEnds({**SERVERS, **source}, target={**SERVERS, **target}))


class Target:
    """A target of one partition, with so many offsets, and a control topic."""

    def __init__(self, end=0, *, records=(), control=(), ids=None):
        self.end, self.records, self.control, self.ids = end, records, control, ids or {}

    def __call__(self, *_, **__):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read_topics(self, names):
        found = (TopicStatus(name, self.ids.get(name, "?"), (PartitionStatus(0, 1, (1,), (1,)),)) for name in names)
        return Reading(items=tuple(found))

    def read_end_offsets(self, spots):
        return dict.fromkeys(spots, self.end)

    def read(self):
        return iter(self.records)

    def read_control(self, *_, **__):
        return self.control


@pytest.fixture
def run(monkeypatch):
    """Run the plan against a target that is told; gives the slices that were written."""

    def against(target, plan=PLAN, failures=(), **keywords):
        written = []
        registered = []
        taken = []
        left = list(failures)
        monkeypatch.setattr(batch_limit, "read_record_bytes", lambda *_, **__: 100)

        def write(_, __, part, **___):
            written.append(part.number)
            if left:
                raise PySparkException(left.pop(0))

        # The session below has no JVM that could register a data source; test_sessions.py does that with a real one.
        monkeypatch.setattr(copy_job, "register_sink", lambda _, sink: registered.append(sink))
        monkeypatch.setattr(copy_job, "branch", lambda spark, _: spark)
        monkeypatch.setattr(copy_job, "TopicAdmin", target)
        monkeypatch.setattr(copy_job, "PartitionLog", target)
        monkeypatch.setattr(copy_job, "read_records", target.read_control)
        monkeypatch.setattr(copy_job, "read_known", target.read_control)
        monkeypatch.setattr(copy_job, "ensure_control_topic", lambda *_: "")
        monkeypatch.setattr(copy_job, "take_over", lambda *_, **__: taken.append(len(written)))
        monkeypatch.setattr(copy_job, "write_slice", write)
        confs = {"spark.sql.execution.arrow.maxBytesPerBatch": "67108864b"}
        confs["spark.sql.execution.arrow.maxRecordsPerBatch"] = "10000"
        conf = SimpleNamespace(get=confs.get, set=confs.__setitem__)
        run_copy(SimpleNamespace(conf=conf), plan, ENDS, **keywords)
        assert registered == [CopySink]
        # A run that died may have left something open wherever there is something.
        assert taken == ([0] if target.end else [])
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
    with pytest.raises(RefusedError, match="topic b has records, but control topic") as caught:
        run(Target(9, records=["one"]))
    assert "another control topic" in caught.value.cause


def test_task_of_an_earlier_run_that_commits_meanwhile_is_no_stranger(run):
    target = Target(6, records=["one"])
    target.read = lambda: (setattr(target, "control", FIVE), iter(["one"]))[1]
    assert run(target) == [0]


def test_target_that_was_made_anew_is_refused(run):
    with pytest.raises(RefusedError, match="partition 0 of the target ends at 0"):
        run(Target(0, control=FIVE))


@pytest.mark.parametrize("role", ["source", "target"])
def test_topic_that_is_not_the_one_of_the_plan_is_refused(run, role):
    end = replace(getattr(PLAN, role), topic_id="then")
    plan = replace(PLAN, **{role: end})
    with pytest.raises(RefusedError, match=f"{role} topic {end.topic} of the copy was recreated"):
        run(Target(ids={end.topic: "now"}), plan)
    assert run(Target(ids={end.topic: "then"}), plan) == [0]


@pytest.mark.parametrize("role", ["source", "target"])
def test_topic_with_other_partitions_than_the_plan_is_refused(run, role):
    shape = {"source": 1, "target": 1, role: 2}
    ends = {name: replace(getattr(PLAN, name), partitions=count) for name, count in shape.items()}
    plan = replace(PLAN, routing=Routing(Partitioner.MURMUR2, shape["source"], shape["target"]), **ends)
    with pytest.raises(RefusedError, match="has 1 partitions, and the plan is for 2") as caught:
        run(Target(), plan)
    assert f"added to the {role}" in caught.value.cause


def test_settings_of_the_source_are_those_of_java():
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    given = {"kafka.bootstrap.servers": "a:1", "kafka.security.protocol": "SASL_PLAINTEXT", "groupIdPrefix": "x"}
    found = build_source_client({**given, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": login})
    assert (found["bootstrap.servers"], found["sasl.username"], found["sasl.password"]) == ("a:1", "u", "p")
    with pytest.raises(ConfigurationError, match="can't be used for seamark's own client") as caught:
        build_source_client({**given, "kafka.sasl.mechanism": "GSSAPI"})
    assert "source_client" in caught.value.hint


def test_slice_whose_batches_were_too_large_is_written_again_and_no_other(run):
    assert run(Target(), failures=["java.lang.OutOfMemoryError: direct buffer memory"]) == [0, 0]
    with pytest.raises(PySparkException, match="key belongs"):
        run(Target(), failures=["misplaced record: its key belongs to target partition 1"])
    with pytest.raises(PySparkException, match="second"):
        run(Target(), failures=["OutOfMemoryException, the first", "OutOfMemoryException, the second"])


def test_each_slice_is_told_when_it_is_done(run):
    told = []
    run(Target(), on_slice=lambda part, done, every: told.append((part.number, done, every)))
    assert told == [(0, 1, 1)]


def options(**more):
    return {**SERVERS, "topic": "b", "plan": "p", "slice": "s", "routing": json.dumps(ROUTING.to_dict()), **more}


def test_sink_of_a_copy_says_why_it_refuses():
    with pytest.raises(UsageError, match="ordered") as caught:
        CopySink(options(ordered="true")).writer(None, overwrite=False)
    assert "cause: a task of a copy is one transaction" in str(caught.value)
    assert "hint: remove the option" in str(caught.value)
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
