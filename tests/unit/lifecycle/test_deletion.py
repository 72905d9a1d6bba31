"""Deletion of connectors with their offsets, and connectors that start without old offsets: in memory."""

from __future__ import annotations

import signal
from contextlib import contextmanager

import pytest

from seamark.changes import executor
from seamark.changes.interruption import set_hook
from seamark.changes.plan import Plan
from seamark.cli.confirm import build_errors
from seamark.context import PaceSettings
from seamark.errors import (
    LockedError,
    RefusedError,
    RejectedError,
    UnreachableError,
    UnsupportedError,
    UsageError,
)
from seamark.offsets.codec.codec import encode_key
from seamark.offsets.write.guards import VerifyOffsets
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, register
from tests.unit.lifecycle.test_relocation import TopicPlace
from tests.unit.offsets.moving import Leaping

FILE, OTHER = {"filename": "/in"}, {"filename": "/other"}
POINTS = ("before-intent", "after-intent", "after-perform", "after-outcome")
# stop 0 · prove 1 · no others 2 · write 3 · (restore 4) · verify 5 · delete 6
ACTING, CHECKS = (0, 3, 6), (1, 2, 5)


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


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = TopicPlace(tmp_path, monkeypatch, config_topic="configs", status_topic="status")
    made.game.add("fs", SOURCE_CONFIG)
    made.game.add("lake", SINK_CONFIG)
    made.scan.put(("fs", FILE), {"position": 100}).put(("fs", OTHER), {"position": 7})
    made.brokers.add_topic("offsets", partitions=5)
    made.brokers.add_topic("t", partitions=2, records=10)
    made.brokers.add_group("connect-lake", {("t", 0): 8, ("t", 1): 6})
    with made.fleet:
        made.fleet._world._clock = Leaping()
        monkeypatch.setattr("seamark.kafka.worker_group.read_worker_loads", lambda *_, **__: {})
        yield made


def kinds(planned):
    return [step.kind for step in planned.plan.steps]


def read_all(place):
    """Every connector with its state and config, every record of the offsets topic, every committed offset."""
    groups = {name: dict(group.offsets) for name, group in place.brokers.groups.items()}
    return dict(place.game.configs), dict(place.game.states), place.newest("offsets"), groups


def delete(place, *names, **more):
    return place.fleet.connectors.delete(list(names), with_offsets=True, **more)


def test_source_is_deleted_with_its_offsets_and_comes_back_to_the_byte(place):
    before = read_all(place)
    planned = delete(place, "fs")
    assert kinds(planned) == [
        "set-run-state",
        "prove-stopped",
        "check-no-other-offsets",
        "write-offsets",
        "set-run-state",
        "verify-offsets",
        "delete-after-offsets",
    ]
    text = str(planned)
    assert "delete with 2 offsets: 1 task ends" in text
    assert "deletes the offset of file /in: byte 100" in text
    assert not any("stay" in note for note in planned.plan.notes)
    saved = register(place.fleet, Plan.from_dict(planned.plan.to_dict()))
    result = place.apply(place.fleet.review(saved))
    assert "fs" not in place.game.configs
    assert place.newest("offsets") == {}
    back = place.apply(place.fleet.undo(result.change))
    assert read_all(place) == before
    place.apply(place.fleet.undo(back.change))
    assert ("fs" in place.game.configs, place.newest("offsets")) == (False, {})


def test_sink_is_deleted_with_its_committed_offsets_and_comes_back(place):
    before = read_all(place)
    result = place.apply(delete(place, "lake"))
    assert ("lake" in place.game.configs, place.brokers.groups["connect-lake"].offsets) == (False, {})
    place.apply(place.fleet.undo(result.change))
    assert read_all(place) == before


