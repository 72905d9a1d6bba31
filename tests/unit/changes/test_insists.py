"""Steps that can't be left out once their sequence has acted: after Ctrl-C, kills and rejections, resumed or undone."""

from __future__ import annotations

import signal
from contextlib import contextmanager

import pytest

from seamark.changes.action import When
from seamark.changes.interruption import set_hook
from seamark.changes.journal import Ending
from seamark.changes.outcome import Outcome
from seamark.changes.plan import PlannedStep
from seamark.changes.run import PlanRun
from seamark.changes.step import Intent
from seamark.connectors.run_state import AwaitRunning, SetRunState
from seamark.connectors.steps import CreateConnector, PutConfig
from seamark.errors import LockedError, RejectedError
from tests.simulation.faults import Fault, Killed, Kind
from tests.simulation.world import CLUSTER
from tests.step_list import StepList, plan_actions, plan_undo
from tests.unit.changes.simulated import CONFIG, NEW, new_stage

LOCK = "source.t.orders@w"
STOP = SetRunState(CLUSTER, "orders", "STOPPED")
START = SetRunState(CLUSTER, "orders", "RUNNING")
PUT = PutConfig(CLUSTER, "orders", NEW)
PUT_STOCK = PutConfig(CLUSTER, "stock", NEW)
CREATE = CreateConnector(CLUSTER, "nothing", CONFIG)

# From the new config of orders on, stock and the new connector must follow.
PLAIN = ((STOP, When.TURN), (PUT, When.TURN), (PUT_STOCK, When.INSISTS), (CREATE, When.INSISTS))
RESTORED = (*PLAIN, (START, When.ALWAYS))
SEQUENCES = {"plain": PLAIN, "restored": RESTORED}
# The number of the last step that can be rolled back, and of the last that insists.
LAST_TURN, LAST = 1, 3


def build_plan(stage, *sequences):
    who = stage.operator()
    actions = [StepList(f"lane-{number}", items, (LOCK,)) for number, items in enumerate(sequences)]
    plan, prepared = plan_actions(
        actions, world=who.world, context="sim", made_at=who.actor.timestamp(), made_by=who.actor.name
    )
    return plan, list(prepared.steps)


def apply(stage, *sequences, faults=()):
    plan, steps = build_plan(stage, *sequences)
    return stage.operator(faults).executor.apply(plan, steps)


@contextmanager
def hooked(reach):
    set_hook(reach)
    try:
        yield
    finally:
        set_hook(None)


def kill_before_close(point, _number=0):
    if point == "before-close":
        raise Killed


def interrupt(stage, *sequences, after, faults=(), is_killed=False):
    """Apply, with Ctrl-C after the outcome of a step; the process may be killed before it closes the change."""

    def reach(point, number):
        if (point, number) == ("after-outcome", after):
            signal.raise_signal(signal.SIGINT)
        if is_killed:
            kill_before_close(point)

    with hooked(reach):
        return apply(stage, *sequences, faults=faults)


def read_all(stage):
    return {name: (dict(found.config), found.target) for name, found in stage.cluster.connectors.items()}


def has_all(stage):
    return (stage.config("orders"), stage.config("stock"), "nothing" in stage.cluster.connectors) == (NEW, NEW, True)


def undo(stage, change):
    plan = plan_undo(stage.operator().recovery, change)
    if not plan.is_empty:
        assert stage.operator().executor.apply(plan).is_done


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("after", range(LAST_TURN, LAST))
class TestCtrlC:
    """After the last step that can be rolled back, and before the last that insists."""

    def begin(self, after, is_killed, sequence):
        stage = new_stage()
        before = read_all(stage)
        if is_killed:
            with pytest.raises(Killed):
                interrupt(stage, sequence, after=after, is_killed=True)
        else:
            result = interrupt(stage, sequence, after=after)
            left = tuple(step.describe() for step, when in sequence[after + 1 :] if when is When.INSISTS)
            assert (result.ending, result.left, result.owed) == (None, left, left)
            assert result.interrupted
        return stage, before

    def test_the_change_stays_open_and_locked(self, after, is_killed, sequence):
        stage, _ = self.begin(after, is_killed, sequence)
        assert "close" not in stage.kinds()
        with pytest.raises(LockedError):
            stage.apply([PutConfig(CLUSTER, "orders", CONFIG)])

    def test_resume_finishes_it_and_undo_restores_everything(self, after, is_killed, sequence):
        stage, before = self.begin(after, is_killed, sequence)
        change = stage.change
        result = stage.operator().recovery.resume(change)
        assert (result.is_done, result.owed) == (True, ())
        assert has_all(stage)
        undo(stage, change)
        assert read_all(stage) == before

    def test_undo_closes_it_and_restores_everything(self, after, is_killed, sequence):
        stage, before = self.begin(after, is_killed, sequence)
        change = stage.change
        assert stage.operator().recovery.abandon(change).ending is Ending.PARTLY
        undo(stage, change)
        assert read_all(stage) == before


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("is_killed", [False, True])
def test_before_the_last_step_that_can_be_rolled_back_nothing_is_owed(sequence, is_killed):
    stage = new_stage()
    if is_killed:
        with pytest.raises(Killed):
            interrupt(stage, sequence, after=0, is_killed=True)
        # Nothing follows the stop but the restore, which shows that the sequence was wound up.
        result = stage.operator().recovery.resume(stage.change)
        assert has_all(stage) is (sequence is PLAIN)
    else:
        result = interrupt(stage, sequence, after=0)
        assert "nothing" not in stage.cluster.connectors
    assert (result.ending is None, result.owed) == (False, ())
    assert stage.state() == ("RUNNING" if sequence is RESTORED else "STOPPED")


