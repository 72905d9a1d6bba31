"""Workers that take no offsets, and workers that know no stop: the same verbs, by other ways."""

from __future__ import annotations

import json
import time

import pytest

import seamark.change.executor as executor
import seamark.kafka.exact_writer as exact_writer
import seamark.kafka.worker_group as worker_group
from seamark.errors import (
    AuthorizationError,
    JournalError,
    RefusedError,
    RejectedError,
    SeamarkError,
    StalePlanError,
    UnreachableError,
    UnsupportedError,
)
from seamark.model.entry import Ending
from seamark.model.plan import Plan
from seamark.model.result import Outcome
from tests.fault.older import MATRIX
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG
from tests.unit.fleet.moving import Leaping, Place

FILE = {"filename": "/in"}
STOPPED = ["set-run-state", "prove-stopped", "check-preview", "write-offsets", "verify-offsets", "set-run-state"]
ASIDE = ["set-aside", "prove-stopped", "check-preview", "write-offsets", "verify-offsets", "bring-back"]


class OldPlace(Place):
    """A fleet of an older version; records are put into its topic."""

    def __init__(self, folder, version, **changes):
        super().__init__(folder, **changes)
        self.game.version = version
        self.game.add("fs", SOURCE_CONFIG)
        self.scan.put(("fs", FILE), {"position": 100})
        self.game.add("lake", SINK_CONFIG)
        self.brokers.add_topic("t", partitions=2, records=10)
        self.brokers.add_group("connect-lake", {("t", 0): 8, ("t", 1): 6})
        self.loads = {"http://w1:8083": frozenset()}
        self.fleet._world._clock = Leaping()

    def write_records(self, _config, records, *, timeout_seconds, until):
        assert timeout_seconds > 0
        assert until > time.time()
        for record in records:
            self.scan.put(record.key, record.value, partition=record.partition)

    def kinds(self, planned):
        return [step.kind for step in planned.plan.steps if step.kind != "check-progress"]


@pytest.fixture
def open_place(tmp_path, monkeypatch):
    opened = []

    def build(version, **changes):
        place = OldPlace(tmp_path, version, **changes)
        monkeypatch.setattr(exact_writer, "write_records", place.write_records)
        monkeypatch.setattr(worker_group, "read_worker_loads", lambda *_, **__: place.loads)
        opened.append(place)
        return place

    yield build
    for place in opened:
        place.fleet.close()


@pytest.mark.parametrize(("version", "kinds", "verb"), [("3.5.2", STOPPED, "stop"), ("3.4.1", ASIDE, "delete")])
@pytest.mark.parametrize(("name", "where", "before"), [("fs", "topic", [100]), ("lake", "group", [8, 6])])
def test_offsets_are_moved_and_put_back(open_place, version, kinds, verb, name, where, before):
    place = open_place(version)
    config = place.game.configs[name]
    planned = place.fleet.offsets.move(name, to=3, wait_seconds=0)
    assert place.kinds(planned) == kinds
    assert f"Connect {version}" in str(planned.plan.notes)
    assert next(step.route for step in planned.steps if step.kind == "write-offsets") == where
    moved = place.apply(planned)
    assert [next(iter(one.values())) for one in place.held(name)] == [3] * len(before)
    undo = place.fleet.undo(moved)
    assert place.kinds(undo) == [kind for kind in kinds if kind != "check-preview"]
    place.apply(undo)
    assert [next(iter(one.values())) for one in place.held(name)] == before
    assert (place.game.configs[name], place.game.states[name]) == (config, "RUNNING")
    assert (place.game.calls["patch_offsets"], place.game.calls[verb]) == (0, 2)


def test_the_plan_says_what_becomes_of_the_connector_and_is_whole_in_a_file(open_place):
    place = open_place("3.4.1")
    planned = place.fleet.offsets.move("fs", to=30, wait_seconds=0)
    assert "is deleted, moves, is created again: about 70 bytes read again" in str(planned)
    saved = Plan.from_dict(json.loads(json.dumps(planned.plan.to_dict())))
    assert place.fleet.apply(saved).is_done
    assert place.held("fs") == [{"position": 30}]
    assert place.game.configs["fs"] == {"name": "fs", **SOURCE_CONFIG}