def test_several_connectors_are_one_plan_and_one_change(place):
    before = read_all(place)
    planned = delete(place, "fs", "lake")
    assert {step.lane for step in planned.plan.steps} == {"connector/game/fs", "connector/game/lake"}
    assert [effect.words for effect in planned.effects] == [
        "delete with 2 offsets: 1 task ends",
        "delete with 2 offsets: 1 task ends",
    ]
    result = place.apply(planned)
    assert place.game.configs == {}
    assert len(place.fleet.journal.list()) == 1
    place.apply(place.fleet.undo(result.change))
    assert read_all(place) == before


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED", "RUNNING"])
def test_undo_restores_the_state(place, state):
    place.game.states["fs"] = state
    result = place.apply(delete(place, "fs"))
    place.apply(place.fleet.undo(result.change))
    assert place.game.states["fs"] == state


def test_bytes_that_rest_would_write_in_another_way_are_restored_as_records(place):
    odd = b'{"position": 100}'
    place.scan.put(("fs", FILE), odd)
    before = read_all(place)
    result = place.apply(delete(place, "fs"))
    undo = place.fleet.undo(result.change)
    assert kinds(undo)[:3] == ["prove-stopped", "write-offsets", "verify-offsets"]
    place.apply(undo)
    assert place.newest("offsets")[encode_key("fs", FILE)] == odd
    assert read_all(place) == before


@pytest.mark.parametrize("name", ["fs", "lake"])
@pytest.mark.parametrize("version", ["3.6.2", "3.5.2"])
def test_older_workers_delete_in_the_stores_and_undo_writes_before_it_creates(place, name, version):
    place.game.version = version
    before = read_all(place)
    result = place.apply(delete(place, name))
    assert place.game.calls["patch_offsets"] == 0
    assert name not in place.game.configs
    undo = place.fleet.undo(result.change)
    assert [kind for kind in kinds(undo) if kind in ("write-offsets", "create-connector")] == [
        "write-offsets",
        "create-connector",
    ]
    place.apply(undo)
    assert read_all(place) == before


def test_workers_that_can_not_stop_a_connector_are_refused_with_the_reason(place):
    place.game.version = "3.4.1"
    with pytest.raises(UnsupportedError, match="no changes were made") as caught:
        delete(place, "fs")
    assert "can't stop a connector (since 3.5)" in caught.value.cause
    assert place.game.writes == 0


def test_undo_in_a_state_that_old_workers_can_not_create_is_announced(place):
    place.game.version = "3.6.2"
    place.game.states["fs"] = "PAUSED"
    assert any("an undo can't recreate it as PAUSED" in note for note in delete(place, "fs").plan.notes)


def test_offset_stored_after_the_plan_refuses_and_the_connector_runs_on(place):
    planned = delete(place, "fs")
    place.scan.put(("fs", {"filename": "/new"}), {"position": 3})
    held = place.newest("offsets")
    result = place.fleet.apply(planned)
    assert not result.is_done
    assert [str(step.error.message) for step in result.steps if step.error] == [
        "connector/game/fs has offsets that the plan doesn't delete"
    ]
    assert (place.game.states["fs"], place.newest("offsets")) == ("RUNNING", held)
    assert place.fleet.undo(result.change).is_empty


def test_rejected_deletion_of_offsets_leaves_everything_as_it_was(place):
    before = read_all(place)
    planned = delete(place, "fs")
    place.game.failing["patch_offsets", "fs"] = RejectedError("Connect answers 400: not these")
    result = place.fleet.apply(planned)
    assert (result.is_done, str(result.ending)) == (False, "partly")
    assert read_all(place) == before
    assert place.fleet.undo(result.change).is_empty


def test_connector_that_can_not_be_deleted_stays_stopped_and_the_change_open(place):
    before = read_all(place)
    planned = delete(place, "fs")
    place.game.failing["delete", "fs"] = RejectedError("Connect answers 400: no")
    result = place.fleet.apply(planned)
    # Without its offsets it would begin again: it must not run.
    assert (result.ending, place.game.states["fs"]) == (None, "STOPPED")
    place.game.failing.clear()
    assert place.fleet.journal.resume(result.change).is_done
    assert "fs" not in place.game.configs
    place.apply(place.fleet.undo(result.change))
    assert read_all(place) == before


