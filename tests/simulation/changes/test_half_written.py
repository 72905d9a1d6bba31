"""A move of several offsets is killed between two of its records: it is written again, or everybody is told."""

from __future__ import annotations

import contextlib

import pytest

from seamark.changes.history import read_past
from seamark.changes.journal import EntryKind
from seamark.changes.outcome import Outcome
from seamark.changes.step import Intent
from seamark.connectors.run_state import SetRunState
from seamark.core.offsets import Offset
from seamark.errors import FencedError, JournalError, SeamarkError
from seamark.kafka.model import HeldRecord
from seamark.offsets.model import WriteRoute
from seamark.offsets.write.guards import CheckStopped
from seamark.offsets.write.steps import WriteOffsets
from tests.simulation.faults import KILLS, Call, Fault, Killed, Kind
from tests.simulation.world import CLUSTER, TIMING
from tests.step_list import plan_undo, surround
from tests.unit.changes.simulated import NAMES, Stage, new_stage

RECORDS = 5
OLD, NEW = (
    [HeldRecord("offsets", number, b"orders", value) for number in range(RECORDS)] for value in (b"old", b"new")
)
STOP = SetRunState(CLUSTER, "orders", "STOPPED")
RESTORE = (SetRunState(CLUSTER, "orders", "RUNNING"), True)
WRITE = WriteOffsets(
    CLUSTER,
    "orders",
    tuple(Offset({"table": str(number)}, {"at": 1}) for number in range(RECORDS)),
    WriteRoute.TOPIC,
    tuple(NEW),
)
LANE = (STOP, *surround(WRITE, quiet_seconds=1.0), RESTORE)
NUMBER = LANE.index(WRITE)


def set_stage() -> Stage:
    """A stage whose `orders` must never run with a part of its positions moved."""
    stage = new_stage()
    stage.cluster.positions.update({record.place: record for record in OLD})
    stage.invariants.begin(NAMES)
    follow = stage.cluster.set_target
    stage.ran_half = False

    def watch(name, target):
        stage.ran_half |= target == "RUNNING" and len(set(values(stage))) > 1
        follow(name, target)

    stage.cluster.set_target = watch
    return stage


def values(stage):
    return [stage.cluster.positions[record.place].value for record in OLD]


def find_calls(lane=LANE):
    """The calls of a whole move."""
    stage = set_stage()
    who = stage.operator()
    assert stage.apply(lane, who=who).is_done
    assert values(stage) == [b"new"] * RECORDS
    return who.process.trace


def find_writes(lane=LANE):
    """Which of the calls write the records: the first write is the stop, the last one the resume."""
    return [number for number, call in enumerate(find_calls(lane), start=1) if call is Call.WRITE][1:-1]


CALLS, WRITES = find_calls(), find_writes()


def kill(stage, *, at, kind):
    with pytest.raises(Killed):
        stage.apply(LANE, faults=(Fault(at, kind),))
    return stage.change


@pytest.mark.parametrize("kind", sorted(KILLS))
@pytest.mark.parametrize("at", WRITES)
def test_a_write_that_was_killed_is_finished_and_can_be_put_back(at, kind):
    stage = set_stage()
    change = kill(stage, at=at, kind=kind)
    began_at = stage.timeline.now

    result = stage.operator().recovery.resume(change)

    assert result.is_done
    assert values(stage) == [b"new"] * RECORDS
    assert stage.state() == "RUNNING"
    assert not stage.ran_half
    intents = [e for e in stage.entries() if e.kind is EntryKind.INTENT and e.body["step"] == NUMBER]
    if len(intents) > 1:
        # Not before the first one's records have had their time, and on a proof of its own.
        assert stage.timeline.now - began_at >= TIMING.quiet_seconds
        assert [number for number, _ in stage.outcomes(change)].count(NUMBER - 1) == 2
    stage.apply_plan(plan_undo(stage.operator().recovery, change))
    assert values(stage) == [b"old"] * RECORDS
    assert (stage.state(), stage.ran_half) == ("RUNNING", False)
    stage.invariants.check_end()


def test_every_kill_between_two_records_was_written_again():
    for at in WRITES[1:]:
        stage = set_stage()
        change = kill(stage, at=at, kind=Kind.KILL)
        assert len(set(values(stage))) == 2
        stage.operator().recovery.resume(change)
        intents = [e.body for e in stage.entries() if e.kind is EntryKind.INTENT and e.body["step"] == NUMBER]
        assert len(intents) == 2
        # Undo needs what was before the first of them.
        assert Intent.from_dict(intents[0]) == Intent.from_dict(intents[1])


