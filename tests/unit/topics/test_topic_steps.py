"""The steps that make, change and delete topics."""

from __future__ import annotations

import json

import pytest

from seamark.changes.journal import Ending
from seamark.changes.outcome import Outcome
from seamark.changes.step import CanNotUndo, Intent, Observed
from seamark.core.readings import Reading
from seamark.errors import (
    AlreadyExistsError,
    AuthorizationError,
    NotFoundError,
    RefusedError,
    StalePlanError,
    UnknownOutcomeError,
)
from seamark.kafka.api import SnapshotBrokers
from seamark.kafka.groups import Committed
from seamark.kafka.model import PartitionStatus, TopicConfig, TopicStatus
from seamark.topics.actions import AlterTopicConfig, CreateTopic, DeleteNewTopic, DeleteTopic, GrowTopic
from tests.unit.changes.brokers import BrokerWorld, FakeBrokers

CREATE = CreateTopic("orders", partitions=3, replication_factor=1, configs={"cleanup.policy": "compact"})


@pytest.fixture
def brokers():
    return FakeBrokers()


@pytest.fixture
def world(brokers, tmp_path):
    return BrokerWorld(brokers, tmp_path)


class TestCreate:
    def test_the_topic_is_there_as_wanted(self, brokers, world):
        result = world.apply(CREATE)

        assert result.ending is Ending.DONE
        assert len(brokers.topics["orders"].logs) == 3
        assert brokers.topics["orders"].configs == {"cleanup.policy": "compact"}

    def test_undo_deletes_it_and_undoing_that_makes_it_again(self, brokers, world):
        back = world.undo(world.apply(CREATE))
        assert back.ending is Ending.DONE
        assert brokers.topics == {}

        world.undo(back)

        assert len(brokers.topics["orders"].logs) == 3
        assert brokers.topics["orders"].configs == {"cleanup.policy": "compact"}

    def test_undo_leaves_a_topic_alone_that_somebody_wrote_to(self, brokers, world):
        done = world.apply(CREATE)
        brokers.topics["orders"].logs[1].append(1)

        result = world.undo(done)

        assert "orders" in brokers.topics
        (step,) = result.steps
        assert step.outcome is Outcome.DID_NOT_HAPPEN
        assert "partitions 1" in step.error.cause

    def test_undo_leaves_a_topic_alone_whose_records_have_already_gone(self, brokers, world):
        done = world.apply(CREATE)
        brokers.topics["orders"].logs[0] += [1, 2]
        brokers.topics["orders"].starts[0] = 2

        assert world.undo(done).steps[0].outcome is Outcome.DID_NOT_HAPPEN

    def test_undo_is_refused_where_the_topic_has_another_shape(self, brokers, world):
        done = world.apply(CREATE)
        brokers.grow_topic("orders", partitions=4)

        with pytest.raises(StalePlanError, match="out of date"):
            world.undo(done)

    def test_one_that_is_there_is_refused(self, brokers, world):
        brokers.add_topic("orders")
        intent = CREATE.intend(world)

        with pytest.raises(AlreadyExistsError):
            CREATE.perform(world, intent)
        assert CREATE.undo(intent) is None

    def test_one_that_is_there_as_wanted_is_nothing_to_do(self, brokers, world):
        brokers.add_topic("orders", partitions=3, configs={"cleanup.policy": "compact", "retention.ms": "5"})

        assert world.apply(CREATE).steps[0].outcome is Outcome.NOTHING_TO_DO

    def test_what_is_left_to_the_brokers_is_not_looked_at(self, brokers, world):
        step = CreateTopic("orders")

        done = world.apply(step)
        assert done.ending is Ending.DONE
        world.undo(done)
        assert brokers.topics == {}

    def test_values_are_compared_as_the_brokers_spell_them(self, brokers, world):
        step = CreateTopic("orders", configs={"cleanup.policy": "compact, delete", "min.cleanable.dirty.ratio": "0.50"})
        intent = step.intend(world)
        brokers.add_topic(
            "orders", configs={"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.5", "other": "x"}
        )

        assert step.observe(world, intent) is Observed.AFTER

    def test_it_is_not_there_before_it_is_led(self, brokers, world):
        intent = CREATE.intend(world)
        assert CREATE.observe(world, intent) is Observed.BEFORE
        brokers.create_topic("orders", partitions=3, replication_factor=1, configs=CREATE.configs)
        brokers.topics["orders"].leaderless.add(2)

        assert CREATE.observe(world, intent) is Observed.BETWEEN

    def test_a_lost_answer_is_found_out_by_looking(self, brokers, world):
        brokers.lost.add(("create_topic", "orders"))

        assert world.apply(CREATE).steps[0].outcome is Outcome.DONE


