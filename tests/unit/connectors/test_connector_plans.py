"""What the verbs plan: effects, locks, notes, and what they refuse. Nothing is changed by any of them."""

import json

import pytest

from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.core.offsets import Offset
from seamark.errors import (
    AlreadyExistsError,
    NotFoundError,
    RefusedError,
    UnreachableError,
    UnsupportedError,
    UsageError,
)
from seamark.kafka.groups import GroupStatus
from tests.unit.fleet.builders import StubKafka
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, open_living_fleet
from tests.unit.offsets.scans import FakeScan

SUBJECT = "connector/game/a"
PASSWORD = "hunter2-canary"


@pytest.fixture
def connectors(tmp_path, game):
    return open_living_fleet(tmp_path, game).connectors


def sink_group(name="connect-s", *, state="EMPTY", members=0):
    return GroupStatus(name, state=state, members=members)


# --- create


def test_create_plans_one_step_and_changes_nothing(connectors, game):
    planned = connectors.create("a", SOURCE_CONFIG)
    assert [step.kind for step in planned.plan.steps] == ["create-connector", "await-running", "set-run-state"]
    (effect,) = planned.effects
    assert (effect.sign, effect.subject, effect.words) == (ChangeKind.CREATE, SUBJECT, "create, RUNNING")
    assert len(effect.fields) == len(SOURCE_CONFIG)
    assert planned.plan.locks == ("source.workers/a",)
    assert [found.subject for found in planned.plan.preconditions] == [f"{SUBJECT}#config", f"{SUBJECT}#state"]
    assert game.writes == 0


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([], "a: starts from the beginning, no offset of this name exists"),
        ([("b", 7)], "a: starts from the beginning, no offset of this name exists"),
        ([("a", 40)], "a: resumes at file /in byte 40, an existing offset of this name from 2023-11-14"),
        ([("a", 40), ("a", None)], "a: starts from the beginning, no offset of this name exists"),
    ],
)
def test_create_of_a_source_says_which_offsets_of_its_name_are_left(tmp_path, game, held, said):
    scan = FakeScan("offsets")
    for name, position in held:
        scan.put((name, {"filename": "/in"}), None if position is None else {"position": position})
    with open_living_fleet(tmp_path, game, scan=scan) as fleet:
        assert fleet.connectors.create("a", SOURCE_CONFIG).plan.notes == (said,)


def test_create_says_how_many_offsets_are_left_and_why_nobody_can_tell(tmp_path, game):
    scan = FakeScan("offsets").put(("a", {"filename": "/in"}), {"position": 1})
    scan.put(("a", {"filename": "/else"}), {"position": 2})
    with open_living_fleet(tmp_path, game, scan=scan) as fleet:
        (note,) = fleet.connectors.create("a", SOURCE_CONFIG).plan.notes
    assert note == "a: resumes from 2 existing offsets of this name, the newest from 2023-11-14"
    with open_living_fleet(tmp_path, game, offsets_topic=None) as fleet:
        (note,) = fleet.connectors.create("a", SOURCE_CONFIG).plan.notes
    assert note.startswith("a: can't check for existing offsets of this name (")


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (sink_group(state="DEAD"), "no group connect-s exists"),
        (sink_group(), "group connect-s exists already (EMPTY); a sink resumes from its committed offsets"),
        (sink_group(state="STABLE", members=2), "exists already (STABLE with 2 members)"),
    ],
)
def test_create_of_a_sink_says_whether_its_group_exists(tmp_path, game, group, said):
    kafka = StubKafka(groups=[group])
    planned = open_living_fleet(tmp_path, game, kafka=kafka).connectors.create("s", SINK_CONFIG)
    assert said in planned.plan.notes[0]
    assert planned.plan.locks == ("group.connect-s@workers",)
    assert kafka.calls == {"groups": 1, "close": 1, "cluster": 1}


def test_create_of_a_sink_goes_on_without_the_brokers(tmp_path, game):
    kafka = StubKafka(failures={"connect-s": UnreachableError("nobody answers")})
    planned = open_living_fleet(tmp_path, game, kafka=kafka).connectors.create("s", SINK_CONFIG)
    assert "can't determine whether group connect-s exists (nobody answers)" in planned.plan.notes[0]


def test_create_takes_numbers_and_truth_values_as_connect_does(connectors):
    planned = connectors.create("a", SOURCE_CONFIG | {"tasks.max": 3, "flag": True, "name": "a"})
    config = planned.plan.steps[0].arguments["config"]
    assert (config["tasks.max"], config["flag"]) == ("3", "true")
    assert "name" not in config


