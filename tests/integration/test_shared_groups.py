"""Two sinks in one consumer group: what one forgets or moves is its own alone, and the other's offsets stay."""

from __future__ import annotations

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from seamark.errors import RefusedError
from tests.integration.offset_rig import OffsetRig
from tests.integration.offset_tools import JSON
from tests.integration.waits import wait_for

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

    def forget_by_connect(self, word):
        """Connect's own reset, past seamark."""
        return self.rig.client.delete_offsets(self.names[word])

    def commit(self, **ends):
        spots = [TopicPartition(self.topics[word], 0, end) for word, end in ends.items()]
        request = ConsumerGroupTopicPartitions(self.group, spots)
        self.rig.brokers._admin.alter_consumer_group_offsets([request])[self.group].result(60)


def test_what_others_of_the_group_read_is_left_alone(rig, tmp_path):
    shared = Shared(rig, tmp_path)
    lake, pond = shared.names["lake"], shared.names["pond"]
    offsets, topics = rig.fleet.offsets, shared.topics

    # All that the group holds is not lake's alone.
    for build in (lambda: offsets.forget(lake), lambda: offsets.move(lake, to="earliest")):
        with pytest.raises(RefusedError, match="not its own alone") as refused:
            build()
        assert f"connect/{pond} reads {topics['pond']}" in refused.value.cause
        assert f"--partition {topics['lake']};" in refused.value.hint
    # Kafka changes nothing while somebody is in the group.
    with pytest.raises(RefusedError, match="may be at work in group"):
        offsets.forget(lake, partitions=[topics["lake"]])
    rig.stop(pond)

    planned = rig.plan(lambda: offsets.forget(lake, partitions=[topics["lake"]], wait_seconds=0))
    assert f"is also that of connect/{pond}: their offsets stay as they are" in str(planned)
    result = rig.apply(planned)
    # It runs again, begins at its beginning and comes to its end: twice as many lines. The other's offset stayed.
    text = tmp_path / "lake.txt"
    wait_for(lambda: len(text.read_text().splitlines()), lambda lines: lines == 2 * RECORDS, "all records once more")
    assert shared.read()[topics["pond"]] == RECORDS
    assert result.change
    wait_for(shared.read, lambda found: len(found) == 2, "both have committed")

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
    with pytest.raises(RefusedError, match="not its own alone") as refused:
        rig.fleet.offsets.forget(lake)
    assert f"connect/{lake} does not read {shared.topics['pond']}" in refused.value.cause
    rig.apply(rig.plan(lambda: rig.fleet.offsets.forget(lake, partitions=[shared.topics["lake"]])))
    assert shared.read() == {shared.topics["pond"]: RECORDS}
    # Whoever means the group says so.
    rig.apply(rig.plan(lambda: rig.fleet.offsets.forget(f"group/{shared.group}")))
    assert shared.read() == {}
