"""Plans from specs: what is created, changed, deleted, left alone, and what drifted."""

import dataclasses
import json

import pytest

from seamark.changes.actor import Actor
from seamark.changes.effect import ChangeKind
from seamark.changes.plan import read_plan_file
from seamark.changes.preconditions import build_preconditions
from seamark.connectors.config import DesiredConnector
from seamark.context import PaceSettings
from seamark.core.files import FileLocation
from seamark.errors import (
    JournalError,
    NotFoundError,
    RefusedError,
    StalePlanError,
    UnreachableError,
    UnsupportedError,
    UsageError,
)
from seamark.kafka.groups import GroupStatus
from seamark.specs.model import Spec
from seamark.topics.service import DesiredTopic
from tests.unit.fleet.builders import KAFKA_ID, StubKafka
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, open_living_fleet, register
from tests.unit.offsets.scans import FakeScan

PASSWORD = "hunter2-canary"


def want(name, config=None, *, cluster=None, state="", manage_state=False, **changes):
    config = {**(SOURCE_CONFIG if config is None else config), **changes}
    place = FileLocation("config/log.yaml", 3)
    return DesiredConnector(name, config, place, cluster=cluster, state=state, manage_state=manage_state)


def spec(*connectors, name="logs", topics=()):
    return Spec(name, connectors, {"topics": topics})


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    """What runs here runs at once and for good: nobody has to wait for its second look."""
    monkeypatch.setattr("seamark.connectors.run_state._lasts", lambda since, now, seconds: since is not None)


def signs(planned):
    return {effect.subject.rpartition("/")[2]: str(effect.sign) for effect in planned.effects}


def apply(fleet, *connectors, name="logs", **how):
    result = fleet.apply(fleet.plan(spec(*connectors, name=name), **how))
    assert result.is_done
    return result


# --- create, change, leave


def test_what_is_missing_is_created_what_differs_is_changed_and_what_is_equal_is_left_alone(fleet, game):
    game.add("same", SOURCE_CONFIG)
    game.add("other", SOURCE_CONFIG | {"tasks.max": "2", "extra": "1"})
    game.add("foreign", SOURCE_CONFIG)
    planned = fleet.plan(spec(want("same"), want("other"), want("new")))
    assert signs(planned) == {"other": "~", "new": "+"}
    assert [(field.key, field.before, field.after) for field in planned.effects[0].fields] == [
        ("extra", "1", None),
        ("tasks.max", "2", "1"),
    ]
    assert planned.effects[0].words == "restarts 2 tasks"
    (survey,) = planned.survey
    assert (survey.connectors, survey.unchanged, survey.foreign) == (3, 1, 1)
    assert game.writes == 0
    assert fleet.apply(planned).is_done
    assert game.configs["other"] == {"name": "other", **SOURCE_CONFIG}
    assert "new" in game.configs


def test_an_apply_followed_by_a_plan_is_empty_and_writes_nothing(fleet, game):
    connectors = [want("a"), want("b", SINK_CONFIG), want("c", state="PAUSED")]
    apply(fleet, *connectors)
    writes = game.writes
    again = fleet.plan(spec(*connectors))
    assert again.is_empty
    assert again.drifts == ()
    assert fleet.apply(again).change == ""
    assert game.writes == writes
    assert game.states["c"] == "PAUSED"


def test_one_reading_of_each_cluster_is_enough_for_any_number_of_connectors(fleet, game):
    for number in range(40):
        game.add(f"c{number}", SOURCE_CONFIG)
    planned = fleet.plan(spec(*(want(f"c{number}", topic="other") for number in range(60))))
    assert len(planned.effects) == 60
    assert (game.calls["read_connectors"], game.calls["read_names"]) == (1, 1)
    assert game.calls["read_connector"] + game.calls["read_config"] + game.calls["read_status"] == 0


def test_a_connector_without_a_status_is_not_taken_for_a_new_one(fleet, game):
    game.add("young", SOURCE_CONFIG)
    found = game.read_connectors
    game.read_connectors = lambda: tuple(one for one in found() if one.name != "young")
    assert fleet.plan(spec(want("young"))).is_empty


