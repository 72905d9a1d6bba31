"""Resuming after a crash on machines whose clocks differ: no wait depends on the clock of the process that died."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest

from seamark.changes.actor import Actor, ClockMark, read_mark, this_actor
from seamark.changes.executor import Executor
from seamark.changes.file_journal import FileJournal
from seamark.changes.recovery import Recovery
from seamark.changes.timing import build_timing
from seamark.connect.model import ConnectorStatus, State, Task
from seamark.connectors.run_state import SetRunState
from tests.ports import MethodPorts
from tests.step_list import build_step_list, plan_actions

START = 1_800_000_000.0
TIMING = build_timing(90.0)


class Killed(BaseException):
    """kill -9."""


class Timeline:
    """The true time, and what is going to happen in it."""

    def __init__(self) -> None:
        self.now = START
        self.events: list[tuple[float, Callable[[], None]]] = []

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.events and self.events[0][0] <= end:
            self.now, event = heapq.heappop(self.events)
            event()
        self.now = end


class Environment(MethodPorts):
    """One connector, and a machine whose clock is wrong by `skew`. With `late`, Connect needs 60 s for a request."""

    def __init__(self, timeline: Timeline, shown: dict[str, str], *, skew: float = 0.0, late: bool = False) -> None:
        self.timeline, self.shown, self.skew, self.late = timeline, shown, skew, late
        self.clock = self

    def now(self) -> float:
        return self.timeline.now + self.skew

    def sleep(self, seconds: float) -> None:
        self.timeline.advance(seconds)

    def connect(self, cluster: str) -> Environment:
        del cluster
        return self

    def stop(self, name: str) -> None:
        self._put(name, "STOPPED")

    def resume(self, name: str) -> None:
        self._put(name, "RUNNING")

    pause = resume

    def _put(self, name: str, state: str) -> None:
        if self.late:
            heapq.heappush(self.timeline.events, (self.timeline.now + 60, lambda: self.shown.update({name: state})))
            raise Killed
        self.shown[name] = state

    def read_status(self, cluster: str, name: str) -> ConnectorStatus:
        del cluster
        state = State(self.shown[name])
        return ConnectorStatus(state, "w:1", tasks=() if state is State.STOPPED else (Task(0, state, "w:1"),))

    def seal(self, value: str) -> str:
        return value

    def reveal(self, reference: str) -> str:
        return reference


def build_executor(name: str, folder, world: Environment, **more) -> Executor:
    return Executor(FileJournal(folder, now=world.now), world, actor=Actor(name, now=world.now, **more), timing=TIMING)


def kill_first(folder, timeline: Timeline, shown: dict[str, str], *, skew: float, **more) -> str:
    """Be killed with the stop of a guarded change in flight; returns the change."""
    world = Environment(timeline, shown, skew=skew, late=True)
    first = build_executor("first", folder, world, **more)
    steps = [SetRunState("c", "orders", "STOPPED"), (SetRunState("c", "orders", "RUNNING"), True)]
    plan, _ = plan_actions([build_step_list("orders", steps, locks=("source.o.orders@w",))], world=world)
    with pytest.raises(Killed):
        first.apply(plan)
    first.journal.close()
    return first.journal.open_heads()[0].change


@pytest.mark.parametrize("skew", [-86_400.0, -3600.0, -200.0, 0.0, 200.0, 86_400.0])
def test_a_late_request_of_a_machine_with_a_wrong_clock_is_waited_for(tmp_path, skew):
    timeline, shown = Timeline(), {"orders": "RUNNING"}
    change = kill_first(tmp_path, timeline, shown, skew=skew)
    timeline.advance(2)
    began_at = timeline.now

    result = Recovery(build_executor("second", tmp_path, Environment(timeline, shown))).resume(change)

    assert result.is_done
    assert 58 <= timeline.now - began_at <= TIMING.quiet_seconds + TIMING.shows_seconds + 5
    # Nothing lands after the end: the late stop came before, and the connector was started again after it.
    timeline.advance(300)
    assert shown == {"orders": "RUNNING"}


def mark_on(timeline: Timeline, machine: str) -> Callable[[], ClockMark]:
    return lambda: ClockMark(machine, timeline.now - START)


@pytest.mark.parametrize("skew", [-3600.0, 0.0, 3600.0])
def test_a_crash_of_long_ago_on_the_same_machine_needs_no_waiting(tmp_path, skew):
    timeline, shown = Timeline(), {"orders": "RUNNING"}
    change = kill_first(tmp_path, timeline, shown, skew=skew, mark=mark_on(timeline, "laptop"))
    timeline.advance(3600)
    began_at = timeline.now

    second = build_executor("second", tmp_path, Environment(timeline, shown), mark=mark_on(timeline, "laptop"))

    assert Recovery(second).resume(change).is_done
    assert timeline.now - began_at < 5


def test_only_what_is_left_of_the_time_is_waited_for_on_the_same_machine(tmp_path):
    timeline, shown = Timeline(), {"orders": "RUNNING"}
    change = kill_first(tmp_path, timeline, shown, skew=0.0, mark=mark_on(timeline, "laptop"))
    timeline.events.clear()
    timeline.advance(100)
    began_at = timeline.now

    second = build_executor("second", tmp_path, Environment(timeline, shown), mark=mark_on(timeline, "laptop"))

    assert Recovery(second).resume(change).is_done
    waited = timeline.now - began_at
    assert waited >= TIMING.quiet_seconds + TIMING.shows_seconds - 100
    assert waited <= TIMING.quiet_seconds + TIMING.shows_seconds - 100 + 5


@pytest.mark.parametrize("mark", ["another machine", None], ids=["another machine", "no mark"])
def test_a_crash_on_another_machine_is_waited_for_from_the_takeover(tmp_path, mark):
    timeline, shown = Timeline(), {"orders": "RUNNING"}
    change = kill_first(tmp_path, timeline, shown, skew=0.0, mark=mark_on(timeline, "laptop"))
    timeline.events.clear()
    timeline.advance(3600)
    began_at = timeline.now
    more = {"mark": mark_on(timeline, mark)} if mark else {}

    assert Recovery(build_executor("second", tmp_path, Environment(timeline, shown), **more)).resume(change).is_done
    assert timeline.now - began_at >= TIMING.quiet_seconds + TIMING.shows_seconds


@pytest.mark.parametrize(
    "data",
    [None, 1, [], {}, {"boot": "a"}, {"boot": 1, "seconds": 1}, {"boot": "a", "seconds": "1"}]
    + [{"boot": "a", "seconds": float(word)} for word in ("nan", "inf", "-inf")],
)
def test_what_is_not_a_mark_is_none(data):
    assert ClockMark.from_dict(data) is None


def test_marks_of_one_machine_are_compared_and_never_negative():
    early, late = ClockMark("a", 10.0), ClockMark("a", 25.5)
    assert late.measure_since(early) == 15.5
    assert early.measure_since(late) == 0.0
    assert late.measure_since(ClockMark("b", 10.0)) == 0.0
    assert late.measure_since(None) == 0.0
    assert ClockMark.from_dict(late.to_dict()) == late


def test_the_mark_of_this_machine_moves_forward():
    first, second = read_mark(), read_mark()
    assert first is not None
    assert second is not None
    assert second.boot == first.boot
    assert 0 <= second.measure_since(first) < 60
    assert this_actor().mark().boot == first.boot