def trace_resume():
    """The calls of a resume that writes again."""
    stage = set_stage()
    change = kill(stage, at=WRITES[2], kind=Kind.KILL)
    who = stage.operator()
    assert who.recovery.resume(change).is_done
    return who.process.trace


@pytest.mark.parametrize("kind", [Kind.KILL, Kind.KILL_AFTER])
@pytest.mark.parametrize("second", range(1, len(trace_resume()) + 1))
def test_a_resume_that_is_killed_too_is_finished_by_the_next_one(second, kind):
    stage = set_stage()
    change = kill(stage, at=WRITES[2], kind=Kind.KILL)
    try:
        assert stage.operator((Fault(second, kind),)).recovery.resume(change).is_done
    except Killed:
        if stage.store.changes[change].is_open:
            assert stage.operator().recovery.resume(change).is_done
    assert values(stage) == [b"new"] * RECORDS
    assert (stage.state(), stage.ran_half) == ("RUNNING", False)
    stage.apply_plan(plan_undo(stage.operator().recovery, change))
    assert values(stage) == [b"old"] * RECORDS
    stage.invariants.check_end()


@pytest.mark.parametrize("kind", [Kind.LOST_DONE, Kind.LOST_LATE, Kind.LOST_NEVER])
def test_a_write_that_broke_off_is_written_again_by_the_same_process(kind):
    stage = set_stage()

    result = stage.apply(LANE, faults=(Fault(WRITES[2], kind),))

    assert result.is_done
    assert values(stage) == [b"new"] * RECORDS
    assert (stage.state(), stage.ran_half) == ("RUNNING", False)
    stage.apply_plan(plan_undo(stage.operator().recovery, stage.change))
    assert values(stage) == [b"old"] * RECORDS


def test_who_was_stopped_in_its_middle_and_taken_over_writes_no_more():
    stage = set_stage()
    moved_on = HeldRecord("offsets", 4, b"orders", b"further on")
    follow = stage.cluster.set_target

    def go_on(name, target):
        follow(name, target)
        if target == "RUNNING":
            stage.cluster.positions[moved_on.place] = moved_on
            stage.invariants.touch("orders", "position", {})

    stage.cluster.set_target = go_on
    with pytest.raises(FencedError):
        stage.apply(LANE, faults=(Fault(WRITES[2], Kind.TAKEN),))
    assert stage.counts["taken over from a stopped process"] == 1
    assert not stage.store.open_changes()
    assert values(stage) == [*[b"new"] * (RECORDS - 1), b"further on"]
    assert (stage.state(), stage.ran_half) == ("RUNNING", False)


def test_nothing_is_written_again_under_a_connector_that_runs():
    """The journal failed after the write, and the connector was started without it: nobody may stop it unasked."""
    stage = set_stage()
    change = kill(stage, at=WRITES[2], kind=Kind.KILL)
    half = values(stage)
    stage.cluster.set_target("orders", "RUNNING")

    result = stage.operator().recovery.resume(change)

    assert result.ending is None
    assert values(stage) == half
    assert next(step.outcome for step in result.steps if step.number == NUMBER) is Outcome.UNKNOWN
    # A second one finds the same, and undo knows of it.
    assert stage.operator().recovery.resume(change).ending is None
    assert stage.operator().recovery.abandon(change, force=True).ending is not None
    assert read_past(stage.entries(change)).outcomes[NUMBER] is Outcome.UNKNOWN
    # It did not stop the connector that runs now; somebody must, and then it can be put back.
    assert not stage.apply_plan(plan_undo(stage.operator().recovery, change)).is_done
    assert values(stage) == half
    stage.cluster.set_target("orders", "STOPPED")
    stage.apply_plan(plan_undo(stage.operator().recovery, change))
    assert values(stage) == [b"old"] * RECORDS


def test_nothing_is_written_again_without_something_to_prove():
    bare = tuple(step for step in LANE if not isinstance(step, CheckStopped))
    stage = set_stage()
    with pytest.raises(Killed):
        stage.apply(bare, faults=(Fault(find_writes(bare)[2], Kind.KILL),))
    half = values(stage)
    assert len(set(half)) == 2

    result = stage.operator().recovery.resume(stage.change)

    assert result.ending is None
    assert values(stage) == half


