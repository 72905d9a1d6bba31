"""A whole cleaning is broken off, at each of its records and in each way: no task ever finds nothing."""

from __future__ import annotations

import pytest

from seamark.change.actor import Actor
from seamark.change.executor import Executor
from seamark.change.file_journal import FileJournal
from seamark.change.file_journal.writer import FileJournalWriter
from seamark.change.precondition import build_preconditions
from seamark.change.recovery import Recovery
from seamark.change.spool import FileSpool
from seamark.change.steps.cleaning import AwaitCleaned, LevelRecords
from seamark.change.steps.mend import MendOffsets, VerifyMended
from seamark.change.steps.run_state import SetRunState
from seamark.change.timing import ChangeTiming
from seamark.errors import JournalError, UnknownOutcomeError
from seamark.model.connector import State
from seamark.model.held_offset import HeldRecord
from seamark.model.plan import Plan
from seamark.model.result import Outcome
from seamark.offsets.mending import MendRule, settle_rule
from tests.unit.change.odd_topic import ASIDE, FARTHER, HOME, KEY, PARTITION, Killed, World, home

AT_HOME = HeldRecord("t", HOME, KEY, b'{"p":2}')
STRAYS = (HeldRecord("t", ASIDE, KEY, b'{"p":9}'), HeldRecord("t", FARTHER, KEY, b'{"p":7}'))
GONE = tuple(HeldRecord("t", one.partition, KEY) for one in STRAYS)
# Which record counts, what lies there, and the value that everything gets.
CASES = {
    "home counts": (MendRule(PARTITION, HOME, KEY), (*STRAYS, AT_HOME), b'{"p":2}'),
    "a stray was chosen": (MendRule(PARTITION, ASIDE, KEY, said=True), (*STRAYS, AT_HOME), b'{"p":9}'),
    "nothing is at home": (MendRule(PARTITION, ASIDE, KEY, said=True), STRAYS[::-1], b'{"p":9}'),
}
# More than a mending writes: at most one at home, two tombstones, and one at home again.
RECORDS = range(5)


class Lane:
    """The plan of a cleaning, applied to a world."""

    def __init__(self, folder, case, **more):
        rule, records, self.value = CASES[case]
        self.world = World(*records, **more)
        self.world.state = State.RUNNING
        self.folder = folder / "spool"
        self.journal = FileJournal(folder / "journal")
        settled = (settle_rule(rule, home),)
        self.steps = [
            (SetRunState("game", "orders", "STOPPED"), False),
            (MendOffsets("game", "orders", "t", (rule,), clean=True, gone=tuple(one.place for one in GONE)), False),
            (AwaitCleaned("game", "t", GONE), False),
            (LevelRecords("game", "orders", "t", settled, clean=True), True),
            (SetRunState("game", "orders", "RUNNING"), True),
        ]

    def apply(self):
        steps = [step for step, _ in self.steps]
        plan = Plan(
            title="clean",
            context="dev",
            made_at="2026-01-01T00:00:00Z",
            made_by="me",
            steps=tuple(step.to_data(lane="one", always=always) for step, always in self.steps),
            locks=("data.t",),
            preconditions=build_preconditions(steps, self.world),
        )
        return self.build_executor().apply(plan, steps)

    def resume(self):
        (head,) = self.journal.open_heads()
        return Recovery(self.build_executor()).resume(head.change)

    def build_executor(self):
        timing = ChangeTiming(in_flight_seconds=5.0)
        return Executor(self.journal, self.world, actor=Actor("me"), timing=timing, spool=FileSpool(self.folder))

    def find_hidden(self):
        """The tombstones that lie in the log."""
        return [place for place, value in self.world.held().items() if value is None]


@pytest.mark.parametrize("case", CASES)
def test_a_cleaning_that_goes_well(tmp_path, case):
    lane = Lane(tmp_path, case)
    assert lane.apply().is_done
    assert lane.world.held() == {(HOME, KEY): lane.value}
    assert lane.world.starts == [lane.value]


