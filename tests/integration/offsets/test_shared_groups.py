"""Two sinks in one consumer group: what one forgets or moves is its own alone, and the other's offsets stay."""

from __future__ import annotations

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from seamark.errors import RefusedError
from tests.integration.offset_rig import OffsetRig
from tests.integration.offset_tools import JSON
from tests.integration.waits import commit_offsets, wait_for

FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
RECORDS = 20
pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def rig(stack, tmp_path):
    made = OffsetRig(stack, tmp_path)
    yield made
    made.close()


class Shared:
    """A group of two sinks, `lake` of its own topic and `pond` of another, each with what it has read."""

    def __init__(self, rig, folder):
        self.rig, self.group = rig, rig.name("group")
        self.topics = {word: rig.brokers.make_topic(rig.name(f"t-{word}"), partitions=1) for word in ("lake", "pond")}
        self.names = {}
        for word, topic in self.topics.items():
            rig.brokers.write(topic, *((str(number).encode(), b"1") for number in range(RECORDS)))
            self.names[word] = rig.name(word)
            config = {"connector.class": FILE_SINK, "topics": topic, "file": str(folder / f"{word}.txt"), **JSON}
            config |= {"consumer.override.group.id": self.group, "tasks.max": "1"}
            rig.client.create_connector(self.names[word], config)
        end = dict.fromkeys(self.topics.values(), RECORDS)
        wait_for(self.read, lambda found: found == end, "both sinks at their end")

    def read(self):
        """What the group has committed, by topic."""
        admin = self.rig.brokers._admin
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)])
        found = asked[self.group].result(60).topic_partitions
        return {spot.topic: spot.offset for spot in found if spot.offset >= 0}

    def count_members(self):
        admin = self.rig.brokers._admin
        return len(admin.describe_consumer_groups([self.group])[self.group].result(60).members)

    def forget_by_connect(self, word):
        """Connect's own reset, past seamark: it is refused while somebody is in the group."""
        wait_for(self.count_members, lambda count: count == 0, f"{self.group} to be empty")
        return self.rig.client.delete_offsets(self.names[word])

    def commit(self, **ends):
        spots = [TopicPartition(self.topics[word], 0, end) for word, end in ends.items()]
        commit_offsets(self.rig.brokers._admin, self.group, spots)


def count_lines(file):
    return len(file.read_text().splitlines())


def read_refusal(rig, build):
    """The words that a plan is refused with, whatever a rebalance hides for a while."""
    with pytest.raises(RefusedError) as refused:
        rig.plan(build)
    return refused.value


def plan_alone(rig, build):
    """A plan, or why another sink may be running: a worker that lags, or a rebalance, does not show its stop yet."""
    try:
        return rig.plan(build)
    except RefusedError as error:
        if "may be running" not in error.message:
            raise
        return error


def test_what_others_of_the_group_read_is_left_alone(rig, tmp_path):
    shared = Shared(rig, tmp_path)
    text = tmp_path / "lake.txt"
    # In a rebalance Connect may have delivered some twice.
    already = count_lines(text)
    lake, pond = shared.names["lake"], shared.names["pond"]
    offsets, topics = rig.fleet.offsets, shared.topics

    # All that the group holds is not lake's alone.
    for build in (lambda: offsets.reset(lake), lambda: offsets.move(lake, to="earliest")):
        refused = read_refusal(rig, build)
        assert "also has offsets of other owners" in refused.message
        assert f"connect/{pond} reads {topics['pond']}" in refused.cause
        assert f"--topic {topics['lake']};" in refused.hint
    # Kafka changes nothing while somebody is in the group.
    refused = read_refusal(rig, lambda: offsets.reset(lake, topics=[topics["lake"]]))
    assert "may be running in group" in refused.message
    rig.stop(pond)

    planned = wait_for(
        lambda: plan_alone(rig, lambda: offsets.reset(lake, topics=[topics["lake"]], wait_seconds=0)),
        lambda found: not isinstance(found, RefusedError),
        f"every worker to tell that {pond} has stopped",
    )
    assert f"is shared with connect/{pond}: their offsets are not changed" in str(planned)
    result = rig.apply(planned)
    # It runs again, begins at its beginning and comes to its end: twice as many lines. The other's offset stayed.
    wait_for(lambda: count_lines(text), lambda lines: lines >= already + RECORDS, "all records once more")
    assert shared.read()[topics["pond"]] == RECORDS
    assert result.change
    end = dict.fromkeys(topics.values(), RECORDS)
    wait_for(shared.read, lambda found: found == end, "both have committed")
    # All of them, and all of them once more where Connect itself began the task anew.
    assert (count_lines(text) - already) % RECORDS == 0

    # Connect's own reset of one takes the other's offsets with it.
    rig.stop(lake)
    shared.forget_by_connect("lake")
    assert shared.read() == {}
    shared.commit(lake=RECORDS, pond=RECORDS)


def test_a_topic_that_the_sink_does_not_read_is_somebody_elses(rig, tmp_path):
    shared = Shared(rig, tmp_path)
    lake, pond = shared.names["lake"], shared.names["pond"]
    rig.stop(lake)
    rig.stop(pond)
    rig.client.delete_connector(pond)
    wait_for(rig.client.read_names, lambda names: pond not in names, f"{pond} to be gone")
    # A worker that lags still tells of the one that was deleted.
    refused = wait_for(
        lambda: read_refusal(rig, lambda: rig.fleet.offsets.reset(lake)),
        lambda found: f"connect/{lake} does not read {shared.topics['pond']}" in found.cause,
        f"every worker to know that {pond} is gone",
    )
    assert "also has offsets of other owners" in refused.message
    planned = wait_for(
        lambda: plan_alone(rig, lambda: rig.fleet.offsets.reset(lake, topics=[shared.topics["lake"]])),
        lambda found: not isinstance(found, RefusedError),
        f"every worker to know that {pond} is gone",
    )
    rig.apply(planned)
    assert shared.read() == {shared.topics["pond"]: RECORDS}
    # Whoever means the group says so.
    rig.apply(rig.plan(lambda: rig.fleet.offsets.reset(f"group/{shared.group}")))
    assert shared.read() == {}
