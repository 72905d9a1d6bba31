"""Topics in a spec: planned and applied before the connectors."""

from __future__ import annotations

import pytest

from seamark.connectors.config import DesiredConnector
from seamark.core.files import FileLocation
from seamark.errors import RefusedError, RejectedError, UsageError
from seamark.specs.model import Spec
from seamark.topics.service import DesiredTopic
from tests.unit.changes.brokers import FakeBrokers
from tests.unit.fleet.living import SINK_CONFIG, SOURCE_CONFIG, LivingConnect, open_living_fleet, register

PLACE = FileLocation("spec.yaml", 3)


@pytest.fixture
def game():
    return LivingConnect()


@pytest.fixture
def brokers():
    return FakeBrokers()


@pytest.fixture
def fleet(tmp_path, game, brokers):
    with open_living_fleet(tmp_path, game, brokers=brokers) as opened:
        yield opened


def spec(*topics, connectors=()):
    made = tuple(DesiredConnector(name, SOURCE_CONFIG, PLACE) for name in connectors)
    return Spec("logs", connectors=made, sections={"topics": topics})


def want(name="t", **changes):
    return DesiredTopic(name, PLACE, **changes)


def test_topics_are_made_before_connectors_and_undone_after_them(fleet, game, brokers):
    seen = []
    game.before["create", "a"] = lambda: seen.append(sorted(brokers.topics))
    game.before["delete", "a"] = lambda: seen.append(sorted(brokers.topics))
    wanted = spec(want(partitions=2, config={"retention.ms": "5"}), want("u"), connectors=["a"])
    planned = fleet.plan(wanted)
    assert [(effect.sign.value, effect.subject) for effect in planned.effects] == [
        ("+", "topic/t"),
        ("+", "topic/u"),
        ("+", "connector/game/a"),
    ]
    assert {"data.t", "data.u"} < set(planned.plan.locks)
    assert "+ topic/t" in str(planned)
    result = fleet.apply(planned)
    assert result.is_done
    assert fleet.plan(wanted).is_empty
    assert fleet.apply(fleet.undo(result)).is_done
    assert not brokers.topics
    assert not game.configs
    assert seen == [["t", "u"], ["t", "u"]]


def test_a_saved_plan_with_topics_is_taken(fleet):
    plan = register(fleet, fleet.plan(spec(want(), connectors=["a"])).plan)
    assert fleet.review(plan).plan == plan
    assert fleet.apply(plan).is_done


def test_a_topic_alone_needs_no_connect_cluster(fleet, game, brokers):
    assert fleet.apply(fleet.plan(spec(want()))).is_done
    assert list(brokers.topics) == ["t"]
    assert game.calls["read_connectors"] == 0


def test_what_is_there_is_altered_and_grown_and_the_rest_left_alone(fleet, game, brokers):
    game.add("reader", SINK_CONFIG)
    brokers.add_topic("t", partitions=1, configs={"cleanup.policy": "compact", "retention.ms": "1"})
    planned = fleet.plan(spec(want(partitions=3, replication_factor=1, config={"retention.ms": "2"})))
    assert [effect.words for effect in planned.effects] == ["add 2 partitions, permanently", "change 1 config"]
    said = "\n".join(planned.plan.notes)
    assert "connector/game/reader may read them out of order" in said
    assert "topic/t is compacted" in said
    assert "can't be undone: increase topic/t" in said
    assert fleet.apply(planned).is_done
    assert len(brokers.topics["t"].logs) == 3
    assert brokers.topics["t"].configs == {"cleanup.policy": "compact", "retention.ms": "2"}


@pytest.mark.parametrize("changes", [{"partitions": 1}, {"replication_factor": 3}])
def test_what_kafka_can_not_do_is_refused_with_its_place(fleet, brokers, changes):
    brokers.add_topic("t", partitions=2)
    with pytest.raises(RefusedError, match="no changes were made") as caught:
        fleet.plan(spec(want(**changes), connectors=["a"]))
    assert "spec.yaml:3" in caught.value.cause


def test_a_topic_that_stands_twice_is_refused(fleet):
    with pytest.raises(UsageError, match="defined twice"):
        fleet.plan(spec(want(), want()))


def test_connectors_are_not_begun_where_a_topic_failed(fleet, game, brokers):
    brokers.failing["create_topic", "t"] = RejectedError("the brokers say no")
    result = fleet.apply(fleet.plan(spec(want(), want("u"), connectors=["a"])))
    assert not result.is_done
    assert list(brokers.topics) == ["u"]
    assert not game.configs


def test_many_topics_are_read_at_once(fleet, brokers):
    for number in range(20):
        brokers.add_topic(f"t{number}")
    assert fleet.plan(spec(*(want(f"t{number}") for number in range(20)))).is_empty
    assert (brokers.calls["read_all_topics"], brokers.calls["read_topics"]) == (1, 0)


def test_destroy_leaves_topics(fleet, game, brokers):
    brokers.add_topic("t")
    game.add("a", SOURCE_CONFIG)
    planned = fleet.destroy(spec(want(), connectors=["a"]))
    assert "topics stay: t" in planned.plan.notes
    assert fleet.apply(planned).is_done
    assert "t" in brokers.topics
