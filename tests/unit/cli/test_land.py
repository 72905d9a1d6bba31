"""`seamark pipelines` and `apply` on pipelines: what is registered, and what does without files."""

from __future__ import annotations

import io
import json

import pytest

from seamark.cli.main import execute
from seamark.cli.session import Session
from seamark.context.context import DatabaseSettings
from seamark.context.reference import Secret
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
