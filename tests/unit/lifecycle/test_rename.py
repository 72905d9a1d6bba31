from __future__ import annotations

import json
import threading

import pytest

from seamark.changes.plan import Plan
from seamark.core.offsets import Offset
from seamark.errors import (
    AlreadyExistsError,
    NotFoundError,
    RefusedError,
    RejectedError,
    StalePlanError,
    UnsettledError,
    UnsupportedError,
    UsageError,
)
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, open_living_fleet, register
from tests.unit.offsets.moving import Place

PASSWORD = "hunter2-canary"
AT = (Offset({"filename": "/in"}, {"position": 7}),)
IN_TOPIC = (Offset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7}),)


def test_a_source_without_a_place_gets_its_new_name_and_it_back(fleet, game):
    game.add("old", SOURCE_CONFIG)
    before = dict(game.configs), dict(game.states)
    planned = fleet.connectors.rename("old", "new")
    assert [step.kind for step in planned.plan.steps] == ["create-connector", "delete-connector", "set-run-state"]
    assert len({step.lane for step in planned.plan.steps}) == 1
    assert set(planned.plan.locks) == {"source.workers/old", "source.workers/new"}
    result = fleet.apply(planned)
    assert result.is_done
    assert (game.states, game.configs) == ({"new": "RUNNING"}, {"new": {**SOURCE_CONFIG, "name": "new"}})
    assert fleet.apply(fleet.undo(result)).is_done
    assert (game.configs, game.states) == before


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
def test_the_new_one_is_in_the_state_of_the_old_one(fleet, game, state):
    game.add("old", SOURCE_CONFIG, state=state)
    assert fleet.apply(fleet.connectors.rename("game/old", "new")).is_done
    assert game.states == {"new": state}


def test_offsets_of_a_source_would_be_lost_in_an_older_cluster_and_it_is_refused(fleet, game):
    game.version = "3.6.2"
    game.add("old", SOURCE_CONFIG)
    game.offsets["old"] = AT
    with pytest.raises(
        RefusedError, match="renamed to new, connector old would lose its offsets; no changes were made"
    ) as caught:
        fleet.connectors.rename("old", "new")
    assert "1 source offset of old in offsets: new doesn't use them and starts from the beginning" in caught.value.cause
    assert "--allow-offset-loss" in caught.value.hint
    planned = fleet.connectors.rename("old", "new", allow_offset_loss=True)
    assert any(note.startswith("lost: 1 source offset of old") for note in planned.plan.notes)
    assert game.writes == 0


def test_offsets_that_nobody_tells_count_as_lost(tmp_path):
    game = LivingConnect(version="3.4.0")
    game.add("old", SOURCE_CONFIG)
    game.failing["read_offsets", "old"] = UnsupportedError("can't read offsets")
    with open_living_fleet(tmp_path, game) as fleet, pytest.raises(RefusedError, match="would lose") as caught:
        fleet.connectors.rename("old", "new")
    assert "an unknown number of offsets (can't read offsets)" in caught.value.cause


def test_a_sink_would_read_as_another_group_in_an_older_cluster_and_is_refused(fleet, game):
    game.version = "3.6.2"
    game.add("old", SINK_CONFIG)
    game.offsets["old"] = IN_TOPIC
    with pytest.raises(RefusedError) as caught:
        fleet.connectors.rename("old", "new")
    assert "group connect-old: new uses group connect-new" in caught.value.cause
    assert "--set consumer.override.group.id=connect-old" in caught.value.hint


def test_a_sink_with_a_group_of_its_own_keeps_its_place(fleet, game):
    game.add("old", {**SINK_CONFIG, "consumer.override.group.id": "mine"})
    game.offsets["old"] = IN_TOPIC
    planned = fleet.connectors.rename("old", "new")
    assert not any(note.startswith("lost:") for note in planned.plan.notes)
    assert fleet.apply(planned).is_done
    assert game.configs["new"]["consumer.override.group.id"] == "mine"


def test_secrets_go_along_in_memory_only(fleet, game, tmp_path):
    game.add("old", {**SOURCE_CONFIG, "connection.password": PASSWORD})
    planned = fleet.connectors.rename("old", "new")
    assert PASSWORD not in json.dumps(planned.plan.to_dict()) + str(planned)
    assert any(note.startswith("can't be undone: delete connector/game/old") for note in planned.plan.notes)
    assert fleet.apply(planned).is_done
    assert game.configs["new"]["connection.password"] == PASSWORD
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert kept == []


