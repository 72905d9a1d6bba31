"""The status of pipelines: what a run publishes, and what another process reads of it."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from seamark.core.readings import Severity
from seamark.errors import SeamarkError, UnreachableError
from seamark.kafka.groups import Committed
from seamark.pipelines.declared import build_declared
from seamark.pipelines.progress import (
    HEARTBEAT_SECONDS,
    STALE_SECONDS,
    LandMetrics,
    MemberState,
    MemberStatus,
    PipelineLag,
    RunReport,
    StatusPublisher,
    read_report,
    render_metrics,
)
from seamark.pipelines.spark_topic import LagMeter, LandTopic
from seamark.pipelines.status import PipelineState, StatusReader
from seamark.pipelines.views import build_status_view, build_statuses_view
from seamark.report.data import OutputFormat
from seamark.report.listing import render_view
from seamark.tables.model import LedgerEntry, TableStatus
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.pipelines.test_landings import CONTEXT, DESIRED

HOUR, DAY = 3600.0, 86_400.0
# Record number n of a fake topic has the time 1000 * n.
NOW = 1_000.0
GROUP = "seamark-pipeline-orders"


# --- what a run publishes


def test_state_is_read_as_it_was_published():
    report = RunReport(MemberState.SUSPENDED, 7, 'column boss_id is "text" \x00 한', 9, "lake", "h1")
    assert read_report(report.to_metadata()) == report
    # Brokers accept 4,096 bytes by default.
    longest = RunReport(MemberState.SUSPENDED, 10**13, "\x00" * 500, 10**13, "a" * 100, "b" * 100)
    assert len(longest.to_metadata().encode()) < 4096


@pytest.mark.parametrize("metadata", ["", "text", "[]", '{"format_version": 1, "state": "running"}'])
def test_metadata_of_another_program_is_not_a_state(metadata):
    with pytest.raises(SeamarkError):
        read_report(metadata)


class Publishing:
    """A publisher whose clock is set by hand."""

    def __init__(self):
        self.now, self.sent, self.works = NOW, [], True
        self.publisher = StatusPublisher("lake", now=lambda: self.now)
        self.publisher.add("orders", self.publish)

    def publish(self, report):
        self.sent.append(report)
        return self.works

    def note(self, state, reason="", retry_seconds=0.0):
        self.publisher.note(MemberStatus("orders", state, reason, retry_seconds))
        self.publisher.publish_due()

    @property
    def states(self):
        return [one.state.value for one in self.sent]


def test_changed_state_is_published_at_once_and_an_equal_one_with_the_heartbeat():
    stage = Publishing()
    stage.publisher.publish_due()
    assert stage.sent == []
    for _ in range(3):
        stage.note(MemberState.RUNNING)
    assert stage.states == ["running"]
    stage.note(MemberState.SUSPENDED, "column boss_id is text", 15)
    assert (stage.sent[-1].reason, stage.sent[-1].retry_at_ms) == ("column boss_id is text", (NOW + 15) * 1000)
    assert (stage.sent[-1].application, bool(stage.sent[-1].host)) == ("lake", True)
    # The same reason, and another time of the next try.
    stage.now += 15
    stage.note(MemberState.SUSPENDED, "column boss_id is text", 30)
    assert stage.sent[-1].retry_at_ms == (NOW + 45) * 1000
    stage.now += HEARTBEAT_SECONDS
    stage.publisher.publish_due()
    stage.publisher.publish_due()
    assert stage.states == ["running", "suspended", "suspended", "suspended"]
    assert stage.sent[-1].at_ms == stage.now * 1000


def test_failure_to_publish_waits_for_the_next_heartbeat():
    stage = Publishing()
    stage.works = False
    stage.note(MemberState.RUNNING)
    stage.note(MemberState.RUNNING)
    assert stage.states == ["running"]


def test_no_secret_is_published():
    stage = Publishing()
    words = "could not open postgresql://me:hunter2@db/shop password=hunter2 \udcff"
    stage.note(MemberState.SUSPENDED, words, 15)
    stage.note(MemberState.SUSPENDED, "x" * 10_000, 15)
    assert "hunter2" not in stage.sent[0].to_metadata()
    assert len(stage.sent[1].reason) == 500
    assert stage.sent[0].to_metadata().encode()


def test_end_of_the_application_is_published_for_all():
    stage = Publishing()
    stage.publisher.add("other", stage.publish)
    with stage.publisher:
        stage.publisher.note(MemberStatus("orders", MemberState.RUNNING))
        stage.publisher.note(MemberStatus("other", MemberState.ENDED, "column x is missing"))
    assert {(one.state.value, one.reason) for one in stage.sent} >= {("ended", ""), ("ended", "column x is missing")}
    assert stage.states[-1] == "ended"


def test_brokers_that_are_away_do_not_delay_the_end():
    stage = Publishing()
    stage.works = False
    for number in range(5):
        stage.publisher.add(f"p{number}", stage.publish)
        stage.publisher.note(MemberStatus(f"p{number}", MemberState.RUNNING))
    stage.publisher.end_all()
    assert len(stage.sent) == 1


# --- where it is published


@pytest.fixture
def brokers():
    found = FakeBrokers()
    found.add_topic("orders", partitions=2, records=100)
    return found


def build_topic(brokers, **changes):
    return LandTopic(build_declared(CONTEXT, replace(DESIRED, **changes)).landing, brokers)


def build_report(state=MemberState.RUNNING, at=NOW, **more):
    return RunReport(state, round(at * 1000), application="lake", host="h1", **more)


def read_group(brokers):
    return {number: found.offset for (_, number), found in sorted(brokers.groups[GROUP].offsets.items())}


def test_state_goes_with_the_offset_of_the_first_partition(brokers):
    topic = build_topic(brokers)
    entries = [LedgerEntry("orders", "id-1", number, next_offset=40 + number) for number in range(2)]
    topic.mirror(entries)
    assert topic.report(build_report())
    assert read_group(brokers) == {0: 40, 1: 41}
    found = brokers.groups[GROUP].offsets
    assert (read_report(found["orders", 0].metadata).state, found["orders", 1].metadata) == ("running", "")
    # A batch that moves another partition keeps it.
    topic.mirror([entries[0], replace(entries[1], next_offset=50)])
    assert read_group(brokers) == {0: 40, 1: 50}
    assert read_report(found["orders", 0].metadata).application == "lake"


def test_run_that_does_not_hold_the_partitions_keeps_the_offset_of_the_group(brokers):
    topic = build_topic(brokers)
    topic.mirror([LedgerEntry("orders", "id-1", 0, next_offset=40)])
    # Another run has continued.
    brokers.groups[GROUP].offsets["orders", 0] = Committed(70)
    for state in (MemberState.RETRYING, MemberState.SUSPENDED, MemberState.ENDED):
        assert topic.report(build_report(state, reason="x"))
        assert read_group(brokers) == {0: 70}
    assert read_report(brokers.groups[GROUP].offsets["orders", 0].metadata).state == "ended"
    assert topic.read_told() == {("orders", 0): 70}


def test_pipeline_that_never_began_has_a_state(brokers):
    topic = build_topic(brokers)
    assert topic.report(build_report(MemberState.SUSPENDED, reason="the table has other columns"))
    assert read_group(brokers) == {0: 0}


def test_state_that_can_not_be_published_ends_nothing(brokers):
    brokers.failing["read_mirrored_offsets", GROUP] = UnreachableError("no broker answers")
    assert not build_topic(brokers).report(build_report(MemberState.SUSPENDED))
    brokers.failing = {("alter_group_offsets", GROUP): UnreachableError("no broker answers")}
    assert not build_topic(brokers).report(build_report(MemberState.SUSPENDED))


def test_lag_is_measured_for_all_with_the_same_requests(brokers):
    topics = {name: build_topic(brokers, name=name) for name in ("orders", "more", "new")}
    topics["orders"].mirror([LedgerEntry("orders", "id-1", number, next_offset=40) for number in range(2)])
    topics["more"].mirror([LedgerEntry("orders", "id-1", number, next_offset=100) for number in range(2)])
    found = {}
    LagMeter(brokers, topics, found.__setitem__, now=lambda: 100.0).measure()
    assert found == {"orders": PipelineLag(120, 60.0), "more": PipelineLag(0, 0.0)}


def test_lag_is_a_metric_also_while_there_is_no_batch():
    metrics = LandMetrics("orders")
    assert "lag_seconds" not in render_metrics([metrics])
    metrics.measured(PipelineLag(120, 60.0))
    text = render_metrics([metrics])
    assert 'seamark_pipeline_lag_seconds{pipeline="orders"} 60.0' in text
    assert 'seamark_pipeline_behind_records{pipeline="orders"} 120' in text


# --- what another process reads


class Tables:
    """The tables of all pipelines, by name: a `TableStatus` or an error."""

    def __init__(self, monkeypatch):
        self.found = {}
        monkeypatch.setattr(
            "seamark.pipelines.declared.PipelineSpec.open_table",
            lambda spec: SimpleNamespace(read_status=lambda: self.read(spec.landing.name)),
        )

    def read(self, name):
        found = self.found.get(name, TableStatus({}))
        if isinstance(found, SeamarkError):
            raise found
        return found


@pytest.fixture
def tables(monkeypatch):
    return Tables(monkeypatch)


def put(tables, *offsets, name="orders", **more):
    entries = [LedgerEntry("orders", "id-1", number, next_offset=offset) for number, offset in enumerate(offsets)]
    tables.found[name] = TableStatus({one.key: one for one in entries}, **more)


def publish(brokers, report, group=GROUP):
    brokers.add_group(group, {("orders", 0): Committed(5, metadata=report.to_metadata()), ("orders", 1): Committed(5)})


def read(brokers, *changes, now=NOW):
    specs = [build_declared(CONTEXT, replace(DESIRED, **{"every": 10.0, **change})) for change in changes or ({},)]
    return StatusReader(brokers, now=lambda: now).read(specs)


def test_running_pipeline_has_no_problem(brokers, tables):
    put(tables, 100, 100, rows=1_120_004, committed_at=NOW - 4)
    publish(brokers, build_report(at=NOW - 20))
    (found,) = read(brokers)
    assert (found.state, found.lag, found.lag_seconds, found.problems) == (PipelineState.RUNNING, 0, 0.0, ())
    assert (found.severity, found.application) == (Severity.OK, "lake")
    text = render_view(build_statuses_view([found]), OutputFormat.TABLE)
    assert text.splitlines() == [
        "PIPELINE   TABLE    MODE          ROWS   LAG   FRESHNESS   STATE",
        "orders     orders   append   1,120,004     0         0 s   ✓ running",
        "1 pipeline: 1 running",
    ]
    body = json.loads(render_view(build_statuses_view([found]), OutputFormat.JSON))["items"][0]
    assert (body["rows"], body["last_commit"], body["published_at"]) == (
        1_120_004,
        "1970-01-01T00:16:36Z",
        "1970-01-01T00:16:20Z",
    )


def test_suspended_pipeline_shows_its_reason_and_the_next_try(brokers, tables):
    put(tables, 40, 100, rows=60, is_estimate=True)
    report = build_report(MemberState.SUSPENDED, reason="column boss_id is text", retry_at_ms=round(NOW + 40) * 1000)
    publish(brokers, report)
    (found,) = read(brokers)
    assert (found.severity, found.lag, found.lag_seconds) == (Severity.ERROR, 60, NOW - 40)
    text = render_view(build_statuses_view([found]), OutputFormat.TABLE)
    assert "✗ suspended: column boss_id is text (retry in 40 s)" in text
    assert "~60" in text
    one = render_view(build_status_view(found), OutputFormat.TABLE)
    assert "application lake on h1, last seen 0 s ago" in one
    assert "partition 0: at offset 40; offsets 0 to 100, lag 60, freshness 16 min" in one
    assert "fix: correct the cause; the pipeline is retried automatically" in one


@pytest.mark.parametrize(
    ("report", "state", "severity", "words"),
    [
        (build_report(MemberState.RETRYING, reason="lake away"), "retrying", Severity.WARNING, "lake away"),
        (build_report(at=NOW - STALE_SECONDS - 1), "stale", Severity.ERROR, "no sign of its application since 1970-01"),
        (build_report(MemberState.ENDED, at=0, reason="x"), "ended", Severity.ERROR, "x"),
        (build_report(MemberState.ENDED, at=0), "ended", Severity.WARNING, ""),
        (None, "not running", Severity.WARNING, ""),
    ],
)
def test_state_of_a_pipeline_that_is_not_well(brokers, tables, report, state, severity, words):
    put(tables, 100, 100)
    if report is not None:
        publish(brokers, report)
    (found,) = read(brokers)
    assert (found.state.value, found.severity) == (state, severity)
    assert words in found.reason
    assert all(one.fix for one in found.problems)


@pytest.mark.parametrize("report", [None, build_report(MemberState.ENDED, at=0)])
def test_pipeline_without_an_interval_need_not_run(brokers, tables, report):
    put(tables, 100, 100)
    if report is not None:
        publish(brokers, report)
    (found,) = read(brokers, {"every": None})
    assert found.severity is Severity.OK


def test_state_of_another_version_is_unknown(brokers, tables):
    put(tables, 100, 100)
    brokers.add_group(GROUP, {("orders", 0): Committed(5, metadata='{"format_version": 99}')})
    (found,) = read(brokers)
    assert (found.state, found.severity) == (PipelineState.UNKNOWN, Severity.WARNING)
    assert "version 99" in found.reason


@pytest.mark.parametrize(
    ("retention", "policy", "now", "words"),
    [
        (7 * DAY, "delete", 6 * DAY + HOUR / 2, "retention deletes records that are not processed in 23 h"),
        (7 * DAY, "compact,delete", 40 + 8 * DAY, "retention deletes records that are not processed at any time"),
        (7 * DAY, "delete", 40 + 5 * DAY, ""),
        (7 * DAY, "compact", 40 + 8 * DAY, ""),
        (None, "delete", 40 + 800 * DAY, ""),
        # A topic that keeps records for less than two days is not reported all the time.
        (DAY, "delete", 40 + 10 * HOUR, ""),
        (DAY, "delete", 12.5 * HOUR, "retention deletes records that are not processed in 11 h"),
    ],
)
def test_records_that_retention_deletes_before_they_are_processed(brokers, tables, retention, policy, now, words):
    milliseconds = "-1" if retention is None else str(round(retention * 1000))
    brokers.topics["orders"].configs |= {"retention.ms": milliseconds, "cleanup.policy": policy}
    put(tables, 40, 100)
    publish(brokers, build_report(at=now))
    (found,) = read(brokers, now=now)
    assert [one.message for one in found.problems] == ([words] if words else [])
    assert found.severity is (Severity.ERROR if words else Severity.OK)


def test_retention_does_not_concern_a_pipeline_that_has_not_begun(brokers, tables):
    publish(brokers, build_report(MemberState.STARTING, at=8 * DAY))
    (found,) = read(brokers, now=8 * DAY)
    assert (found.problems, found.lag) == ((), 200)


def test_deleted_records_are_an_error(brokers, tables):
    put(tables, 40, 100)
    brokers.topics["orders"].starts[0] = 52
    publish(brokers, build_report())
    (found,) = read(brokers)
    (problem,) = found.problems
    assert problem.message == "records were deleted before they were processed: 12 offsets"
    assert problem.fix == "accept the loss: seamark offsets move pipeline/orders --to earliest"


def test_table_that_can_not_be_read_is_an_error_of_its_row(brokers, tables):
    put(tables, 100, 100)
    tables.found["bad"] = UnreachableError("could not read s3://lake/bad", hint="check the keys")
    good, bad, gone = read(brokers, {}, {"name": "bad"}, {"name": "gone", "topic": "gone"})
    assert good.error is None
    assert (bad.lag, bad.severity, bad.error.message) == (None, Severity.ERROR, "could not read s3://lake/bad")
    assert "seamark topics create gone" in gone.error.hint
    lines = render_view(build_statuses_view([good, bad, gone]), OutputFormat.TABLE).splitlines()
    assert lines[2].endswith("✗ not running; could not read s3://lake/bad")
    assert lines[4] == "3 pipelines: 3 not running"


def test_many_pipelines_take_as_many_requests_as_one(brokers, tables):
    names = [f"p{number}" for number in range(500)]
    for name in names:
        put(tables, 40, 100, name=name)
        publish(brokers, build_report(), group=f"seamark-pipeline-{name}")
    read(brokers, {"name": "p0"})
    before = dict(brokers.calls)
    found = read(brokers, *({"name": name} for name in names))
    after = {verb: count - before[verb] for verb, count in brokers.calls.items()}
    assert {one.state for one in found} == {PipelineState.RUNNING}
    assert (after["read_topics"], after["read_committed"]) == (1, 1)
    assert after["read_bounds"] == before["read_bounds"]