class TestDelete:
    STEP = DeleteTopic("orders")

    def test_what_can_be_kept_is_exported_first(self, brokers, world):
        brokers.add_topic("orders", partitions=2, records=4, configs={"retention.ms": "5"})
        brokers.add_group("billing", {("orders", 0): Committed(3, "m", 7), ("other", 0): 9})
        brokers.add_group("idle", {("other", 0): 1})

        intent = self.STEP.intend(world)

        assert intent.before == {"topic_id": "id-1"}
        assert intent.after is None
        assert json.loads(json.dumps(intent.extra)) == {
            "topic_id": "id-1",
            "partitions": 2,
            "replication_factor": 1,
            "configs": {"retention.ms": "5"},
            "bounds": {"0": [0, 4], "1": [0, 4]},
            "groups": {"billing": {"0": {"offset": 3, "metadata": "m", "leader_epoch": 7}}},
            "groups_not_read": {},
        }

    def test_it_is_gone_and_nobody_brings_it_back(self, brokers, world):
        brokers.add_topic("orders", records=1)

        result = world.apply(self.STEP)

        assert brokers.topics == {}
        with pytest.raises(RefusedError) as caught:
            world.undo(result)
        assert "records are deleted" in caught.value.cause

    def test_a_topic_made_anew_is_another_one(self, brokers, world):
        brokers.add_topic("orders")
        plan = world.plan(self.STEP)
        brokers.add_topic("orders")

        with pytest.raises(StalePlanError):
            world.apply(plan=plan)
        assert "orders" in brokers.topics

    def test_one_made_anew_in_the_last_moment_is_spared(self, brokers, world):
        brokers.add_topic("orders")
        intent = self.STEP.intend(world)
        brokers.add_topic("orders")

        with pytest.raises(RefusedError, match="was recreated"):
            self.STEP.perform(world, intent)
        assert self.STEP.observe(world, intent) is Observed.FOREIGN

    def test_none_of_that_name_is_nothing_to_do(self, world):
        assert self.STEP.intend(world) == Intent(None, None)
        assert self.STEP.undo(Intent(None, None)) is None

    def test_a_group_that_can_not_be_read_is_named(self, brokers, world):
        brokers.add_topic("orders")
        brokers.add_group("secret")
        brokers.read_committed = lambda groups, **_: Reading(
            failures={name: AuthorizationError("not allowed to read it") for name in groups}
        )

        assert self.STEP.intend(world).extra["groups_not_read"] == {"secret": "not allowed to read it"}


class TestGrow:
    STEP = GrowTopic("orders", 4)

    def test_it_grows_for_good(self, brokers, world):
        brokers.add_topic("orders", partitions=2)

        result = world.apply(self.STEP)

        assert len(brokers.topics["orders"].logs) == 4
        with pytest.raises(RefusedError) as caught:
            world.undo(result)
        assert "can't remove partitions" in caught.value.cause

    def test_fewer_are_refused_with_the_way_to_do_it(self, brokers, world):
        brokers.add_topic("orders", partitions=6)

        with pytest.raises(RefusedError, match="can't reduce") as caught:
            self.STEP.perform(world, self.STEP.intend(world))
        assert "seamark copies plan" in caught.value.hint
        assert brokers.writes == []

    def test_as_many_is_nothing_to_do(self, brokers, world):
        brokers.add_topic("orders", partitions=4)

        assert world.apply(self.STEP).steps[0].outcome is Outcome.NOTHING_TO_DO
        assert self.STEP.undo(self.STEP.intend(world)) is None

    def test_no_topic_is_an_error(self, world):
        with pytest.raises(NotFoundError):
            self.STEP.intend(world)

    def test_what_is_seen(self, brokers, world):
        brokers.add_topic("orders", partitions=2)
        intent = self.STEP.intend(world)
        assert self.STEP.observe(world, intent) is Observed.BEFORE
        brokers.grow_topic("orders", partitions=4)
        brokers.topics["orders"].leaderless.add(3)
        assert self.STEP.observe(world, intent) is Observed.BETWEEN
        brokers.topics["orders"].leaderless.clear()
        assert self.STEP.observe(world, intent) is Observed.AFTER
        brokers.add_topic("orders", partitions=4)
        assert self.STEP.observe(world, intent) is Observed.FOREIGN
        brokers.delete_topic("orders")
        assert self.STEP.observe(world, intent) is Observed.FOREIGN


