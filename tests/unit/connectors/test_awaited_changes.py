"""Changes that must leave a connector running: they wait, and restore what was there if it doesn't run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from seamark.changes.interruption import POINTS, set_hook
from seamark.changes.journal import Ending
from seamark.changes.outcome import Outcome
from seamark.errors import RefusedError, UsageError
from seamark.fleet.changes import read_saved_plan
from seamark.fleet.environment import SystemClock
from seamark.policy.permissions import Permission
from tests.unit.fleet.living import SOURCE_CONFIG, LivingConnect, open_living_fleet


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A failure has to last for seconds: here they pass while seamark sleeps."""
    now = [1_800_000_000.0]
    monkeypatch.setattr(SystemClock, "now", lambda _: now[0])
    monkeypatch.setattr(SystemClock, "sleep", lambda _, seconds: now.__setitem__(0, now[0] + seconds))


@pytest.fixture
def game():
    return LivingConnect()


@pytest.fixture
def fleet(tmp_path, game):
    with open_living_fleet(tmp_path, game) as opened:
        yield opened


def fail_with(game, **values):
    """Let the tasks of connectors fail whose config has these values."""
    game.find_broken = lambda name: (0,) if values.items() <= game.configs[name].items() else ()


def undo(fleet, result):
    return fleet.apply(fleet.undo(result.change))


class TestCreate:
    def test_a_connector_that_runs_is_reported_as_done(self, fleet, game):
        result = fleet.apply(fleet.connectors.create("a", SOURCE_CONFIG))
        assert result.is_done
        assert [step.kind for step in result.steps] == ["create-connector", "await-running"]

    def test_one_that_fails_stays_stopped_and_its_trace_is_reported(self, fleet, game):
        fail_with(game, file="/in")
        result = fleet.apply(fleet.connectors.create("a", SOURCE_CONFIG))
        assert result.ending is Ending.PARTLY
        assert game.states == {"a": "STOPPED"}
        (error,) = result.failures.values()
        assert error.cause == "task 0: Boom: first (no such file)"
        assert error.context["trace"] == "Boom: first\nCaused by: no such file"
        assert undo(fleet, result).is_done
        assert game.configs == {}

    def test_one_that_fails_is_paused_where_connect_can_not_stop(self, tmp_path):
        old = LivingConnect(version="3.4.0")
        fail_with(old, file="/in")
        with open_living_fleet(tmp_path, old) as fleet:
            fleet.apply(fleet.connectors.create("a", SOURCE_CONFIG))
        assert old.states == {"a": "PAUSED"}

    def test_one_that_fails_is_deleted_on_request(self, fleet, game):
        fail_with(game, file="/in")
        planned = fleet.connectors.create("a", SOURCE_CONFIG, delete_on_failure=True)
        assert planned.plan.actions[0].find_permissions() == {Permission.CHANGE_CONFIG, Permission.DELETE}
        result = fleet.apply(planned)
        assert game.configs == {}
        assert not result.is_done
        assert fleet.undo(result.change).is_empty

    def test_without_a_wait_it_stays_as_it_is(self, fleet, game):
        fail_with(game, file="/in")
        assert fleet.apply(fleet.connectors.create("a", SOURCE_CONFIG, wait_seconds=0)).is_done
        assert game.states == {"a": "RUNNING"}

    @pytest.mark.parametrize("options", [{"wait_seconds": 0}, {"state": "STOPPED"}])
    def test_delete_on_failure_needs_a_wait(self, fleet, options):
        with pytest.raises(UsageError, match="does not wait until it runs"):
            fleet.connectors.create("a", SOURCE_CONFIG, delete_on_failure=True, **options)


class TestUpdate:
    def test_the_previous_config_is_restored(self, fleet, game):
        game.add("a", {**SOURCE_CONFIG, "db.password": "hunter2"})
        fail_with(game, file="/broken")
        result = fleet.apply(fleet.connectors.set("a", {"file": "/broken"}))
        assert not result.is_done
        assert game.configs["a"] == {"name": "a", **SOURCE_CONFIG, "db.password": "hunter2"}
        assert fleet.undo(result.change).is_empty

    def test_the_journal_can_restore_a_config_whose_secrets_stay(self, fleet, game):
        game.add("a", {**SOURCE_CONFIG, "db.password": "hunter2"})
        planned = fleet.connectors.set("a", {"file": "/broken"})
        back = planned.plan.steps[2]
        assert back.fallback
        assert back.arguments["keep"] == ["db.password"]
        assert "db.password" not in back.arguments["config"]

    def test_a_config_that_did_not_run_before_is_not_restored(self, fleet, game):
        game.add("a", SOURCE_CONFIG)
        game.find_broken = lambda name: (0,)
        result = fleet.apply(fleet.connectors.set("a", {"file": "/other"}))
        assert not result.is_done
        assert game.configs["a"]["file"] == "/other"

    def test_a_paused_connector_is_not_waited_for(self, fleet, game):
        game.add("a", SOURCE_CONFIG, state="PAUSED")
        assert fleet.apply(fleet.connectors.set("a", {"file": "/other"})).is_done
        assert game.states == {"a": "PAUSED"}

    def test_without_a_wait_the_new_config_stays(self, fleet, game):
        game.add("a", SOURCE_CONFIG)
        fail_with(game, file="/broken")
        assert fleet.apply(fleet.connectors.set("a", {"file": "/broken"}, wait_seconds=0)).is_done
        assert game.configs["a"]["file"] == "/broken"

    def test_a_lost_secret_is_noted(self, fleet, game):
        game.add("a", {**SOURCE_CONFIG, "db.password": "hunter2"})
        notes = fleet.connectors.set("a", {"db.password": "secret://env/HOME"}).plan.notes
        assert any(note.startswith("can't be undone: the previous value of db.password") for note in notes)


