"""The file of a standalone worker, written by a step and taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from seamark.changes.outcome import SilentProgress
from seamark.changes.preconditions import OutcomeResolver
from seamark.changes.step import Observed, Outcome, build_step
from seamark.changes.timing import ChangeTiming
from seamark.errors import RefusedError, UnknownOutcomeError, UnsettledError
from seamark.kip199.steps import VerifyOffsetFile, WriteOffsetFile
from seamark.offsets.codec.java_map import write_java_map
from seamark.offsets.stores.file import build_digest
from tests.ports import MethodPorts

OLD, NEW = write_java_map([(b"a", b"1")]), write_java_map([(b"a", b"2")])
STEP = WriteOffsetFile("alone", "/data/o", NEW)


class Machine(MethodPorts):
    """A world with one file and a clock."""

    def __init__(self, content=OLD):
        self.content = content
        self.path = Path("/data/o")
        self.holder = ""
        self.is_busy = False
        self.time = 0.0

    @property
    def clock(self):
        return self

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds

    def offset_file(self, cluster):
        assert cluster == "alone"
        return self

    def read(self):
        if self.is_busy:
            raise UnsettledError("another seamark process is changing it")
        return self.content

    def swap(self, expected, content):
        assert expected == build_digest(self.content)
        self.content = content

    def find_holder(self):
        return self.holder


@pytest.mark.parametrize("before", [OLD, None])
def test_the_content_is_written_and_the_former_bytes_come_back(before):
    world = Machine(before)
    intent = STEP.intend(world)
    assert STEP.observe(world, intent) is Observed.BEFORE
    STEP.perform(world, intent)
    assert (world.content, STEP.observe(world, intent)) == (NEW, Observed.AFTER)
    back = STEP.undo(intent)
    back.perform(world, back.intend(world))
    assert world.content == before


def test_it_survives_the_journal():
    for step in (STEP, WriteOffsetFile("alone", "/data/o", None), VerifyOffsetFile("alone", "/data/o", "sha256:1")):
        assert build_step(step.to_data()) == step
        assert "file/data/o" in step.describe()


def test_somebody_elses_content_is_foreign():
    world = Machine()
    intent = STEP.intend(world)
    world.content = b"other"
    assert STEP.observe(world, intent) is Observed.FOREIGN


def test_another_file_by_the_same_name_is_refused():
    world = Machine()
    world.path = Path("/elsewhere/o")
    with pytest.raises(RefusedError, match="uses another file than /data/o"):
        STEP.intend(world)


def settle(world):
    intent = STEP.intend(world)
    return lambda: OutcomeResolver(world, timing=ChangeTiming(), progress=SilentProgress()).settle(
        STEP, intent, unknown=UnknownOutcomeError("the process was killed"), quiet_at=world.time + 120
    )


def test_after_a_kill_what_is_seen_is_so_at_once():
    world = Machine()
    look = settle(world)
    assert (look()[0], world.time) == (Outcome.DID_NOT_HAPPEN, 0.0)
    world.content = NEW
    assert (look()[0], world.time) == (Outcome.DONE, 0.0)


def test_while_somebody_still_writes_nobody_can_tell():
    world = Machine()
    look = settle(world)
    world.is_busy = True
    assert look()[0] is Outcome.UNKNOWN


@pytest.mark.parametrize(("content", "holder"), [(OLD, ""), (NEW, "process 7 was started with it")])
def test_verify_fails_where_a_worker_came_or_somebody_wrote(content, holder):
    world = Machine(content)
    step = VerifyOffsetFile("alone", "/data/o", build_digest(NEW))
    world.holder = holder
    with pytest.raises(RefusedError):
        step.perform(world, step.intend(world))
    world.content, world.holder = NEW, ""
    step.perform(world, step.intend(world))
    assert step.observe(world, step.intend(world)) is Observed.AFTER