def test_who_has_no_journal_any_more_is_told_of_the_half():
    stage = set_stage()
    change = kill(stage, at=WRITES[2], kind=Kind.KILL)
    # That it is taken over, that it is written again, and then its intent.
    failing = [number for number, call in enumerate(trace_resume(), start=1) if call is Call.APPEND][2]
    with pytest.raises(JournalError, match="not done: set 5 offsets"):
        stage.operator((Fault(failing, Kind.JOURNAL_FAILS),)).recovery.resume(change)
    assert stage.state() == "RUNNING"


def test_who_leaves_it_as_it_is_writes_nothing_again():
    stage = set_stage()
    change = kill(stage, at=WRITES[2], kind=Kind.KILL)
    half = values(stage)

    result = stage.operator().recovery.abandon(change)

    assert result.ending is None
    assert values(stage) == half
    assert stage.state() == "RUNNING"


def test_what_somebody_else_wrote_into_the_half_is_left():
    stage = set_stage()
    change = kill(stage, at=WRITES[2], kind=Kind.KILL)
    theirs = HeldRecord("offsets", 4, b"orders", b"theirs")
    stage.cluster.positions[theirs.place] = theirs

    result = stage.operator().recovery.resume(change)

    assert result.ending is None
    assert stage.cluster.positions[theirs.place] == theirs


def test_a_fault_at_every_call_leaves_all_or_tells():
    """Whatever else goes wrong: a change that is closed moved all of them or none."""
    closed = 0
    for at in range(1, len(CALLS) + 1):
        for kind in (*sorted(KILLS), Kind.LOST_NEVER, Kind.UNREACHABLE, Kind.JOURNAL_FAILS):
            stage = set_stage()
            with contextlib.suppress(Killed, SeamarkError):
                stage.apply(LANE, faults=(Fault(at, kind),))
            for stored in stage.store.open_changes():
                stage.operator().recovery.resume(stored.change)
            if not stage.store.open_changes():
                closed += 1
                assert len(set(values(stage))) == 1, (at, kind)
                assert stage.state() == "RUNNING"
    assert closed > len(CALLS) * 5


def find_append(place):
    """The call that writes the outcome of the write (0), or an entry behind it."""
    return [number for number, call in enumerate(CALLS, start=1) if call is Call.APPEND and number > WRITES[-1]][place]


@pytest.mark.parametrize("is_back", [True, False], ids=["back-where-it-was", "as-written"])
def test_a_connector_that_runs_again_says_nothing_about_a_write_without_an_outcome(is_back):
    """The journal fails behind the write, so the connector is started without it, and reads on to where it was."""
    stage = set_stage()
    with pytest.raises(JournalError, match="done without the journal: resume connector"):
        stage.apply(LANE, faults=(Fault(find_append(0), Kind.JOURNAL_FAILS),))
    change = stage.change
    assert stage.state() == "RUNNING"
    assert NUMBER not in dict(stage.outcomes(change))
    if is_back:
        stage.cluster.positions.update({record.place: record for record in OLD})
        stage.invariants.touch("orders", "position", {})

    result = stage.operator().recovery.resume(change)

    outcome = dict(stage.outcomes(change))[NUMBER]
    if not is_back:
        assert outcome == Outcome.DONE
        return
    # It was written, and its records were delivered again: "did not happen" would be wrong.
    assert outcome == Outcome.UNKNOWN
    assert result.ending is None
    error = next(step.error for step in result.steps if step.number == NUMBER)
    assert "was started again and its offsets advance" in error.cause
    assert stage.operator().recovery.abandon(change, force=True).ending is not None
    stage.apply_plan(plan_undo(stage.operator().recovery, change))
    assert values(stage) == [b"old"] * RECORDS


def test_a_write_with_an_outcome_stays_done_if_the_connector_runs_again():
    """The journal fails right behind the outcome: where the connector reads on to is nobody else's change."""
    stage = set_stage()
    with pytest.raises(JournalError, match="done without the journal: resume connector"):
        stage.apply(LANE, faults=(Fault(find_append(1), Kind.JOURNAL_FAILS),))
    change = stage.change
    assert dict(stage.outcomes(change))[NUMBER] == Outcome.DONE
    stage.cluster.positions.update({record.place: record for record in OLD})
    stage.invariants.touch("orders", "position", {})

    result = stage.operator().recovery.resume(change)

    assert dict(stage.outcomes(change))[NUMBER] == Outcome.DONE
    assert result.ending is not None
    assert stage.state() == "RUNNING"