class TestResume:
    @pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
    def test_the_previous_state_is_restored(self, fleet, game, state):
        game.add("a", SOURCE_CONFIG, state=state)
        fail_with(game, file="/in")
        result = fleet.apply(fleet.connectors.resume("a"))
        assert not result.is_done
        assert game.states == {"a": state}
        assert fleet.undo(result.change).is_empty

    def test_others_are_resumed_although_one_fails(self, fleet, game):
        game.add("a", SOURCE_CONFIG, state="PAUSED")
        game.add("b", {**SOURCE_CONFIG, "file": "/ok"}, state="STOPPED")
        fail_with(game, file="/in")
        result = fleet.apply(fleet.connectors.resume(["a", "b"]))
        assert game.states == {"a": "PAUSED", "b": "RUNNING"}
        undo(fleet, result)
        assert game.states == {"a": "PAUSED", "b": "STOPPED"}

    def test_without_a_wait_it_stays_running(self, fleet, game):
        game.add("a", SOURCE_CONFIG, state="PAUSED")
        fail_with(game, file="/in")
        assert fleet.apply(fleet.connectors.resume("a", wait_seconds=0)).is_done
        assert game.states == {"a": "RUNNING"}


class TestRestart:
    def add(self, game, *names, **more):
        for name in names:
            game.add(name, {**SOURCE_CONFIG, "tasks.max": "3"}, **more)

    def test_failed_tasks_restart_and_are_waited_for(self, fleet, game):
        self.add(game, "a", failed=[1])
        self.add(game, "b")
        result = fleet.apply(fleet.connectors.restart(["a", "b"]))
        assert result.is_done
        assert game.restarted == [("a", "failed")]
        assert [step.kind for step in result.steps] == ["restart-tasks", "await-running"]
        assert fleet.undo(result.change).is_empty

    def test_a_task_that_fails_again_is_reported_with_its_trace(self, fleet, game):
        self.add(game, "a")
        game.find_broken = lambda name: (1,)
        result = fleet.apply(fleet.connectors.restart("a"))
        assert [step.outcome for step in result.steps] == [Outcome.DONE, Outcome.DID_NOT_HAPPEN]
        (error,) = result.failures.values()
        assert "task 1: Boom: first (no such file)" in error.cause

    def test_all_restarts_running_ones_and_leaves_paused_ones(self, fleet, game):
        self.add(game, "a")
        self.add(game, "b", state="PAUSED")
        assert fleet.apply(fleet.connectors.restart(["a", "b"], include_running=True)).is_done
        assert game.restarted == [("a", "all")]

    def test_one_task_is_restarted(self, fleet, game):
        self.add(game, "a")
        (effect,) = fleet.connectors.restart("a", task=2).effects
        assert effect.words == "restarts task 2"
        assert fleet.apply(fleet.connectors.restart("a", task=2)).is_done
        assert game.restarted == [("a", 2)]

    def test_a_task_that_does_not_exist_is_refused(self, fleet, game):
        self.add(game, "a")
        with pytest.raises(RefusedError, match="has no task 3"):
            fleet.connectors.restart("a", task=3)

    def test_the_first_failure_stops_the_roll(self, fleet, game):
        self.add(game, "a", "b", "c", "d")
        game.find_broken = lambda name: (0,) if name == "b" and ("b", "all") in game.restarted else ()
        planned = fleet.connectors.restart(["a", "b", "c", "d"], include_running=True)
        assert planned.plan.notes == ("at most 1 at once; the first that does not run stops the rest",)
        result = fleet.apply(planned)
        assert game.restarted == [("a", "all"), ("b", "all")]
        assert list(result.failures) == ["connector/game/b"]
        assert len(result.left) == 4

    def test_a_pace_limits_how_many_restart_at_once(self, fleet, game):
        names = [f"c{number}" for number in range(9)]
        self.add(game, *names)
        running, most = set(), [0]
        restart = game.restart

        def count(name, **options):
            running.add(name)
            most[0] = max(most[0], len(running))
            restart(name, **options)

        class Lines:
            def __getattr__(self, _):
                return lambda *args, **more: None

            def ended(self, result):
                if result.kind == "await-running":
                    running.discard(result.subject.rpartition("/")[2])

        game.restart = count
        assert fleet.apply(fleet.connectors.restart(names, include_running=True, pace=3), Lines()).is_done
        assert len(game.restarted) == 9
        assert most[0] <= 3

    def test_a_saved_roll_keeps_its_pace(self, fleet, game, tmp_path):
        self.add(game, "a", "b")
        fleet.save(fleet.connectors.restart(["a", "b"], include_running=True), tmp_path / "plan.json")
        assert read_saved_plan(tmp_path / "plan.json").most_at_once == 1

    @pytest.mark.parametrize("options", [{"pace": 0}, {"pace": 2, "wait_seconds": 0}])
    def test_a_pace_needs_a_wait(self, fleet, game, options):
        self.add(game, "a")
        with pytest.raises(UsageError, match="a pace needs a wait"):
            fleet.connectors.restart("a", **options)

    def test_all_and_one_task_exclude_each_other(self, fleet, game):
        self.add(game, "a")
        with pytest.raises(UsageError, match="of all tasks or of one"):
            fleet.connectors.restart("a", include_running=True, task=0)