def test_sequence_that_was_not_begun_owes_nothing():
    stage = new_stage()
    other = ((SetRunState(CLUSTER, "stock", "PAUSED"), When.TURN),)
    alone = ((PUT, When.TURN), (CREATE, When.INSISTS))
    result = interrupt(stage, other, alone, after=0)
    assert (result.ending, result.owed) == (Ending.PARTLY, ())
    assert result.left == (PUT.describe(), CREATE.describe())


def test_sequence_that_changed_nothing_owes_nothing():
    stage = new_stage(config=NEW)
    result = interrupt(stage, ((PUT, When.TURN), (CREATE, When.INSISTS)), after=0)
    assert (result.ending, result.owed) == (Ending.FAILED, ())


def test_sequence_that_failed_owes_nothing():
    stage = new_stage(config=NEW | {"db.password": "old"})
    check = AwaitRunning(CLUSTER, "nothing", deadline_seconds=1.0)
    result = apply(stage, ((STOP, When.TURN), (check, When.TURN), (CREATE, When.INSISTS), (START, When.ALWAYS)))
    assert (result.ending, result.owed, result.left) == (Ending.PARTLY, (), (CREATE.describe(),))


# The previous password isn't in the journal, so that an undo can't restore it.
FINAL = ((PutConfig(CLUSTER, "orders", NEW | {"db.password": "new"}), When.TURN), (PUT_STOCK, When.INSISTS))


@pytest.mark.parametrize("is_killed", [False, True])
def test_change_that_can_not_be_undone_is_closed_without_its_steps_by_force_only(is_killed):
    stage = new_stage(config=CONFIG | {"db.password": "old"})
    if is_killed:
        with pytest.raises(Killed):
            interrupt(stage, FINAL, after=0, is_killed=True)
    else:
        interrupt(stage, FINAL, after=0)
    change = stage.change
    result = stage.operator().recovery.abandon(change)
    assert (result.ending, result.owed) == (None, (PUT_STOCK.describe(),))
    # The process that could not close it is no obstacle for the resume.
    assert stage.operator().recovery.resume(change).is_done
    assert stage.config("stock") == NEW


def test_force_closes_a_change_that_can_not_be_undone_and_names_its_steps():
    stage = new_stage(config=CONFIG | {"db.password": "old"})
    interrupt(stage, FINAL, after=0)
    result = stage.operator().recovery.abandon(stage.change, force=True)
    assert (result.ending, result.owed) == (Ending.PARTLY, ())
    assert stage.entries()[-1].body["unsettled"] == [PUT_STOCK.describe()]


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
class TestRejected:
    """The server rejects the first step that insists."""

    def begin(self, stage, sequence):
        put = stage.cluster.put

        def reject(name, config):
            if name == "stock":
                raise RejectedError("Connect answers 400: not this one")
            put(name, config)

        stage.cluster.put = reject
        result = apply(stage, sequence)
        assert result.ending is None
        assert result.owed == tuple(step.describe() for step in (PUT_STOCK, CREATE))
        assert [step.outcome for step in result.steps if step.error] == [FAILED]
        return put

    def test_undo_closes_it_and_restores_everything(self, sequence):
        stage = new_stage()
        before = read_all(stage)
        self.begin(stage, sequence)
        change = stage.change
        # Connect rejects it still.
        assert stage.operator().recovery.abandon(change).ending is Ending.PARTLY
        undo(stage, change)
        assert read_all(stage) == before

    def test_resume_repeats_it_until_it_is_accepted(self, sequence):
        stage = new_stage()
        before = read_all(stage)
        put = self.begin(stage, sequence)
        change = stage.change
        assert stage.operator().recovery.resume(change).ending is None
        stage.cluster.put = put
        assert stage.operator().recovery.resume(change).is_done
        assert has_all(stage)
        undo(stage, change)
        assert read_all(stage) == before