@pytest.mark.parametrize("name", ["fs", "lake"])
@pytest.mark.parametrize("error", [RejectedError("Connect answers 409: rebalance"), UnreachableError("refused")])
@pytest.mark.parametrize("value", [None, b'{"position": 100}'])
def test_rejected_delete_is_undone_to_the_byte(place, error, name, value):
    if value is not None:
        # Connect's REST API would write these bytes in another way.
        place.scan.put(("fs", FILE), value)
    before = read_all(place)
    planned = delete(place, name)
    place.game.failing["delete", name] = error
    result = place.fleet.apply(planned)
    assert (result.ending, result.owed) == (None, (f"delete connector/game/{name}",))
    errors, code = build_errors(result)
    assert (code, errors[0]) == (1, error)
    assert errors[1].message == f"change {result.change} is open: 1 step must still be done"
    # Connect still rejects it.
    again = place.fleet.journal.resume(result.change)
    assert (again.ending, place.game.states[name]) == (None, "STOPPED")
    assert str(place.fleet.journal.unlock(result.change, nonce=None).ending) == "partly"
    place.apply(place.fleet.undo(result.change))
    assert read_all(place) == before
    assert place.game.states[name] == "RUNNING"


@contextmanager
def failing_verification(monkeypatch):
    """Let the check of written offsets fail within the block."""

    def perform(*_):
        raise UnreachableError("no broker answers")

    with monkeypatch.context() as patched:
        patched.setattr(VerifyOffsets, "perform", perform)
        yield


@pytest.mark.parametrize("way", ["resume", "undo"])
def test_check_that_failed_after_the_offsets_were_deleted_is_undone_to_the_byte(place, monkeypatch, way):
    before = read_all(place)
    planned = delete(place, "fs")
    with failing_verification(monkeypatch):
        result = place.fleet.apply(planned)
        assert result.owed == (result.steps[-1].words, *result.left)
        if way == "undo":
            assert str(place.fleet.journal.unlock(result.change, nonce=None).ending) == "partly"
    if way == "resume":
        assert place.fleet.journal.resume(result.change).is_done
    place.apply(place.fleet.undo(result.change))
    assert read_all(place) == before


def test_deletion_that_can_not_be_verified_leaves_the_change_open(place, monkeypatch):
    planned = delete(place, "fs")
    with failing_verification(monkeypatch):
        result = place.fleet.apply(planned)
    assert (result.ending, place.game.states["fs"]) == (None, "STOPPED")
    # Nothing may start it without its offsets meanwhile.
    with pytest.raises(LockedError):
        place.fleet.apply(place.fleet.connectors.resume("fs"))
    assert place.fleet.journal.resume(result.change).is_done
    assert "fs" not in place.game.configs


def interrupt(place, planned, *, after, is_killed=False):
    """Apply, with Ctrl-C after the outcome of a step; the process may be killed before it closes the change."""

    def reach(point, number):
        if (point, number) == ("after-outcome", after):
            signal.raise_signal(signal.SIGINT)
        if is_killed and point == "before-close":
            raise Killed

    set_hook(reach)
    try:
        return place.fleet.apply(planned)
    finally:
        set_hook(None)


@pytest.mark.parametrize("name", ["fs", "lake"])
@pytest.mark.parametrize("way", ["resume", "undo"])
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("after", [3, 5])
def test_ctrl_c_without_the_offsets_keeps_the_change_open(place, after, is_killed, way, name):
    before = read_all(place)
    planned = delete(place, name)
    if is_killed:
        with pytest.raises(Killed):
            interrupt(place, planned, after=after, is_killed=True)
    else:
        result = interrupt(place, planned, after=after)
        assert (result.ending, result.owed) == (None, result.left)
        assert result.left[-1] == f"delete connector/game/{name}"
        errors, code = build_errors(result)
        assert (code, errors[0].message) == (
            130,
            f"stopped by Ctrl-C; change {result.change} is open: "
            + ("2 steps must still be done" if after == 3 else "1 step must still be done"),
        )
        assert f"must still be done: {'; '.join(result.left)}" == errors[0].cause
        assert "journal resume" in errors[0].hint
    # Nothing starts the connector without its offsets.
    with pytest.raises(LockedError):
        place.fleet.apply(place.fleet.connectors.resume(name))
    assert place.game.states[name] == "STOPPED"
    (head,) = place.fleet.journal.list(only_open=True)
    if way == "resume":
        assert place.fleet.journal.resume(head.change).is_done
        assert name not in place.game.configs
    else:
        assert str(place.fleet.journal.unlock(head.change, nonce=None).ending) == "partly"
    place.apply(place.fleet.undo(head.change))
    assert read_all(place) == before


