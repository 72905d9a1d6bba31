"""What people see, as snapshots, and the rules behind it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seamark.cli.context import ContextRow, build_contexts_view, build_settings_view
from seamark.connect.model import Connector, ConnectorStatus, State, Task, Worker, fold_trace
from seamark.connectors.model import Health
from seamark.connectors.views import (
    TASKS,
    build_connectors_view,
    render_health,
    render_state,
    style_health,
)
from seamark.connectors.worker_views import build_workers_view
from seamark.core.offsets import Offset
from seamark.core.readings import Finding, Reading, Severity
from seamark.core.refs import ConnectorType
from seamark.core.secrets import PLUGIN_KEYS
from seamark.doctor.views import build_findings_view
from seamark.errors import MissingSettingError, SeamarkError, UnreachableError
from seamark.offsets.model import OwnerOffsets
from seamark.offsets.views import build_offsets_view
from seamark.overview.connector import ConnectorOverview, build_overview_view
from seamark.overview.status import ClusterStatus, FleetStatus, build_status_view
from seamark.report.data import OutputFormat
from seamark.report.listing import render_view
from seamark.report.terminal import render_error
from seamark.report.text import Screen
from tests.unit.cli.stubs import TRACE, connector
from tests.unit.report.samples import OUR_STYLES, SomeSetting

FLEET = [
    connector("log-purchase"),
    connector("log-guild", tasks=[State.RUNNING, State.FAILED]),
    connector("lake-logs", cluster="lake", state=State.FAILED, tasks=[State.FAILED]),
    Connector("fresh", "lake", ConnectorType.UNKNOWN),
]


def show(view, form=OutputFormat.TABLE, **screen):
    return render_view(view, form, Screen(**screen))


@pytest.mark.parametrize("form", OutputFormat)
def test_connectors_listing(snapshot, form):
    failures = {"b": UnreachableError("b does not answer", hint="seamark doctor")}
    assert show(build_connectors_view(FLEET, failures), form) == snapshot


@pytest.mark.parametrize("form", OutputFormat)
def test_connector_detail(snapshot, form):
    PLUGIN_KEYS.remember(FLEET[1].cluster, FLEET[1].config["connector.class"], frozenset())
    assert show(build_overview_view(ConnectorOverview(FLEET[1])), form) == snapshot


def test_connector_without_status_says_so(snapshot):
    assert show(build_overview_view(ConnectorOverview(FLEET[3]))) == snapshot


def test_connector_that_failed_itself_shows_its_own_trace():
    failed = Connector("a", "b", ConnectorType.SINK, {}, ConnectorStatus(State.FAILED, trace=TRACE))
    assert "Tolerance exceeded" in show(build_overview_view(ConnectorOverview(failed)))


@pytest.mark.parametrize("form", [OutputFormat.TABLE, OutputFormat.WIDE, OutputFormat.JSON])
def test_workers_listing(snapshot, form):
    workers = (
        Worker("game", "http://w1:8083", "4.3.1", "abcdef", "k1", 2, 3, clock_skew_seconds=-0.25),
        Worker("game", "http://w2:8083", error="connection refused"),
    )
    assert show(build_workers_view(Reading(workers)), form) == snapshot


@pytest.mark.parametrize("form", OutputFormat)
def test_offsets_of_an_owner(snapshot, form):
    offsets = (
        Offset({"table": "game.public.purchase", "protocol": "1"}, {"seq": 8412003, "logged_at": 1794657871817}),
        Offset({"kafka_topic": "game-login", "kafka_partition": 3}, {"kafka_offset": 2204871}),
        Offset({"filename": "/tmp/a"}, None),
    )
    owned = OwnerOffsets("game/log-purchase", FLEET[0], offsets, notes=("REST can't tell spellings apart",))
    assert show(build_offsets_view(owned), form) == snapshot


def test_times_are_shown_beside_the_values_they_are_read_from():
    jdbc = replace(FLEET[0], config={"connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector"})
    offset = {"incrementing": 8412003, "timestamp": 1794657871817, "timestamp_nanos": 817000000}
    owned = OwnerOffsets("game/a", jdbc, (Offset({"protocol": "1", "table": "t"}, offset),))
    assert (
        "incrementing 8,412,003, timestamp 1,794,657,871,817 (2026-11-14T12:04:31Z), timestamp_nanos 817,000,000\n"
    ) in show(build_offsets_view(owned))
    assert "2026" not in show(build_offsets_view(owned), OutputFormat.JSON)


def build_status(count=1):
    troubled = tuple(FLEET[1] for _ in range(count))
    clusters = (
        ClusterStatus("game", "4.3.1", 1, 2, 1418, 2834, {Health.HEALTHY: 1416, Health.DEGRADED: 2}, troubled),
        ClusterStatus("lake", "3.5.2", 2, 2, 2, 1, {Health.UNHEALTHY: 1, Health.UNKNOWN: 1}, (FLEET[2], FLEET[3])),
        ClusterStatus("empty", "", 1, 1, 0, 0),
    )
    return FleetStatus("dev", clusters, {"b": UnreachableError("b does not answer")})


@pytest.mark.parametrize("form", OutputFormat)
def test_fleet_status(snapshot, form):
    assert show(build_status_view(build_status()), form) == snapshot


def test_status_with_much_trouble_stays_on_one_screen():
    text = show(build_status_view(build_status(count=30)))
    assert "Unhealthy: 32 connectors" in text
    assert "… 12 more: seamark connectors list" in text
    assert text.count("game/log-guild") == 20


def test_status_reasons_for_connectors_without_tasks():
    idle = Connector("idle", "game", ConnectorType.SINK, {}, ConnectorStatus(State.RUNNING))
    cluster = ClusterStatus("game", "4.3.1", 1, 1, 1, 0, {Health.UNHEALTHY: 1}, (idle,))
    assert "no tasks" in show(build_status_view(FleetStatus("dev", (cluster,))))


FINDINGS = [
    Finding("reach.worker", Severity.OK, "http://w1:8083", "answers, 4.3.1"),
    Finding("cve", Severity.WARNING, "http://w2:8083", "Kafka 3.5.2 has known holes", "upgrade to 3.9.1 or later"),
    Finding("topic", Severity.ERROR, "connect-offsets", "is not compacted", "kafka-configs …\nthen restart"),
    Finding("group", Severity.INFO, "game", "the workers share\none consumer group"),
]


@pytest.mark.parametrize("form", OutputFormat)
def test_findings_worst_first_with_their_fix(snapshot, form):
    assert show(build_findings_view(FINDINGS), form) == snapshot


def test_contexts_listing(snapshot):
    rows = [
        ContextRow("dev", current=True, bootstrap_servers="127.0.0.1:9092", clusters=("game", "lake")),
        ContextRow("prod", protected=True, error="the secret is gone"),
    ]
    assert show(build_contexts_view(rows)) == snapshot
    assert show(build_contexts_view([])) == ""


def test_settings_show_their_origin_only_when_asked(snapshot):
    settings = [SomeSetting("kafka.bootstrap.servers", "127.0.0.1:9092", "seamark.yaml:7")]
    assert show(build_settings_view("dev", settings, origins=True)) == snapshot
    assert "seamark.yaml" not in show(build_settings_view("dev", settings, origins=False), OutputFormat.JSON)
    assert "seamark.yaml:7" in show(build_settings_view("dev", settings, origins=True), OutputFormat.JSON)


@pytest.mark.parametrize("health", Health)
def test_each_health_word_has_its_own_symbol(health):
    symbol, word = render_health(health).split(" ")
    assert word == health.value
    assert len(symbol) == 1
    assert sum(render_health(other).startswith(symbol) for other in Health) == 1
    assert style_health(health)


@pytest.mark.parametrize("state", State)
def test_each_state_has_a_symbol_and_a_word(state):
    assert render_state(state).split(" ")[1] == state.value


def test_colour_never_stands_alone():
    view = build_connectors_view(FLEET, {})
    colored = show(view, color=True)
    assert "\x1b[33m▲ DEGRADED\x1b[0m" in colored
    assert OUR_STYLES.sub("", colored) == show(view)


def test_a_trace_is_folded_to_its_causes_without_secrets():
    folded = fold_trace(TRACE)
    assert folded.lines == (
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded",
        "Caused by: org.postgresql.util.PSQLException: FATAL: password=(sensitive) is wrong",
    )
    assert folded.hidden == 2
    assert folded.root.startswith("org.postgresql")
    assert fold_trace("").lines == ()


def test_wide_shows_the_whole_trace():
    text = show(build_overview_view(ConnectorOverview(FLEET[1])), OutputFormat.WIDE)
    assert "WorkerSourceTask.java:42" in text
    assert "hunter2" not in text


def test_error_is_three_lines(snapshot):
    error = UnreachableError("w1 does not answer", cause="connection refused\nby 10.0.0.1", hint="seamark doctor")
    assert render_error(error) == snapshot
    assert render_error(SeamarkError("only this")) == "error: only this\n"


def test_error_object_has_the_fixed_fields():
    error = MissingSettingError("no urls", cause="tried a:p@b", hint="add them", context={"context": "dev"})
    text = render_error(error, OutputFormat.JSON)
    assert text.count("\n") == 1
    assert json.loads(text) == {
        "apiVersion": "seamark/v1",
        "kind": "Error",
        "code": "MISSING_SETTING",
        "message": "no urls",
        "cause": "tried a:p@b",
        "hint": "add them",
        "retryable": False,
        "context": {"context": "dev"},
    }


def test_error_cause_that_quotes_a_secret_is_masked():
    error = SeamarkError("no", cause="at jdbc:postgresql://u:hunter2@db/x")
    assert "hunter2" not in render_error(error)
    assert "hunter2" not in render_error(error, OutputFormat.JSON)


def test_error_can_not_move_the_cursor():
    assert "\x1b" not in render_error(SeamarkError("a\x1b[2Jb", cause="c\rd"))


def test_task_listing_names_its_tasks():
    assert TASKS.name(Task(3, State.RUNNING)) == "3"