def test_where_the_new_one_can_not_be_created_the_old_one_stays(fleet, game):
    game.add("old", SOURCE_CONFIG)
    planned = fleet.connectors.rename("old", "new")
    game.failing["create", "new"] = RejectedError("the config is refused")
    result = fleet.apply(planned)
    assert not result.is_done
    assert game.states == {"old": "RUNNING"}
    assert game.calls["delete"] == 0


def test_an_older_cluster_runs_both_for_a_moment_and_says_so(tmp_path):
    game = LivingConnect(version="3.6.2")
    game.add("old", SOURCE_CONFIG)
    with open_living_fleet(tmp_path, game) as fleet:
        planned = fleet.connectors.rename("old", "new")
        assert any("old and new both run temporarily" in note for note in planned.plan.notes)
        assert fleet.apply(planned).is_done
        assert game.states == {"new": "RUNNING"}
        game.states["new"] = "PAUSED"
        with pytest.raises(UnsupportedError, match="create connector newer as PAUSED"):
            fleet.connectors.rename("new", "newer")


def test_keys_that_hold_the_old_name_are_named(fleet, game):
    game.add("old", {**SOURCE_CONFIG, "topic": "old-events"})
    planned = fleet.connectors.rename("old", "new")
    assert "these keys contain the old name and are not changed: topic" in planned.plan.notes


def test_names_that_can_not_be_are_refused(fleet, game):
    game.add("old", SOURCE_CONFIG)
    game.add("there", SOURCE_CONFIG)
    with pytest.raises(UsageError, match="the connector already has the name"):
        fleet.connectors.rename("old", "old")
    with pytest.raises(AlreadyExistsError, match="connector there already exists"):
        fleet.connectors.rename("old", "there")
    with pytest.raises(NotFoundError):
        fleet.connectors.rename("nope", "new")
    assert game.writes == 0


def test_a_rebalance_is_waited_for_but_not_for_long(fleet, game, monkeypatch):
    game.add("old", SOURCE_CONFIG)
    game.states["old"] = "UNASSIGNED"
    monkeypatch.setattr("seamark.changes.timing.PLAN_SECONDS", 0.1)
    with pytest.raises(UnsettledError, match="can't determine whether connector/game/old is meant to run"):
        fleet.connectors.rename("old", "new")
    assert game.writes == 0
    monkeypatch.setattr("seamark.changes.timing.PLAN_SECONDS", 20)
    timer = threading.Timer(0.2, game.states.update, [{"old": "PAUSED"}])
    timer.start()
    assert fleet.apply(fleet.connectors.rename("old", "new")).is_done
    assert game.states == {"new": "PAUSED"}


# --- with its offsets


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.game.add("old", SOURCE_CONFIG)
    made.game.offsets["old"] = AT
    made.scan.put(("old", AT[0].partition), AT[0].offset)
    with made.fleet:
        yield made


def test_a_source_takes_its_offsets_along_as_they_are_when_it_has_stopped(place):
    planned = place.fleet.connectors.rename("old", "new")
    assert "1 offset is copied" in str(planned)
    # It reads on between the plan and its stop.
    place.scan.put(("old", AT[0].partition), {"position": 9})
    result = place.apply(planned)
    assert place.game.states == {"new": "RUNNING"}
    assert place.held("new") == [{"position": 9}]
    place.apply(place.fleet.undo(result.change))
    assert place.game.states == {"old": "RUNNING"}
    assert place.held("old") == [{"position": 9}]


def test_a_sink_takes_its_place_along(place):
    place.game.add("lake", SINK_CONFIG, state="STOPPED")
    place.game.offsets["lake"] = IN_TOPIC
    place.brokers.add_topic("t", records=10)
    place.brokers.add_group("connect-lake", {("t", 0): 7})
    place.brokers.add_group("connect-pond", {})
    place.apply(place.fleet.connectors.rename("lake", "pond"))
    assert place.game.states["pond"] == "STOPPED"
    assert place.held("pond") == [{"kafka_offset": 7}]


@pytest.mark.parametrize("call", ["create", "patch_offsets"])
def test_where_the_offsets_do_not_come_along_the_old_one_runs_on(place, call):
    planned = place.fleet.connectors.rename("old", "new")
    place.game.failing[call, "new"] = RejectedError("no")
    assert not place.fleet.apply(planned).is_done
    assert place.game.states == {"old": "RUNNING"}
    assert place.held("old") == [{"position": 7}]