@pytest.mark.parametrize("after", [0, 1, 2])
def test_ctrl_c_before_the_offsets_are_deleted_closes_the_change(place, after):
    before = read_all(place)
    result = interrupt(place, delete(place, "fs"), after=after)
    assert (str(result.ending), result.owed) == ("partly", ())
    assert place.newest("offsets") == before[2]
    place.apply(place.fleet.undo(result.change))
    assert read_all(place) == before


def test_ctrl_c_leaves_connectors_that_were_not_begun(place):
    result = interrupt(place, delete(place, "fs", "lake").with_pace(PaceSettings(1, wait_stable=False)), after=3)
    assert result.owed == (
        "read back and verify the offsets of connector/game/fs",
        "delete connector/game/fs",
    )
    assert place.game.states["lake"] == "RUNNING"
    errors, _ = build_errors(result)
    assert "Not started: stop connector/game/lake" in errors[0].cause
    place.fleet.journal.unlock(result.change, nonce=None)
    place.apply(place.fleet.undo(result.change))
    assert place.game.states == {"fs": "RUNNING", "lake": "RUNNING"}


def test_connector_without_offsets_is_only_deleted(place):
    place.game.add("new", SOURCE_CONFIG)
    planned = delete(place, "new")
    assert "write-offsets" not in kinds(planned)
    assert "delete with 0 offsets" in str(planned)
    result = place.apply(planned)
    place.apply(place.fleet.undo(result.change))
    assert place.game.states["new"] == "RUNNING"


def test_group_that_another_sink_uses_for_the_same_topic_is_refused(place):
    group = {"consumer.override.group.id": "both"}
    place.game.add("one", {**SINK_CONFIG, **group})
    place.game.add("two", {**SINK_CONFIG, **group})
    place.brokers.add_group("both", {("t", 0): 3})
    with pytest.raises(RefusedError, match="also has offsets of other owners; no changes were made"):
        delete(place, "one")


def test_secret_in_the_config_is_announced_as_not_undoable(place):
    place.game.add("fs", {**SOURCE_CONFIG, "db.password": "hunter2-canary"})
    assert any(note.startswith("can't be undone: delete connector/game/fs") for note in delete(place, "fs").plan.notes)


@pytest.mark.parametrize("version", ["4.3.1", "3.5.2"])
@pytest.mark.parametrize("name", ["fs", "lake"])
@pytest.mark.parametrize(
    "point",
    [f"{point}:{step}" for step in ACTING for point in POINTS]
    + [f"{point}:{step}" for step in CHECKS for point in ("before-intent", "after-outcome")]
    + ["after-open:0", "before-close:0", "after-close:0"],
)
def test_killed_deletion_is_finished_by_resume_and_undone_to_the_byte(place, monkeypatch, point, name, version):
    place.game.version = version
    before = read_all(place)
    left = kill_at(monkeypatch, point)
    planned = delete(place, name)
    with pytest.raises(Killed):
        place.fleet.apply(planned)
    assert not left
    (head,) = place.fleet.journal.list()
    if not point.startswith("after-close"):
        assert place.fleet.journal.resume(head.change).is_done
    assert name not in place.game.configs
    place.apply(place.fleet.undo(head.change))
    assert read_all(place) == before


# --- create --fresh


def put_old(place):
    place.scan.put(("new", FILE), {"position": 40}).put(("new", OTHER), {"position": 50})


def fresh(place, name="new", config=SOURCE_CONFIG, **more):
    return place.fleet.connectors.create(name, config, fresh=True, **more)


