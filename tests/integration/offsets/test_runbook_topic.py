"""The runbook of a data topic that was made anew, from the accident to the recovery on real servers."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from tests.integration.offsets.runbook_stage import Pipe, note_moment
from tests.integration.waits import IN_A_ROW, await_topic, wait_for

# As on the page: rows before the accident, rows of the new topic when health is asked, and at the end.
ROWS, SHORT, LONG = 40, 25, 60
# The page has ten commands, and each waits for servers.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def pipe(stack, tmp_path):
    made = Pipe(stack, tmp_path)
    yield made
    made.close()


def recreate_topic(pipe):
    """Delete the topic and make it anew. Brokers may still be at the first when they are asked for the second."""
    pipe.admin.delete_topics([pipe.topic], operation_timeout=30)[pipe.topic].result(30)
    wait_for(
        lambda: [pipe.topic in pipe.admin.list_topics(timeout=30).topics for _ in range(IN_A_ROW)],
        lambda there: not any(there),
        f"every broker to know that {pipe.topic} is gone",
    )

    def is_made():
        try:
            return pipe.make_topic("purchases") == pipe.topic
        except KafkaException:
            return False

    wait_for(is_made, bool, f"{pipe.topic} to be made anew")
    # A broker that has not heard of it would still take records for the old one.
    await_topic(pipe.admin, pipe.topic, 1)
    # The brokers take the commits of a topic away with it, but not at once.
    wait_for(lambda: pipe.client.read_offsets(pipe.sink), lambda found: not found, "the commits to be gone")


def put_back(pipe, offset):
    """What somebody does with kafka-consumer-groups: the group is empty, so it is taken."""
    group = f"connect-{pipe.sink}"
    place = ConsumerGroupTopicPartitions(group, [TopicPartition(pipe.topic, 0, offset)])

    def is_taken():
        try:
            done = pipe.admin.alter_consumer_group_offsets([place])[group].result(30)
            return all(one.error is None for one in done.topic_partitions)
        except KafkaException:
            return False

    wait_for(is_taken, bool, f"{group} to be empty and put back")
    pipe.await_sink(offset)


def numbers(first, last):
    """Each of these numbers once."""
    return Counter(range(first, last + 1))


def test_data_topic_recreated(pipe):
    book = pipe.open("data-topic-recreated.md")
    pipe.insert(ROWS)
    pipe.start_source()
    pipe.await_records(ROWS)
    # The sink's create is a rebalance: what the source has not stored by then it might read again.
    pipe.await_source(ROWS)
    pipe.start_sink()
    pipe.await_sink(ROWS)
    exported = book.change(f"seamark offsets export {pipe.sink} --out before.json")
    assert exported.code == 0, exported.text
    moment = note_moment()
    for name in (pipe.source, pipe.sink):
        pipe.stop(name)
    recreate_topic(pipe)
    put_back(pipe, ROWS)
    pipe.client.resume(pipe.source)
    pipe.insert(SHORT)
    pipe.await_records(SHORT)
    book.run("topics health", code=1)

    # Nobody looked. The log grows past the position, and the sink is resumed: what is before it never arrives.
    pipe.insert(LONG - SHORT)
    pipe.await_records(LONG)
    pipe.client.resume(pipe.sink)
    pipe.await_sink(LONG)
    rows = ROWS + LONG
    delivered = numbers(1, ROWS) + numbers(2 * ROWS + 1, rows)
    pipe.await_copy(delivered.total())
    assert pipe.read_copy() == delivered
    assert pipe.read_topic() == numbers(ROWS + 1, rows)

    book.run("connectors stop")
    book.run("offsets restore lake --at", code=5, names={"2026-11-15T03:09:00Z": moment})
    book.run("offsets move lake --to earliest --dry-run")
    book.run("offsets move lake --to earliest --yes")
    book.run("connectors resume")
    pipe.await_sink(LONG)
    pipe.await_copy(delivered.total() + LONG)
    doubled = numbers(2 * ROWS + 1, rows)
    assert pipe.read_copy() == numbers(1, rows) + doubled, "the rows that were missing, and those that came twice"
    count, delete = book.read_blocks("sql")
    assert pipe.database.execute(count).fetchone() == (doubled.total(),)
    assert pipe.database.execute(delete).rowcount == doubled.total() == 20
    assert pipe.read_copy() == pipe.read_rows() == numbers(1, rows)
    book.run("topics health")
    book.run("groups show")
    book.finish()