class KilledError(BaseException):
    """The process ends here."""


@dataclass(frozen=True)
class Case:
    """A change, how many of its steps run, what breaks, and what must be there at its end."""

    plan: Callable[[Any], Any]
    steps: int
    states: dict[str, str]
    file: str = "/in"
    state: str = "RUNNING"
    broken: str = ""
    ending: Ending = Ending.PARTLY

    def prepare(self, game):
        if self.state:
            game.add("a", SOURCE_CONFIG, state=self.state)
        if self.broken:
            fail_with(game, file=self.broken)

    def check(self, game):
        assert game.states == self.states
        assert all(config["file"] == self.file for config in game.configs.values())


CASES = {
    "create": Case(lambda to: to.create("a", SOURCE_CONFIG), 2, {"a": "RUNNING"}, state="", ending=Ending.DONE),
    "create-fails": Case(lambda to: to.create("a", SOURCE_CONFIG), 3, {"a": "STOPPED"}, state="", broken="/in"),
    "create-deleted": Case(
        lambda to: to.create("a", SOURCE_CONFIG, delete_on_failure=True), 3, {}, state="", broken="/in"
    ),
    "update": Case(lambda to: to.set("a", {"file": "/new"}), 2, {"a": "RUNNING"}, file="/new", ending=Ending.DONE),
    "update-fails": Case(lambda to: to.set("a", {"file": "/new"}), 4, {"a": "RUNNING"}, broken="/new"),
    "resume": Case(lambda to: to.resume("a"), 2, {"a": "RUNNING"}, state="PAUSED", ending=Ending.DONE),
    "resume-fails": Case(lambda to: to.resume("a"), 3, {"a": "STOPPED"}, state="STOPPED", broken="/in"),
    "restart-all": Case(lambda to: to.restart("a", include_running=True), 2, {"a": "RUNNING"}, ending=Ending.DONE),
    "restart-fails": Case(lambda to: to.restart("a"), 2, {"a": "RUNNING"}, broken="/in"),
}
ENDS = ("after-open", "before-close", "after-close")
MATRIX = [
    (name, point, number)
    for name, case in CASES.items()
    for point in POINTS
    for number in range(1 if point in ENDS else case.steps)
]


@pytest.mark.parametrize(("name", "point", "number"), MATRIX)
def test_a_killed_change_is_finished_by_resume(fleet, game, name, point, number):
    case = CASES[name]
    case.prepare(game)
    planned = case.plan(fleet.connectors)
    step = planned.plan.steps[min(number, len(planned.plan.steps) - 1)] if point not in ENDS else None

    def kill(reached, at):
        if (reached, at) == (point, number):
            set_hook(None)
            raise KilledError

    set_hook(kill)
    try:
        fleet.apply(planned)
    except KilledError:
        pass
    else:
        # A wait has no intent and sends nothing.
        assert step is not None
        assert step.kind == "await-running"
        assert point in ("after-intent", "after-perform")
    finally:
        set_hook(None)
    (head,) = fleet.journal.list()
    result = fleet.journal.resume(head.change) if head.is_open else None

    case.check(game)
    (head,) = fleet.journal.list()
    assert not head.is_open
    assert result is None or result.ending is case.ending


def test_a_restart_without_an_answer_is_repeated(fleet, game):
    game.add("a", SOURCE_CONFIG)

    def kill(reached, _number):
        if reached == "after-intent":
            set_hook(None)
            raise KilledError

    set_hook(kill)
    with pytest.raises(KilledError):
        fleet.apply(fleet.connectors.restart("a", include_running=True))
    assert game.restarted == []
    (head,) = fleet.journal.list()
    assert fleet.journal.resume(head.change).is_done
    assert game.restarted == [("a", "all")]
