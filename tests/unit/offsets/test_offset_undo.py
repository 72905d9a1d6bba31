"""The way back from a move, when it is looked at, and when there is nothing to do."""

from __future__ import annotations

import pytest

from seamark.offsets.write.action import find_flush_seconds, find_wait_seconds
from tests.unit.fleet.builders import settings
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, living_context
from tests.unit.offsets.moving import Place

FILE = {"filename": "/in"}


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.game.add("fs", SOURCE_CONFIG)
    made.scan.put(("fs", FILE), {"position": 100})
    with made.fleet:
        yield made


def kinds(planned):
    return [step.kind for step in planned.plan.steps]


MOVE = ["set-run-state", "prove-stopped", "check-preview", "write-offsets", "verify-offsets", "set-run-state"]


def test_a_connector_that_has_caught_up_is_not_stopped_for_its_undo(place):
    moved = place.apply(place.fleet.offsets.move("fs", to=30))
    place.scan.put(("fs", FILE), {"position": 100})
    undo = place.fleet.undo(moved)
    assert (undo.is_empty, undo.effects, undo.plan.locks) == (True, (), ())
    assert "! connector/game/fs is already in its previous state and is not changed" in str(undo)
    assert place.apply(undo).change == ""
    assert place.game.calls["stop"] == 1


def test_a_connector_that_has_not_is_moved_back_and_looked_at(place):
    moved = place.apply(place.fleet.offsets.move("fs", to=30))
    place.scan.put(("fs", FILE), {"position": 60})
    undo = place.fleet.undo(moved)
    assert kinds(undo) == [*(kind for kind in MOVE if kind != "check-preview"), "check-progress"]
    arguments = undo.plan.steps[-1].arguments
    assert [one["offset"] for one in arguments["offsets"]] == [{"position": 100}]
    assert [one["offset"] for one in arguments["former"]] == [{"position": 60}]
    place.apply(undo)
    assert place.held("fs") == [{"position": 100}]


def test_an_undo_leaves_those_alone_that_stand_there_and_moves_the_others(place):
    place.game.add("other", {**SOURCE_CONFIG, "file": "/else"})
    place.scan.put(("other", {"filename": "/else"}), {"position": 7})
    export = place.fleet.context.journal.folder.parent / "export.json"
    export.write_text(
        '{"fs": [{"partition": {"filename": "/in"}, "offset": {"position": 1}}],'
        ' "other": [{"partition": {"filename": "/else"}, "offset": {"position": 2}}]}'
    )
    moved = place.apply(place.fleet.offsets.import_file(export))
    place.scan.put(("fs", FILE), {"position": 100})
    undo = place.fleet.undo(moved)
    assert {step.subject for step in undo.plan.steps} == {"connector/game/other"}
    place.apply(undo)
    assert (place.held("fs"), place.held("other")) == ([{"position": 100}], [{"position": 7}])
    assert place.game.calls["stop"] == 3


def test_a_stopped_connector_is_not_looked_at_for_progress(place):
    place.game.states["fs"] = "STOPPED"
    planned = place.fleet.offsets.move("fs", to=30)
    assert kinds(planned) == MOVE[:-1]
    place.game.states["fs"] = "PAUSED"
    assert kinds(place.fleet.offsets.move("fs", to=30)) == MOVE


def test_progress_is_part_of_a_move_and_told_in_result_and_journal(place):
    planned = place.fleet.offsets.move("fs", to=30, wait_seconds=0.05)
    assert kinds(planned) == [*MOVE, "check-progress"]
    assert [step.always for step in planned.plan.steps] == [False] * 5 + [True, False]
    result = place.apply(planned)
    said = "no new offset within 0.05 s: no new data, or not flushed yet"
    assert result.steps[-1].note == said
    notes = [entry.body.get("note") for entry in place.fleet.journal.show(result.change) if entry.kind == "outcome"]
    assert notes == [None] * 6 + [said]


def test_nobody_waits_who_does_not_want_to(place):
    assert kinds(place.fleet.offsets.move("fs", to=30, wait_seconds=0.0)) == MOVE


def test_somebody_elses_position_is_a_loud_failure_with_the_next_step(place):
    def resume(name):
        place.game._change_state("resume", name, "RUNNING")
        place.scan.put((name, FILE), {"position": 10})

    place.game.resume = resume
    planned = place.fleet.offsets.move("fs", to=130)
    result = place.fleet.apply(planned)
    assert not result.is_done
    (error,) = result.failures.values()
    assert "another process wrote its offsets" in error.message
    assert "seamark offsets history game/fs" in error.hint
    written = place.fleet.journal.show(result.change)
    assert any("another process" in str(entry.body.get("error", "")) for entry in written)
    assert place.game.states["fs"] == "RUNNING"


def test_a_sink_is_looked_at_by_its_group(place):
    place.game.add("lake", SINK_CONFIG)
    place.brokers.add_topic("t", partitions=1, records=10)
    place.brokers.add_group("connect-lake", {("t", 0): 8})
    result = place.apply(place.fleet.offsets.move("lake", to=3, wait_seconds=0.05))
    assert result.steps[-1].note.startswith("no new offset")


@pytest.mark.parametrize(
    ("lines", "flush", "wait"),
    [
        ("offset.flush.interval.ms=1000\n", 1.0, 5.0),
        ("offset.flush.interval.ms=10000\n", 10.0, 14.0),
        ("group.id=x\n", 60.0, 15.0),
        ("offset.flush.interval.ms=${env:X}\n", None, 15.0),
        (None, None, 15.0),
    ],
)
def test_the_wait_is_as_long_as_the_workers_need(tmp_path, lines, flush, wait):
    path = tmp_path / "worker.properties"
    if lines is not None:
        path.write_text(lines)
    context = living_context(tmp_path)
    object.__setattr__(context.journal, "in_flight_seconds", 90.0)
    found = find_flush_seconds(settings("game", worker_config=path))
    assert (found, find_wait_seconds(context, found)) == (flush, wait)
    assert find_flush_seconds(settings("game", worker_config=path, exactly_once=True)) is None