@pytest.mark.parametrize("written", RECORDS)
@pytest.mark.parametrize("case", CASES)
def test_a_write_that_fails_leaves_no_tombstone_in_the_way(tmp_path, case, written):
    lane = Lane(tmp_path, case)
    before = lane.world.heard
    lane.world.breaks_after, lane.world.breaks_with = written, UnknownOutcomeError
    result = lane.apply()
    assert result.ending is not None, result.steps
    assert lane.find_hidden() == []
    (start,) = lane.world.starts
    assert start == (lane.value if written else before)


@pytest.mark.parametrize("written", RECORDS)
@pytest.mark.parametrize("case", CASES)
def test_a_kill_among_the_records_is_healed_by_resume(tmp_path, case, written):
    lane = Lane(tmp_path, case)
    lane.world.breaks_after, lane.world.breaks_with = written, Killed
    with pytest.raises(Killed):
        lane.apply()
    assert lane.world.starts == []
    assert lane.resume().ending is not None
    assert lane.find_hidden() == []
    assert lane.world.starts == [lane.value]


@pytest.mark.parametrize("written", RECORDS[1:])
@pytest.mark.parametrize("case", CASES)
def test_while_nothing_can_be_levelled_the_connector_stays_stopped(tmp_path, case, written):
    lane = Lane(tmp_path, case)
    lane.world.breaks_after = written
    result = lane.apply()
    assert lane.world.is_down
    assert (result.ending, lane.world.starts, lane.world.state) == (None, [], State.STOPPED)
    assert "resume connector/game/orders" in " ".join(result.left)
    again = lane.resume()
    assert (again.ending, lane.world.starts) == (None, [])
    lane.world.is_down = False
    assert lane.resume().ending is not None
    assert lane.find_hidden() == []
    assert lane.world.starts == [lane.value]


@pytest.mark.parametrize("written", RECORDS[1:4])
def test_nor_does_it_go_on_where_the_journal_was_on_the_same_brokers(tmp_path, monkeypatch, written):
    lane = Lane(tmp_path, "a stray was chosen")
    lane.world.breaks_after = written

    def append(writer, kind, body):
        if lane.world.is_down:
            raise JournalError("no broker answers")
        return unbroken(writer, kind, body)

    unbroken = FileJournalWriter.append
    monkeypatch.setattr(FileJournalWriter, "append", append)
    with pytest.raises(JournalError, match=r"NOT done: .*resume connector/game/orders") as caught:
        lane.apply()
    assert "done without it" not in caught.value.message
    assert (lane.world.starts, lane.world.state) == ([], State.STOPPED)
    lane.world.is_down = False
    assert lane.resume().ending is not None
    assert lane.find_hidden() == []
    assert lane.world.starts == [lane.value]


def test_one_that_somebody_resumed_meanwhile_runs_again_when_it_was_levelled(tmp_path):
    lane = Lane(tmp_path, "home counts", rounds=1000)
    lane.world.breaks_after = 2
    assert lane.apply().ending is None
    lane.world.is_down = False
    lane.world.resume("orders")
    result = lane.resume()
    assert (result.ending, "is not stopped" in str(result.failures)) == (None, True)
    lane.world.stop("orders")
    assert lane.resume().ending is not None
    assert lane.world.starts[1:] == [lane.value]


def test_where_nothing_was_mended_the_connector_goes_on(tmp_path):
    lane = Lane(tmp_path, "home counts")
    lane.world.breaks_after = 0
    result = lane.apply()
    assert result.ending is not None
    assert [step.outcome for step in result.steps if step.kind == "mend-offsets"] == [Outcome.DID_NOT_HAPPEN]
    assert lane.world.starts == [b'{"p":2}']


def test_an_older_tombstone_stays_where_nothing_was_mended(tmp_path):
    lane = Lane(tmp_path, "home counts")
    lane.world.write([HeldRecord("t", ASIDE, KEY), HeldRecord("t", FARTHER, KEY), AT_HOME])
    # It refuses: they are not yet what they should be.
    lane.steps.insert(
        1, (VerifyMended("game", "orders", "t", (settle_rule(CASES["home counts"][0], home),), clean=True), False)
    )
    before = list(lane.world.log)
    assert lane.apply().ending is not None
    assert lane.world.log == before
    assert lane.world.starts == [b'{"p":2}']
