"""What the soak asks the brokers by itself, with kafka-python.

librdkafka 2.16 ends the whole process now and then where a broker dies under a request of its admin client (an
assertion, or a segmentation fault). A command that dies so is one more kill; the soak itself must not.
"""

from __future__ import annotations

import threading
import warnings

from seamark.devstack.process import wait_until

with warnings.catch_warnings():
    # kafka-python reads its schemas with importlib.resources.read_text, which Python 3.11 and 3.12 deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import KafkaAdminClient, NewTopic, OffsetSpec
    from kafka.errors import KafkaError, TopicAlreadyExistsError
    from kafka.structs import OffsetAndMetadata, TopicPartition

# A broker that was killed is back within half a minute, on a busy machine within two.
PATIENCE_SECONDS = 240
ANSWER_SECONDS = 10
GROUPS = "__consumer_offsets"


class Brokers:
    """The brokers, asked again while one of them is away. For any thread: each has a client of its own.

    With one client for all of them, a request to a dead broker kept every lane waiting for up to `ANSWER_SECONDS`.
    """

    def __init__(self, stack):
        self._addresses = stack.kafka.bootstrap_servers.split(",")
        self._local = threading.local()
        self._clients = set()

    def close(self):
        """Close the clients of all threads; none of them may be in use."""
        while self._clients:
            self._clients.pop().close()

    def make_topic(self, name, partitions):
        """A topic with a replica on each of three brokers."""

        def ask(client):
            try:
                client.create_topics([NewTopic(name, partitions, 3)])
            except TopicAlreadyExistsError:
                # The one before was carried out without an answer.
                return

        self._ask(ask)

    def count_partitions(self, topic):
        """How many partitions a topic has."""
        return len(self._read_partitions([topic]))

    def read_ends(self, topic, partitions):
        """The end of each partition's log."""
        asked = {TopicPartition(topic, number): OffsetSpec.LATEST for number in range(partitions)}
        found = self._ask(lambda client: client.list_partition_offsets(asked))
        return {spot.partition: end.offset for spot, end in found.items()}

    def read_commits(self, group):
        """What a group has committed: `topic:0` to the next offset."""
        found = self._ask(lambda client: client.list_group_offsets([group]))[group]
        return {f"{spot.topic}:{spot.partition}": held.offset for spot, held in found.items() if held.offset >= 0}

    def commit(self, group, positions):
        """Commit for an empty group."""
        wanted = {
            TopicPartition(name.rpartition(":")[0], int(name.rpartition(":")[2])): OffsetAndMetadata(offset, "", -1)
            for name, offset in positions.items()
        }
        self._ask(lambda client: client.alter_group_offsets(group, wanted))

    def find_coordinator(self, group):
        """The broker that keeps a group: it leads the partition that the hash of its name gives."""
        partitions = self._read_partitions([GROUPS])
        number = (_hash(group) & 0x7FFFFFFF) % len(partitions)
        return next(one["leader_id"] for one in partitions if one["partition_index"] == number)

    def are_whole(self):
        """Whether every partition has all its replicas."""
        partitions = self._read_partitions(None)
        return all(one["leader_id"] >= 0 and len(one["isr_nodes"]) == len(one["replica_nodes"]) for one in partitions)

    def _read_partitions(self, topics):
        found = self._ask(lambda client: client.describe_topics(topics))
        return [partition for topic in found for partition in topic["partitions"]]

    def _ask(self, ask):
        """What `ask` gives with a client. One that failed is thrown away."""
        answers = []

        def is_answered():
            try:
                answers.append(ask(self._find_client()))
            except (KafkaError, OSError, AssertionError):
                self._drop_client()
                return False
            return True

        wait_until(is_answered, "the brokers answered", seconds=PATIENCE_SECONDS, every_seconds=0.5)
        return answers[0]

    def _find_client(self):
        if getattr(self._local, "client", None) is None:
            self._local.client = KafkaAdminClient(
                bootstrap_servers=self._addresses, request_timeout_ms=ANSWER_SECONDS * 1000
            )
            self._clients.add(self._local.client)
        return self._local.client

    def _drop_client(self):
        """Close the client of this thread, if it has one."""
        client, self._local.client = getattr(self._local, "client", None), None
        if client is not None:
            self._clients.discard(client)
            client.close()


def _hash(text):
    """What Java's String.hashCode() gives."""
    found = 0
    for letter in text:
        found = (31 * found + ord(letter)) & 0xFFFFFFFF
    return found
