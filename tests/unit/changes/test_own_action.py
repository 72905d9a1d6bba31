"""An action that only this module knows: planned, saved, reviewed, applied, killed, resumed and undone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from seamark.changes.action import (
    Action,
    ActionHistory,
    CheckStep,
    Needs,
    Reads,
    StepSequence,
    When,
    action_kind,
    needs_permission,
)
from seamark.changes.effect import ChangeKind, Effect, FieldChange
from seamark.changes.outcome import Outcome
from seamark.changes.plan import read_plan_file
from seamark.changes.step import CanNotUndo, Intent, Observed, Step, step_kind
from seamark.errors import RefusedError, StalePlanError
from seamark.policy.permissions import Permission
from tests.unit.fleet.living import LivingConnect, open_living_fleet

LAMPS: dict[str, str] = {}
CHECKED: list[str] = []


class Killed(BaseException):
    """The process ends here."""


class Failing:
    """What goes wrong at the next write: the process dies before it or right after it."""

    before = False
    after = False


@step_kind("test-set-lamp")
@dataclass(frozen=True, slots=True)
class SetLamp(Step):
    """One lamp gets a color."""

    aspect: ClassVar[str] = "color"
    settle_seconds: ClassVar[float] = 0.1

    name: str
    color: str

    @property
    def subject(self) -> str:
        return f"lamp/{self.name}"

    def describe(self) -> str:
        return f"set {self.subject} to {self.color}"

    def intend(self, world: Any) -> Intent:
        del world
        return Intent(before={"color": LAMPS[self.name]}, after={"color": self.color})

    def perform(self, world: Any, intent: Intent) -> None:
        del world, intent
        if Failing.before:
            raise Killed
        LAMPS[self.name] = self.color
        if Failing.after:
            raise Killed

    def observe(self, world: Any, intent: Intent) -> Observed:
        del world
        now = {"color": LAMPS[self.name]}
        if now == intent.after:
            return Observed.AFTER
        return Observed.BEFORE if now == intent.before else Observed.FOREIGN

    def undo(self, intent: Intent) -> Step | CanNotUndo | None:
        return SetLamp(self.name, intent.before["color"])


@step_kind("test-check-lamp")
@dataclass(frozen=True, slots=True)
class CheckLamp(CheckStep):
    """The guard: the lamp is there."""

    aspect: ClassVar[str] = "presence"
    name: str

    @property
    def subject(self) -> str:
        return f"lamp/{self.name}"

    def describe(self) -> str:
        return f"check {self.subject}"

    def perform(self, world: Any, intent: Intent) -> None:
        del world, intent
        CHECKED.append(self.name)
        if self.name not in LAMPS:
            raise RefusedError(f"no lamp {self.name}")

    def observe(self, world: Any, intent: Intent) -> Observed:
        del world, intent
        return Observed.AFTER


@action_kind("test-paint")
@needs_permission(Permission.OPERATE)
@dataclass(frozen=True, slots=True)
class Paint(Action):
    """Give a lamp a color. The guard is derived."""

    name: str
    color: str

    @property
    def subject(self) -> str:
        return f"lamp/{self.name}"

    @classmethod
    def inspect(cls, actions: Sequence[Paint], reads: Reads) -> Sequence[str]:
        del reads
        return [LAMPS[action.name] for action in actions]

    def steps(self, seen: str) -> StepSequence:
        if seen == self.color:
            return ()
        return (CheckLamp(self.name), When.TURN), (SetLamp(self.name, self.color), When.TURN)

    def needs(self, seen: str) -> Needs:
        del seen
        return Needs(frozenset({f"lamp.{self.name}"}))

    def effects(self, seen: str) -> tuple[Effect, ...]:
        return (Effect(ChangeKind.CHANGE, self.subject, "is painted", (FieldChange("color", seen, self.color),)),)

    def build_undo(self, past: ActionHistory) -> Action | CanNotUndo | None:
        done = past.find(SetLamp)
        return None if done is None or done.intent is None else Paint(self.name, done.intent.before["color"])


@pytest.fixture
def fleet(tmp_path):
    LAMPS.clear()
    LAMPS.update(hall="red", yard="red")
    CHECKED.clear()
    Failing.before = Failing.after = False
    with open_living_fleet(tmp_path, LivingConnect()) as opened:
        yield opened


def plan(fleet, *actions):
    return fleet._planner.plan("paint", actions)


def test_a_plan_is_saved_reviewed_and_applied_with_its_derived_guard(fleet, tmp_path):
    planned = plan(fleet, Paint("hall", "blue"), Paint("yard", "red"))
    assert [effect.subject for effect in planned.effects] == ["lamp/hall"]
    path = tmp_path / "plan.json"
    assert fleet.save(planned, path) is None
    body = json.loads(path.read_text())
    assert body["actions"] == [{"action": "test-paint", "name": "hall", "color": "blue"}]
    assert "check" not in path.read_text()
    reviewed = fleet.review(read_plan_file(path))
    assert [step.kind for step in reviewed.plan.steps] == ["test-check-lamp", "test-set-lamp"]
    assert reviewed.plan.locks == ("lamp.hall",)
    assert "color" in str(reviewed)
    assert "blue" in str(reviewed)
    assert fleet.apply(reviewed).is_done
    assert (LAMPS, CHECKED) == ({"hall": "blue", "yard": "red"}, ["hall"])


def test_an_edited_copy_is_refused_and_an_old_plan_too(fleet, tmp_path):
    path = tmp_path / "plan.json"
    assert fleet.save(plan(fleet, Paint("hall", "blue")), path) is None
    body = json.loads(path.read_text())
    body["actions"][0]["color"] = "black"
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(body))
    with pytest.raises(RefusedError, match="the plan file was edited"):
        read_plan_file(edited)
    LAMPS["hall"] = "green"
    with pytest.raises(StalePlanError):
        fleet.review(read_plan_file(path))
    assert LAMPS["hall"] == "green"


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_killed_change_is_resumed_from_the_journal_alone_and_undone(fleet, tmp_path, monkeypatch, where):
    setattr(Failing, where, True)
    with pytest.raises(Killed):
        fleet.apply(plan(fleet, Paint("hall", "blue")))
    Failing.before = Failing.after = False
    (head,) = fleet.journal.list(only_open=True)
    opening = fleet.journal.show(head.change)[0].body["plan"]
    assert opening["actions"] == [{"action": "test-paint", "name": "hall", "color": "blue"}]
    assert [step["kind"] for step in opening["steps"]] == ["test-check-lamp", "test-set-lamp"]

    def derive(*_):
        raise AssertionError("a resume derives nothing again")

    with monkeypatch.context() as patched, open_living_fleet(tmp_path, LivingConnect()) as other:
        patched.setattr(Paint, "inspect", derive)
        patched.setattr(Paint, "steps", derive)
        resumed = other.journal.resume(head.change)
    assert resumed.is_done
    assert LAMPS["hall"] == "blue"
    undo = fleet.undo(head.change)
    assert [(type(action), action.color) for action in undo.plan.actions] == [(Paint, "red")]
    assert [step.kind for step in undo.plan.steps] == ["test-check-lamp", "test-set-lamp"]
    assert fleet.apply(undo).is_done
    assert LAMPS["hall"] == "red"
    assert fleet.apply(fleet.undo(fleet.journal.list()[0].change)).steps[-1].outcome is Outcome.DONE
    assert LAMPS["hall"] == "blue"