def lose_answer(stage):
    """A move whose process is killed right after its last record, before the outcome is in the journal."""
    change = kill(stage, at=WRITES[-1], kind=Kind.KILL_AFTER)
    assert values(stage) == [b"new"] * RECORDS
    return change


def read_back(stage):
    """A connector that is started reads on to where it was before the write, as one at the end of its data does."""
    follow = stage.cluster.set_target

    def go_on(name, target):
        follow(name, target)
        if target == "RUNNING":
            stage.cluster.positions.update({record.place: record for record in OLD})
            stage.invariants.touch("orders", "position", {})

    stage.cluster.set_target = go_on


def hide_offsets(stage, seconds=1000.0):
    stage.cluster.brokers_back_at = stage.timeline.now + seconds


def show_offsets(stage):
    stage.cluster.brokers_back_at = 0.0


def test_a_connector_is_not_started_while_nothing_can_tell_whether_its_offsets_were_written():
    """Brokers are down during a resume: it used to start the connector, and no later resume could close the change."""
    stage = set_stage()
    read_back(stage)
    change = lose_answer(stage)
    hide_offsets(stage)

    result = stage.operator().recovery.resume(change)

    assert result.ending is None
    assert stage.state() == "STOPPED"
    error = next(step.error for step in result.steps if step.number == NUMBER)
    assert "was not started again, because its offsets can't be read" in error.message
    assert "no broker answers" in error.cause
    assert RESTORE[0].describe() in result.left
    # A second one while the brokers are still down changes nothing; a later one finishes the change.
    assert stage.operator().recovery.resume(change).ending is None
    assert stage.state() == "STOPPED"
    show_offsets(stage)
    assert stage.operator().recovery.resume(change).is_done
    assert dict(stage.outcomes(change))[NUMBER] == Outcome.DONE
    assert stage.state() == "RUNNING"
    stage.apply_plan(plan_undo(stage.operator().recovery, change))
    assert values(stage) == [b"old"] * RECORDS


def test_the_outcome_is_in_the_journal_before_the_connector_is_started():
    """The brokers answer again right before the start: the second look decides the write."""
    stage = set_stage()
    read_back(stage)
    change = lose_answer(stage)
    # The first look ends `quiet` and `shows` after the intent.
    hide_offsets(stage, TIMING.quiet_seconds + TIMING.shows_seconds + TIMING.look_seconds)

    result = stage.operator().recovery.resume(change)

    assert result.ending is not None
    assert stage.state() == "RUNNING"
    kinds = [(entry.kind, entry.body.get("step"), entry.body.get("outcome")) for entry in stage.entries(change)]
    restore = LANE.index(RESTORE)
    decided = kinds.index((EntryKind.OUTCOME, NUMBER, "done"))
    assert kinds.index((EntryKind.OUTCOME, NUMBER, "unknown")) < decided
    assert decided < kinds.index((EntryKind.INTENT, restore, None))


def trace_blind_resume():
    """The calls of a resume during which the brokers come back, so that the second look decides."""
    stage = set_stage()
    change = lose_answer(stage)
    hide_offsets(stage, TIMING.quiet_seconds + TIMING.shows_seconds + TIMING.look_seconds)
    who = stage.operator()
    who.recovery.resume(change)
    return who.process.trace


@pytest.mark.parametrize("kind", [Kind.KILL, Kind.KILL_AFTER, Kind.JOURNAL_FAILS, Kind.JOURNAL_UNSURE])
@pytest.mark.parametrize("at", range(1, len(trace_blind_resume()) + 1))
def test_a_resume_that_ends_anywhere_around_the_second_look_leaves_a_change_that_can_be_decided(at, kind):
    stage = set_stage()
    read_back(stage)
    change = lose_answer(stage)
    hide_offsets(stage, TIMING.quiet_seconds + TIMING.shows_seconds + TIMING.look_seconds)
    with contextlib.suppress(Killed, SeamarkError):
        stage.operator((Fault(at, kind),)).recovery.resume(change)
    show_offsets(stage)
    if stage.store.changes[change].is_open:
        assert stage.operator().recovery.resume(change).ending is not None
    assert dict(stage.outcomes(change))[NUMBER] == Outcome.DONE
    assert (stage.state(), stage.ran_half) == ("RUNNING", False)


