"""The steps that move and delete consumer groups."""

from __future__ import annotations

import pytest

from seamark.changes.journal import Ending
from seamark.changes.outcome import Outcome
from seamark.changes.step import Intent, Observed
from seamark.errors import DeadlineError, RefusedError, RejectedError, StalePlanError, UnknownOutcomeError
from seamark.groups.actions import DeleteGroup, MoveGroup
from seamark.kafka.groups import Committed, GroupMember
from tests.unit.changes.brokers import BrokerWorld, FakeBrokers

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
MEMBER = GroupMember("m-1", "billing-1", "10.0.0.1", (A0,))


@pytest.fixture
def brokers():
    made = FakeBrokers()
    made.add_group("billing", {A0: Committed(5, "from me", 3), B0: 8})
    return made


@pytest.fixture
def world(brokers, tmp_path):
    return BrokerWorld(brokers, tmp_path)


STEP = MoveGroup("billing", {"a": {0: Committed(2), 1: Committed(0)}, "b": {0: None}})


class TestMove:
    def test_offsets_are_set_and_forgotten_and_undo_is_exact(self, brokers, world):
        before = dict(brokers.groups["billing"].offsets)

        result = world.apply(STEP)

        assert result.ending is Ending.DONE
        assert brokers.groups["billing"].offsets == {A0: Committed(2), A1: Committed(0)}
        world.undo(result)
        assert brokers.groups["billing"].offsets == before

    def test_one_request_sets_all_and_one_forgets_all(self, brokers, world):
        world.apply(STEP)

        assert brokers.writes == [
            ("alter_group_offsets", "billing", (A0, A1)),
            ("delete_group_offsets", "billing", (B0,)),
        ]

    def test_images_show_the_touched_partitions_only(self, brokers, world):
        brokers.groups["billing"].offsets["c", 0] = Committed(1)

        intent = STEP.intend(world)

        assert intent.before == {
            "a": {"0": {"offset": 5, "metadata": "from me", "leader_epoch": 3}, "1": None},
            "b": {"0": {"offset": 8}},
        }
        assert intent.after == {"a": {"0": {"offset": 2}, "1": {"offset": 0}}, "b": {"0": None}}

    def test_a_group_that_is_not_there_is_made_and_undone_to_nothing(self, brokers, world):
        result = world.apply(MoveGroup("new", {"a": {0: Committed(4)}}))
        assert brokers.groups["new"].offsets == {A0: Committed(4)}

        world.undo(result)

        assert brokers.groups["new"].offsets == {}

    def test_undo_works_where_the_brokers_have_dropped_the_empty_group(self, brokers, world):
        forget = MoveGroup("billing", {"a": {0: None}, "b": {0: None}})
        result = world.apply(forget)
        del brokers.groups["billing"]

        world.undo(result)

        assert brokers.groups["billing"].offsets == {A0: Committed(5, "from me", 3), B0: Committed(8)}

    def test_forgetting_in_a_group_that_is_gone_is_no_error(self, brokers, world):
        step = MoveGroup("billing", {"a": {0: None}})
        intent = step.intend(world)
        del brokers.groups["billing"]

        step.perform(world, intent)

        assert step.observe(world, intent) is Observed.AFTER

    def test_a_group_in_use_is_refused(self, brokers, world):
        brokers.groups["billing"].state = "STABLE"
        brokers.groups["billing"].members = (MEMBER,)

        result = world.apply(STEP)

        (step,) = result.steps
        assert step.outcome is Outcome.DID_NOT_HAPPEN
        assert isinstance(step.error, RefusedError)
        assert step.error.cause == "the group is STABLE with 1 member"
        assert brokers.writes == []

    def test_an_unknown_state_is_not_taken_for_quiet(self, brokers, world):
        brokers.groups["billing"].state = "UNKNOWN"

        with pytest.raises(RefusedError, match="in use"):
            STEP.perform(world, STEP.intend(world))

    def test_undo_is_refused_where_the_group_went_on(self, brokers, world):
        result = world.apply(STEP)
        brokers.groups["billing"].offsets[A0] = Committed(3)

        with pytest.raises(StalePlanError):
            world.undo(result)

    def test_what_is_seen(self, brokers, world):
        intent = STEP.intend(world)
        offsets = brokers.groups["billing"].offsets
        assert STEP.observe(world, intent) is Observed.BEFORE
        offsets[A0] = Committed(2)
        assert STEP.observe(world, intent) is Observed.BETWEEN
        offsets[A1] = Committed(0)
        del offsets[B0]
        assert STEP.observe(world, intent) is Observed.AFTER
        offsets[A1] = Committed(77)
        assert STEP.observe(world, intent) is Observed.FOREIGN

    def test_a_half_that_failed_after_the_other_is_unknown(self, brokers, world):
        brokers.failing["delete_group_offsets", "billing"] = RejectedError("no", hint="wait")

        with pytest.raises(UnknownOutcomeError, match="others were not deleted"):
            STEP.perform(world, STEP.intend(world))

    def test_a_half_that_was_alone_did_not_happen(self, brokers, world):
        brokers.failing["delete_group_offsets", "billing"] = RejectedError("no")

        with pytest.raises(RejectedError):
            MoveGroup("billing", {"b": {0: None}}).perform(world, Intent(None, None))

    def test_a_half_done_move_is_undone_whole(self, brokers, world):
        before = dict(brokers.groups["billing"].offsets)
        brokers.failing["delete_group_offsets", "billing"] = RejectedError("no")
        result = world.apply(STEP)
        assert result.steps[0].outcome is Outcome.UNKNOWN
        brokers.failing.clear()

        back = STEP.undo(STEP.intend(BrokerWorld(_with(before))))
        intent = back.intend(world)
        back.perform(world, intent)

        assert brokers.groups["billing"].offsets == before

    def test_a_lost_answer_is_found_out_by_looking(self, brokers, world):
        brokers.lost.add(("alter_group_offsets", "billing"))

        result = world.apply(MoveGroup("billing", {"a": {0: Committed(1)}}))

        assert result.steps[0].outcome is Outcome.DONE

    def test_a_look_that_took_too_long_sends_nothing(self, brokers, world):
        intent = STEP.intend(world)
        brokers.before["read_groups", "billing"] = lambda: world.sleep(6)

        with pytest.raises(DeadlineError, match="nothing was sent"):
            STEP.perform(world, intent)
        assert brokers.writes == []

    def test_already_there_is_nothing_to_do(self, world):
        step = MoveGroup("billing", {"b": {0: Committed(8)}})

        assert world.apply(step).steps[0].outcome is Outcome.NOTHING_TO_DO