def test_rejected_step_after_what_can_not_be_undone_keeps_the_change_open():
    stage = new_stage(config=CONFIG | {"db.password": "old"})
    result = apply(stage, (*FINAL[:1], (PutConfig(CLUSTER, "absent", NEW), When.INSISTS)))
    assert (result.ending, len(result.owed)) == (None, 1)
    assert stage.operator().recovery.abandon(stage.change).ending is None
    assert stage.operator().recovery.abandon(stage.change, force=True).ending is Ending.PARTLY


def find_calls(sequence, after):
    """How many calls the process makes until the end, with Ctrl-C after this step."""
    stage = new_stage()
    plan, steps = build_plan(stage, sequence)
    who = stage.operator()

    def reach(point, number):
        if (point, number) == ("after-outcome", after):
            signal.raise_signal(signal.SIGINT)

    with hooked(reach):
        who.executor.apply(plan, steps)
    return len(who.process.trace)


@pytest.mark.parametrize("way", ["resume", "undo", "undo-resume"])
@pytest.mark.parametrize("kind", [Kind.KILL_AFTER, Kind.KILL_LATE, Kind.KILL_LOST])
@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("after", range(LAST_TURN, LAST + 1))
def test_kill_at_every_call_around_ctrl_c(after, sequence, kind, way):
    """Whatever the process has reached: never is a change closed that has a part of what belongs together."""
    for call in range(1, find_calls(sequence, after) + 1):
        stage = new_stage()
        before = read_all(stage)
        try:
            result = interrupt(stage, sequence, after=after, faults=(Fault(call, kind),))
            assert result.ending is None or stage.config() == CONFIG or has_all(stage), (call, result)
        except Killed:
            pass
        if not stage.store.changes:
            continue
        change = stage.change
        stage.timeline.advance(200)
        if "close" not in stage.kinds() and way == "undo-resume":
            # Killed again while it is closed to be undone; then the operator decides to finish it.
            with hooked(kill_before_close), pytest.raises(Killed):
                stage.operator().recovery.abandon(change)
        if "close" not in stage.kinds():
            recovery = stage.operator().recovery
            result = recovery.abandon(change) if way == "undo" else recovery.resume(change)
            assert result.ending is not None, (call, result)
            if way != "undo":
                assert stage.config() == CONFIG or has_all(stage), (call, result)
        undo(stage, change)
        assert read_all(stage) == before, call


def build_walk(*outcomes):
    """The walk of RESTORED with these outcomes of its steps, None for a step without one."""
    items = RESTORED
    tasks = [
        PlannedStep(n, step, "lane", always=when is When.ALWAYS, insists=when is When.INSISTS)
        for n, (step, when) in enumerate(items)
    ]
    walk = PlanRun(tasks)
    for task, outcome in zip(tasks, outcomes, strict=False):
        if outcome is not None:
            walk.record(task, outcome, intent=Intent({"config": CONFIG}, {"config": NEW}))
    return walk


DONE, NOTHING, FAILED = Outcome.DONE, Outcome.NOTHING_TO_DO, Outcome.DID_NOT_HAPPEN


@pytest.mark.parametrize(
    ("outcomes", "owed"),
    [
        ((), []),
        ((DONE,), []),
        ((DONE, FAILED), []),
        ((DONE, Outcome.UNKNOWN), []),
        ((DONE, Outcome.FOREIGN), []),
        ((NOTHING, NOTHING), []),
        ((DONE, NOTHING), [2, 3]),
        ((DONE, DONE), [2, 3]),
        ((DONE, DONE, DONE), [3]),
        ((DONE, DONE, DONE, DONE), []),
        ((DONE, DONE, None, None, DONE), [2, 3]),
        ((DONE, None, None, None, DONE), []),
    ],
)
def test_steps_are_owed_from_the_last_that_can_be_rolled_back(outcomes, owed):
    walk = build_walk(*outcomes)
    assert [task.number for task in walk.tasks if walk.is_owed(task)] == owed
    # They are due even after a restore, which a process that was interrupted made.
    if owed:
        assert walk.is_due(walk.tasks[owed[0]], winding_up=False)
    assert not any(walk.is_due(walk.tasks[number], winding_up=True) for number in (2, 3))
