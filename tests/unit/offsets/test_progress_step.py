"""Where a connector goes on after its offsets were moved: by itself, or because somebody else wrote them."""

from __future__ import annotations

import pytest

from seamark.changes.step import Intent
from seamark.connect.model import ConnectorStatus, State, Task
from seamark.core.offsets import Offset, Order, order_of, spell_identity
from seamark.errors import NotFoundError, RefusedError, UnreachableError
from seamark.offsets.model import OffsetWrite
from seamark.offsets.write.guards import CheckProgress
from tests.ports import MethodPorts

A, B = {"table": "a"}, {"table": "b"}
RUNS = (Task(0, State.RUNNING),)


def at(number):
    return None if number is None else {"n": number}


class Bench(MethodPorts):
    """A connector whose tasks store positions as its clock goes on."""

    def __init__(self, *, tasks=RUNS, state=State.RUNNING, writes=(), later=None):
        self.time = 0.0
        self.tasks, self.state = tasks, state
        self.writes = {spell_identity(A): list(writes), spell_identity(B): []}
        self.later = later or {}
        self.failing = None

    @property
    def clock(self):
        return self

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds
        for moment in [moment for moment in self.later if moment <= self.time]:
            self.later.pop(moment)(self)

    def read_status(self, _cluster, name):
        if self.state is None:
            raise NotFoundError(name)
        return ConnectorStatus(self.state, tasks=self.tasks)

    def offsets(self, _cluster, _name):
        return self

    def read_writes(self, partitions):
        if self.failing:
            raise self.failing
        return tuple(tuple(self.writes[spell_identity(one)]) for one in partitions)

    def compare(self, left, right):
        first, second = (0 if one is None else one.get("n") for one in (left, right))
        return Order.UNKNOWN if first is None or second is None else order_of((first,), (second,))

    def describe(self, partition, offset):
        return partition["table"], f"row {offset['n']}" if offset else "nothing"

    def store(self, number, at_ms=None):
        self.writes[spell_identity(A)].append(OffsetWrite(at(number), at_ms))


def store(number, at_ms=None):
    return lambda bench: bench.store(number, at_ms)


def check(bench, *, wrote, former=None, wait_seconds=10.0, flush_seconds=None, more=()):
    step = CheckProgress(
        "sim",
        "orders",
        (Offset(A, at(wrote)), *more),
        () if former is None else (Offset(A, at(former)),),
        wait_seconds,
        flush_seconds,
    )
    return step.perform(bench, Intent(None, None))


WRITTEN = (OffsetWrite({"n": 900}, 1_000), OffsetWrite({"n": 300}, 5_000))


@pytest.mark.parametrize("new", [301, 550, 900, 1200])
def test_progress_behind_the_written_position_is_told_as_soon_as_it_is_there(new):
    bench = Bench(writes=WRITTEN, later={2.0: store(new, 70_000)})
    assert check(bench, wrote=300, former=900) == f"a, row {new}"
    assert bench.time == 2.0


def test_first_of_several_positions_counts():
    bench = Bench(writes=(*WRITTEN, OffsetWrite({"n": 310}), OffsetWrite({"n": 2000})))
    assert check(bench, wrote=300, former=900) == "a, row 310"


def test_an_idle_source_is_no_failure():
    bench = Bench(writes=WRITTEN)
    said = "no new offset within 10 s: no new data, or not flushed yet"
    assert check(bench, wrote=300, former=900) == said
    assert bench.time == 10.0
    assert check(Bench(writes=WRITTEN), wrote=300, flush_seconds=60.0) == f"{said} (every 60 s)"


def test_a_position_before_the_written_one_is_somebody_elses():
    bench = Bench(writes=(OffsetWrite({"n": 300}), OffsetWrite({"n": 900})), later={1.0: store(320)})
    with pytest.raises(RefusedError, match="another process wrote its offsets") as refused:
        check(bench, wrote=900, former=300)
    assert refused.value.cause == '{"table":"a"} is at {"n":320}: it is lower than {"n":900}'
    assert "seamark offsets history sim/orders" in refused.value.hint


def test_a_position_stored_before_any_task_ran_is_somebody_elses():
    bench = Bench(tasks=(), writes=(*WRITTEN, OffsetWrite({"n": 900}, 5_400)))
    with pytest.raises(RefusedError) as refused:
        check(bench, wrote=300, former=900)
    assert "before a task was running" in refused.value.cause


def test_a_task_whose_status_comes_late_is_believed():
    bench = Bench(tasks=(), writes=(*WRITTEN, OffsetWrite({"n": 310}, 9_000)))
    bench.later = {1.0: lambda bench: setattr(bench, "tasks", RUNS)}
    assert check(bench, wrote=300, former=900) == "a, row 310"


@pytest.mark.parametrize("state", [State.STOPPED, State.PAUSED, None])
def test_what_tasks_stored_before_somebody_stopped_them_again_is_theirs(state):
    bench = Bench(tasks=(), state=state, writes=(*WRITTEN, OffsetWrite({"n": 310}, 9_000)))
    assert check(bench, wrote=300, former=900) == "a, row 310"


@pytest.mark.parametrize(
    ("new", "at_ms", "is_foreign"),
    [(900, 5_300, True), (950, 30_000, True), (900, 66_000, False), (310, 5_300, False), (900, None, False)],
)
def test_the_former_position_sooner_than_a_task_stores_anything_is_a_zombies(new, at_ms, is_foreign):
    bench = Bench(writes=(*WRITTEN, OffsetWrite({"n": new}, at_ms)))
    if not is_foreign:
        assert check(bench, wrote=300, former=900, flush_seconds=60.0) == f"a, row {new}"
        return
    with pytest.raises(RefusedError) as refused:
        check(bench, wrote=300, former=900, flush_seconds=60.0)
    assert "it is the offset from before the move" in refused.value.cause


def test_a_group_that_keeps_the_newest_alone_is_compared_too():
    assert check(Bench(writes=[OffsetWrite({"n": 310})]), wrote=300, former=900) == "a, row 310"
    with pytest.raises(RefusedError):
        check(Bench(writes=[OffsetWrite({"n": 200})]), wrote=300, former=900)
    assert check(Bench(), wrote=300).startswith("no new offset")


def test_what_was_forgotten_begins_anew():
    bench = Bench(writes=(OffsetWrite({"n": 900}), OffsetWrite(None)), later={1.0: store(5)})
    assert check(bench, wrote=None, former=900) == "a, row 5"


def test_an_order_that_nobody_knows_is_no_failure():
    bench = Bench(writes=(*WRITTEN, OffsetWrite({"scn": "x"})))
    bench.describe = lambda partition, offset: ("a", "scn x")
    assert check(bench, wrote=300, former=900) == "a, scn x"


def test_several_partitions_are_counted():
    bench = Bench(writes=(*WRITTEN, OffsetWrite({"n": 310})))
    bench.writes[spell_identity(B)] = [OffsetWrite({"n": 1}), OffsetWrite({"n": 2})]
    assert check(bench, wrote=300, more=(Offset(B, {"n": 1}),)) == "a, row 310, and 1 more"


def test_a_task_that_fails_again_and_a_store_that_nobody_can_read_are_told():
    bench = Bench(tasks=(Task(0, State.FAILED, trace="Boom: no such table"),), writes=WRITTEN)
    assert check(bench, wrote=300) == "no new offset: task 0: Boom: no such table"
    bench = Bench(writes=WRITTEN)
    bench.failing = UnreachableError("the brokers can't be reached")
    assert check(bench, wrote=300) == "unknown: the brokers can't be reached"