class TestDelete:
    STEP = DeleteGroup("billing")

    def test_it_is_gone_and_undo_commits_the_same_again(self, brokers, world):
        before = dict(brokers.groups["billing"].offsets)

        result = world.apply(self.STEP)
        assert brokers.groups == {}

        world.undo(result)
        assert brokers.groups["billing"].offsets == before

    def test_undo_is_refused_where_a_group_of_that_name_has_begun_anew(self, brokers, world):
        result = world.apply(self.STEP)
        brokers.add_group("billing", {A0: 1})

        with pytest.raises(StalePlanError):
            world.undo(result)

    def test_a_group_in_use_is_refused(self, brokers, world):
        brokers.groups["billing"].state = "STABLE"
        brokers.groups["billing"].members = (MEMBER,)

        with pytest.raises(RefusedError, match="in use"):
            self.STEP.perform(world, self.STEP.intend(world))
        assert "billing" in brokers.groups

    def test_a_group_without_commits_is_deleted_too(self, brokers, world):
        brokers.add_group("idle")
        step = DeleteGroup("idle")
        intent = step.intend(world)

        assert world.apply(step).steps[0].outcome is Outcome.DONE
        assert "idle" not in brokers.groups
        assert step.undo(intent) is None

    def test_none_of_that_name_is_nothing_to_do(self, world):
        assert DeleteGroup("nobody").intend(world) == Intent(None, None)

    def test_what_is_seen(self, brokers, world):
        intent = self.STEP.intend(world)
        assert self.STEP.observe(world, intent) is Observed.BEFORE
        brokers.groups["billing"].offsets[A0] = Committed(6)
        assert self.STEP.observe(world, intent) is Observed.FOREIGN
        brokers.delete_group("billing")
        assert self.STEP.observe(world, intent) is Observed.AFTER


def _with(offsets):
    made = FakeBrokers()
    made.add_group("billing", offsets)
    return made
