"""Offsets of a connector that is created after they are written, and the consumer group of a sink, in memory."""

from __future__ import annotations

import pytest

from seamark.changes.step import Observed, build_step
from seamark.connect.model import Connector, State
from seamark.core.offsets import Offset
from seamark.core.refs import ConnectorType
from seamark.errors import DeadlineError, RefusedError
from seamark.offsets.model import WriteRoute
from seamark.offsets.quiesce import ConnectorSnapshot, build_snapshot
from seamark.offsets.write.guards import CheckStopped, VerifyOffsets
from tests.step_list import surround
from tests.unit.offsets.test_offset_steps import A, Bench, write

CONFIG = {"connector.class": "x.Source", "topic": "orders"}
KEPT = ConnectorSnapshot(ConnectorType.SOURCE, CONFIG)


def bench(**held):
    found = Bench(**held)
    found.config, found.state = dict(CONFIG), State.RUNNING
    return found


def test_its_name_is_no_part_of_what_is_kept():
    assert build_snapshot(Connector("orders", "sim", ConnectorType.SOURCE, {"name": "orders", **CONFIG})) == KEPT


class TestWhileItIsGone:
    def gone(self, **held):
        world = bench(**held)
        world.config = world.state = None
        return world

    def test_offsets_are_read_and_written_by_what_is_kept(self):
        world = self.gone(a={"incrementing": 7})
        step = write((A, {"incrementing": 3}), route=WriteRoute.TOPIC, kept=KEPT)
        intent = step.intend(world)
        step.perform(world, intent)
        assert world.written == ["topic"]
        assert {one.config["topic"] for one in world.opened} == {"orders"}
        assert step.undo(intent).kept == KEPT

    def test_nothing_is_written_under_one_that_is_there_again(self):
        world = bench(a={"incrementing": 7})
        step = write((A, {"incrementing": 3}), kept=KEPT)
        with pytest.raises(RefusedError, match="exists, and must not"):
            step.perform(world, step.intend(world))
        assert world.written == []

    def test_what_was_written_counts_only_while_it_is_gone(self):
        world = self.gone(a={"incrementing": 7})
        step = write((A, {"incrementing": 3}), route=WriteRoute.GROUP, kept=KEPT)
        step.perform(world, step.intend(world))
        VerifyOffsets(step).perform(world, None)
        # Its tasks may have begun before the write, and would store over it what they hold.
        world.config, world.state = dict(CONFIG), State.RUNNING
        with pytest.raises(RefusedError, match="another process created") as caught:
            VerifyOffsets(step).perform(world, None)
        assert "seamark offsets show sim/orders" in caught.value.hint

    def test_it_must_be_gone_for_a_while_and_in_no_workers_hands(self):
        world = self.gone()
        CheckStopped("sim", "orders", kept=KEPT).perform(world, None)
        assert world.time >= 6
        world.holders = ("http://w1:8083",)
        world.moments[world.time + 20] = lambda: setattr(world, "holders", ())
        began_at = world.time
        CheckStopped("sim", "orders", kept=KEPT).perform(world, None)
        assert world.time >= began_at + 26
        world.holders = ("http://w1:8083",)
        with pytest.raises(DeadlineError) as caught:
            CheckStopped("sim", "orders", kept=KEPT).perform(world, None)
        assert "w1:8083 still runs tasks of connector/sim/orders" in caught.value.cause

    def test_who_creates_it_meanwhile_is_not_waited_for(self):
        world = bench()
        with pytest.raises(RefusedError, match="exists, and must not"):
            CheckStopped("sim", "orders", kept=KEPT).perform(world, None)

    def test_every_step_comes_back_from_a_plan(self):
        written = write((A, None), route=WriteRoute.GROUP, kept=KEPT)
        steps = surround(written)
        assert [build_step(step.to_data()) for step in steps] == list(steps)
        proof, _, verify = steps
        assert isinstance(verify, VerifyOffsets)
        assert (proof.kept, proof.config, verify.config) == (KEPT, "", "")


def test_offsets_of_a_sink_are_committed_and_put_back():
    world = Bench(a={"kafka_offset": 7})
    step = write((A, {"kafka_offset": 3}), route=WriteRoute.GROUP)
    intent = step.intend(world)
    step.perform(world, intent)
    assert step.observe(world, intent) is Observed.AFTER
    assert world.written == ["group"]
    back = step.undo(intent)
    assert (back.route, back.offsets) == (WriteRoute.GROUP, (Offset(A, {"kafka_offset": 7}),))
    assert "in its consumer group" in step.describe()