@pytest.mark.parametrize(
    ("config", "error", "said"),
    [
        ({}, UsageError, "is empty"),
        ({"file": "/in"}, UsageError, "has no connector.class"),
        (SOURCE_CONFIG | {"name": "b"}, UsageError, "the config names connector b, not a"),
        (SOURCE_CONFIG | {"x": ["y"]}, UsageError, "x of a is not a string"),
        (SOURCE_CONFIG | {"x": None}, UsageError, "x of a is not a string"),
        (SOURCE_CONFIG | {"x": "(sensitive)"}, RefusedError, "contains the mask of a secret"),
        (SOURCE_CONFIG | {"db.password": "******"}, RefusedError, "contains the mask of a secret"),
    ],
)
def test_create_refuses_what_connect_could_not_use(connectors, game, config, error, said):
    with pytest.raises(error, match=said):
        connectors.create("a", config)
    assert game.writes == 0


def test_create_refuses_a_name_that_is_taken(connectors, game):
    game.add("a", SOURCE_CONFIG)
    with pytest.raises(AlreadyExistsError) as caught:
        connectors.create("a", SOURCE_CONFIG)
    assert "seamark connectors update game/a" in caught.value.hint


def test_create_needs_the_cluster_where_there_are_two(tmp_path, game):
    fleet = open_living_fleet(tmp_path, game, LivingConnect(cluster="lake"))
    with pytest.raises(UsageError) as caught:
        fleet.connectors.create("a", SOURCE_CONFIG)
    assert caught.value.cause == "game, lake"
    planned = fleet.connectors.create("a", SOURCE_CONFIG, cluster="lake")
    assert planned.effects[0].subject == "connector/lake/a"
    with pytest.raises(NotFoundError):
        fleet.connectors.create("a", SOURCE_CONFIG, cluster="gmae")


def test_create_in_another_state_needs_connect_3_7(tmp_path):
    connectors = open_living_fleet(tmp_path, LivingConnect(version="3.5.2")).connectors
    with pytest.raises(UnsupportedError) as caught:
        connectors.create("a", SOURCE_CONFIG, state="STOPPED")
    assert "needs Connect 3.7" in caught.value.cause
    assert connectors.create("a", SOURCE_CONFIG).effects
    with pytest.raises(UsageError, match="invalid initial state ASLEEP"):
        connectors.create("a", SOURCE_CONFIG, state="ASLEEP")


def test_create_of_an_unknown_plugin_takes_the_locks_of_both_kinds(connectors):
    planned = connectors.create("a", {"connector.class": "com.example.Mystery"})
    assert planned.plan.locks == ("group.connect-a@workers", "source.workers/a")


def test_own_group_of_a_sink_is_its_lock(connectors):
    sink = connectors.create("s", SINK_CONFIG | {"consumer.override.group.id": "ours"})
    assert sink.plan.locks == ("group.ours@workers",)


def test_a_workers_consumer_group_is_the_lock_of_every_sink(tmp_path, game):
    game.add("s1", SINK_CONFIG)
    game.add("s2", SINK_CONFIG)
    fleet = open_living_fleet(tmp_path, game, consumer_group_id="all-sinks")
    assert fleet.connectors.pause(["s1", "s2"]).plan.locks == ("group.all-sinks@workers",)


def test_worker_group_that_the_context_lacks_is_that_of_its_workers(tmp_path, game, monkeypatch):
    game.add("a", SOURCE_CONFIG)
    asked = []
    monkeypatch.setattr(
        "seamark.kafka.worker_group.find_worker_groups", lambda config, urls: asked.append(urls) or ("real",)
    )
    fleet = open_living_fleet(tmp_path, game, group_id=None, offsets_topic=None)
    assert fleet.connectors.pause("a").plan.locks == ("source.real/a",)
    assert asked == [["http://w1:8083"]]


@pytest.mark.parametrize("found", [(), ("one", "another")])
def test_change_is_refused_if_the_worker_group_is_unknown(tmp_path, game, monkeypatch, found):
    game.add("a", SOURCE_CONFIG)
    monkeypatch.setattr("seamark.kafka.worker_group.find_worker_groups", lambda config, urls: found)
    fleet = open_living_fleet(tmp_path, game, group_id=None)
    with pytest.raises(RefusedError, match="can't determine the worker group of Connect cluster game") as caught:
        fleet.connectors.pause("a")
    assert "connect.game.group_id" in caught.value.hint


# --- change and set


def test_set_plans_the_difference(connectors, game):
    game.add("a", SOURCE_CONFIG)
    planned = connectors.set("a", {"tasks.max": 4, "extra": "x"})
    assert planned.effects == (
        Effect(
            ChangeKind.CHANGE,
            SUBJECT,
            "restarts 1 task",
            fields=(FieldChange("extra", None, "x"), FieldChange("tasks.max", "1", "4")),
            tasks=1,
        ),
    )
    assert game.writes == 0


