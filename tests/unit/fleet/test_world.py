"""The world that steps act on."""

import time

import pytest

from seamark.changes.timing import ChangeTiming, build_timing
from seamark.connect.api import STATUSES
from seamark.connect.client import ConnectClient
from seamark.fleet.environment import LiveEnvironment, SystemClock, build_changing_brokers, build_changing_client
from seamark.kafka.brokers import Brokers
from seamark.offsets.port import OFFSETS, SNAPSHOTS
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.builders import settings
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, living_context, open_living_fleet


def test_the_client_that_acts_begins_no_attempt_later_than_a_step_may_send():
    with build_changing_client(settings(), in_flight_seconds=90) as client:
        assert isinstance(client, ConnectClient)
        assert client.timing.deadline_seconds == ChangeTiming().send_seconds


def test_what_the_workers_can_do_is_known_before_a_step_acts(tmp_path):
    game = LivingConnect()
    asked = []
    game.read_capabilities = lambda: asked.append("capabilities")
    fleet = open_living_fleet(tmp_path, game)
    assert fleet._world.connect("game") is game
    assert asked == ["capabilities"]


def test_secrets_are_revealed_by_the_context_and_sealed_by_its_key(tmp_path, monkeypatch):
    monkeypatch.setenv("A_SECRET", "hunter2")
    world = LiveEnvironment(
        living_context(tmp_path), clusters=open_living_fleet(tmp_path, LivingConnect())._write_clusters
    )
    assert world.reveal("secret://env/A_SECRET") == "hunter2"
    assert world.seal("hunter2") == world.keys.read().current.seal("hunter2")
    assert world.clock.now() > 0


def test_the_brokers_are_opened_once_and_not_before_somebody_asks(tmp_path):
    opened = []
    world = LiveEnvironment(
        living_context(tmp_path),
        clusters=open_living_fleet(tmp_path, LivingConnect())._write_clusters,
        build_brokers=lambda context: opened.append(context.name) or FakeBrokers(),
    )
    assert opened == []
    assert world.kafka() is world.kafka()
    assert opened == ["dev"]


def test_two_requests_to_the_brokers_end_within_the_time_for_sending(tmp_path):
    brokers = build_changing_brokers(living_context(tmp_path))
    assert isinstance(brokers, Brokers)
    assert 2 * brokers._timeout_seconds <= build_timing(0.1).send_seconds
    brokers.close()


def test_the_clock_goes_on_evenly_when_somebody_sets_the_wall_clock(monkeypatch):
    clock = SystemClock()
    before = clock.now()
    assert abs(before - time.time()) < 1
    monkeypatch.setattr(time, "time", lambda: before + 3600)
    assert clock.now() - before < 5


def test_a_step_can_not_read_what_a_plan_keeps_and_a_plan_can_not_write(tmp_path):
    game = LivingConnect()
    game.add("fs", SOURCE_CONFIG)
    fleet = open_living_fleet(tmp_path, game)
    with pytest.raises(KeyError):
        fleet._world.use(SNAPSHOTS)
    plan = fleet._open_plan_world()
    kept = plan.use(SNAPSHOTS).open("game", "fs")
    assert plan.use(OFFSETS)("game", "fs") is kept
    assert fleet._open_plan_world().use(OFFSETS)("game", "fs") is not kept
    for write in (kept.alter, kept.write, kept.commit):
        with pytest.raises(NotImplementedError):
            write(())


def test_a_plan_keeps_the_connector_and_not_the_status_that_it_waits_for(tmp_path):
    game = LivingConnect()
    game.add("fs", SOURCE_CONFIG)
    plan = open_living_fleet(tmp_path, game)._open_plan_world()
    kept = plan.use(SNAPSHOTS).open("game", "fs")
    assert kept.connector.status.state == "RUNNING"
    game.states["fs"] = "STOPPED"
    assert kept.connector.status.state == "RUNNING"
    assert plan.use(STATUSES)("game", "fs").state == "STOPPED"
