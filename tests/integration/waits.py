"""Waiting until servers that hear of things in their own time all tell the same."""

from __future__ import annotations

import time

from confluent_kafka import ConsumerGroupTopicPartitions

from seamark.errors import UnreachableError

DEADLINE_SECONDS = 90
# What a broker says that has not heard of a new topic, or that it leads it.
NOT_YET = {
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_OR_PART",
    "_UNKNOWN_PARTITION",
    "_UNKNOWN_TOPIC",
}
# Any of three brokers may answer. So often in a row, each of them has been asked.
IN_A_ROW = 6
# How often a change is made that a rebalance or a busy machine hinders, and what it says then. With a short
# `in_flight_timeout` a request is repeated for 8 s; right before a write a stopped connector that shows UNASSIGNED is
# waited for 3.5 s.
TRIES = 3
HINDERED = (
    "UNASSIGNED with 0 tasks",
    "was not ready within",
    "can't determine whether",
    "took too long; nothing was sent",
    "a check that succeeded before fails now",
    "the journal responds too slowly",
    "observed state: between",
)


def wait_for(read, is_done, what):
    """Read until it is as wanted."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_done(found := read()):
        assert time.monotonic() < deadline, f"waited {DEADLINE_SECONDS} s for {what}, last {found}"
        time.sleep(0.2)
    return found


def ask_patiently(build):
    """What a call gives that can't tell while a rebalance goes on."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            return build()
        except UnreachableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def await_topic(admin, topic, partitions):
    """Until every broker knows a new topic: each hears of it in its own time, and any of them may be asked."""

    def count():
        found = admin.list_topics(timeout=30).topics.get(topic)
        return 0 if found is None else len(found.partitions)

    wait_for(
        lambda: [count() for _ in range(IN_A_ROW)],
        lambda found: found == [partitions] * IN_A_ROW,
        f"every broker to know {topic}",
    )


def commit_offsets(admin, group, spots):
    """Commit offsets for a group, until the brokers accept every partition.

    A coordinator that hasn't heard of a new topic refuses it in the answer for its partition, which `result` doesn't
    raise: the group then has no offset, and a test reads a plan from nothing.
    """
    request = ConsumerGroupTopicPartitions(group, spots)

    def commit():
        done = admin.alter_consumer_group_offsets([request], request_timeout=60)[group].result(60)
        return [one.error for one in done.topic_partitions if one.error is not None]

    wait_for(commit, lambda errors: not errors, f"{group} to have its offsets")


def says_hindered(said):
    """Whether a rebalance or haste is the reason that is told: then nothing was changed, and it is to be repeated."""
    return any(words in said for words in HINDERED)