def test_one_that_was_paused_is_paused_again_also_by_the_undo(open_place):
    place = open_place("3.4.1")
    place.game.states["fs"] = "PAUSED"
    planned = place.fleet.offsets.move("fs", to=30)
    assert place.kinds(planned) == [*ASIDE, "run-meanwhile"]
    assert "fs runs for a moment when it is created again" in str(planned.plan.notes)
    moved = place.apply(planned)
    assert place.game.states["fs"] == "PAUSED"
    undo = place.fleet.undo(moved)
    assert place.kinds(undo)[-2:] == ["bring-back", "run-meanwhile"]
    place.apply(undo)
    assert (place.held("fs"), place.game.states["fs"]) == ([{"position": 100}], "PAUSED")


def test_one_that_was_paused_since_the_plan_is_left_alone(open_place):
    place = open_place("3.4.1")
    planned = place.fleet.offsets.move("fs", to=30)
    place.game.states["fs"] = "PAUSED"
    with pytest.raises(RefusedError, match="is PAUSED, and would be brought back RUNNING"):
        place.fleet.apply(planned)
    place.game.states["fs"] = "RUNNING"
    place.game.configs["fs"]["topic"] = "other"
    with pytest.raises(StalePlanError):
        place.fleet.apply(planned)
    assert place.game.writes == 0


def test_it_comes_back_where_its_offsets_could_not_be_written(open_place, monkeypatch):
    place = open_place("3.4.1")
    planned = place.fleet.offsets.move("fs", to=30, wait_seconds=0)

    def fail(*_, **__):
        raise RejectedError("no broker took it")

    monkeypatch.setattr(exact_writer, "write_records", fail)
    result = place.fleet.apply(planned)
    assert not result.is_done
    assert place.game.configs["fs"] == {"name": "fs", **SOURCE_CONFIG}
    assert place.held("fs") == [{"position": 100}]
    # It left everything as it was: there is nothing to take back.
    assert place.fleet.undo(result.change).is_empty


def meddle_at(monkeypatch, point, act):
    """Let somebody else act at a failpoint, once."""
    name, _, number = point.partition(":")
    left = [act]

    def reach(reached, step=0):
        if left and (reached, step) == (name, int(number)):
            left.pop()()

    monkeypatch.setattr(executor, "reach", reach)
    return left


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED"])
@pytest.mark.parametrize("point", ["after-perform:3", "before-intent:4", "before-intent:5"])
def test_one_that_somebody_creates_meanwhile_is_told_and_can_be_put_back(open_place, monkeypatch, point, state):
    place = open_place("3.4.1")
    place.game.states["fs"] = state
    planned = place.fleet.offsets.move("fs", to=30, wait_seconds=0)
    left = meddle_at(monkeypatch, point, lambda: place.game.add("fs", SOURCE_CONFIG))
    result = place.fleet.apply(planned)
    assert not left
    # Who creates it after the offsets were verified has tasks that begin there.
    is_late = point == "before-intent:5"
    assert result.is_done is is_late
    assert is_late or "was created by somebody else while its offsets were written" in str(result.failures)
    assert any("though this change had left it otherwise" in step.note for step in result.steps)
    assert result.ending is not None
    assert (place.game.calls["put_config"], place.game.states["fs"]) == (0, state)
    undo = place.fleet.undo(result.change)
    assert place.kinds(undo)[:2] == ["set-aside", "prove-stopped"]
    place.apply(undo)
    assert (place.held("fs"), place.game.states["fs"]) == ([{"position": 100}], state)
    assert place.game.configs["fs"] == {"name": "fs", **SOURCE_CONFIG}


def test_one_that_was_brought_back_without_the_journal_is_no_strangers(open_place, monkeypatch):
    place = open_place("3.4.1")
    planned = place.fleet.offsets.move("fs", to=30, wait_seconds=0)

    def fail():
        raise JournalError("the journal can't be written")

    meddle_at(monkeypatch, "before-intent:5", fail)
    with pytest.raises(JournalError, match="done without it: create connector/game/fs again"):
        place.fleet.apply(planned)
    assert place.game.calls["put_config"] == 1
    (head,) = place.fleet.journal.list()
    result = place.fleet.journal.resume(head.change)
    assert result.is_done
    assert "though this change had left it otherwise" in result.steps[-1].note
    place.apply(place.fleet.undo(head.change))
    assert (place.held("fs"), place.game.states["fs"]) == ([{"position": 100}], "RUNNING")


