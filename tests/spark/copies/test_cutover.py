"""A topic shrunk under a JDBC source that writes and an S3 sink that reads: every row arrives, repeats as predicted."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from seamark.copies.cutover.planner import CutoverOptions
from seamark.copies.run.runner import CopyRunOptions
from seamark.errors import RefusedError
from seamark.spark.settings import SparkOptions
from tests.integration.offsets.test_meanings import JDBC_SOURCE, s3_sink
from tests.integration.offsets.test_offset_moves import Moved
from tests.integration.waits import commit_offsets, wait_for

ROWS, MORE = 3000, 400
FROM, TO = 12, 6


class Yard(Moved):
    """A table, its source, a topic with twelve partitions, a sink and its bucket, and a group that is behind."""

    def __init__(self, stack, folder, spark):
        super().__init__(stack, folder)
        self.spark = SparkOptions(session=spark)
        self.table = f"{self.run}_orders"
        self.topic = f"{self.run}-{self.table}"
        self.tables.append(self.table)
        self.database.execute(
            f"CREATE TABLE {self.table} (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text)"
        )
        self.admin.create_topics([NewTopic(self.topic, FROM, 1)])[self.topic].result(30)
        self.written = 0

    def build(self):
        """Everything runs, and the first rows are in the topic."""
        self.build_source()
        self.sink, _, bucket = s3_sink(self, "lake", self.topic, "{{topic}}-{{partition}}-{{start_offset}}")
        self.bucket = Path(self.stack.s3.data) / bucket
        wait_for(lambda: self.count_bucket().total(), lambda found: found >= ROWS, "the first rows in the bucket")
        behind = [TopicPartition(self.topic, number, 40) for number in range(FROM)]
        commit_offsets(self.admin, self.name("report"), behind)

    def build_source(self):
        """Rows come to the topic, and nobody reads it."""
        self.insert_rows(ROWS)
        keyed = {
            "transforms": "key,bare",
            "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
            "transforms.key.fields": "seq",
            "transforms.bare.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
            "transforms.bare.field": "seq",
        }
        config = {
            "connector.class": JDBC_SOURCE,
            **self.jdbc,
            "poll.interval.ms": "200",
            "topic.prefix": f"{self.run}-",
            "table.whitelist": self.table,
            "mode": "incrementing",
            "incrementing.column.name": "seq",
        }
        self.source, _ = self.create("shop", {**config, **keyed})

    def insert_rows(self, count):
        self.database.execute(
            f"INSERT INTO {self.table} (name) SELECT 'n' || n FROM generate_series(1, %s::int) AS n", [count]
        )
        self.written += count

    def count_bucket(self):
        """How often each row is in the bucket."""
        files = [file for file in self.bucket.iterdir() if file.is_file()]
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return Counter(row["seq"] for row in rows)

    def await_all(self):
        wait_for(lambda: len(self.count_bucket()), lambda found: found >= self.written, f"all {self.written} rows")

    def count_offsets(self, topic):
        return sum(bounds.latest for bounds in self.fleet.topics.get(topic).bounds.values())

    def write_astray(self, topic):
        """Somebody who is no connector writes to a topic."""
        producer = Producer({"bootstrap.servers": self.stack.kafka.bootstrap_servers})
        producer.produce(topic, value=b'{"seq": 1, "name": "astray"}', partition=3)
        assert producer.flush(30) == 0

    def find_sink(self):
        return self.client.read_connector(self.sink).config

    def copy(self, **options):
        draft = self.fleet.copies.plan(self.topic, f"{FROM}:{TO}", slice_records=1000, **options)
        assert not draft.plan.is_refused, draft.plan.refusals
        outcome = self.fleet.copies.run(draft, options=CopyRunOptions(follow=True, lag=5000), spark=self.spark)
        assert outcome.progress.is_complete
        return draft.plan

    def positions(self, group, topic):
        found = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
        return {one.partition: one.offset for one in found.topic_partitions if one.topic == topic and one.offset >= 0}


@pytest.fixture
def yard(stack, tmp_path, spark):
    made = Yard(stack, tmp_path, spark)
    yield made
    made.close()


class Writing:
    """Rows that keep coming."""

    def __init__(self, yard):
        self._yard = yard
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self):
        while not self._over.wait(0.2):
            self._yard.insert_rows(20)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(30)


def read_replay(result, group):
    """What the step of a group said that it reads again."""
    (step,) = [one for one in result.steps if one.subject == f"group/{group}" and one.kind == "translate-group"]
    again = step.note.partition(", ")[2]
    return 0 if again == "no records to reprocess" else int(again.split()[0])


def test_sink_moves_to_fewer_partitions_while_a_source_keeps_writing(yard):
    yard.build()
    with Writing(yard):
        plan = yard.copy()
        planned = yard.fleet.copies.cutover(plan, CutoverOptions(level="full", read_committed=True))
        yard.fleet.copies.use_spark(yard.spark)
        result = yard.apply(planned)
        wait_for(lambda: yard.written, lambda found: found > ROWS + MORE, "rows behind the cut-over")
    target = plan.target.topic
    yard.await_all()
    assert yard.find_sink()["topics"] == target
    counted = yard.count_bucket()
    assert set(counted) == set(range(1, yard.written + 1))
    again = sum(count - 1 for count in counted.values())
    assert again == read_replay(result, f"connect-{yard.sink}")
    # The group that was behind goes on behind, and skips nothing.
    assert len(yard.positions(yard.name("report"), target)) == TO
    # New rows come to the new topic alone.
    ends = yard.fleet.topics.get(yard.topic)
    before = {spot: bounds.latest for spot, bounds in ends.bounds.items()}
    yard.insert_rows(50)
    yard.await_all()
    assert {spot: bounds.latest for spot, bounds in yard.fleet.topics.get(yard.topic).bounds.items()} == before
    # The source has written: there is no way back, and it says so.
    with pytest.raises(RefusedError, match="were written to"):
        yard.fleet.undo(result)
    # What comes to the source now would be gone with it.
    yard.write_astray(yard.topic)
    with pytest.raises(RefusedError, match="has 1 offsets that were never copied") as caught:
        yard.fleet.copies.cleanup(plan.id)
    assert caught.value.cause == "offsets after the copied ones: partition 3 has 1"
    ended = yard.count_offsets(target)
    outcome = yard.fleet.copies.run(plan.id, options=CopyRunOptions(follow=True, lag=0), spark=yard.spark)
    assert outcome.written == 1
    assert yard.count_offsets(target) > ended
    yard.apply(yard.fleet.copies.cleanup(plan.id))
    assert yard.topic not in yard.admin.list_topics(timeout=30).topics


def test_cutover_is_undone_and_made_again(yard):
    yard.build()
    plan = yard.copy()
    before = yard.find_sink(), yard.client.read_connector(yard.source).config
    yard.fleet.copies.use_spark(yard.spark)
    result = yard.apply(yard.fleet.copies.cutover(plan, CutoverOptions(allow_aborted_records=True)))
    assert yard.find_sink()["topics"] == plan.target.topic
    yard.apply(yard.fleet.undo(result))
    assert (yard.find_sink(), yard.client.read_connector(yard.source).config) == before
    assert yard.positions(yard.name("report"), plan.target.topic) == {}
    yard.insert_rows(MORE)
    yard.await_all()
    yard.apply(yard.fleet.copies.cutover(plan, CutoverOptions(allow_aborted_records=True)))
    yard.insert_rows(MORE)
    yard.await_all()
    assert set(yard.count_bucket()) == set(range(1, yard.written + 1))


def test_writes_to_the_target_are_found_where_nobody_reads(yard):
    yard.build_source()
    wait_for(lambda: yard.count_offsets(yard.topic), lambda found: found >= ROWS, "the first rows in the topic")
    plan = yard.copy()
    yard.fleet.copies.use_spark(yard.spark)
    result = yard.apply(yard.fleet.copies.cutover(plan))
    assert not [step for step in result.steps if step.kind == "translate-group"]
    before = yard.count_offsets(plan.target.topic)
    yard.insert_rows(MORE)
    wait_for(lambda: yard.count_offsets(plan.target.topic), lambda found: found >= before + MORE, "rows in the target")
    with pytest.raises(RefusedError, match="offsets were written to"):
        yard.fleet.undo(result)


def test_topic_keeps_its_name_in_place(yard):
    yard.build()
    with Writing(yard):
        plan = yard.copy(to=f"{yard.topic}-tmp")
        yard.fleet.copies.use_spark(yard.spark)
        result = yard.apply(yard.fleet.copies.cutover(plan, CutoverOptions(in_place=True, allow_aborted_records=True)))
        wait_for(lambda: yard.written, lambda found: found > ROWS + MORE, "rows behind the cut-over")
    yard.await_all()
    assert yard.find_sink()["topics"] == yard.topic
    assert len(yard.admin.list_topics(yard.topic, timeout=30).topics[yard.topic].partitions) == TO
    counted = yard.count_bucket()
    assert set(counted) == set(range(1, yard.written + 1))
    assert sum(count - 1 for count in counted.values()) == read_replay(result, f"connect-{yard.sink}")
    yard.apply(yard.fleet.copies.cleanup(plan.id))
    assert plan.target.topic not in yard.admin.list_topics(timeout=30).topics
    assert yard.topic in yard.admin.list_topics(timeout=30).topics