def test_set_takes_a_key_out(connectors, game):
    game.add("a", SOURCE_CONFIG)
    planned = connectors.set("a", {"topic": None})
    assert planned.effects[0].fields == (FieldChange("topic", "t", None),)
    with pytest.raises(UsageError, match="a has no nothing"):
        connectors.set("a", {"nothing": None})
    with pytest.raises(UsageError, match="the key name of a config can't be changed"):
        connectors.set("a", {"name": "b"})


def test_change_replaces_the_whole_config(connectors, game):
    game.add("a", SOURCE_CONFIG)
    planned = connectors.update("a", {"connector.class": SOURCE_CONFIG["connector.class"], "file": "/other"})
    assert {found.key for found in planned.effects[0].fields} == {"file", "topic", "tasks.max"}


def test_a_config_that_is_so_already_is_an_empty_plan(connectors, game):
    game.add("a", SOURCE_CONFIG)
    planned = connectors.update("a", SOURCE_CONFIG)
    assert planned.is_empty
    assert (planned.plan.locks, planned.plan.preconditions, planned.effects) == ((), (), ())
    assert "No changes." in str(planned)


def test_a_change_of_the_group_locks_the_old_and_the_new_one(connectors, game):
    game.add("s", SINK_CONFIG)
    planned = connectors.set("s", {"consumer.override.group.id": "ours"})
    assert planned.plan.locks == ("group.connect-s@workers", "group.ours@workers")


def test_secrets_that_stay_are_kept_out_of_the_plan(connectors, game):
    game.add("a", SOURCE_CONFIG | {"db.password": PASSWORD, "url": f"jdbc:x://u:{PASSWORD}@h/d"})
    planned = connectors.set("a", {"tasks.max": "2"})
    assert planned.plan.steps[0].arguments["keep"] == ["db.password", "url"]
    assert PASSWORD not in json.dumps(planned.plan.to_dict())
    assert "(sensitive)" not in json.dumps(planned.plan.to_dict())


def test_new_secrets_are_in_the_steps_and_not_in_the_plan(connectors, game):
    game.add("a", SOURCE_CONFIG | {"db.password": "old"})
    planned = connectors.set("a", {"db.password": PASSWORD, "url": f"jdbc:x://h/d?password={PASSWORD}"})
    assert PASSWORD not in json.dumps(planned.plan.to_dict()) + repr(planned) + str(planned)
    assert planned.steps[0].config["db.password"] == PASSWORD
    assert [(found.key, found.is_sensitive) for found in planned.effects[0].fields] == [
        ("db.password", True),
        ("url", True),
    ]
    assert "(sensitive) changed" in str(planned)


def test_a_change_of_a_literal_secret_says_that_it_can_not_be_undone(connectors, game):
    game.add("a", SOURCE_CONFIG | {"db.password": "old"})
    (note,) = connectors.set("a", {"db.password": PASSWORD}).plan.notes
    assert note.startswith("can't be undone:")
    assert "db.password" in note


# --- delete, states, restart


def test_delete_says_which_source_offsets_stay_behind(connectors, game):
    game.add("a", SOURCE_CONFIG)
    game.offsets["a"] = (Offset({"f": "/in"}, {"position": 3}),)
    planned = connectors.delete("a")
    assert planned.plan.notes == ("a: 1 source offset stays in offsets; a connector of that name resumes from there",)
    assert planned.effects == (Effect(ChangeKind.DELETE, SUBJECT, "delete: 1 task ends"),)


def test_delete_of_a_sink_says_its_group_with_partitions_and_lag(tmp_path, game):
    game.add("s", SINK_CONFIG)
    game.offsets["s"] = tuple(
        Offset({"kafka_topic": "t", "kafka_partition": number}, {"kafka_offset": 40}) for number in range(2)
    )
    kafka = StubKafka(ends={("t", 0): 50, ("t", 1): 43})
    (note,) = open_living_fleet(tmp_path, game, kafka=kafka).connectors.delete("s").plan.notes
    assert note == "s: group connect-s is kept with committed offsets of 2 partitions, lag 13 records"


def test_delete_goes_on_where_the_rest_can_not_be_told(tmp_path, game):
    game.add("a", SOURCE_CONFIG)
    game.add("s", SINK_CONFIG)
    game.failing = {("read_offsets", "a"): UnsupportedError("too old"), ("read_offsets", "s"): UnsupportedError("old")}
    notes = open_living_fleet(tmp_path, game).connectors.delete(["a", "s"]).plan.notes
    assert "their number is unknown (too old)" in notes[0]
    assert notes[1] == "s: group connect-s is kept with its committed offsets"