def test_who_creates_it_before_the_write_leaves_nothing_to_undo(open_place, monkeypatch):
    place = open_place("3.4.1")
    planned = place.fleet.offsets.move("fs", to=30, wait_seconds=0)
    left = meddle_at(monkeypatch, "before-intent:3", lambda: place.game.add("fs", SOURCE_CONFIG))
    result = place.fleet.apply(planned)
    assert not left
    assert "is there, and must not be while its offsets are written" in str(result.failures)
    assert place.held("fs") == [{"position": 100}]
    assert place.fleet.undo(result.change).is_empty


@pytest.mark.parametrize("point", ["before-intent:3", "before-intent:5", "after-intent:5"])
def test_another_connector_of_that_name_is_left_alone(open_place, monkeypatch, point):
    place = open_place("3.4.1")
    place.game.states["fs"] = "PAUSED"
    planned = place.fleet.offsets.move("fs", to=30, wait_seconds=0)
    theirs = {**SOURCE_CONFIG, "file": "/theirs"}
    left = meddle_at(monkeypatch, point, lambda: place.game.add("fs", theirs))
    result = place.fleet.apply(planned)
    assert not left
    assert not result.is_done
    assert (place.game.configs["fs"], place.game.states["fs"]) == ({"name": "fs", **theirs}, "RUNNING")
    assert (place.game.calls["put_config"], place.game.calls["pause"]) == (0, 0)
    (head,) = place.fleet.journal.list()
    place.fleet.journal.unlock(head.change, nonce=head.nonce, force=True)
    undo = place.fleet.undo(head.change)
    assert "is left alone: somebody else changed it during the change" in str(undo.plan.notes)
    back = place.fleet.apply(undo)
    assert {step.outcome for step in back.steps} == {Outcome.DID_NOT_HAPPEN}
    assert back.ending is Ending.FAILED
    assert (place.game.configs["fs"], place.game.states["fs"]) == ({"name": "fs", **theirs}, "RUNNING")
    assert (place.game.calls["put_config"], place.game.calls["pause"], place.game.calls["delete"]) == (0, 0, 1)


def test_a_config_with_a_secret_is_not_deleted(open_place):
    place = open_place("3.4.1")
    place.game.add("pg", {**SOURCE_CONFIG, "connection.password": "hunter2"})
    place.scan.put(("pg", FILE), {"position": 9})
    with pytest.raises(RefusedError, match="would have to be deleted for a while") as caught:
        place.fleet.offsets.move("pg", to=3)
    assert "connection.password" in caught.value.cause
    assert "hunter2" not in caught.value.cause
    # What Connect looks up itself is no secret of its config.
    place.game.configs["pg"]["connection.password"] = "${file:/secrets:password}"
    place.apply(place.fleet.offsets.move("pg", to=3, wait_seconds=0))
    assert place.game.configs["pg"]["connection.password"] == "${file:/secrets:password}"


def refuse_move(place, name, *, key, canary):
    """A move is refused for that key, and its value is nowhere."""
    with pytest.raises(RefusedError, match="would have to be deleted for a while") as caught:
        place.fleet.offsets.move(name, to=3)
    assert f"{key}: literal secrets" in caught.value.cause
    assert "${file:PATH:KEY}" in caught.value.hint
    assert canary not in str(caught.value.as_dict())
    assert canary not in str([place.fleet.journal.show(head.change) for head in place.fleet.journal.list()])
    assert place.game.calls["delete"] == 0


@pytest.mark.parametrize("key", ["http.auth.basic", "salesforce.consumer.key"])
def test_what_its_plugin_calls_a_password_is_a_secret(open_place, key):
    place = open_place("3.4.1")
    place.game.configs["fs"][key] = "u:canary"
    place.game.passwords["fs"] = (key, "connection.password")
    refuse_move(place, "fs", key=key, canary="canary")
    place.game.configs["fs"][key] = "${file:/secrets:key}"
    # One that is empty has nothing to hide.
    place.game.configs["fs"]["connection.password"] = ""
    place.apply(place.fleet.offsets.move("fs", to=3, wait_seconds=0))


def test_a_bearer_token_among_headers_is_a_secret(open_place):
    place = open_place("3.4.1")
    place.game.configs["fs"]["headers"] = "Authorization:Bearer canary"
    refuse_move(place, "fs", key="headers", canary="canary")