def test_fresh_connector_starts_without_old_offsets_and_undo_restores_them(place):
    put_old(place)
    before = read_all(place)
    planned = fresh(place)
    assert kinds(planned)[:6] == [
        "create-connector",
        "prove-stopped",
        "check-no-other-offsets",
        "write-offsets",
        "verify-offsets",
        "set-run-state",
    ]
    assert "create without offsets (2 old offsets deleted), RUNNING" in str(planned)
    assert not any("resumes from" in note for note in planned.plan.notes)
    result = place.apply(planned)
    assert place.game.states["new"] == "RUNNING"
    assert encode_key("new", FILE) not in place.newest("offsets")
    back = place.apply(place.fleet.undo(result.change))
    assert read_all(place) == before
    place.apply(place.fleet.undo(back.change))
    assert place.game.states["new"] == "RUNNING"
    assert encode_key("new", FILE) not in place.newest("offsets")


def test_fresh_connector_with_odd_bytes_has_them_back_by_undo(place):
    place.scan.put(("new", FILE), b'{"position": 100}')
    before = read_all(place)
    planned = fresh(place)
    assert kinds(planned)[0] == "prove-stopped"
    result = place.apply(planned)
    place.apply(place.fleet.undo(result.change))
    assert read_all(place) == before


@pytest.mark.parametrize("version", ["4.3.1", "3.5.2"])
def test_fresh_sink_starts_without_committed_offsets(place, version):
    place.game.version = version
    place.brokers.add_group("connect-pond", {("t", 0): 3})
    before = read_all(place)
    result = place.apply(fresh(place, "pond", SINK_CONFIG))
    assert (place.game.states["pond"], place.brokers.groups["connect-pond"].offsets) == ("RUNNING", {})
    place.apply(place.fleet.undo(result.change))
    assert read_all(place) == before


@pytest.mark.parametrize("version", ["4.3.1", "3.5.2"])
def test_fresh_connector_without_old_offsets_is_created_at_once(place, version):
    place.game.version = version
    planned = fresh(place)
    assert kinds(planned) == ["check-no-other-offsets", "create-connector", "await-running"]
    assert "new: starts from the beginning, no offset of this name exists" in planned.plan.notes
    result = place.apply(planned)
    assert place.game.states["new"] == "RUNNING"
    place.apply(place.fleet.undo(result.change))
    assert "new" not in place.game.configs


def test_offset_stored_since_the_plan_refuses_a_fresh_connector(place):
    planned = fresh(place)
    put_old(place)
    assert not place.fleet.apply(planned).is_done
    assert "new" not in place.game.configs


def test_fresh_connector_whose_offsets_stay_does_not_run(place):
    put_old(place)
    planned = fresh(place)
    place.game.failing["patch_offsets", "new"] = RejectedError("Connect answers 400: not these")
    assert not place.fleet.apply(planned).is_done
    assert place.game.states["new"] == "STOPPED"


def test_fresh_and_a_file_of_offsets_exclude_each_other(place, tmp_path):
    with pytest.raises(UsageError, match="not both"):
        fresh(place, offsets_file=tmp_path / "offsets.json")


# create 0 · prove 1 · no others 2 · write 3 · verify 4 · run 5; on older workers prove 0 · … · create 4
FRESH = [("4.3.1", number) for number in range(6)] + [("3.5.2", number) for number in range(5)]
WRITES = {("4.3.1", 0), ("4.3.1", 3), ("4.3.1", 5), ("3.5.2", 2), ("3.5.2", 4)}


@pytest.mark.parametrize(
    ("version", "number", "point"),
    [
        (*where, point)
        for where in FRESH
        for point in POINTS
        if where in WRITES or point in ("before-intent", "after-outcome")
    ],
)
def test_killed_fresh_create_is_finished_by_resume_and_undone_to_the_byte(place, monkeypatch, point, number, version):
    place.game.version = version
    put_old(place)
    before = read_all(place)
    left = kill_at(monkeypatch, f"{point}:{number}")
    planned = fresh(place)
    with pytest.raises(Killed):
        place.fleet.apply(planned)
    assert not left
    (head,) = place.fleet.journal.list()
    assert place.fleet.journal.resume(head.change).is_done
    assert place.game.states["new"] == "RUNNING"
    assert encode_key("new", FILE) not in place.newest("offsets")
    place.apply(place.fleet.undo(head.change))
    assert read_all(place) == before
