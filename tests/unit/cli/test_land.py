"""`seamark pipelines` and `apply` on pipelines: what is registered, and what does without files."""

from __future__ import annotations

import io
import json
import time
from types import SimpleNamespace

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.context.context import DatabaseSettings
from seamark.context.reference import Secret
from seamark.fleet import environment
from seamark.kafka.groups import Committed
from seamark.pipelines.progress import MemberState, RunReport
from seamark.tables.model import TableStatus
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.cli.stubs import NOON, Outcome
from tests.unit.fleet.living import LivingConnect, open_living_fleet

SPEC = """\
pipelines:
  orders:
    kind: land
    from: {topic: orders}
    to: {database: shop, table: public.orders}
    columns: {id: bigint}
"""
SHOP = DatabaseSettings("shop", "jdbc:postgresql://db/shop", Secret(lambda: "postgresql://me@127.0.0.1:1/shop"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipelines.yaml").write_text(SPEC)
    brokers = FakeBrokers()

    def open_fleet(_):
        fleet = open_living_fleet(tmp_path, LivingConnect(), brokers=brokers)
        object.__setattr__(fleet.context, "databases", {"shop": SHOP})
        return fleet

    def run(*argv):
        out, err = io.StringIO(), io.StringIO()
        session = Session(out=out, err=err, now=lambda: NOON, open_fleet=open_fleet)
        return Outcome(execute(argv, session=session), out.getvalue(), err.getvalue())

    run.brokers = brokers
    return run


def test_what_is_applied_is_known_without_its_files(run):
    assert run("pipelines", "status").out == ""
    assert "No pipelines are defined." in run("pipelines", "status").err
    assert "the journal has no pipeline orders" in run("pipelines", "plan", "orders").err
    ended = run("plan", "-f", "pipelines.yaml", "-o", "json", "--detailed-exitcode")
    assert ended.code == 2
    (effect,) = json.loads(ended.out)["effects"]
    assert effect["subject"] == "pipeline/orders"
    applied = run("apply", "-f", "pipelines.yaml", "--yes")
    assert applied.code == 0, applied.err
    assert "pipeline/orders" in applied.out
    # It is looked for at the brokers now.
    ended = run("pipelines", "status", "orders")
    assert "check from.topic at pipeline/orders in the journal" in ended.err
    assert run("plan", "-f", "pipelines.yaml", "--detailed-exitcode").code == 0


def test_metrics_need_a_folder(run):
    ended = run("pipelines", "run", "orders", "-f", "pipelines.yaml", "--metrics", "nowhere/orders.prom")
    assert ended.code == 64
    assert "invalid value 'nowhere/orders.prom' for --metrics" in ended.err


@pytest.fixture
def status(run, monkeypatch):
    """`pipelines status` of an applied pipeline; takes the state that its run has published."""
    monkeypatch.setattr(
        "seamark.pipelines.declared.PipelineSpec.open_table",
        lambda spec: SimpleNamespace(read_status=lambda: TableStatus({}, rows=7, is_estimate=True)),
    )
    run.brokers.add_topic("orders", records=3)
    assert run("apply", "-f", "pipelines.yaml", "--yes").code == 0

    def read(state, *argv, **more):
        report = RunReport(state, round(time.time() * 1000), application="lake", host="h1", **more)
        offsets = {("orders", 0): Committed(0, metadata=report.to_metadata())}
        run.brokers.add_group("seamark-pipeline-orders", offsets)
        return run("pipelines", *argv)

    return read


@pytest.mark.parametrize(
    ("state", "level", "code"),
    [
        (MemberState.RUNNING, "warning", 0),
        (MemberState.RETRYING, "error", 0),
        (MemberState.RETRYING, "warning", 1),
        (MemberState.SUSPENDED, "error", 1),
        (MemberState.SUSPENDED, "warning", 1),
    ],
)
def test_exit_code_tells_the_worst_problem(status, state, level, code):
    ended = status(state, "status", "--fail-on", level, reason="column boss_id is text")
    assert ended.code == code, ended.err
    assert ended.out.splitlines()[-1] == f"1 pipeline: 1 {state}"
    assert status(state, "status", reason="x").code == 0


def test_level_that_is_unknown_is_refused(status):
    assert status(MemberState.RUNNING, "status", "--fail-on", "fatal").code == 64


def test_list_and_status_show_the_same_of_the_chosen_ones(status):
    listed = status(MemberState.SUSPENDED, "list", "ord*", reason="column boss_id is text")
    assert listed.out == status(MemberState.SUSPENDED, "status", reason="column boss_id is text").out
    assert "~7     3" in listed.out
    assert "✗ suspended: column boss_id is text (retry in 0 s)" in listed.out
    assert "no pipeline matches other" in status(MemberState.RUNNING, "list", "other").err
    one = json.loads(status(MemberState.SUSPENDED, "status", "orders", "-o", "json", reason="x").out)
    assert (one["kind"], one["state"], one["reason"], one["lag"], one["rows_estimated"]) == (
        "Pipeline",
        "suspended",
        "x",
        3,
        True,
    )


def test_table_that_can_not_be_read_fails_the_command_but_not_its_output(run):
    run.brokers.add_topic("orders", records=3)
    assert run("apply", "-f", "pipelines.yaml", "--yes").code == 0
    ended = run("pipelines", "list")
    assert ended.code == 6
    assert "not running; database public.orders is unreachable" in ended.out
    assert "check host and port" in ended.err
    assert run("pipelines", "status", "--fail-on", "error").code == 1


def test_doctor_reports_pipelines(status, run, monkeypatch):
    # The brokers don't exist, and the worker group is read from them.
    monkeypatch.setattr(environment, "_KAFKA_SECONDS", 0.1)
    status(MemberState.SUSPENDED, "list", reason="column boss_id is text")
    found = [one for one in json.loads(run("doctor", "-o", "json").out)["items"] if one["check"] == "pipelines.state"]
    assert [(one["severity"], one["subject"], one["message"]) for one in found] == [
        ("error", "orders", "suspended: column boss_id is text")
    ]
    status(MemberState.RUNNING, "list")
    found = [one for one in json.loads(run("doctor", "-o", "json").out)["items"] if one["check"] == "pipelines.state"]
    assert [(one["severity"], one["message"]) for one in found] == [("ok", "1 pipeline has no problem")]