@pytest.mark.parametrize("is_newest", [True, False])
def test_what_was_given_as_a_reference_once_is_a_secret(open_place, monkeypatch, is_newest):
    place = open_place("3.4.1")
    monkeypatch.setenv("GREETING", "canary")
    place.apply(place.fleet.connectors.set("fs", {"greeting": "secret://env/GREETING"}))
    assert place.game.configs["fs"]["greeting"] == "canary"
    if not is_newest:
        place.apply(place.fleet.offsets.move("lake", to=3, wait_seconds=0))
        place.apply(place.fleet.connectors.pause("fs"))
        place.apply(place.fleet.connectors.resume("fs"))
    place.game.calls["delete"] = 0
    refuse_move(place, "fs", key="greeting", canary="canary")
    place.game.configs["fs"]["greeting"] = "${file:/secrets:greeting}"
    place.apply(place.fleet.offsets.move("fs", to=3, wait_seconds=0))


def test_one_that_could_not_be_created_again_is_not_deleted(open_place):
    place = open_place("3.4.1")
    place.game.invalid["fs"] = {"file": ("is not there",)}
    with pytest.raises(RefusedError, match="Connect would not take the config of game/fs again") as caught:
        place.fleet.offsets.move("fs", to=3)
    assert "file: is not there" in caught.value.cause
    place.game.failing["validate_config", "fs"] = UnreachableError("no worker answers")
    with pytest.raises(RefusedError, match="nobody could tell which values of game/fs are secrets") as caught:
        place.fleet.offsets.move("fs", to=3)
    assert "no worker answers" in caught.value.cause
    assert place.game.writes == 0


def test_the_workers_group_must_be_known(open_place):
    place = open_place("3.4.1", group_id=None)
    with pytest.raises(SeamarkError, match="group_id"):
        place.fleet.offsets.move("fs", to=3)


@pytest.mark.parametrize("version", ["3.6.2", "3.5.2", "3.4.1"])
def test_a_new_connector_is_created_when_its_offsets_are_there(open_place, tmp_path, version):
    place = open_place(version)
    file = tmp_path / "begin.json"
    file.write_text(json.dumps({"offsets": [{"partition": {"filename": "/new"}, "offset": {"position": 7}}]}))
    config = {**SOURCE_CONFIG, "file": "/new"}
    planned = place.fleet.connectors.create("new", config, offsets=file)
    assert place.kinds(planned) == ["prove-stopped", "write-offsets", "verify-offsets", "create-connector"]
    assert "gets 1 offset, then RUNNING" in str(planned)
    assert any("its key is spelled as Connect's REST API would" in note for note in planned.plan.notes)
    made = place.apply(planned)
    assert place.held("new") == [{"position": 7}]
    place.apply(place.fleet.undo(made))
    assert "new" not in place.game.configs
    assert place.fleet.offsets.orphans().items == ()


def test_a_standalone_worker_that_takes_none_is_a_refusal(open_place, tmp_path):
    place = open_place("3.5.2", offsets_topic=None, offsets_file=tmp_path / "offsets")
    with pytest.raises(UnsupportedError, match="can't change the offsets of game/lake"):
        place.fleet.offsets.move("lake", to=3)


class Killed(BaseException):
    """The process ends here."""


def kill_at(monkeypatch, point):
    """Let the change end at a failpoint, once."""
    name, _, number = point.partition(":")
    left = [point]

    def reach(reached, step=0):
        if left and (reached, step) == (name, int(number)):
            left.clear()
            raise Killed

    monkeypatch.setattr(executor, "reach", reach)
    return left


@pytest.mark.parametrize("point", MATRIX)
@pytest.mark.parametrize(("name", "states"), [("fs", "RUNNING"), ("lake", "RUNNING"), ("fs", "PAUSED")])
def test_a_connector_whose_move_was_killed_comes_back_by_resume_and_is_put_back_by_undo(
    open_place, monkeypatch, point, name, states
):
    place = open_place("3.4.1")
    place.game.states[name] = states
    config, before = place.game.configs[name], place.held(name)
    left = kill_at(monkeypatch, point)
    planned = place.fleet.offsets.move(name, to=3, wait_seconds=0)
    with pytest.raises(Killed):
        place.fleet.apply(planned)
    assert not left
    (head,) = place.fleet.journal.list()
    if not point.startswith("after-close"):
        assert place.fleet.journal.resume(head.change).is_done
    assert [next(iter(one.values())) for one in place.held(name)] == [3] * len(before)
    assert (place.game.configs[name], place.game.states[name]) == (config, states)
    place.apply(place.fleet.undo(head.change))
    assert (place.held(name), place.game.configs[name], place.game.states[name]) == (before, config, states)