def test_connector_that_another_process_created_meanwhile_is_not_deleted(place, monkeypatch):
    planned = place.fleet.connectors.rename("old", "new")
    place.game.failing["patch_offsets", "new"] = RejectedError("no")
    number = next(number for number, step in enumerate(planned.plan.steps) if step.kind == "create-connector")

    def reach(name, step=0):
        if (name, step) == ("before-intent", number):
            place.game.add("new", SOURCE_CONFIG, state="STOPPED")

    monkeypatch.setattr("seamark.changes.executor.reach", reach)
    assert not place.fleet.apply(planned).is_done
    assert place.game.states == {"old": "RUNNING", "new": "STOPPED"}


def test_a_saved_plan_is_the_same(place, tmp_path):
    planned = place.fleet.connectors.rename("old", "new")
    again = type(planned.plan).from_dict(json.loads(json.dumps(planned.plan.to_dict())))
    place.apply(place.fleet.review(register(place.fleet, again)))
    assert place.held("new") == [{"position": 7}]


def test_a_key_that_rest_spells_in_another_way_is_refused(place):
    place.game.offsets["old"] = AT
    place.scan.put(b'["old",{"b":1,"a":2}]', {"position": 1})
    with pytest.raises(RefusedError, match="can't be copied to another connector") as refused:
        place.fleet.connectors.rename("old", "new")
    assert "key encoding that REST doesn't use" in refused.value.cause
    assert "--allow-offset-loss" in refused.value.hint
    planned = place.fleet.connectors.rename("old", "new", allow_offset_loss=True)
    assert any(note.startswith("lost: 1 source offset of old") for note in planned.plan.notes)


def kinds(planned):
    return [step.kind for step in planned.plan.steps]


def test_the_undo_of_an_undo_carries_what_the_old_one_has_read_since(place):
    undone = place.apply(place.fleet.undo(place.apply(place.fleet.connectors.rename("old", "new"))))
    place.scan.put(("old", AT[0].partition), {"position": 12})
    again = place.fleet.undo(undone)
    assert kinds(again) == kinds(place.fleet.connectors.rename("old", "new"))
    place.apply(again)
    assert place.game.states == {"new": "RUNNING"}
    assert place.held("new") == [{"position": 12}]


def test_the_undo_of_one_whose_old_name_could_not_be_deleted_lets_the_old_one_run(place):
    planned = place.fleet.connectors.rename("old", "new")
    place.game.failing["delete", "old"] = RejectedError("no")
    result = place.fleet.apply(planned)
    assert place.game.states == {"old": "STOPPED", "new": "RUNNING"}
    undo = place.fleet.undo(result)
    assert kinds(undo) == [
        "set-run-state",
        "prove-stopped",
        "write-offsets",
        "verify-offsets",
        "delete-connector",
        "set-run-state",
    ]
    place.apply(undo)
    assert place.game.states == {"old": "RUNNING"}


def test_the_undo_stops_a_new_one_that_was_started_since(place):
    place.game.states["old"] = "STOPPED"
    result = place.apply(place.fleet.connectors.rename("old", "new"))
    place.game.states["new"] = "RUNNING"
    undo = place.fleet.undo(result)
    assert kinds(undo)[:3] == ["create-connector", "set-run-state", "prove-stopped"]
    place.apply(undo)
    assert place.game.states == {"old": "STOPPED"}


def test_an_undo_of_what_somebody_else_has_deleted_is_stale(place):
    result = place.apply(place.fleet.connectors.rename("old", "new"))
    del place.game.configs["new"], place.game.states["new"]
    with pytest.raises(StalePlanError, match="out of date") as stale:
        place.fleet.undo(result)
    assert "connector/game/new#config" in stale.value.cause


def test_a_file_holds_no_step_and_no_config_and_all_are_derived(place):
    planned = place.fleet.connectors.rename("old", "new")
    file = planned.plan.to_file()
    assert not {"steps", "locks"} & file.keys()
    assert file["actions"] == [
        {"action": "rename-connector", "cluster": "game", "name": "old", "to": "new", "carries": True}
    ]
    reviewed = place.fleet.review(register(place.fleet, Plan.from_file(file)))
    assert (reviewed.plan.steps, reviewed.plan.locks) == (planned.plan.steps, planned.plan.locks)
    assert reviewed.effects == planned.effects
    place.game.configs["old"]["poll"] = "1"
    with pytest.raises(StalePlanError):
        place.fleet.review(register(place.fleet, Plan.from_file(file)))


def test_a_rename_whose_config_holds_secrets_can_not_be_undone(fleet, game):
    game.add("old", {**SOURCE_CONFIG, "connection.password": PASSWORD})
    result = fleet.apply(fleet.connectors.rename("old", "new"))
    with pytest.raises(RefusedError, match="can't be undone") as refused:
        fleet.undo(result)
    assert refused.value.cause.startswith("delete connector/game/old; its offsets are kept: the value of")
