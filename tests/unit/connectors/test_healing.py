"""When failed connectors are started again: the decision, and the loop around it on a clock of our own."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.changes.journal import Ending
from seamark.changes.outcome import ChangeResult, Outcome, StepResult
from seamark.connect.model import ConnectorStatus, State, Task
from seamark.connectors.heal import (
    Healer,
    HealSettings,
    RestartDecision,
    RestartHistory,
    decide_restarts,
    describe_failure,
    record_restart,
)
from seamark.core.readings import Reading
from seamark.errors import InterruptedRunError, JournalError, LockedError, UnreachableError, UsageError
from tests.unit.fleet.builders import connector

TRACE = (
    "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded\n\tat a.b.C\n"
    "Caused by: java.sql.SQLException: no route, password=hunter2-canary\n\tat d.E\n"
)
WELL = ConnectorStatus(State.RUNNING, tasks=(Task(0, State.RUNNING),))
SICK = ConnectorStatus(State.RUNNING, tasks=(Task(0, State.RUNNING), Task(1, State.FAILED, trace=TRACE)))
SETTINGS = HealSettings(max_restarts=3, backoff_seconds=10, longest_backoff_seconds=25, calm_seconds=10)


def decide(status, known=None, *, now=0.0, settings=SETTINGS):
    history = {} if known is None else {"game/a": known}
    return decide_restarts(history, {"game/a": status}, now, settings).history["game/a"]


# --- the decision


def test_the_first_restart_comes_at_once():
    assert decide(SICK).decision is RestartDecision.RESTART
    assert decide(ConnectorStatus(State.FAILED)).decision is RestartDecision.RESTART


def test_each_pause_is_twice_the_one_before_up_to_the_longest():
    assert [SETTINGS.find_pause(count) for count in range(5)] == [0, 10, 20, 25, 25]
    known = record_restart(decide(SICK), 100.0)
    assert decide(SICK, known, now=109.9).decision is RestartDecision.WAITING
    assert decide(SICK, known, now=109.9).due_at == 110.0
    assert decide(SICK, known, now=110.0).decision is RestartDecision.RESTART


def test_after_the_last_restart_it_is_given_up_and_why():
    known = RestartHistory(RestartDecision.WAITING, restarts=3, last_at=0.0)
    found = decide(SICK, known, now=1000.0)
    assert (found.decision, found.due_at) == (RestartDecision.GIVEN_UP, None)
    assert "task 1: org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded" in found.why
    assert "(java.sql.SQLException" in found.why
    assert "hunter2" not in found.why


def test_one_that_runs_long_enough_is_well_and_its_past_forgotten():
    known = decide(WELL, RestartHistory(RestartDecision.WAITING, restarts=2, last_at=0.0), now=5.0)
    assert (known.decision, known.due_at) == (RestartDecision.WATCHED, 15.0)
    assert decide(SICK, known, now=14.0).restarts == 2
    assert decide(WELL, known, now=15.0) == RestartHistory(RestartDecision.WELL)


@pytest.mark.parametrize("state", [State.PAUSED, State.STOPPED, State.DESTROYED])
def test_what_is_not_meant_to_run_is_left_alone(state):
    status = ConnectorStatus(state, tasks=(Task(0, State.FAILED),))
    assert (
        decide(status, RestartHistory(RestartDecision.WAITING, restarts=2, last_at=0.0)).decision
        is RestartDecision.LEFT_ALONE
    )


@pytest.mark.parametrize(
    "status",
    [None, ConnectorStatus(State.UNASSIGNED), ConnectorStatus(State.RUNNING, tasks=(Task(0, State.RESTARTING),))],
)
def test_a_rebalance_is_waited_out_but_not_for_ever(status):
    assert decide(status).due_at is None
    known = decide(status, RestartHistory(RestartDecision.WAITING, restarts=1, last_at=0.0), now=50.0)
    assert (known.decision, known.due_at) == (RestartDecision.UNKNOWN, 410.0)
    assert decide(status, known, now=409.0).decision is RestartDecision.UNKNOWN
    assert decide(status, known, now=410.0).decision is RestartDecision.GIVEN_UP
    assert decide(WELL, known, now=409.0).unseen_since is None


def test_one_that_is_gone_is_forgotten():
    assert decide_restarts({"game/a": RestartHistory(restarts=2)}, {}, 0.0, SETTINGS).history == {}


def test_a_failure_without_a_trace_says_so():
    assert describe_failure(ConnectorStatus(State.FAILED, tasks=(Task(0, State.FAILED, trace=" \n"),))) == (
        "connector: without a trace; task 0: without a trace"
    )
    assert describe_failure(WELL) == ""


@pytest.mark.parametrize(
    "wrong", [{"max_restarts": 0}, {"backoff_seconds": 0}, {"calm_seconds": math.inf}, {"longest_backoff_seconds": -1}]
)
def test_settings_that_never_end_are_refused(wrong):
    with pytest.raises(UsageError):
        HealSettings(**wrong)


STATUSES = st.sampled_from(
    [None, WELL, SICK, ConnectorStatus(State.FAILED), ConnectorStatus(State.PAUSED), ConnectorStatus(State.UNASSIGNED)]
)
SEEN = st.lists(st.tuples(STATUSES, st.floats(0.0, 300.0)), max_size=60)


@given(seen=SEEN, most=st.integers(1, 5))
def test_no_connector_is_ever_restarted_too_often_or_too_soon(seen, most):
    settings = HealSettings(max_restarts=most, backoff_seconds=7, longest_backoff_seconds=60, calm_seconds=5)
    history, now, restarts = {}, 0.0, []
    for status, later in seen:
        now += later
        decided = decide_restarts(history, {"game/a": status}, now, settings)
        known = decided.history["game/a"]
        assert set(decided.restart) | set(decided.given_up) <= {"game/a"}
        assert decided.is_over == (known.due_at is None)
        assert known.due_at is None or known.due_at >= now
        if not known.restarts:
            restarts = []
        if known.decision is RestartDecision.RESTART:
            assert status in (SICK, ConnectorStatus(State.FAILED))
            assert not restarts or now - restarts[-1] >= settings.find_pause(len(restarts))
            restarts.append(now)
            known = record_restart(known, now)
        assert len(restarts) <= most
        history = {"game/a": known}


@given(most=st.integers(1, 6), backoff=st.floats(0.1, 100.0))
def test_a_connector_that_never_recovers_is_restarted_exactly_so_often(most, backoff):
    settings = HealSettings(max_restarts=most, backoff_seconds=backoff, calm_seconds=backoff)
    history, now, count = {}, 0.0, 0
    while True:
        decided = decide_restarts(history, {"game/a": SICK}, now, settings)
        if decided.is_over:
            break
        history, now = dict(decided.history), max(now, decided.next_at)
        if decided.restart:
            count += 1
            history["game/a"] = record_restart(history["game/a"], now)
    assert (count, decided.given_up) == (most, ("game/a",))


@given(statuses=st.dictionaries(st.sampled_from(["game/a", "game/b", "lake/c"]), STATUSES))
def test_each_connector_is_decided_by_itself(statuses):
    history = {
        "game/a": RestartHistory(RestartDecision.WAITING, 1, last_at=0.0),
        "lake/c": RestartHistory(RestartDecision.GIVEN_UP, 3, last_at=0.0),
    }
    together = decide_restarts(history, statuses, 5.0, SETTINGS).history
    alone = {
        owner: decide_restarts(history, {owner: status}, 5.0, SETTINGS).history[owner]
        for owner, status in statuses.items()
    }
    assert together == alone


# --- the loop


class Ward:
    """Connectors that fail so many times, on a clock that moves when somebody sleeps."""

    def __init__(self, **fails):
        self.fails = dict(fails)
        self.now = 0.0
        self.rounds = []
        self.told = []
        self.failures = {}
        self.trouble = None

    def read(self):
        items = tuple(
            connector(name, tasks=(State.FAILED if self.fails[name] else State.RUNNING,), trace=TRACE)
            for name in sorted(self.fails)
        )
        return Reading(() if self.failures else items, self.failures)

    def restart(self, connectors):
        if self.trouble is not None:
            raise self.trouble
        self.rounds.append((self.now, tuple(found.name for found in connectors)))
        for found in connectors:
            self.fails[found.name] = max(0, self.fails[found.name] - 1)
        return ChangeResult("id", title="", ending=Ending.DONE, steps=())

    def sleep(self, seconds):
        assert seconds > 0
        self.now += seconds
        assert self.now < 10_000, "it never ends"

    def build(self, *, pick=lambda reading: reading.items, **settings):
        return Healer(
            read=self.read,
            pick=pick,
            restart=self.restart,
            now=lambda: self.now,
            sleep=self.sleep,
            tell=self.told.append,
            settings=HealSettings(**{"max_restarts": 3, "backoff_seconds": 10, "calm_seconds": 10, **settings}),
        )


def test_nothing_is_done_where_nothing_has_failed():
    ward = Ward(a=0, b=0)
    report = ward.build().run()
    assert (report.connectors, ward.rounds, ward.now, ward.told) == ((), [], 0.0, [])


def test_one_round_is_one_change_for_all_that_have_failed():
    ward = Ward(a=1, b=1, c=0)
    report = ward.build().run()
    assert ward.rounds == [(0.0, ("a", "b"))]
    assert [(found.owner, found.decision, found.restarts) for found in report.connectors] == [
        ("game/a", RestartDecision.WELL, 1),
        ("game/b", RestartDecision.WELL, 1),
    ]
    assert ward.now >= 10
    assert ward.told == ["game/a: runs again, after 1 restart", "game/b: runs again, after 1 restart"]


def test_restarts_come_more_rarely_and_end():
    ward = Ward(a=99, b=2)
    report = ward.build().run()
    assert [(at, names) for at, names in ward.rounds] == [(0.0, ("a", "b")), (10.0, ("a", "b")), (30.0, ("a",))]
    (lost,) = report.given_up
    assert (lost.owner, lost.restarts) == ("game/a", 3)
    assert lost.why.startswith("task 0: org.apache")
    assert any(sentence.startswith("game/a: given up after 3 restarts: task 0") for sentence in ward.told)
    assert any(found.owner == "game/b" and found.is_running for found in report.connectors)


def test_once_restarts_each_at_most_once():
    ward = Ward(a=1, b=5)
    report = ward.build().run(once=True)
    assert [names for _, names in ward.rounds] == [("a", "b")]
    assert [found.owner for found in report.given_up] == ["game/b"]
    assert ward.now <= 10


def test_what_a_state_chose_stays_chosen_when_the_state_is_another():
    ward = Ward(a=2, b=0)
    healer = ward.build(
        pick=lambda reading: [one for one in reading.items if State.FAILED in {task.state for task in one.status.tasks}]
    )
    report = healer.run()
    assert [found.owner for found in report.connectors] == ["game/a"]
    assert len(ward.rounds) == 2


def test_a_change_that_fails_counts_and_does_not_end_the_others():
    ward = Ward(a=1)
    ward.trouble = LockedError("another process is at work")
    report = ward.build().run()
    assert [found.owner for found in report.given_up] == ["game/a"]
    assert ward.told.count("no restart in this round: another process is at work") == 3


def test_a_step_that_did_not_happen_says_why():
    ward = Ward(a=99)

    def restart(connectors):
        step = StepResult(0, "", "connector/game/a", "", Outcome.DID_NOT_HAPPEN, UnreachableError("w1 is away"))
        return ChangeResult("id", title="", ending=Ending.FAILED, steps=(step,))

    ward.restart = restart
    assert len(ward.build(max_restarts=1).run().given_up) == 1


@pytest.mark.parametrize("error", [JournalError("full"), InterruptedRunError("no"), UsageError("which")])
def test_what_nobody_can_go_on_after_ends_it(error):
    ward = Ward(a=1)
    ward.trouble = error
    with pytest.raises(type(error)):
        ward.build().run()


def test_a_cluster_that_goes_away_is_waited_for_and_then_given_up():
    ward = Ward(a=1)
    healer = ward.build()
    restart = ward.restart

    def restart_and_lose(connectors):
        ward.failures = {"game": UnreachableError("game does not answer")}
        return restart(connectors)

    healer._restart = restart_and_lose
    report = healer.run()
    assert list(report.failures) == ["game"]
    assert [found.owner for found in report.given_up] == ["game/a"]
    assert 360 <= ward.now < 400


def test_a_cluster_that_never_answered_is_told():
    ward = Ward(a=1)
    ward.failures = {"game": UnreachableError("game does not answer")}
    report = ward.build().run()
    assert (list(report.failures), report.connectors) == (["game"], ())


def test_watching_goes_on_and_notices_what_fails_later():
    ward = Ward(a=0)
    looked = []

    def sleep(seconds):
        ward.now += seconds
        looked.append(ward.now)
        if len(looked) == 3:
            ward.fails["a"] = 1
        if len(looked) == 12:
            raise KeyboardInterrupt

    healer = ward.build()
    healer._sleep = sleep
    with pytest.raises(KeyboardInterrupt):
        healer.run(watch=True)
    assert len(ward.rounds) == 1
    assert [(found.owner, found.decision) for found in healer.report().connectors] == [("game/a", RestartDecision.WELL)]