def kill_between_two(place, monkeypatch):
    """Let the process end after the first of several positions, once; gives what is still to come."""
    left = ["kill"]

    def write_records(config, records, **more):
        if left:
            left.clear()
            place.write_records(config, records[:1], **more)
            raise Killed
        place.write_records(config, records, **more)

    def alter(group, commits):
        if left:
            left.clear()
            commit(group, dict(list(commits.items())[:1]))
            raise Killed
        commit(group, commits)

    commit = place.brokers.alter_group_offsets
    monkeypatch.setattr(exact_writer, "write_records", write_records)
    monkeypatch.setattr(place.brokers, "alter_group_offsets", alter)
    return left


@pytest.mark.parametrize("version", ["3.5.2", "3.4.1"])
@pytest.mark.parametrize("name", ["fs", "lake"])
def test_a_move_killed_between_two_positions_is_written_again_and_put_back_by_undo(
    open_place, monkeypatch, version, name
):
    place = open_place(version)
    place.scan.put(("fs", {"filename": "/other"}), {"position": 100})
    before = place.held(name)
    planned = place.fleet.offsets.move(name, shift=-3, wait_seconds=0)
    left = kill_between_two(place, monkeypatch)
    with pytest.raises(Killed):
        place.fleet.apply(planned)
    assert not left
    (head,) = place.fleet.journal.list()
    assert place.fleet.journal.resume(head.change).is_done
    moved = [next(iter(one.values())) - 3 for one in before]
    assert [next(iter(one.values())) for one in place.held(name)] == moved
    assert len(moved) == 2
    assert place.game.states[name] == "RUNNING"
    place.apply(place.fleet.undo(head.change))
    assert (place.held(name), place.game.states[name]) == (before, "RUNNING")


@pytest.mark.parametrize("owner", ["group/g", "game/gone"])
def test_a_group_and_what_connectors_left_are_written_again_too(open_place, monkeypatch, owner):
    """Nobody is to be stopped for it: the step itself makes sure, each time, that nobody is there."""
    place = open_place("3.5.2")
    place.brokers.add_group("g", {("t", 0): 5, ("t", 1): 5})
    for name in ("/one", "/two"):
        place.scan.put(("gone", {"filename": name}), {"position": 5})
    is_group = owner.startswith("group/")

    def hold():
        return place.held(owner) if is_group else [one.offset for one in place.fleet.offsets.orphans().items[0].offsets]

    before = hold()
    planned = place.fleet.offsets.move(owner, to=3) if is_group else place.fleet.offsets.purge([owner])
    left = kill_between_two(place, monkeypatch)
    with pytest.raises(Killed):
        place.fleet.apply(planned)
    assert not left
    (head,) = place.fleet.journal.list()
    assert place.fleet.journal.resume(head.change).is_done
    assert hold() == [{"kafka_offset": 3}] * 2 if is_group else place.fleet.offsets.orphans().items == ()
    place.apply(place.fleet.undo(head.change))
    assert hold() == before
    assert len(before) == 2


@pytest.mark.parametrize("point", ["after-perform:0", "after-outcome:0", "after-outcome:3", "after-intent:5"])
def test_who_leaves_a_killed_move_as_it_is_gets_the_connector_back_too(open_place, monkeypatch, point):
    place = open_place("3.4.1")
    config = place.game.configs["fs"]
    planned = place.fleet.offsets.move("fs", to=3, wait_seconds=0)
    kill_at(monkeypatch, point)
    with pytest.raises(Killed):
        place.fleet.apply(planned)
    assert "fs" not in place.game.configs
    (head,) = place.fleet.journal.list()
    assert head.is_open
    place.fleet.journal.unlock(head.change, nonce=head.nonce)
    assert (place.game.configs["fs"], place.game.states["fs"]) == (config, "RUNNING")
    assert place.fleet.journal.list(only_open=True) == ()


def test_who_may_not_ask_the_workers_group_deletes_nothing(open_place, monkeypatch):
    place = open_place("3.4.1")

    def refuse(*_, **__):
        raise AuthorizationError("not allowed to DESCRIBE group workers")

    monkeypatch.setattr(worker_group, "read_worker_loads", refuse)
    with pytest.raises(AuthorizationError, match="DESCRIBE group workers"):
        place.fleet.offsets.move("fs", to=3)
