"""Workers that take no offsets get them by other ways; workers that can't stop a connector are a refusal."""

from __future__ import annotations

import json

import pytest

import seamark.changes.executor as executor
import seamark.kafka.transaction as exact_writer
import seamark.kafka.worker_group as worker_group
from seamark.changes.plan import Plan
from seamark.core.time import read_clock
from seamark.errors import AuthorizationError, RejectedError, SeamarkError, UnsupportedError
from tests.fault.offsets.older import MATRIX
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, register
from tests.unit.offsets.moving import Leaping, Place

FILE = {"filename": "/in"}
STOPPED = ["set-run-state", "prove-stopped", "check-preview", "write-offsets", "verify-offsets", "set-run-state"]


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
        assert until > read_clock()
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


@pytest.mark.parametrize(("name", "where", "before"), [("fs", "topic", [100]), ("lake", "group", [8, 6])])
def test_offsets_are_moved_and_put_back(open_place, name, where, before):
    place = open_place("3.5.2")
    config = place.game.configs[name]
    planned = place.fleet.offsets.move(name, to=3, wait_seconds=0)
    assert place.kinds(planned) == STOPPED
    assert "Connect 3.5.2 and can't write offsets through REST" in str(planned.plan.notes)
    assert next(step.route for step in planned.steps if step.kind == "write-offsets") == where
    moved = place.apply(planned)
    assert [next(iter(one.values())) for one in place.held(name)] == [3] * len(before)
    undo = place.fleet.undo(moved)
    assert place.kinds(undo) == [kind for kind in STOPPED if kind != "check-preview"]
    place.apply(undo)
    assert [next(iter(one.values())) for one in place.held(name)] == before
    assert (place.game.configs[name], place.game.states[name]) == (config, "RUNNING")
    assert (place.game.calls["patch_offsets"], place.game.calls["stop"]) == (0, 2)


@pytest.mark.parametrize(
    ("name", "own", "offline"),
    [
        ("fs", {}, "stop all workers of game and use connect-offsets --import, or "),
        ("fs", {"offsets.storage.topic": "own"}, ""),
        ("lake", {}, "stop all workers of game and use seamark groups move connect-lake, or "),
    ],
)
@pytest.mark.parametrize("verb", ["move", "reset"])
def test_workers_that_can_not_stop_a_connector_are_a_refusal(open_place, name, own, offline, verb):
    place = open_place("3.4.1")
    place.game.configs[name] |= own
    with pytest.raises(UnsupportedError, match=f"can't change the offsets of game/{name}; no changes") as caught:
        getattr(place.fleet.offsets, verb)(name, **({"to": 3} if verb == "move" else {}))
    assert caught.value.cause == "its workers run Connect 3.4.1, which can't stop a connector (since 3.5)"
    assert caught.value.hint == f"{offline}upgrade every worker to 3.5 or later"
    assert place.game.writes == 0


def test_offsets_are_read_on_workers_that_can_not_stop_a_connector(open_place):
    place = open_place("3.4.1")
    assert place.held("fs") == [{"position": 100}]
    assert place.held("lake") == [{"kafka_offset": 8}, {"kafka_offset": 6}]


def test_the_plan_says_what_becomes_of_the_connector_and_is_whole_in_a_file(open_place):
    place = open_place("3.5.2")
    planned = place.fleet.offsets.move("fs", to=30, wait_seconds=0)
    assert "stops, moves, resumes: about 70 bytes reprocessed" in str(planned)
    saved = register(place.fleet, Plan.from_dict(json.loads(json.dumps(planned.plan.to_dict()))))
    assert place.fleet.apply(saved).is_done
    assert place.held("fs") == [{"position": 30}]
    assert place.game.configs["fs"] == {"name": "fs", **SOURCE_CONFIG}


def test_one_that_was_paused_is_paused_again_also_by_the_undo(open_place):
    place = open_place("3.5.2")
    place.game.states["fs"] = "PAUSED"
    planned = place.fleet.offsets.move("fs", to=30)
    assert place.kinds(planned) == STOPPED
    moved = place.apply(planned)
    assert place.game.states["fs"] == "PAUSED"
    place.apply(place.fleet.undo(moved))
    assert (place.held("fs"), place.game.states["fs"]) == ([{"position": 100}], "PAUSED")


def test_it_comes_back_where_its_offsets_could_not_be_written(open_place, monkeypatch):
    place = open_place("3.5.2")
    planned = place.fleet.offsets.move("fs", to=30, wait_seconds=0)

    def fail(*_, **__):
        raise RejectedError("no broker took it")

    monkeypatch.setattr(exact_writer, "write_records", fail)
    result = place.fleet.apply(planned)
    assert not result.is_done
    assert (place.held("fs"), place.game.states["fs"]) == ([{"position": 100}], "RUNNING")
    # It left everything as it was: there is nothing to take back.
    assert place.fleet.undo(result.change).is_empty


def plan_new(place, folder):
    """A new connector that begins where a file says."""
    file = folder / "begin.json"
    file.write_text(json.dumps({"offsets": [{"partition": {"filename": "/new"}, "offset": {"position": 7}}]}))
    return place.fleet.connectors.create("new", {**SOURCE_CONFIG, "file": "/new"}, offsets_file=file)


@pytest.mark.parametrize("version", ["3.6.2", "3.5.2", "3.4.1"])
def test_a_new_connector_is_created_when_its_offsets_are_there(open_place, tmp_path, version):
    place = open_place(version)
    planned = plan_new(place, tmp_path)
    expected = ["prove-stopped", "write-offsets", "verify-offsets", "create-connector", "await-running"]
    assert place.kinds(planned) == expected
    assert "write 1 offset, then RUNNING" in str(planned)
    assert any("its key gets the encoding of Connect's REST API" in note for note in planned.plan.notes)
    made = place.apply(planned)
    assert place.held("new") == [{"position": 7}]
    place.apply(place.fleet.undo(made))
    assert "new" not in place.game.configs
    assert place.fleet.offsets.orphans().items == ()


def test_the_workers_group_must_be_known_for_a_new_connector(open_place, tmp_path, monkeypatch):
    monkeypatch.setattr("seamark.kafka.worker_group.find_worker_groups", lambda config, urls: ())
    place = open_place("3.5.2", group_id=None)
    with pytest.raises(SeamarkError, match="can't determine the worker group"):
        plan_new(place, tmp_path)


def test_who_may_not_ask_the_workers_group_writes_nothing_for_a_new_connector(open_place, tmp_path, monkeypatch):
    place = open_place("3.5.2")

    def refuse(*_, **__):
        raise AuthorizationError("not allowed to DESCRIBE group workers")

    monkeypatch.setattr(worker_group, "read_worker_loads", refuse)
    with pytest.raises(AuthorizationError, match="DESCRIBE group workers"):
        plan_new(place, tmp_path)


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
    place = open_place("3.5.2")
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


@pytest.mark.parametrize("name", ["fs", "lake"])
def test_a_move_killed_between_two_positions_is_written_again_and_put_back_by_undo(open_place, monkeypatch, name):
    place = open_place("3.5.2")
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