def test_delete_of_a_secret_says_that_it_can_not_be_undone(connectors, game):
    game.add("a", SOURCE_CONFIG | {"db.password": PASSWORD})
    notes = connectors.delete("a").plan.notes
    assert any(note.startswith("can't be undone:") for note in notes)
    assert PASSWORD not in repr(notes)


def test_delete_of_a_stopped_one_on_old_workers_says_what_undo_can_not(tmp_path):
    old = LivingConnect(version="3.5.2")
    old.add("a", SOURCE_CONFIG, state="STOPPED")
    notes = open_living_fleet(tmp_path, old).connectors.delete("a").plan.notes
    assert any("can't recreate it as STOPPED" in note for note in notes)


@pytest.mark.parametrize(
    ("verb", "state", "words"),
    [
        ("pause", "PAUSED", "pause: 2 tasks stay assigned"),
        ("stop", "STOPPED", "stop: 2 tasks end"),
    ],
)
def test_states_are_planned_with_their_effect(connectors, game, verb, state, words):
    game.add("a", SOURCE_CONFIG | {"tasks.max": "2"})
    planned = getattr(connectors, verb)("a")
    assert planned.effects == (Effect(ChangeKind.CHANGE, SUBJECT, words, (FieldChange("state", "RUNNING", state),)),)
    assert planned.plan.title == f"{verb} a"
    assert [found.subject for found in planned.plan.preconditions] == [f"{SUBJECT}#state"]


def test_what_is_so_already_is_left_out_of_a_plan(connectors, game):
    game.add("a", SOURCE_CONFIG, state="PAUSED")
    game.add("b", SOURCE_CONFIG)
    planned = connectors.pause(["a", "b"])
    assert [effect.subject for effect in planned.effects] == ["connector/game/b"]
    assert planned.plan.title == "pause 2 connectors"
    assert [step.lane for step in planned.plan.steps] == ["connector/game/b"]


def test_a_name_given_twice_counts_once(connectors, game):
    game.add("a", SOURCE_CONFIG)
    assert len(connectors.pause(["a", "game/a"]).plan.steps) == 1
    with pytest.raises(UsageError, match="no connector is given"):
        connectors.pause([])


def test_stop_and_restart_need_workers_that_can(tmp_path):
    old = LivingConnect(version="2.8.0")
    old.add("a", SOURCE_CONFIG, failed=[0])
    connectors = open_living_fleet(tmp_path, old).connectors
    with pytest.raises(UnsupportedError, match="can't stop connector a"):
        connectors.stop("a")
    with pytest.raises(UnsupportedError, match="restart the failed tasks of connector a"):
        connectors.restart("a")
    assert connectors.pause("a").effects


def test_restart_names_the_failed_tasks_alone(connectors, game):
    game.add("a", SOURCE_CONFIG | {"tasks.max": "3"}, failed=[0, 2])
    planned = connectors.restart("a")
    assert planned.effects[0].words == "restarts task 0, task 2"
    assert planned.plan.preconditions == ()
    game.failed_tasks["a"] = set()
    assert connectors.restart("a").is_empty


def test_a_cluster_that_can_not_be_read_makes_no_plan(connectors, game):
    game.add("a", SOURCE_CONFIG)
    game.add("b", SOURCE_CONFIG)
    game.failing = {("read_status", name): UnreachableError(f"{name} is silent") for name in "ab"}
    with pytest.raises(UnreachableError, match="2 resources could not be read; no changes were made") as caught:
        connectors.pause(["a", "b"])
    assert "a is silent" in caught.value.cause
    assert game.writes == 0


def test_update_that_changes_only_the_name_suggests_a_rename(fleet, game):
    game.add("old", SOURCE_CONFIG)
    with pytest.raises(UsageError, match="differs from that of game/old only in its name, new") as caught:
        fleet.connectors.update("old", {**SOURCE_CONFIG, "name": "new"})
    assert caught.value.hint == "rename the connector: seamark connectors rename game/old new"
    with pytest.raises(UsageError) as caught:
        fleet.connectors.set("old", {"name": "new"})
    assert caught.value.hint == "rename the connector: seamark connectors rename game/old new"
    with pytest.raises(UsageError, match="the config names connector new, not old"):
        fleet.connectors.update("old", {**SOURCE_CONFIG, "name": "new", "tasks.max": "7"})
    assert game.writes == 0


def test_create_with_the_config_of_another_connector_suggests_a_rename(fleet, game):
    game.add("old", SOURCE_CONFIG)
    note = (
        "game/old has the same config and would do the same work; to rename it instead: "
        "seamark connectors rename game/old new"
    )
    assert note in fleet.connectors.create("new", SOURCE_CONFIG).plan.notes
    assert note not in fleet.connectors.create("new", {**SOURCE_CONFIG, "file": "/else"}).plan.notes
