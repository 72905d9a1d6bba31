"""The restore of a connector whose journal failed: in time, from a durable file, and only what the change left."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from seamark.changes.executor import Executor
from seamark.changes.without_journal import FileSpool
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import PutConfig
from seamark.errors import JournalError
from tests.simulation.faults import Call, Fault, Kind
from tests.simulation.world import CLUSTER, TIMING, SimSpool
from tests.unit.changes.simulated import NEW, new_stage

GUARDED = (
    SetRunState(CLUSTER, "orders", "STOPPED"),
    PutConfig(CLUSTER, "orders", NEW),
    (SetRunState(CLUSTER, "orders", "RUNNING"), True),
)


class SlowSpool(SimSpool):
    """The spool of the simulation, with a time of its own for each file."""

    def __init__(self, who, stage, seconds):
        super().__init__(who.process, stage.spooled, stage.timeline)
        self._stage_timeline = stage.timeline
        self._seconds = seconds

    def write(self, change, number, record):
        place = super().write(change, number, record)
        self._stage_timeline.advance(self._seconds)
        return place


def find_failing_append():
    """The call at which the outcome of the stop is written: the connector is stopped, and the journal fails."""
    trial = new_stage()
    who = trial.operator()
    trial.apply(GUARDED, who=who)
    return [number for number, call in enumerate(who.process.trace, start=1) if call is Call.APPEND][2]


def apply_without_journal(stage, *more, lane=GUARDED, spool_seconds=0.0):
    who = stage.operator((Fault(find_failing_append(), Kind.JOURNAL_FAILS), *more))
    if spool_seconds:
        spool = SlowSpool(who, stage, spool_seconds)
        who.executor = Executor(who.journal, who.world, actor=who.actor, timing=TIMING, spool=spool)
    with pytest.raises(JournalError) as caught:
        stage.apply(lane, who=who)
    return caught.value


@pytest.mark.parametrize("seconds", [TIMING.begin_seconds + 0.1, TIMING.in_flight_seconds + 0.1])
def test_restore_that_took_too_long_is_not_sent(seconds):
    stage = new_stage()
    error = apply_without_journal(stage, spool_seconds=seconds)
    # Another process may have resumed the change meanwhile, and without a journal this one can't know.
    assert "not done: resume connector/sim/orders: its tasks start (too much time has passed" in error.message
    assert ([record.number for record in stage.spooled], stage.ledger.requests, stage.state()) == ([2], 1, "STOPPED")


def test_restore_in_time_is_sent():
    stage = new_stage()
    error = apply_without_journal(stage, spool_seconds=TIMING.begin_seconds - 1)
    assert "done without the journal: resume connector/sim/orders" in error.message
    assert stage.state() == "RUNNING"


def test_restore_is_not_sent_when_the_journal_failed_too_long_ago():
    """The time since the journal failed counts as well, not only that of one file."""
    lane = (*GUARDED, (SetRunState(CLUSTER, "stock", "PAUSED"), True))
    stage = new_stage()
    error = apply_without_journal(stage, lane=lane, spool_seconds=TIMING.begin_seconds - 0.1)
    assert "done without the journal: resume connector/sim/orders" in error.message
    assert "not done: pause connector/sim/stock: its tasks stay assigned (too much time has passed" in error.message
    assert (stage.state("orders"), stage.state("stock")) == ("RUNNING", "RUNNING")


def test_restore_does_not_overwrite_a_foreign_change():
    stage = new_stage()

    def pause(_):
        stage.cluster.set_target("orders", "PAUSED")
        # Until the workers show it.
        stage.timeline.advance(TIMING.shows_seconds)

    # Right after the journal failed, someone else pauses the connector with curl.
    stage._act_foreign = pause
    error = apply_without_journal(stage, Fault(find_failing_append() + 1, Kind.FOREIGN_STATE))
    assert "not done: resume connector/sim/orders: its tasks start (another process changed it)" in error.message
    assert (stage.ledger.requests, stage.state()) == (1, "PAUSED")
    assert not stage.spooled


def test_spooled_file_and_its_folder_are_synced_before_the_write_returns(tmp_path, monkeypatch):
    synced = []

    def record(fd):
        found = os.fstat(fd)
        synced.append((stat.S_ISDIR(found.st_mode), found.st_size if stat.S_ISREG(found.st_mode) else None))

    monkeypatch.setattr(os, "fsync", record)
    path = FileSpool(tmp_path / "spool").write("01J0", 2, {"words": "resume it"})
    # The whole content is in the file when it is synced, and the folder that names it comes after it.
    assert synced == [(False, Path(path).stat().st_size), (True, None)]


def test_spool_that_can_not_be_synced_fails(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(JournalError, match="neither the journal nor"):
        FileSpool(tmp_path / "spool").write("01J0", 2, {})
