"""The steps of a guarded change of offsets, on a connector and stores in memory."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seamark.changes.images import build_fingerprint
from seamark.changes.preconditions import build_preconditions
from seamark.changes.step import Intent, Observed
from seamark.connect.model import ConnectorStatus, State, Task
from seamark.core.offsets import Offset, spell_identity
from seamark.errors import DeadlineError, NotFoundError, RefusedError, UnreachableError
from seamark.kafka.groups import GroupStatus
from seamark.kafka.model import HeldRecord
from seamark.offsets.model import CurrentOffset, WriteRoute
from seamark.offsets.write.guards import CheckStopped, VerifyOffsets, build_config_pin
from seamark.offsets.write.steps import WriteOffsets
from tests.ports import MethodPorts
from tests.step_list import surround

A, B = {"table": "a"}, {"table": "b"}
KEY = b'["orders",{"table":"a"}]'
SUBJECT = "connector/sim/orders"


class Bench(MethodPorts):
    """A world with one connector `orders` and its offsets; its clock goes when somebody sleeps."""

    def __init__(self, **held):
        self.time = 0.0
        self.held = {spell_identity({"table": table}): offset for table, offset in held.items()}
        self.records = {}
        self.ambiguities = {}
        self.state = State.STOPPED
        self.tasks = ()
        self.group = None
        self.silent = ()
        self.rebalance = None
        self.written = []
        self.opened = []
        self.holders = ()
        self.moments = {}
        self.config = {}

    # the world

    @property
    def clock(self):
        return self

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds
        for moment in [moment for moment in self.moments if moment <= self.time]:
            self.moments.pop(moment)()

    def read_status(self, _cluster, name):
        if self.state is None:
            raise NotFoundError(name)
        return ConnectorStatus(self.state, tasks=self.tasks)

    def offsets(self, _cluster, _name, *, kept=None):
        self.opened.append(kept)
        return self

    def connect(self, _cluster):
        return self

    def read_config(self, name):
        if self.config is None:
            raise NotFoundError(name)
        return self.config

    def put_config(self, _name, config):
        self.written.append("put")
        self.config, self.state = config, State.RUNNING

    def delete_connector(self, _name):
        self.written.append("delete")
        self.config = self.state = None

    def pause(self, _name):
        self.written.append("pause")
        self.state = State.PAUSED

    def resume(self, _name):
        self.written.append("resume")
        self.state = State.RUNNING

    def stop(self, _name):
        self.written.append("stop")
        self.state = State.STOPPED

    def seal(self, value):
        return f"seal of {value}"

    # the offsets

    def read(self, partitions):
        return tuple(
            CurrentOffset(
                partition,
                self.held.get(spell_identity(partition)),
                tuple(self.records.values()) if partition == A else (),
                self.ambiguities.get(spell_identity(partition), ""),
            )
            for partition in partitions
        )

    def alter(self, offsets):
        self.written.append("rest")
        self.held |= {spell_identity(found.partition): found.offset for found in offsets}

    def write(self, records):
        self.written.append("topic")
        self.records |= {record.place: record for record in records}

    def commit(self, offsets):
        self.written.append("group")
        self.held |= {spell_identity(found.partition): found.offset for found in offsets}

    def find_holders(self):
        return self.holders

    def read_members(self):
        return self.group

    def find_silent(self, workers):
        if self.rebalance is not None:
            raise self.rebalance
        return tuple(worker for worker in workers if worker in self.silent)


def write(*offsets, **more):
    return WriteOffsets("sim", "orders", tuple(Offset(partition, offset) for partition, offset in offsets), **more)


class TestWriting:
    def build_steps(self):
        """The same write by both routes."""
        record = HeldRecord("connect-offsets", 0, b"key", b"new")
        by_rest, by_topic = (
            write((A, {"incrementing": 2})),
            write((A, {"incrementing": 2}), route=WriteRoute.TOPIC, records=(record,)),
        )
        return by_rest, by_topic

    def test_a_rebalance_of_others_is_waited_for_or_left_to_connect(self):
        """A stopped connector shows UNASSIGNED meanwhile."""
        by_rest, by_topic = self.build_steps()
        bench = Bench()
        bench.state = State.UNASSIGNED
        by_rest.perform(bench, by_rest.intend(bench))
        assert (bench.written, bench.time) == (["rest"], 0.0)
        bench.moments = {2.0: lambda: setattr(bench, "state", State.STOPPED)}
        by_topic.perform(bench, by_topic.intend(bench))
        assert bench.written == ["rest", "topic"]
        assert 2.0 <= bench.time < 5.0

    def test_a_rebalance_without_end_is_a_refusal_where_connect_does_not_check(self):
        by_topic = self.build_steps()[1]
        bench = Bench()
        bench.state = State.UNASSIGNED
        with pytest.raises(RefusedError, match="is not stopped"):
            by_topic.perform(bench, by_topic.intend(bench))
        assert bench.written == []
        assert bench.time < 5.0

    def test_tasks_that_a_lagging_worker_lists_for_a_stopped_connector_are_waited_for(self):
        for step in self.build_steps():
            bench = Bench()
            bench.state, bench.tasks = State.STOPPED, (Task(0, State.RUNNING),)
            bench.moments = {2.0: lambda bench=bench: setattr(bench, "tasks", ())}
            step.perform(bench, step.intend(bench))
            assert len(bench.written) == 1
            assert 2.0 <= bench.time < 5.0
            bench = Bench()
            bench.state, bench.tasks = State.STOPPED, (Task(0, State.RUNNING),)
            with pytest.raises(RefusedError, match="is not stopped"):
                step.perform(bench, step.intend(bench))
            assert bench.written == []

    def test_tasks_and_a_resume_are_refused_by_either_route(self):
        for step in self.build_steps():
            for state, tasks in ((State.UNASSIGNED, (Task(0, State.UNASSIGNED),)), (State.RUNNING, ())):
                bench = Bench()
                bench.state, bench.tasks = state, tasks
                with pytest.raises(RefusedError, match="is not stopped"):
                    step.perform(bench, step.intend(bench))
                assert bench.written == []

    def test_written_is_seen_and_the_way_back_leads_to_what_was(self):
        bench = Bench(a={"incrementing": 7})
        step = write((A, {"incrementing": 3}), (B, {"incrementing": 1}))
        intent = Intent.from_dict(json.loads(json.dumps(step.intend(bench).to_dict())))
        assert step.observe(bench, intent) is Observed.BEFORE
        step.perform(bench, intent)
        assert step.observe(bench, intent) is Observed.AFTER
        back = step.undo(intent)
        assert back.offsets == (Offset(A, {"incrementing": 7}), Offset(B, None))
        back.perform(bench, back.intend(bench))
        assert back.observe(bench, Intent(intent.after, intent.before)) is Observed.AFTER

    def test_half_of_it_is_between_and_another_value_is_somebody_elses(self):
        bench = Bench(a={"incrementing": 7}, b={"incrementing": 7})
        step = write((A, {"incrementing": 3}), (B, {"incrementing": 3}))
        intent = step.intend(bench)
        bench.held[spell_identity(A)] = {"incrementing": 3}
        assert step.observe(bench, intent) is Observed.BETWEEN
        bench.held[spell_identity(B)] = {"incrementing": 99}
        assert step.observe(bench, intent) is Observed.FOREIGN

    @pytest.mark.parametrize("other", [1.0, True, "1"])
    def test_a_number_of_another_type_is_another_offset(self, other):
        bench = Bench(a={"incrementing": 1})
        intent = write((A, {"incrementing": other})).intend(bench)
        assert intent.before != intent.after
        assert build_fingerprint(intent.before) != build_fingerprint(intent.after)

    @pytest.mark.parametrize(
        ("state", "tasks"), [(State.RUNNING, ()), (State.STOPPED, (Task(0, State.RUNNING),)), (None, ())]
    )
    def test_nothing_is_written_under_a_connector_that_is_not_stopped(self, state, tasks):
        bench = Bench(a={"incrementing": 1})
        step = write((A, {"incrementing": 2}))
        intent = step.intend(bench)
        bench.state, bench.tasks = state, tasks
        with pytest.raises(RefusedError, match="not stopped; no changes were made"):
            step.perform(bench, intent)
        assert bench.written == []

    def test_records_that_differ_are_refused_on_the_way_through_rest(self):
        bench = Bench(a={"incrementing": 1})
        bench.ambiguities[spell_identity(A)] = "it is in two records"
        with pytest.raises(RefusedError, match="can't determine which record") as caught:
            write((A, {"incrementing": 2})).intend(bench)
        assert "two records" in caught.value.cause

    def test_a_record_is_written_over_to_the_byte_and_put_back_so(self):
        bench = Bench(a={"incrementing": 1})
        old = HeldRecord("offsets", 4, KEY, b'{"incrementing":1}')
        bench.records = {old.place: old}
        step = write((A, {"incrementing": 2}), route=WriteRoute.TOPIC, records=(replace(old, value=b"new"),))
        intent = step.intend(bench)
        step.perform(bench, intent)
        assert step.observe(bench, intent) is Observed.AFTER
        assert bench.records[old.place].value == b"new"
        back = step.undo(intent)
        assert back.records == (old,)
        back.perform(bench, back.intend(bench))
        assert bench.records[old.place] == old
        assert bench.written == ["topic", "topic"]

    def test_the_journal_holds_the_records_of_before(self):
        bench = Bench(a={"incrementing": 1})
        old = HeldRecord("offsets", 4, KEY, b'{"incrementing":1}')
        bench.records = {old.place: old}
        assert write((A, None)).intend(bench).extra == {"records": [old.to_dict()]}

    def test_no_plan_expects_a_position(self):
        bench = Bench(a={"incrementing": 1})
        assert build_preconditions(surround(write((A, None))), bench) == ()


class TestProof:
    def prove(self, bench, **more):
        step = CheckStopped("sim", "orders", quiet_seconds=6.0, **more)
        step.perform(bench, step.intend(bench))

    def test_it_must_have_stood_still_for_a_while(self):
        bench = Bench()
        self.prove(bench)
        assert bench.time >= 6.0

    def test_whoever_runs_again_meanwhile_is_waited_for_anew(self):
        bench = Bench()
        bench.moments = {
            4.0: lambda: setattr(bench, "state", State.RUNNING),
            10.0: lambda: setattr(bench, "state", State.STOPPED),
        }
        self.prove(bench)
        assert bench.time >= 16.0

    def test_a_sink_whose_group_is_not_empty_has_not_stopped(self):
        bench = Bench()
        bench.group = GroupStatus("connect-orders", "STABLE", 1)
        with pytest.raises(DeadlineError, match="did not stop within 90 s") as caught:
            self.prove(bench)
        assert "group connect-orders still has members" in caught.value.cause

    def test_a_silent_worker_is_a_refusal_unless_it_is_accepted(self):
        bench = Bench()
        bench.silent = ("w2:8083",)
        with pytest.raises(
            RefusedError, match="w2:8083 may have run connector/sim/orders and is not known to be alive"
        ):
            self.prove(bench, workers=("w1:8083", "w2:8083"))
        self.prove(bench, workers=("w1:8083", "w2:8083"), accepts_zombies=True)
        self.prove(bench, workers=("w1:8083",))

    def test_a_worker_group_that_rebalances_is_waited_for(self):
        bench = Bench()
        bench.rebalance = UnreachableError("the worker group g is PreparingRebalance")
        bench.moments = {5.0: lambda: setattr(bench, "rebalance", None)}
        self.prove(bench, workers=("w1:8083",))
        assert bench.time >= 11.0

    def test_a_worker_group_that_never_settles_is_late(self):
        bench = Bench()
        bench.rebalance = UnreachableError("the worker group g is PreparingRebalance")
        with pytest.raises(DeadlineError) as caught:
            self.prove(bench, workers=("w1:8083",))
        assert "PreparingRebalance" in caught.value.cause

    def test_a_worker_that_comes_back_has_its_time_to_hear_of_the_stop(self):
        bench = Bench()
        bench.silent = ("w1:8083",)
        bench.moments = {3.0: lambda: setattr(bench, "silent", ())}
        self.prove(bench, workers=("w1:8083",))
        assert bench.time >= 9.0

    def test_a_worker_that_falls_silent_meanwhile_is_a_refusal(self):
        bench = Bench()
        bench.moments = {5.5: lambda: setattr(bench, "silent", ("w1:8083",))}
        with pytest.raises(RefusedError, match="w1:8083 may have run"):
            self.prove(bench, workers=("w1:8083",))

    def test_whoever_was_resumed_for_good_is_not_waited_for(self):
        bench = Bench()
        bench.moments = {2.0: lambda: setattr(bench, "state", State.RUNNING)}
        with pytest.raises(RefusedError, match="is not stopped"):
            self.prove(bench)
        assert bench.time < 15.0

    def test_another_config_than_the_plans_is_a_refusal(self):
        bench = Bench()
        pin = build_config_pin({"name": "orders", "file": "a"}, bench, cluster="sim")
        bench.config = {"name": "orders", "file": "a"}
        self.prove(bench, config=pin)
        step = VerifyOffsets(write((A, None)), pin)
        step.perform(bench, step.intend(bench))
        assert VerifyOffsets.from_data(step.to_data()) == step
        bench.config = {"name": "orders", "file": "b"}
        with pytest.raises(RefusedError, match="was changed by another process"):
            self.prove(bench, config=pin)
        with pytest.raises(RefusedError, match="was changed by another process"):
            step.perform(bench, step.intend(bench))


class TestVerifying:
    def test_what_was_written_is_fine(self):
        bench = Bench(a={"incrementing": 2})
        step = VerifyOffsets(write((A, {"incrementing": 2})))
        step.perform(bench, step.intend(bench))
        assert step.observe(bench, step.intend(bench)) is Observed.AFTER

    def test_a_worker_that_lists_a_new_partition_later_is_asked_again(self):
        bench = Bench()
        bench.moments[0.1] = lambda: bench.held.update({spell_identity(A): {"incrementing": 2}})
        step = VerifyOffsets(write((A, {"incrementing": 2})))
        step.perform(bench, step.intend(bench))
        assert bench.time > 0.1

    def test_what_a_zombie_wrote_since_is_told(self):
        bench = Bench(a={"incrementing": 9})
        step = VerifyOffsets(write((A, {"incrementing": 2})))
        with pytest.raises(RefusedError, match="not as written") as caught:
            step.perform(bench, step.intend(bench))
        assert '{"incrementing":9}, not {"incrementing":2}' in caught.value.cause