def test_preconditions_are_those_that_the_steps_find_by_themselves(fleet, game, monkeypatch):
    monkeypatch.setenv("GAME_PASSWORD", PASSWORD)
    secret = {"connection.password": "literal-canary", "plain": "secret://env/GAME_PASSWORD"}
    game.add("change", SOURCE_CONFIG | {"plain": "old", "connection.password": "literal-canary"})
    game.add("go", SOURCE_CONFIG | {"connection.url": "jdbc:x://u:canary@db/x"})
    apply(fleet, want("go", {**SOURCE_CONFIG, "connection.url": "jdbc:x://u:canary@db/x", "tasks.max": "2"}))
    planned = fleet.plan(spec(want("change", **secret), want("new", **secret)))
    assert signs(planned) == {"change": "~", "new": "+", "go": "-"}
    assert planned.plan.preconditions == build_preconditions(planned.steps, fleet._world)
    assert fleet.apply(planned).is_done


def test_a_plan_is_stale_when_the_world_has_moved(fleet, game):
    game.add("a", SOURCE_CONFIG)
    planned = fleet.plan(spec(want("a", topic="other"), want("b")))
    game.configs["a"]["file"] = "/somebody/else"
    with pytest.raises(StalePlanError, match="no changes were made"):
        fleet.apply(planned)
    assert game.writes == 0


def test_a_new_connector_begins_in_its_state_and_a_present_one_keeps_its_own(fleet, game):
    game.add("old", SOURCE_CONFIG, state="PAUSED")
    planned = fleet.plan(spec(want("old", state="running"), want("new", state="stopped")))
    assert signs(planned) == {"new": "+"}
    assert planned.effects[0].words == "create, STOPPED: starts from the beginning, no offset of this name exists"
    assert planned.effects[0].tasks == 0
    fleet.apply(planned)
    assert game.states == {"old": "PAUSED", "new": "STOPPED"}


def test_a_state_that_the_workers_can_not_begin_in_is_refused(tmp_path):
    old = LivingConnect(version="3.6.2")
    with open_living_fleet(tmp_path, old) as fleet, pytest.raises(UnsupportedError, match="as STOPPED"):
        fleet.plan(spec(want("new", state="STOPPED")))


# --- secrets


