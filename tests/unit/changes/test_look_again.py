"""A look is taken again before an act that comes late: who slept does not know any more what he saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from seamark.changes.action import CheckStep
from seamark.changes.outcome import Outcome
from seamark.changes.step import Observed, StepData
from seamark.connectors.run_state import SetRunState
from seamark.connectors.steps import PutConfig
from seamark.errors import RefusedError
from seamark.fleet.kinds import STEPS
from tests.simulation.world import CLUSTER, TIMING
from tests.unit.changes.simulated import CONFIG, NEW, new_stage

STOP = SetRunState(CLUSTER, "orders", "STOPPED")
PUT = PutConfig(CLUSTER, "orders", NEW)
RESTORE = (SetRunState(CLUSTER, "orders", "RUNNING"), True)


class Glance(CheckStep):
    """A look that counts itself, lasts a while, and fails from the nth time on."""

    kind: ClassVar[str] = "glance"
    aspect: ClassVar[str] = "seen"
    settle_seconds: ClassVar[float] = 1.0
    subject = f"connector/{CLUSTER}/orders"

    def __init__(self, *, seconds=0.0, fails_at=99):
        self.taken, self._seconds, self._fails_at = 0, seconds, fails_at

    def describe(self):
        return "have a look"

    def perform(self, world, intent):
        self.taken += 1
        world.clock.sleep(self._seconds)
        if self.taken >= self._fails_at:
            raise RefusedError("it is not so any more")

    def observe(self, world, intent):
        return Observed.AFTER

    def to_data(self, *, lane="", always=False):
        return StepData(self.kind, self.subject, {}, lane=lane, always=always)

    @classmethod
    def from_data(cls, data):
        return cls()


@dataclass
class Fleeting(Glance):
    """One whose word does not hold for long."""

    expires: ClassVar[bool] = True

    def __init__(self, **more):
        super().__init__(**more)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """The journal's readers know the step."""
    monkeypatch.setitem(STEPS, "glance", Glance)


def test_a_fresh_look_is_enough():
    stage, seen = new_stage(), Fleeting()
    assert stage.apply([STOP, seen, PUT, RESTORE]).is_done
    assert seen.taken == 1


@pytest.mark.parametrize("kind", [Glance, Fleeting])
def test_an_old_look_is_taken_again_where_it_does_not_hold(kind):
    stage, seen, nap = new_stage(), kind(), Glance(seconds=TIMING.begin_seconds + 1)
    assert stage.apply([STOP, seen, nap, PUT, RESTORE]).is_done
    assert (seen.taken, nap.taken) == (1 + (kind is Fleeting), 1)


def test_what_is_over_keeps_the_act_from_being_sent():
    stage, seen, nap = new_stage(), Fleeting(fails_at=2), Glance(seconds=TIMING.begin_seconds + 1)
    result = stage.apply([STOP, seen, nap, PUT, RESTORE])
    assert [step.outcome for step in result.steps if step.kind in ("glance", "put-config")][:3] == [
        Outcome.DID_NOT_HAPPEN,
        Outcome.DONE,
        Outcome.DID_NOT_HAPPEN,
    ]
    assert (stage.config(), stage.state()) == (CONFIG, "RUNNING")


def test_what_must_always_be_done_is_done_and_told():
    stage, seen, nap = new_stage(), Fleeting(fails_at=2), Glance(seconds=TIMING.begin_seconds + 1)
    result = stage.apply([STOP, PUT, seen, nap, RESTORE])
    assert not result.is_done
    assert result.ending is not None
    assert "it is not so any more" in str([step.error for step in result.steps])
    assert (stage.config(), stage.state()) == (NEW, "RUNNING")