class TestAlter:
    STEP = AlterTopicConfig("orders", {"retention.ms": "9", "cleanup.policy": "compact"}, remove=("segment.ms",))

    def test_keys_are_set_and_taken_away_and_undo_is_exact(self, brokers, world):
        brokers.add_topic("orders", configs={"retention.ms": "5", "segment.ms": "7", "untouched": "1"})

        result = world.apply(self.STEP)

        assert brokers.topics["orders"].configs == {"retention.ms": "9", "cleanup.policy": "compact", "untouched": "1"}
        brokers.alter_topic_config("orders", values={"untouched": "2"})
        world.undo(result)
        assert brokers.topics["orders"].configs == {"retention.ms": "5", "segment.ms": "7", "untouched": "2"}

    def test_undo_is_refused_where_the_topic_was_made_anew(self, brokers, world):
        brokers.add_topic("orders")
        result = world.apply(self.STEP)
        configs = brokers.topics["orders"].configs
        brokers.add_topic("orders", configs=configs)

        with pytest.raises(StalePlanError):
            world.undo(result)

    def test_what_is_seen(self, brokers, world):
        brokers.add_topic("orders")
        intent = self.STEP.intend(world)
        assert self.STEP.observe(world, intent) is Observed.BEFORE
        brokers.alter_topic_config("orders", values={"retention.ms": "1"})
        assert self.STEP.observe(world, intent) is Observed.FOREIGN
        brokers.delete_topic("orders")
        assert self.STEP.observe(world, intent) is Observed.FOREIGN

    def test_a_value_that_the_brokers_do_not_tell_is_not_changed(self, world, brokers):
        hidden = TopicConfig("", "DYNAMIC_TOPIC_CONFIG", is_sensitive=True)
        topic = TopicStatus("orders", "id", (PartitionStatus(0, 1, (1,), (1,)),), configs={"segment.ms": hidden})
        brokers.read_topics = lambda names: Reading((topic,))

        with pytest.raises(RefusedError, match=r"can't change the sensitive config segment\.ms"):
            self.STEP.intend(world)

    def test_configs_that_can_not_be_read_are_not_changed(self, world, brokers):
        topic = TopicStatus("orders", "id", (), configs_error="not allowed")
        brokers.read_topics = lambda names: Reading((topic,))

        with pytest.raises(RefusedError, match="can't read the configs"):
            self.STEP.intend(world)


def test_trouble_of_the_brokers_is_not_a_missing_topic(brokers, world):
    brokers.read_topics = lambda names: Reading(failures={"orders": AuthorizationError("no")})

    with pytest.raises(AuthorizationError):
        CREATE.intend(world)


def test_a_partly_unknown_answer_is_looked_at(brokers, world):
    brokers.add_topic("orders")
    brokers.failing["delete_topic", "orders"] = UnknownOutcomeError("no answer")

    result = world.apply(DeleteTopic("orders"))

    assert result.steps[0].outcome is Outcome.DID_NOT_HAPPEN
    assert "orders" in brokers.topics


def test_a_delete_of_a_new_topic_that_is_gone_has_no_way_back():
    assert DeleteNewTopic("orders").undo(Intent(None, None)) is None
    assert isinstance(DeleteTopic("orders").undo(Intent({"topic_id": "a"}, None)), CanNotUndo)


class TestManyAtOnce:
    def test_the_topics_of_a_long_plan_are_read_together(self, brokers, world):
        steps = [CreateTopic(f"t{number}", partitions=1) for number in range(20)]
        plan = world.plan(*steps)
        brokers.calls.clear()

        result = world.apply(plan=plan)

        assert result.is_done
        # What must still be so is looked at together; then each step looks for itself before and after it acts.
        assert 1 <= brokers.calls["read_all_topics"] <= 2
        assert brokers.calls["read_topics"] == 40

    def test_a_snapshot_tells_what_is_missing_and_what_could_not_be_read(self, brokers):
        brokers.add_topic("a", records=2)
        brokers.add_group("g", {("a", 0): 1})
        looking = SnapshotBrokers(brokers)
        assert len(looking.read_all_topics()) == 1

        reading = looking.read_topics(["a", "gone"])

        assert [found.name for found in reading] == ["a"]
        assert isinstance(reading.failures["gone"], NotFoundError)
        assert looking.read_bounds([("a", 0)]).found["a", 0].latest == 2
        assert looking.read_groups(["g"]).items[0].state == "EMPTY"
        assert [found.name for found in looking.read_consumer_groups()] == ["g"]
        assert looking.read_committed({"g": None}).items[0].offsets == {("a", 0): Committed(1)}
        assert brokers.calls["read_all_topics"] == 1
        with pytest.raises(AttributeError, match="read-only"):
            looking.delete_topic("a")