def test_a_connector_that_another_operator_started_meanwhile_makes_the_write_undecidable():
    stage = set_stage()
    change = lose_answer(stage)
    hide_offsets(stage)
    assert stage.operator().recovery.resume(change).ending is None
    read_back(stage)
    stage.cluster.set_target("orders", "RUNNING")

    # While the offsets can't be read, nothing claims that the connector is stopped.
    blind = stage.operator().recovery.resume(change)
    assert blind.ending is None
    error = next(step.error for step in blind.steps if step.number == NUMBER)
    assert "was not started again" not in error.message
    show_offsets(stage)
    result = stage.operator().recovery.resume(change)

    assert result.ending is None
    assert dict(stage.outcomes(change))[NUMBER] == Outcome.UNKNOWN
    error = next(step.error for step in result.steps if step.number == NUMBER)
    assert "was started again and its offsets advance" in error.cause
    assert stage.state() == "RUNNING"


def test_a_change_that_is_closed_with_force_starts_its_connector():
    stage = set_stage()
    change = lose_answer(stage)
    hide_offsets(stage)
    assert stage.operator().recovery.abandon(change).ending is None
    assert stage.state() == "STOPPED"

    assert stage.operator().recovery.abandon(change, force=True).ending is not None

    assert stage.state() == "RUNNING"
    told = [entry.body["error"] for entry in stage.entries(change) if entry.body.get("outcome") == "unknown"]
    assert "was not started again" not in told[-1]["message"]


def test_an_apply_that_can_not_see_its_write_does_not_start_the_connector():
    """The answer is lost, and the brokers go down with it."""
    stage = set_stage()
    read_back(stage)
    who = stage.operator((Fault(WRITES[-1], Kind.LOST_DONE),))
    offsets = who.executor.world._offsets
    write = offsets.write

    def write_and_hide(records):
        hide_offsets(stage)
        write(records)

    offsets.write = write_and_hide

    result = stage.apply(LANE, who=who)

    assert result.ending is None
    assert stage.state() == "STOPPED"
    show_offsets(stage)
    assert stage.operator().recovery.resume(stage.change).is_done
    assert values(stage) == [b"old"] * RECORDS
    assert dict(stage.outcomes())[NUMBER] == Outcome.DONE


def resume_blind(*faults):
    """A stage after a resume that could not read the offsets, with its error if the journal failed too."""
    stage = set_stage()
    read_back(stage)
    change = lose_answer(stage)
    hide_offsets(stage)
    who = stage.operator(faults)
    try:
        assert who.recovery.resume(change).ending is None
    except JournalError as error:
        return stage, who, error
    return stage, who, None


def test_without_the_journal_a_connector_whose_write_is_unknown_stays_stopped():
    _, who, _ = resume_blind()
    # The last entry of such a resume is the outcome that its second look writes.
    last = [number for number, call in enumerate(who.process.trace, start=1) if call is Call.APPEND][-1]

    stage, _, error = resume_blind(Fault(last, Kind.JOURNAL_FAILS))

    assert stage.state() == "STOPPED"
    assert "not done" in error.message
    assert f"{RESTORE[0].describe()} (the outcome of the write of its offsets is unknown" in error.message
    assert f"seamark journal resume {stage.change}" in error.hint
    show_offsets(stage)
    assert stage.operator().recovery.resume(stage.change).is_done
    assert stage.state() == "RUNNING"


def test_the_second_look_trusts_offsets_of_a_stopped_connector_only():
    """Another operator starts and pauses the connector while the offsets can't be read: it can be back by then."""
    stage = set_stage()
    change = lose_answer(stage)
    shown_at = TIMING.quiet_seconds + TIMING.shows_seconds + TIMING.look_seconds
    hide_offsets(stage, shown_at)

    def interfere():
        stage.cluster.set_target("orders", "RUNNING")
        stage.cluster.set_target("orders", "PAUSED")
        stage.cluster.positions.update({record.place: record for record in OLD})
        for aspect in ("position", "state"):
            stage.invariants.touch("orders", aspect, {})

    stage.timeline.at(stage.timeline.now + shown_at - 0.1, interfere)

    result = stage.operator().recovery.resume(change)

    assert dict(stage.outcomes(change))[NUMBER] == Outcome.UNKNOWN
    error = next(step.error for step in result.steps if step.number == NUMBER)
    assert "was started again and its offsets advance" in error.cause