def test_references_are_compared_by_their_values_and_never_shown(fleet, game, monkeypatch, tmp_path):
    monkeypatch.setenv("GAME_PASSWORD", PASSWORD)
    wanted = want("a", **{"connection.password": "secret://env/GAME_PASSWORD", "user": "${file:/etc/kafka/db:user}"})
    planned = fleet.plan(spec(wanted, want("b", **{"connection.password": "literal-canary"})))
    fleet.apply(planned)
    assert game.configs["a"]["connection.password"] == PASSWORD
    assert game.configs["a"]["user"] == "${file:/etc/kafka/db:user}"
    assert fleet.plan(spec(wanted, want("b", **{"connection.password": "literal-canary"}))).is_empty
    monkeypatch.setenv("GAME_PASSWORD", "another-canary")
    changed = fleet.plan(spec(wanted, want("b", **{"connection.password": "third-canary"})))
    assert signs(changed) == {"a": "~", "b": "~"}
    shown = [str(found) + repr(found) + found._repr_html_() for found in (planned, changed)]
    stored = [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    for text in [*shown, *stored, json.dumps(changed.plan.to_dict())]:
        assert "canary" not in text
    assert "(sensitive) changed" in shown[1]


def test_a_mask_is_never_written_back(fleet, game):
    game.add("a", SOURCE_CONFIG | {"connection.password": PASSWORD})
    # What seamark showed stands for what Connect holds; it is nothing where Connect holds nothing.
    assert fleet.plan(spec(want("a", **{"connection.password": "(sensitive)"}))).is_empty
    apply(fleet, want("a", topic="2", **{"connection.password": "(sensitive)"}))
    assert game.configs["a"]["connection.password"] == PASSWORD
    with pytest.raises(RefusedError, match="mask"):
        fleet.plan(spec(want("new", **{"connection.password": "(sensitive)"})))
    with pytest.raises(RefusedError, match="mask"):
        fleet.plan(spec(want("a", **{"connection.password": "********"})))


def test_a_secret_that_stays_does_not_keep_a_plan_from_being_saved(fleet, game, tmp_path):
    game.add("a", SOURCE_CONFIG | {"connection.password": PASSWORD})
    planned = fleet.plan(spec(want("a", topic="new", **{"connection.password": PASSWORD}), want("b")))
    assert fleet.save(planned, tmp_path / "plan.json") is None
    saved = read_plan_file(tmp_path / "plan.json")
    assert dataclasses.replace(saved, id="").to_file() == planned.plan.to_file()
    assert PASSWORD not in (tmp_path / "plan.json").read_text()
    assert fleet.apply(saved).is_done
    assert game.configs["a"] == {"name": "a", **SOURCE_CONFIG, "topic": "new", "connection.password": PASSWORD}


# --- what a spec owns


def test_only_what_a_former_apply_made_is_deleted(fleet, game):
    game.add("foreign", SOURCE_CONFIG)
    game.add("taken", SOURCE_CONFIG | {"tasks.max": "3"})
    apply(fleet, want("a"), want("b"), want("taken"))
    planned = fleet.plan(spec(want("a")))
    assert signs(planned) == {"b": "-", "taken": "-"}
    assert fleet.apply(planned).is_done
    assert set(game.configs) == {"foreign", "a"}
    assert fleet.plan(spec(want("a"))).is_empty


def test_what_was_equal_already_is_nobodys(fleet, game):
    game.add("a", SOURCE_CONFIG)
    apply(fleet, want("a"), want("b"))
    assert signs(fleet.plan(spec())) == {"b": "-"}


def test_ownership_is_carried_on_by_changes_that_do_not_touch_it(fleet, game):
    first = apply(fleet, want("a"), want("b"))
    apply(fleet, want("a", topic="2"), want("b"))
    third = apply(fleet, want("a", topic="3"), want("b"))
    plan = fleet.plan(spec()).plan
    assert plan.spec == {
        "id": "logs",
        "base": third.change,
        "owned": {"game/a": third.change, "game/b": first.change},
        "clusters": {"game": {"kafka_cluster_id": KAFKA_ID, "group": "workers", "worker_ids": [], "file": ""}},
    }
    assert [head.spec for head in fleet.journal.list()] == ["logs"] * 3


def test_another_spec_owns_nothing_of_this_one(fleet):
    apply(fleet, want("a"))
    assert fleet.plan(spec(name="other")).is_empty


def test_failed_creates_are_not_owned(fleet, game):
    game.failing["create", "b"] = RefusedError("no")
    fleet.apply(fleet.plan(spec(want("a"), want("b"))))
    game.failing.clear()
    game.add("b", SOURCE_CONFIG)
    assert signs(fleet.plan(spec())) == {"a": "-"}


def test_an_undo_gives_back_what_was_owned_before(fleet, game):
    game.add("taken", SOURCE_CONFIG | {"tasks.max": "3"})
    apply(fleet, want("a"))
    second = apply(fleet, want("b"), want("taken"))
    assert set(game.configs) == {"b", "taken"}
    undone = fleet.apply(fleet.undo(second))
    assert set(game.configs) == {"a", "taken"}
    assert fleet.plan(spec(want("a"))).plan.spec["owned"].keys() == {"game/a"}
    assert signs(fleet.plan(spec())) == {"a": "-"}
    fleet.apply(fleet.undo(undone))
    assert signs(fleet.plan(spec())) == {"b": "-", "taken": "-"}


def test_an_undo_of_an_older_change_forgets_nothing_of_the_newer(fleet, game):
    first = apply(fleet, want("a"))
    apply(fleet, want("a"), want("b"))
    fleet.apply(fleet.undo(first))
    assert set(game.configs) == {"b"}
    assert signs(fleet.plan(spec())) == {"b": "-"}


def test_a_saved_plan_applied_late_forgets_nothing(fleet, game):
    apply(fleet, want("a"))
    late = fleet.plan(spec(want("a"), want("late")), names=["late"])
    apply(fleet, want("a"), want("b"))
    fleet.apply(late)
    assert signs(fleet.plan(spec())) == {"a": "-", "b": "-", "late": "-"}


def test_what_somebody_deleted_by_hand_is_forgotten_with_the_next_apply(fleet, game):
    apply(fleet, want("a"), want("b"))
    game.delete_connector("b")
    apply(fleet, want("a", topic="2"))
    game.add("b", SOURCE_CONFIG)
    assert fleet.plan(spec(want("a", topic="2"))).is_empty


def test_prune_deletes_what_the_spec_does_not_name_and_no_other_spec_has(fleet, game):
    game.add("stray", SOURCE_CONFIG)
    apply(fleet, want("theirs"), name="other")
    planned = fleet.plan(spec(want("a")), prune=True)
    assert signs(planned) == {"a": "+", "stray": "-"}
    assert any("spec other owns them now: game/theirs" in note for note in planned.plan.notes)
    assert signs(fleet.plan(spec(want("a")), prune=True, names=["s*"])) == {"stray": "-"}


def test_prune_of_an_empty_spec_is_refused(fleet, game):
    game.add("stray", SOURCE_CONFIG)
    with pytest.raises(UsageError, match="would delete everything"):
        fleet.plan(spec(), prune=True)


def test_a_connector_of_another_spec_is_refused_unless_it_is_adopted(fleet, game):
    apply(fleet, want("a"), want("b"), name="other")
    with pytest.raises(RefusedError, match="another spec owns 1 of these") as caught:
        fleet.plan(spec(want("a", topic="2")))
    assert "game/a: spec other" in caught.value.cause
    assert "--adopt" in caught.value.hint
    apply(fleet, want("a", topic="2"), adopt=True)
    # Now it is this one's: the other neither changes nor deletes it.
    with pytest.raises(RefusedError, match="another spec owns"):
        fleet.plan(spec(want("a"), want("b"), name="other"))
    planned = fleet.plan(spec(want("b"), name="other"))
    assert planned.is_empty
    assert planned.plan.notes == ("not changed, because spec logs owns them now: game/a",)


def test_a_journal_that_can_not_be_read_leaves_a_note(fleet, game):
    apply(fleet, want("a"), want("b"))

    def fail(**_):
        raise JournalError("the journal is not set up")

    journal = fleet._find_journal()
    journal.heads = fail
    planned = fleet.plan(spec(want("a", topic="2")))
    assert signs(planned) == {"a": "~"}
    assert planned.drifts == ()
    assert planned.plan.notes[0] == (
        "the journal can't be read (the journal is not set up): deletions and drift are unknown"
    )
    del journal.heads
    # Nothing is forgotten: who could not read the base reads everything later.
    fleet.apply(planned)
    assert signs(fleet.plan(spec())) == {"a": "-", "b": "-"}


def test_a_spec_is_found_behind_many_other_changes(fleet, game, monkeypatch):
    monkeypatch.setattr("seamark.specs.ownership._NEWEST_HEADS", 2)
    apply(fleet, want("a"))
    game.add("b", SOURCE_CONFIG)
    for _ in range(2):
        fleet.apply(fleet.connectors.pause("b"))
        fleet.apply(fleet.connectors.resume("b"))
    assert signs(fleet.plan(spec())) == {"a": "-"}


# --- drift


def test_drift_is_told_apart_from_what_is_proposed(fleet, game):
    result = apply(fleet, want("a", extra="1", gone="x"))
    game.configs["a"] |= {"tasks.max": "4", "extra": "2"}
    del game.configs["a"]["gone"]
    planned = fleet.plan(spec(want("a", extra="3", topic="new", gone="x")))
    (drift,) = planned.drifts
    assert (drift.subject, drift.change) == ("connector/game/a", result.change)
    assert [(field.key, field.applied, field.live, field.wanted) for field in drift.fields] == [
        ("extra", "1", "2", "3"),
        ("gone", "x", None, "x"),
        ("tasks.max", "1", "4", "1"),
    ]
    assert [field.key for field in planned.effects[0].fields] == ["extra", "gone", "tasks.max", "topic"]


def test_drift_to_what_the_spec_says_now_is_no_change(fleet, game):
    apply(fleet, want("a"))
    game.configs["a"]["tasks.max"] = "4"
    assert fleet.plan(spec(want("a", **{"tasks.max": "4"}))).is_empty


def test_a_connector_deleted_outside_is_drift_and_is_created(fleet, game):
    apply(fleet, want("a"))
    game.delete_connector("a")
    planned = fleet.plan(spec(want("a")))
    assert signs(planned) == {"a": "+"}
    assert [drift.words for drift in planned.drifts] == ["deleted outside this spec"]


def test_a_delete_says_that_it_was_changed_outside(fleet, game):
    apply(fleet, want("a"))
    game.configs["a"]["tasks.max"] = "4"
    planned = fleet.plan(spec())
    assert signs(planned) == {"a": "-"}
    assert [field.key for field in planned.drifts[0].fields] == ["tasks.max"]


def test_drift_of_a_secret_is_told_without_it(fleet, game, monkeypatch):
    monkeypatch.setenv("TOKEN", "token-canary")
    apply(fleet, want("a", **{"connection.password": PASSWORD, "harmless": "secret://env/TOKEN"}))
    game.configs["a"] |= {"connection.password": "moved-canary", "harmless": "other-canary"}
    planned = fleet.plan(spec(want("a", **{"connection.password": PASSWORD, "harmless": "secret://env/TOKEN"})))
    assert [(field.key, field.is_sensitive) for field in planned.drifts[0].fields] == [
        ("connection.password", True),
        ("harmless", True),
    ]
    assert "canary" not in str(planned) + repr(planned)


def test_what_was_a_reference_stays_secret_when_it_goes(fleet, game, monkeypatch, tmp_path):
    monkeypatch.setenv("TOKEN", "token-canary")
    apply(fleet, want("a", harmless="secret://env/TOKEN"), want("b", harmless="secret://env/TOKEN"))
    planned = fleet.plan(spec(want("a", harmless="plain")))
    assert "canary" not in str(planned) + json.dumps(planned.plan.to_dict())
    fleet.apply(planned)
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert stored
    assert not any(b"canary" in data for data in stored)


def test_a_config_that_does_not_run_is_put_back_and_changes_no_owner(fleet, game):
    first = apply(fleet, want("a"), want("b"))
    put = game.put_config

    def fail_without_file(name, config):
        put(name, config)
        game.failed_tasks[name] = {0} if config["file"] == "/nowhere" else set()

    game.put_config = fail_without_file
    result = fleet.apply(fleet.plan(spec(want("a", file="/nowhere"), want("b", topic="2"))))
    assert set(result.failures) == {"connector/game/a"}
    assert game.configs["a"]["file"] == "/in"
    again = fleet.plan(spec(want("a", file="/nowhere"), want("b", topic="2")))
    assert signs(again) == {"a": "~"}
    assert again.plan.spec["owned"] == {"game/a": first.change, "game/b": result.change}
    assert again.drifts == ()


# --- which of them


def test_names_and_globs_choose(fleet, game):
    apply(fleet, want("a1"), want("a2"), want("b1"))
    wanted = spec(want("a1", topic="x"), want("c1"))
    assert signs(fleet.plan(wanted, names=["a*"])) == {"a1": "~", "a2": "-"}
    assert signs(fleet.plan(wanted, names=["game/c1"])) == {"c1": "+"}
    with pytest.raises(NotFoundError, match="no connector zzz"):
        fleet.plan(wanted, names=["zzz"])
    with pytest.raises(NotFoundError, match="matches z"):
        fleet.plan(wanted, names=["z*"])


def test_a_choice_does_not_forget_the_rest(fleet, game):
    apply(fleet, want("a"), want("b"))
    apply(fleet, want("a", topic="2"), want("b"), names=["a"])
    assert signs(fleet.plan(spec())) == {"a": "-", "b": "-"}


@pytest.mark.parametrize(
    ("connectors", "said"),
    [
        ([want("a", cluster="lake")], "the context doesn't have"),
        ([want("a"), want("a", cluster="game")], "defined twice"),
        ([want("a", {"topic": "x"})], "no connector.class"),
        ([want("a", state="LOST")], "has an invalid state LOST"),
    ],
)
def test_what_does_not_fit_the_context_is_refused_with_its_place(fleet, connectors, said):
    with pytest.raises(UsageError, match=said) as caught:
        fleet.plan(spec(*connectors))
    assert "config/log.yaml:3" in caught.value.cause


def test_with_several_clusters_a_connector_must_say_which(tmp_path):
    with (
        open_living_fleet(tmp_path, LivingConnect(), LivingConnect(cluster="lake")) as fleet,
        pytest.raises(UsageError, match="doesn't name its Connect cluster"),
    ):
        fleet.plan(spec(want("a")))


# --- several clusters


@pytest.fixture
def lake():
    return LivingConnect(cluster="lake")


@pytest.fixture
def both(tmp_path, game, lake):
    with open_living_fleet(tmp_path, game, lake, groups={"game": "game", "lake": "lake"}) as opened:
        yield opened


def test_a_cluster_is_locked_as_a_whole_where_several_of_its_connectors_change(both, game, lake):
    planned = both.plan(
        spec(want("a", cluster="game"), want("b", cluster="game"), want("c", SINK_CONFIG, cluster="lake"))
    )
    assert planned.plan.locks == ("connect.game", "group.connect-c@lake")
    assert both.apply(planned).is_done
    assert (set(game.configs), set(lake.configs)) == ({"a", "b"}, {"c"})


def test_only_the_clusters_of_the_plan_are_read(both, game, lake):
    both.plan(spec(want("a", cluster="game")))
    assert (game.calls["read_connectors"], lake.calls["read_connectors"]) == (1, 0)


def test_a_cluster_that_does_not_answer_refuses_the_whole_plan(both, game, lake):
    lake.failing["read_connectors", ""] = UnreachableError("lake is silent")
    wanted = spec(want("a", cluster="game"), want("b", cluster="lake"))
    with pytest.raises(UnreachableError, match="1 of 2 Connect clusters") as caught:
        both.plan(wanted)
    assert caught.value.cause == "lake: lake is silent; not planned: lake/b"
    assert signs(both.plan(wanted, names=["game/*"])) == {"a": "+"}


def test_what_a_spec_made_in_a_cluster_that_is_gone_is_kept_in_mind(tmp_path, game, lake):
    with open_living_fleet(tmp_path, game, lake, groups={"game": "workers", "lake": "others"}) as fleet:
        apply(fleet, want("a", cluster="game"), want("b", cluster="lake"))
    with open_living_fleet(tmp_path, game) as fleet:
        planned = fleet.plan(spec(want("a", topic="2")))
        assert signs(planned) == {"a": "~"}
        assert planned.plan.spec["owned"].keys() == {"game/a", "lake/b"}


# --- what it does to the running system


def test_new_connectors_say_where_they_begin(tmp_path, game):
    kafka = StubKafka(groups=[GroupStatus("connect-old", "EMPTY", 0)])
    scan = FakeScan("offsets").put(("src", {"filename": "/in"}), {"position": 40})
    with open_living_fleet(tmp_path, game, kafka=kafka, scan=scan) as fleet:
        planned = fleet.plan(
            spec(want("old", SINK_CONFIG), want("new", SINK_CONFIG), want("src", **{"tasks.max": "4"}), want("fresh"))
        )
    assert [effect.words for effect in planned.effects] == [
        "create, RUNNING: resumes from the committed offsets of group connect-old (EMPTY)",
        "create, RUNNING: starts without committed offsets, no group connect-new",
        "create, RUNNING: resumes at file /in byte 40, an existing offset of this name from 2023-11-14",
        "create, RUNNING: starts from the beginning, no offset of this name exists",
    ]
    assert (kafka.calls["groups"], scan.reads) == (1, 1)
    assert planned.plan.notes == ()
    assert str(planned).splitlines()[-1] == (
        "Plan: 4 to create, 0 to change, 0 to delete. Up to 7 tasks start or restart."
    )


def test_deletes_say_what_stays_behind_up_to_a_number(fleet, game):
    apply(fleet, *(want(f"c{number}") for number in range(51)))
    assert "51 deleted connectors are kept" in fleet.plan(spec()).plan.notes[0]
    assert game.calls["read_offsets"] == 0
    notes = fleet.plan(spec(), names=["c1"]).plan.notes
    assert notes == ("c1: no offset stays in offsets",)


def test_what_can_not_be_undone_is_said_once_for_all(fleet, game):
    for name in "abcdefg":
        game.add(name, SOURCE_CONFIG | {"connection.password": "old-canary"})
    planned = fleet.plan(spec(*(want(name, **{"connection.password": PASSWORD}) for name in "abcdefg")))
    (note,) = planned.plan.notes
    names, _, reason = note.partition(": ")
    assert names == "can't be undone for game/a, game/b, game/c, game/d, game/e and 2 more"
    assert reason.startswith("the previous value of connection.password is a secret")


def test_topics_are_said_to_be_left_out_of_a_plan_by_names(fleet):
    planned = fleet.plan(spec(want("a"), topics=(DesiredTopic("game-login", FileLocation("x")),)), names=["a"])
    assert "topics are not part of a plan by names: game-login" in planned.plan.notes


def test_the_locks_of_a_saved_plan_are_derived(fleet, game, tmp_path):
    planned = fleet.plan(spec(want("a"), want("b")))
    assert planned.plan.locks == ("connect.workers",)
    saved = register(fleet, planned.plan)
    assert fleet.review(saved).plan == saved
    assert fleet.review(dataclasses.replace(saved, locks=())).plan == saved


def test_a_saved_plan_can_not_claim_what_the_journal_does_not_know(fleet, game):
    game.add("foreign", SOURCE_CONFIG)
    first = apply(fleet, want("a"))
    plan = fleet.plan(spec(want("a"), want("b"))).plan
    forged = dataclasses.replace(plan, spec={**plan.spec, "owned": {"game/foreign": first.change}})
    assert fleet.apply(register(fleet, forged)).is_done
    assert signs(fleet.plan(spec())) == {"a": "-", "b": "-"}


# --- the end


def test_destroy_deletes_what_the_files_name_and_what_is_there(fleet, game):
    game.add("foreign", SOURCE_CONFIG)
    game.add("by-hand", SOURCE_CONFIG | {"tasks.max": "7"})
    apply(fleet, want("a"), want("b"))
    planned = fleet.destroy(spec(want("a"), want("by-hand"), want("never")))
    assert {effect.sign for effect in planned.effects} == {ChangeKind.DELETE}
    assert fleet.apply(planned).is_done
    assert set(game.configs) == {"foreign", "b"}
    assert fleet.destroy(spec(want("a"))).is_empty
    assert signs(fleet.plan(spec())) == {"b": "-"}


def test_destroy_of_what_another_spec_has_is_refused(fleet, game):
    apply(fleet, want("a"), name="other")
    with pytest.raises(RefusedError, match="another spec"):
        fleet.destroy(spec(want("a")))
    assert not fleet.destroy(spec(want("a")), adopt=True).is_empty
    with pytest.raises(UsageError, match="has no connectors"):
        fleet.destroy(spec())


# --- how it looks


def test_the_plan_as_people_read_it(tmp_path, game):
    actor = Actor("ana@ops", now=lambda: 0.0, randomness=bytes)
    with open_living_fleet(tmp_path, game, actor=actor) as fleet:
        apply(fleet, want("raid"), want("old"))
        game.add("same", SOURCE_CONFIG)
        game.configs["raid"]["tasks.max"] = "4"
        planned = fleet.plan(spec(want("raid"), want("same"), want("guild", SINK_CONFIG)))
    assert str(planned).splitlines() == [
        'Context dev · Connect "game" 4.3.1, 1 worker · 3 connectors read, 1 unchanged',
        "  drift connector/game/raid    changed outside this spec since change 00000000000000000000000000",
        '      tasks.max  "1" → "4"; apply would restore "1"',
        "  ~ connector/game/raid    restarts 4 tasks",
        '      tasks.max  "4" → "1"',
        "  + connector/game/guild   create, RUNNING: starts without committed offsets, no group connect-guild",
        "  - connector/game/old     delete: 1 task ends",
        "! old: no offset stays in offsets",
        "+ create  ~ change  - delete",
        "Plan: 1 to create, 1 to change, 1 to delete. 5 tasks start or restart.",
    ]


def test_a_notebook_shows_the_plan_escaped(fleet, game):
    game.add("a", SOURCE_CONFIG | {"topic": "a&b", "extra": "<script>alert(1)</script>\u202e"})
    shown = fleet.plan(spec(want("a")))._repr_html_()
    assert shown.startswith("<pre style=")
    assert "&lt;script&gt;" in shown
    assert "a&amp;b" in shown
    assert "<script" not in shown
    assert "\u202e" not in shown


def test_an_empty_plan_says_so(fleet, game):
    game.add("a", SOURCE_CONFIG)
    assert str(fleet.plan(spec(want("a")))).splitlines() == [
        'Context dev · Connect "game" 4.3.1, 1 worker · 1 connector read, 1 unchanged',
        "No changes. Everything is as it should be.",
    ]


# --- declared state


def managed(name, state="", **changes):
    return want(name, state=state, manage_state=True, **changes)


def test_a_state_that_is_not_managed_counts_at_creation_only(fleet, game):
    apply(fleet, want("a", state="PAUSED"))
    game.states["a"] = "RUNNING"
    assert fleet.plan(spec(want("a", state="PAUSED"))).is_empty


def test_a_connector_paused_by_hand_is_drift_and_apply_resumes_it(fleet, game):
    apply(fleet, managed("a"), managed("b", "STOPPED"), want("c"))
    game.states.update(a="PAUSED", c="PAUSED")
    planned = fleet.plan(spec(managed("a"), managed("b", "STOPPED"), want("c")))
    (drift,) = planned.drifts
    (field,) = drift.fields
    assert (drift.subject, drift.words) == ("connector/game/a", "changed outside this spec")
    assert (field.key, field.applied, field.live, field.wanted) == ("state", "RUNNING", "PAUSED", "RUNNING")
    (effect,) = planned.effects
    assert [(one.before, one.after) for one in effect.fields] == [("PAUSED", "RUNNING")]
    result = fleet.apply(planned)
    assert result.is_done
    assert game.states == {"a": "RUNNING", "b": "STOPPED", "c": "PAUSED"}
    assert fleet.plan(spec(managed("a"), managed("b", "STOPPED"), want("c"))).is_empty
    assert fleet.apply(fleet.undo(result.change)).is_done
    assert game.states["a"] == "PAUSED"


def test_another_state_in_the_files_is_a_change_and_no_drift(fleet, game):
    apply(fleet, managed("a"))
    planned = fleet.plan(spec(managed("a", "STOPPED")))
    assert (planned.drifts, signs(planned)) == ((), {"a": "~"})
    result = fleet.apply(planned)
    assert game.states["a"] == "STOPPED"
    assert fleet.apply(fleet.undo(result.change)).is_done
    assert game.states["a"] == "RUNNING"
    # The undo is no change from outside: the plan sets the state again, without drift.
    again = fleet.plan(spec(managed("a", "STOPPED")))
    assert (again.drifts, signs(again)) == ((), {"a": "~"})


def test_managing_the_state_of_a_connector_begins_without_drift(fleet, game):
    apply(fleet, want("a"))
    game.states["a"] = "PAUSED"
    planned = fleet.plan(spec(managed("a")))
    assert (planned.drifts, signs(planned)) == ((), {"a": "~"})


def test_the_config_is_changed_before_a_paused_connector_is_resumed(fleet, game):
    apply(fleet, managed("a"))
    game.states["a"] = "PAUSED"
    planned = fleet.plan(spec(managed("a", topic="other")))
    assert [step.kind for step in planned.plan.steps] == [
        "put-config",
        "set-run-state",
        "await-running",
        "set-run-state",
    ]
    result = fleet.apply(planned)
    assert result.is_done
    assert (game.states["a"], game.configs["a"]["topic"]) == ("RUNNING", "other")
    assert fleet.apply(fleet.undo(result.change)).is_done
    assert (game.states["a"], game.configs["a"]["topic"]) == ("PAUSED", SOURCE_CONFIG["topic"])


def test_a_connector_that_does_not_run_when_it_is_resumed_is_paused_again(fleet, game, monkeypatch):
    apply(fleet, managed("a"))
    game.states["a"] = "PAUSED"
    planned = fleet.plan(spec(managed("a")))

    def fail(*_):
        raise RefusedError("it does not run")

    monkeypatch.setattr("seamark.connectors.run_state.AwaitRunning.perform", fail)
    result = fleet.apply(planned)
    assert not result.is_done
    assert game.states["a"] == "PAUSED"


def test_a_plan_by_names_keeps_the_record_of_the_other_states(fleet, game):
    apply(fleet, managed("a"), managed("b"))
    game.states["a"] = "PAUSED"
    declared = spec(managed("a"), managed("b"))
    assert fleet.apply(fleet.plan(declared, names=["a"])).is_done
    game.states["b"] = "PAUSED"
    assert [one.subject for one in fleet.plan(declared).drifts] == ["connector/game/b"]


def test_one_at_once_ends_a_connector_before_the_next_begins(fleet, game):
    """Though the plan has the states of all connectors after their configs."""
    for name in "ab":
        game.add(name, SOURCE_CONFIG, state="PAUSED")
    game.find_broken = lambda name: (0,)
    planned = fleet.plan(spec(*(want(name, manage_state=True, file="/new") for name in "ab")))
    pace = fleet.build_pace(max_failures=0)
    assert not fleet.apply(planned.with_pace(PaceSettings(1)), pace=pace).is_done
    assert (game.configs["a"]["file"], game.configs["b"]["file"]) == ("/new", "/in")
    assert game.calls["resume"] == 1
